//! The reference kernel against its members, which have tests of their own.

use super::{DualQuantizedConv, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::{DType, Family, Kernel, KernelError};

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in cases() {
        let Kernel::DualQuantizedConv(family) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, 11);
        let first = testing::run(&Kernel::QuantizedConv(family.conv.clone()), &inputs);
        let got = testing::run_all(&kernel, &inputs);
        assert!(*got[0] == *first, "{kernel:?}");
        let second = testing::run(&Kernel::Pointwise(family.second.clone()), &[first]);
        assert!(*got[1] == *second, "the second output of {kernel:?}");
    }
}

#[test]
fn a_second_output_of_something_else_is_refused() {
    for kernel in cases() {
        let Kernel::DualQuantizedConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut DualQuantizedConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::DualQuantizedConv(bad));
            error
        };
        let channels = Err(KernelError::Shape("requantised channels"));
        assert_eq!(refused(&|bad| bad.second.inputs[0].offset += 1000), channels);
        assert_eq!(refused(&|bad| bad.second.inputs[0].strides[3] += 1), channels);
        let padded = refused(&|bad| bad.second.inputs[0].padded_channels = 255);
        let lanes = good.second.inputs[0].strides[1] == 1;
        assert_eq!(padded, if lanes { channels } else { Err(KernelError::Shape("lanes")) });
        assert_eq!(
            refused(&|bad| bad.second.output.dtype = DType::F32),
            Err(KernelError::Type("requantised elements"))
        );
        assert!(refused(&|bad| bad.second.inputs.clear()).is_err());
        assert!(refused(&|bad| bad.conv.geometry.output.dtype = DType::I32).is_err());
    }
}
