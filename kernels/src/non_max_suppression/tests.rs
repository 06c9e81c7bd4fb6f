//! The reference kernel against the procedure of the ONNX operator, in f64 where that cannot change a decision.

use super::cases::cases;
use super::{NonMaxSuppression, UNUSED};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

/// Boxes that stay, and whether a comparison was too close to trust another arithmetic.
fn selected(kernel: &NonMaxSuppression, inputs: &[Operand]) -> (Vec<[i64; 3]>, bool) {
    let threshold = |i| element(&kernel.thresholds, &inputs[2], &[i]);
    let limit = kernel.limit() as usize;
    let [images, classes, n] = [0, 1, 2].map(|d| i64::from(kernel.scores.shape[d]));
    let mut all = Vec::new();
    let mut close = false;
    for image in 0..images {
        let corners = |i: i64| {
            let [a, b, c, d] = [0, 1, 2, 3].map(|k| element(&kernel.boxes, &inputs[0], &[image, i, k]));
            match kernel.center {
                true => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
                false => [a.min(c), b.min(d), a.max(c), b.max(d)],
            }
        };
        for class in 0..classes {
            let score = |i: i64| element(&kernel.scores, &inputs[1], &[image, class, i]);
            let mut order: Vec<i64> = (0..n).collect();
            order.retain(|&i| kernel.thresholds.shape[0] == 1 || score(i) > threshold(1));
            order.sort_by(|&i, &j| score(j).partial_cmp(&score(i)).unwrap());
            let mut kept: Vec<i64> = Vec::new();
            for i in order {
                if kept.len() == limit {
                    break;
                }
                let overlaps = |&j: &i64| {
                    let (a, b) = (corners(i), corners(j));
                    let side = |d: usize| (a[d + 2].min(b[d + 2]) - a[d].max(b[d])).max(0.0);
                    let area = |c: &[f64; 4]| (c[2] - c[0]).max(0.0) * (c[3] - c[1]).max(0.0);
                    let shared = side(0) * side(1);
                    let ratio = if shared > 0.0 { shared / (area(&a) + area(&b) - shared) } else { 0.0 };
                    (ratio, ratio > threshold(0))
                };
                close |= kept.iter().any(|j| (overlaps(j).0 - threshold(0)).abs() < 1e-5);
                if !kept.iter().any(|j| overlaps(j).1) {
                    kept.push(i);
                    all.push([image, class, i]);
                }
            }
        }
    }
    (all, close)
}

#[test]
fn cases_agree_with_the_procedure() {
    let mut compared = 0;
    for (number, kernel) in cases().into_iter().enumerate() {
        let mut inputs = testing::inputs(&kernel, 5 + number as u64);
        let Kernel::NonMaxSuppression(nms) = &kernel else { panic!("another family") };
        let thresholds = bytemuck::cast_slice_mut::<u8, f32>(&mut inputs[2]);
        thresholds.iter_mut().zip([0.3, 0.1]).for_each(|(to, from)| *to = from);
        let (expected, close) = selected(nms, &inputs);
        if close {
            continue;
        }
        compared += 1;
        let outputs = testing::run_all(&kernel, &inputs);
        assert_eq!(element(&nms.count, &outputs[1], &[0]), expected.len() as f64, "{kernel:?}");
        for row in 0..nms.indices.shape[0] as usize {
            let found = [0, 1, 2].map(|k| element(&nms.indices, &outputs[0], &[row as i64, k]) as i64);
            assert_eq!(found, expected.get(row).copied().unwrap_or([UNUSED; 3]), "row {row}: {kernel:?}");
        }
    }
    assert!(compared >= 10, "only {compared} cases could be compared");
}

/// One image and class; indices of the selected boxes.
fn run(boxes: &[[f32; 4]], scores: &[f32], thresholds: &[f32], limit: u32) -> Vec<i64> {
    let n = boxes.len() as u32;
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let nms = NonMaxSuppression {
        boxes: dense(DType::F32, &[1, n, 4]),
        scores: dense(DType::F32, &[1, 1, n]),
        thresholds: dense(DType::F32, &[thresholds.len() as u32]),
        indices: dense(DType::I64, &[limit, 3]),
        count: dense(DType::I64, &[1]),
        center: false,
    };
    let operand = |values: &[f32]| {
        let mut operand = Operand::filled(values.len() as u64 * 4, 0);
        operand.copy_from_slice(bytemuck::cast_slice(values));
        operand
    };
    let inputs = [operand(boxes.as_flattened()), operand(scores), operand(thresholds)];
    let outputs = testing::run_all(&Kernel::NonMaxSuppression(nms), &inputs);
    let count = bytemuck::cast_slice::<u8, i64>(&outputs[1])[0] as usize;
    bytemuck::cast_slice::<u8, i64>(&outputs[0]).chunks(3).take(count).map(|row| row[2]).collect()
}

#[test]
fn equals_thresholds_and_nan() {
    let unit = [0.0, 0.0, 1.0, 1.0];
    let apart = [[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0], [4.0, 4.0, 5.0, 5.0], [6.0, 6.0, 7.0, 7.0]];
    // Equal scores: the first index first, and 0 equals -0.
    assert_eq!(run(&apart, &[0.0, 1.0, -0.0, 1.0], &[0.5], 4), [1, 3, 0, 2]);
    // An overlap of exactly the threshold suppresses nothing; 1 is more than ½.
    assert_eq!(run(&[unit, unit, [0.0, 0.0, 0.5, 1.0]], &[0.9, 0.8, 0.7], &[0.5], 3), [0, 2]);
    // A score of exactly the threshold is too low; NaN is never selected.
    assert_eq!(run(&apart, &[0.5, f32::NAN, 0.6, f32::NEG_INFINITY], &[0.5, 0.5], 4), [2]);
    assert_eq!(run(&apart, &[0.5, f32::NAN, 0.6, f32::NEG_INFINITY], &[0.5], 4), [2, 0, 3]);
    // Corners in any order; a box without area suppresses nothing.
    assert_eq!(run(&[[1.0, 1.0, 0.0, 0.0], unit], &[0.5, 0.6], &[0.5], 2), [1]);
    assert_eq!(run(&[[0.5; 4], [0.5; 4]], &[0.5, 0.6], &[0.0], 2), [1, 0]);
    assert_eq!(run(&apart, &[0.1, 0.2, 0.3, 0.4], &[0.5], 2), [3, 2]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        boxes in any_view(), scores in any_view(), thresholds in any_view(), indices in any_view(), center in any::<bool>(),
    ) {
        let count = View::contiguous(DType::I64, &[1]).unwrap();
        let indices = View { dtype: DType::I64, ..indices };
        never_panics(&Kernel::NonMaxSuppression(NonMaxSuppression { boxes, scores, thresholds, indices, count, center }));
    }
}
