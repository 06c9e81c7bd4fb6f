//! The reference kernel against the definition in f64.

use super::{ConvTranspose, cases};
use crate::conv::Parameters;
use crate::conv::tests::{any_geometry, compare_floats, never_panics};
use crate::pointwise::Epilogue;
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::ConvTranspose(conv) = &kernel else { panic!("another family") };
        compare_floats(&kernel, conv.convolution());
    }
}

#[test]
fn f64_agrees_with_the_definition() {
    for kernel in cases::cases() {
        let Kernel::ConvTranspose(mut conv) = kernel else { panic!("another family") };
        conv.geometry.retype(DType::F64);
        conv.epilogue = Epilogue { bias: conv.epilogue.bias, ..Epilogue::default() };
        compare_floats(&Kernel::ConvTranspose(conv.clone()), conv.convolution());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(geometry in any_geometry(), bias in any::<bool>()) {
        for geometry in [geometry.clone(), geometry.plausible(true)] {
            let epilogue = Epilogue { bias, ..Epilogue::default() };
            never_panics(&Kernel::ConvTranspose(ConvTranspose { geometry, epilogue }));
        }
    }
}
