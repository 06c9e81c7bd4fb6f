//! The reference kernel against the definition in f64, and against nonsense.

use super::{ScaledConv, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, element};
use crate::{Family, Kernel};

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::ScaledConv(family) = &kernel else { panic!("another family") };
        let (conv, scale) = (&family.conv, family.scale_input());
        // Products are rounded to f16.
        let tolerance = if conv.geometry.input.dtype == crate::DType::F16 { 4e-3 } else { 5e-5 };
        testing::compare(&kernel, tolerance, |operands, index| {
            let sum = (0..i64::from(conv.geometry.input.shape[1])).map(|c| {
                let at = [index[0], c, index[2], index[3]];
                let x =
                    element(&conv.geometry.input, &operands[0], &at) * element(&family.scale, &operands[scale], &at);
                x * element(&conv.geometry.weights, &operands[1], &[index[1], c, 0, 0])
            });
            testing::finish(&conv.epilogue, operands, 2, index[1], index, sum.sum())
        });
    }
}

#[test]
fn what_is_no_scale_is_refused() {
    for kernel in cases() {
        let Kernel::ScaledConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut ScaledConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let refused = bad.check().is_err();
            never_panics(&Kernel::ScaledConv(bad));
            refused
        };
        assert!(refused(&|bad| bad.scale.strides[3] = 1));
        assert!(refused(&|bad| bad.scale.shape[1] += 1));
        assert!(refused(&|bad| bad.conv.geometry.pads[2] = 1));
        assert!(refused(&|bad| bad.conv.geometry.groups = 0));
    }
}
