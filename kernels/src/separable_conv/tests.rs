//! The reference kernel against its members, which have tests of their own.

use super::cases::cases;
use super::quantized::{self, QuantizedSeparableConv};
use super::{Separable, SeparableConv};
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::{DType, Family, Kernel, KernelError};

/// A case's members.
fn members(kernel: &Kernel) -> [Kernel; 2] {
    match kernel.clone() {
        Kernel::SeparableConv(Separable { depthwise, pointwise }) => [depthwise, pointwise].map(Kernel::Conv),
        Kernel::QuantizedSeparableConv(Separable { depthwise, pointwise }) => {
            [depthwise, pointwise].map(Kernel::QuantizedConv)
        }
        _ => panic!("another family"),
    }
}

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in [cases(), quantized::cases::cases()].concat() {
        let [depthwise, pointwise] = members(&kernel);
        let inputs = testing::inputs(&kernel, 7);
        let (of_first, of_second) = inputs.split_at(depthwise.inputs());
        let between = testing::run(&depthwise, of_first);
        let wanted = testing::run(&pointwise, &[&[between], of_second].concat());
        assert!(*testing::run(&kernel, &inputs) == *wanted, "{kernel:?}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::SeparableConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut SeparableConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::SeparableConv(bad));
            error
        };
        assert!(refused(&|bad| bad.depthwise.geometry.groups = 1).is_err());
        assert!(refused(&|bad| bad.pointwise.geometry.strides[2] = 2).is_err());
        assert_eq!(
            refused(&|bad| bad.pointwise.geometry.input.offset += 1),
            Err(KernelError::Shape("depthwise and pointwise convolution"))
        );
    }
}

#[test]
fn members_of_integers_that_do_not_fit_are_refused() {
    for kernel in quantized::cases::cases() {
        let Kernel::QuantizedSeparableConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut QuantizedSeparableConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::QuantizedSeparableConv(bad));
            error
        };
        let wide = refused(&|bad| bad.depthwise.geometry.weights.dtype = DType::I16);
        assert_eq!(wide, Err(KernelError::Type("factors inside a chain")));
        assert!(refused(&|bad| bad.pointwise.geometry.strides[2] = 2).is_err());
        assert_eq!(
            refused(&|bad| bad.pointwise.geometry.input.offset += 1),
            Err(KernelError::Shape("depthwise and pointwise convolution"))
        );
        let of_positions = |bad: &mut QuantizedSeparableConv| {
            let output = bad.depthwise.geometry.output.clone();
            bad.depthwise.epilogue.extras.iter_mut().for_each(|extra| extra.strides = output.strides.clone());
        };
        if !good.depthwise.epilogue.extras.is_empty() && good.depthwise.geometry.output.elements() > 1000 {
            assert_eq!(refused(&of_positions), Err(KernelError::Parameter("extras inside a chain")));
        }
    }
}
