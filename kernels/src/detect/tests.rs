//! The reference kernel against the definition in f64, and the rules for equals, NaN and classes.

use super::cases::{cases, head, parts};
use super::{Detect, Head, Parts, ScoreActivation};
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

/// Number of a candidate in parts whose first one is input `first`.
fn number(parts: &Parts, first: usize, inputs: &[Operand], mut candidate: i64, n: u32) -> f64 {
    for (part, bytes) in parts.iter().zip(&inputs[first..]) {
        let [rows, row] = [0, 1].map(|d| i64::from(part.shape[d]));
        if candidate < rows * row {
            return element(part, bytes, &[candidate / row, candidate % row, n.into()]);
        }
        candidate -= rows * row;
    }
    panic!("no such candidate")
}

/// Detections by the definition, and whether a decision was too close to trust another arithmetic.
fn expected(detect: &Detect, inputs: &[Operand]) -> (Vec<Vec<f64>>, bool) {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let mut close = false;
    let mut good = Vec::new();
    for candidate in 0..i64::from(detect.places.shape[0]) {
        let score = |n: u32| {
            if detect.scores.is_empty() {
                number(&detect.boxes, 0, inputs, candidate, n)
            } else {
                number(&detect.scores, detect.boxes.len(), inputs, candidate, n)
            }
        };
        let classes: Vec<f64> = (0..detect.head.classes).map(|c| score(detect.head.first_class + c)).collect();
        let sum: f64 = classes.iter().map(|x| x.exp()).sum();
        let (mut best, mut class) = (f64::NEG_INFINITY, 0);
        for (c, &x) in classes.iter().enumerate().skip(usize::from(detect.head.background)) {
            if x > best {
                (best, class) = (x, c);
            }
        }
        let mut probability = match detect.head.activation {
            ScoreActivation::None => best,
            ScoreActivation::Sigmoid => sigmoid(best),
            ScoreActivation::Softmax => best.exp() / sum,
        };
        if let Some(object) = detect.head.object {
            let object = score(object);
            probability *= if detect.head.activation == ScoreActivation::None { object } else { sigmoid(object) };
        }
        close |= (probability - f64::from(detect.head.threshold)).abs() < 1e-6;
        if probability > f64::from(detect.head.threshold) {
            let place = |n: u32, d: usize| {
                let constant = |n: usize| element(&detect.places, inputs.last().unwrap(), &[candidate, n as i64]);
                let x = number(&detect.boxes, 0, inputs, candidate, n);
                (x, constant(3 * d), constant(3 * d + 1), constant(3 * d + 2))
            };
            let axis = |d: usize| if detect.head.rows_first { 1 - d as u32 } else { d as u32 };
            let corner = |d: usize, sign: f64| {
                let (x, factor, summand, _) = place(axis(d), d);
                let (mut extent, .., scale) = place(2 + axis(d), d);
                if let Some(logarithm) = detect.head.logarithm {
                    extent = (extent * f64::from(logarithm)).exp();
                }
                x * factor + summand + sign * extent * scale / 2.0
            };
            let mut row = vec![corner(0, -1.0), corner(1, -1.0), corner(0, 1.0), corner(1, 1.0), probability];
            row.push((class - usize::from(detect.head.background)) as f64);
            for n in 0..detect.points() {
                for d in 0..2 {
                    let (x, factor, summand, _) = place(detect.head.first_point + 2 * n + axis(d), d);
                    row.push(x * factor + summand);
                }
            }
            good.push(row);
        }
    }
    good.sort_by(|a, b| b[4].partial_cmp(&a[4]).unwrap());
    close |= good.windows(2).any(|pair| pair[0][4] != pair[1][4] && (pair[0][4] - pair[1][4]).abs() < 1e-7);
    let mut kept: Vec<Vec<f64>> = Vec::new();
    for row in good {
        if kept.len() == detect.most() as usize {
            break;
        }
        let overlap = |other: &Vec<f64>| {
            let side = |d: usize| (row[d + 2].min(other[d + 2]) - row[d].max(other[d])).max(0.0);
            let area = |row: &[f64]| (row[2] - row[0]).max(0.0) * (row[3] - row[1]).max(0.0);
            let proper = |row: &[f64]| row[2] > row[0] && row[3] > row[1];
            let shared = if proper(&row) && proper(other) { side(0) * side(1) } else { 0.0 };
            if shared > 0.0 { shared / (area(&row) + area(other) - shared) } else { 0.0 }
        };
        let limit = f64::from(detect.head.overlap);
        let rivals = || kept.iter().filter(|other| other[5] == row[5]);
        close |= rivals().any(|other| (overlap(other) - limit).abs() < 1e-5 && overlap(other) > 0.0);
        if !rivals().any(|other| overlap(other) > limit) {
            kept.push(row);
        }
    }
    (kept, close)
}

#[test]
fn cases_agree_with_the_definition() {
    let mut compared = 0;
    for (seed, kernel) in (5..).zip(cases()) {
        let Kernel::Detect(detect) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, seed);
        let (wanted, close) = expected(detect, &inputs);
        if close {
            continue;
        }
        compared += 1;
        let outputs = testing::run_all(&kernel, &inputs);
        assert_eq!(element(&detect.count, &outputs[1], &[0]), wanted.len() as f64, "{kernel:?}");
        for row in 0..detect.most() as usize {
            for n in 0..detect.detections.shape[1] as usize {
                let found = element(&detect.detections, &outputs[0], &[row as i64, n as i64]);
                let wanted = wanted.get(row).map_or(0.0, |row| row[n]);
                assert!(
                    (found - wanted).abs() < 2e-6 * (1.0 + wanted.abs()),
                    "{row}, {n}: {found}, not {wanted}: {kernel:?}"
                );
            }
        }
    }
    assert!(compared >= 9, "only {compared} cases could be compared");
}

/// Boxes of equal size at `x`, with scores of their classes; rows of x, score and class.
fn run(boxes: &[(f32, &[f32])], most: u32, change: impl FnOnce(&mut Detect)) -> Vec<[f32; 3]> {
    let classes = boxes[0].1.len() as u32;
    let mut detect = head(parts(DType::F32, &[[1, boxes.len() as u32, 4 + classes]]), most, 0);
    change(&mut detect);
    let operand = |values: Vec<f32>| {
        let mut operand = Operand::filled(values.len() as u64 * 4, 0);
        operand.copy_from_slice(bytemuck::cast_slice(&values));
        operand
    };
    let numbers = boxes.iter().flat_map(|&(x, scores)| [&[x, 0.0, 1.0, 1.0], scores].concat()).collect();
    let places = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0].repeat(boxes.len());
    let outputs = testing::run_all(&Kernel::Detect(detect), &[operand(numbers), operand(places)]);
    let count = bytemuck::cast_slice::<u8, i32>(&outputs[1])[0] as usize;
    let rows = bytemuck::cast_slice::<u8, f32>(&outputs[0]).chunks(6);
    rows.take(count).map(|row| [row[0] + 0.5, row[4], row[5]]).collect()
}

#[test]
fn equals_thresholds_and_nan() {
    let one = |scores: [f32; 4]| {
        let boxes: Vec<(f32, [f32; 1])> = (0..4).map(|i| (4.0 * i as f32, [scores[i]])).collect();
        let boxes: Vec<(f32, &[f32])> = boxes.iter().map(|(x, score)| (*x, score.as_slice())).collect();
        run(&boxes, 4, |_| ()).iter().map(|row| row[0]).collect::<Vec<_>>()
    };
    // Equal scores in the order of the candidates; what does not exceed the threshold goes, as does NaN.
    assert_eq!(one([0.5, 1.0, 0.5, 1.0]), [4.0, 12.0, 0.0, 8.0]);
    assert_eq!(one([0.25, f32::NAN, 0.375, f32::NEG_INFINITY]), [8.0]);
    // Of equal classes the first; a class is suppressed by its own only.
    let boxes: [(f32, &[f32]); 3] = [(0.0, &[0.5, 0.5]), (0.125, &[0.25, 0.625]), (0.25, &[0.25, 0.375])];
    assert_eq!(run(&boxes, 3, |_| ()), [[0.125, 0.625, 1.0], [0.0, 0.5, 0.0]]);
    assert_eq!(run(&boxes, 1, |_| ()), [[0.125, 0.625, 1.0]]);
    // The background is no class, but takes its share.
    let share = 1.0 / (1.0 + 2.0 * 1f32.exp());
    let softmax = |detect: &mut Detect| {
        (detect.head.background, detect.head.activation, detect.head.threshold) = (true, ScoreActivation::Softmax, 0.1);
    };
    let found = run(&[(0.0, &[1.0, 0.0, 1.0])], 1, softmax);
    assert!(found[0][2] == 1.0 && (found[0][1] - share * 1f32.exp()).abs() < 1e-6, "{found:?}");
}

prop_compose! {
    fn any_detect()(
        boxes in prop::collection::vec(any_view(), 0..3), scores in prop::collection::vec(any_view(), 0..3),
        places in any_view(), detections in any_view(), count in any_view(),
        numbers in [any_number(), any_number(), any_number()], object in prop::option::of(any_number()),
        background in any::<bool>(), threshold in -1.0f32..1.0, good in any::<bool>(),
    ) -> Detect {
        let parts = |views: Vec<crate::View>| views.into_iter().collect::<Parts>();
        let mut detect = head(super::cases::parts(DType::F32, &[[2, 3, 9]]), 4, 1);
        if good {
            // One thing is wrong at most, so that most pass.
            [detect.head.first_point, detect.head.first_class, detect.head.classes] = numbers;
        } else {
            detect = Detect { boxes: parts(boxes), scores: parts(scores), places, detections, count, ..detect };
        }
        detect.head = Head { object, background, threshold, ..detect.head };
        detect
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(detect in any_detect()) {
        never_panics(&Kernel::Detect(detect));
    }
}
