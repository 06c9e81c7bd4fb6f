//! The reference kernel against the definition.

use super::IntegerConv;
use super::cases::cases;
use crate::conv::Parameters;
use crate::conv::tests::{any_geometry, never_panics, sum};
use crate::host::testing::{self, Values};
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::IntegerConv(conv) = &kernel else { panic!("another family") };
        testing::compare_of(&kernel, Values::Special, 0.0, |operands, index| {
            f64::from(sum(conv.convolution(), operands, index) as i64 as i32) // It wraps.
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(geometry in any_geometry()) {
        let mut geometry = geometry;
        (geometry.input.dtype, geometry.weights.dtype, geometry.output.dtype) = (DType::I8, DType::I16, DType::I32);
        never_panics(&Kernel::IntegerConv(IntegerConv { geometry }));
    }
}
