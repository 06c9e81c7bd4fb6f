//! The reference kernel against its members, which have tests of their own.

use super::cases::cases;
use crate::conv::tests::never_panics;
use crate::host::testing;
use crate::{DType, Family, Kernel, KernelError};

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in cases() {
        let Kernel::QuantizedMbConv(family) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, 7);
        let wanted = testing::in_turn(inputs[0].clone(), &inputs[1..], family.members());
        let got = testing::run_all(&kernel, &inputs);
        assert!(*got[0] == *wanted, "{kernel:?}");
        let Some(gate) = &family.gate else { continue };
        let of_gate = inputs.len() + 1 - Kernel::QuantizedAverage(gate.clone()).inputs();
        let inputs = [&[wanted], &inputs[of_gate..]].concat();
        assert!(*got[1] == *testing::run(&Kernel::QuantizedAverage(gate.clone()), &inputs), "the gate of {kernel:?}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::QuantizedMbConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut super::QuantizedMbConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::QuantizedMbConv(bad));
            error
        };
        assert!(refused(&|bad| bad.depthwise.geometry.groups = 1).is_err());
        let wide = refused(&|bad| bad.depthwise.geometry.weights.dtype = DType::I16);
        assert_eq!(wide, Err(KernelError::Type("factors inside a chain")));
        let of_positions = |bad: &mut super::QuantizedMbConv| {
            let output = bad.depthwise.geometry.output.clone();
            bad.depthwise.epilogue.extras.iter_mut().for_each(|extra| extra.strides = output.strides.clone());
        };
        if !good.depthwise.epilogue.extras.is_empty() && good.depthwise.geometry.output.elements() > 1000 {
            assert_eq!(refused(&of_positions), Err(KernelError::Parameter("extras inside a chain")));
        }
        if good.gate.is_some() {
            assert_eq!(
                refused(&|bad| bad.gate.iter_mut().for_each(|gate| gate.image.offset += 1)),
                Err(KernelError::Shape("depthwise convolution and gate"))
            );
        }
        if good.expand.is_some() {
            assert_eq!(
                refused(&|bad| bad.depthwise.geometry.input.offset += 1),
                Err(KernelError::Shape("expansion and depthwise convolution"))
            );
            assert!(refused(&|bad| bad.expand.iter_mut().for_each(|e| e.geometry.strides[2] = 2)).is_err());
        }
    }
}
