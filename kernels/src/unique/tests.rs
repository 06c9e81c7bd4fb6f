//! The reference kernel against the definition.

use super::cases::cases;
use super::{UNUSED, Unique};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, Values, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    let values = [Values::Moderate, Values::Signed, Values::Special];
    let cases = cases().into_iter().flat_map(|kernel| values.map(|values| (kernel.clone(), values)));
    for (number, (kernel, values)) in cases.enumerate() {
        let inputs = testing::inputs_of(&kernel, values, number as u64);
        let Kernel::Unique(unique) = &kernel else { panic!("another family") };
        let outputs = testing::run_all(&kernel, &inputs);
        let [n, width] = [0, 1].map(|d| i64::from(unique.input.shape[d]));
        let row = |i: i64| -> Vec<f64> { (0..width).map(|k| element(&unique.input, &inputs[0], &[i, k])).collect() };
        let mut different: Vec<i64> = (0..n).filter(|&i| (0..i).all(|j| row(j) != row(i))).collect();
        if unique.sorted {
            // NaN comes last.
            let order = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            let rows = |a, b| row(a).into_iter().zip(row(b)).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            different.sort_by(|&a, &b| rows(a, b).unwrap_or(std::cmp::Ordering::Equal));
        }
        assert_eq!(element(&unique.count, &outputs[3], &[0]), different.len() as f64, "{kernel:?}");
        for i in 0..n {
            let [first, inverse, counts] = [(&unique.first, 0), (&unique.inverse, 1), (&unique.counts, 2)]
                .map(|(view, output)| element(view, &outputs[output], &[i]) as i64);
            let leader = different.get(i as usize).copied();
            assert_eq!(first, leader.unwrap_or(UNUSED), "{kernel:?}");
            // A NaN equals nothing, itself included.
            let often = |leader| (0..n).filter(|&j| j == leader || row(j) == row(leader)).count() as i64;
            assert_eq!(counts, leader.map_or(UNUSED, often), "{kernel:?}");
            let named = different[inverse as usize];
            assert!(named == i || row(named) == row(i), "{kernel:?}");
        }
    }
}

#[test]
fn every_nan_is_different_and_last() {
    let column = View::contiguous(DType::I64, &[5]).unwrap();
    let unique = Unique {
        input: View::contiguous(DType::F32, &[5, 1]).unwrap(),
        first: column.clone(),
        inverse: column.clone(),
        counts: column,
        count: View::contiguous(DType::I64, &[1]).unwrap(),
        sorted: true,
    };
    let mut input = Operand::filled(20, 0);
    input.copy_from_slice(bytemuck::cast_slice(&[f32::NAN, -0.0, f32::NAN, 0.0, -1.0]));
    let outputs = testing::run_all(&Kernel::Unique(unique), &[input]);
    let integers = |output: usize| bytemuck::cast_slice::<u8, i64>(&outputs[output]).to_vec();
    assert_eq!(integers(0), [4, 1, 0, 2, UNUSED]);
    assert_eq!(integers(1), [2, 1, 3, 1, 0]);
    assert_eq!(integers(2), [1, 2, 1, 1, UNUSED]);
    assert_eq!(integers(3), [4]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), column in any_view(), sorted in any::<bool>()) {
        let column = View { dtype: DType::I64, ..column };
        let count = View::contiguous(DType::I64, &[1]).unwrap();
        let (first, inverse, counts) = (column.clone(), column.clone(), column);
        never_panics(&Kernel::Unique(Unique { input, first, inverse, counts, count, sorted }));
    }
}
