//! The reference kernel against its members, which have tests of their own.

use super::SeparableConv;
use super::cases::cases;
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::{Family, Kernel, KernelError};

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in cases() {
        let Kernel::SeparableConv(SeparableConv { depthwise, pointwise }) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, 7);
        let first = Kernel::Conv(depthwise.clone());
        let (of_first, of_second) = inputs.split_at(first.inputs());
        let between = testing::run(&first, of_first);
        let wanted = testing::run(&Kernel::Conv(pointwise.clone()), &[&[between], of_second].concat());
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
