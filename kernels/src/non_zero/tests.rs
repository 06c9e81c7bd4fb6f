//! The reference kernel against the definition.

use super::cases::cases;
use super::{NonZero, UNUSED};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Values, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    let values = [Values::Moderate, Values::Signed, Values::Special];
    let cases = cases().into_iter().flat_map(|kernel| values.map(|values| (kernel.clone(), values)));
    for (number, (kernel, values)) in cases.enumerate() {
        let inputs = testing::inputs_of(&kernel, values, number as u64);
        let Kernel::NonZero(non_zero) = &kernel else { panic!("another family") };
        let outputs = testing::run_all(&kernel, &inputs);
        let shape: Vec<i64> = non_zero.input.shape.iter().map(|&extent| extent.into()).collect();
        let mut expected = Vec::new();
        for number in 0..shape.iter().product() {
            let mut rest = number;
            let mut index = vec![0; shape.len()];
            for d in (0..shape.len()).rev() {
                (index[d], rest) = (rest % shape[d], rest / shape[d]);
            }
            if element(&non_zero.input, &inputs[0], &index) != 0.0 {
                expected.push(index);
            }
        }
        assert_eq!(element(&non_zero.count, &outputs[1], &[0]), expected.len() as f64);
        for column in 0..non_zero.indices.shape[1] as usize {
            for d in 0..shape.len() {
                let found = element(&non_zero.indices, &outputs[0], &[d as i64, column as i64]) as i64;
                assert_eq!(found, expected.get(column).map_or(UNUSED, |index| index[d]), "{column}: {kernel:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), indices in any_view()) {
        let count = View::contiguous(DType::I64, &[1]).unwrap();
        let indices = View { dtype: DType::I64, ..indices };
        never_panics(&Kernel::NonZero(NonZero { input, indices, count }));
    }
}
