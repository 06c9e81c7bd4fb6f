//! The reference kernel against its members, which have tests of their own.

use super::MbConv;
use super::cases::cases;
use crate::conv::tests::never_panics;
use crate::host::testing::{self, Operand};
use crate::{Family, Kernel, KernelError};

/// Runs a member on operands of its own.
fn member(kernel: &Kernel, image: &Operand, parameters: &mut std::slice::Iter<'_, Operand>) -> Operand {
    let inputs = std::iter::once(image.clone()).chain(parameters.by_ref().take(kernel.inputs() - 1).cloned());
    testing::run(kernel, &inputs.collect::<Vec<_>>())
}

fn expected(kernel: &MbConv, inputs: &[Operand]) -> Vec<Operand> {
    let mut parameters = inputs[1..].iter();
    let mut image = inputs[0].clone();
    for conv in kernel.expand.iter().chain([&kernel.depthwise]) {
        image = member(&Kernel::Conv(conv.clone()), &image, &mut parameters);
    }
    let gate = kernel.gate.as_ref().map(|gate| member(&Kernel::SqueezeExcite(gate.clone()), &image, &mut parameters));
    std::iter::once(image).chain(gate).collect()
}

#[test]
fn cases_are_their_members_in_turn() {
    for kernel in cases() {
        let Kernel::MbConv(family) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, 7);
        let wanted = expected(family, &inputs);
        for (number, (got, wanted)) in testing::run_all(&kernel, &inputs).iter().zip(&wanted).enumerate() {
            assert!(**got == **wanted, "output {number} differs: {kernel:?}");
        }
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::MbConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut MbConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::MbConv(bad));
            error
        };
        assert!(refused(&|bad| bad.depthwise.geometry.groups = 1).is_err());
        assert!(refused(&|bad| bad.depthwise.geometry.output.shape[1] -= 1).is_err());
        if good.expand.is_some() {
            assert_eq!(
                refused(&|bad| bad.depthwise.geometry.input.offset += 1),
                Err(KernelError::Shape("expansion and depthwise convolution"))
            );
            assert!(refused(&|bad| bad.expand.iter_mut().for_each(|e| e.geometry.strides[2] = 2)).is_err());
        }
        if good.gate.is_some() {
            assert!(refused(&|bad| bad.gate.iter_mut().for_each(|g| g.average.input.offset += 1)).is_err());
        }
    }
}
