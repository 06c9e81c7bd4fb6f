//! The reference kernel against the definition in f64.

use super::{ConvTranspose, cases};
use crate::conv::tests::{any_geometry, compare_floats, never_panics};
use crate::conv::{Geometry, Parameters};
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};
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

/// It walks outputs, whatever the input has.
#[test]
fn operations_are_bounded_where_the_input_is_empty() {
    let view = |shape: &[u32]| View::contiguous(DType::F64, shape).unwrap();
    let geometry = Geometry {
        input: view(&[1, 3, 0]),
        weights: view(&[3, 1, 1000]),
        output: view(&[1, 1, 500]),
        strides: [1; 3],
        dilations: [1; 3],
        pads: [0; 3],
        groups: 1,
    };
    let kernel = Kernel::ConvTranspose(ConvTranspose { geometry, epilogue: Epilogue::default() });
    kernel.family().check().unwrap();
    assert_eq!(kernel.family().flops(), 0);
    assert!(kernel.family().host_operations() >= 2 * 3 * 500 * 1000);
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
