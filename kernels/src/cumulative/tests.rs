//! The reference kernel against the definition.

use super::Cumulative;
use super::cases::cases;
use crate::Kernel;
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Values, element};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Cumulative(cumulative) = &kernel else { panic!("another family") };
        let wraps = cumulative.input.dtype.size() == 1;
        // f64 neither wraps as sums of the ends of integer types do nor loses products of subnormal numbers.
        let float = cumulative.input.dtype.is_float() && !cumulative.product;
        let all = [Values::Moderate, Values::Signed, Values::Special];
        let values = all.into_iter().filter(|&values| float || values != Values::Special);
        values.for_each(|values| {
            testing::compare_of(&kernel, values, 2e-6, |operands, index| {
                let axis = usize::from(cumulative.axis);
                let extent = i64::from(cumulative.input.shape[axis]);
                let here = index[axis];
                let terms = (0..extent).filter(|&j| match (cumulative.reverse, cumulative.exclusive) {
                    (false, false) => j <= here,
                    (false, true) => j < here,
                    (true, false) => j >= here,
                    (true, true) => j > here,
                });
                let value = |j: i64| {
                    let mut at = index.to_vec();
                    at[axis] = j;
                    element(&cumulative.input, &operands[0], &at)
                };
                let sum: f64 = if cumulative.product { terms.map(value).product() } else { terms.map(value).sum() };
                match cumulative.input.dtype {
                    crate::DType::I8 => f64::from(sum as i64 as i8),
                    crate::DType::U8 => f64::from(sum as i64 as u8),
                    _ => {
                        assert!(!wraps);
                        sum
                    }
                }
            })
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), alike in any::<bool>(), axis in 0..6_u8, flags in any::<[bool; 3]>(),
    ) {
        let output = if alike { input.clone() } else { output };
        let [product, exclusive, reverse] = flags;
        never_panics(&Kernel::Cumulative(Cumulative { input, output, axis, product, exclusive, reverse }));
    }
}
