//! The reference kernel against the definition, against its members, and against nonsense.

use super::{QuantizingConv, cases::cases};
use crate::conv::quantized::tests::expected;
use crate::conv::tests::never_panics;
use crate::host::testing::{self, Operand, Values, element};
use crate::{DType, Family, Kernel, KernelError, host::Walk};
use std::cell::OnceCell;

fn families() -> impl Iterator<Item = (Kernel, QuantizingConv)> {
    cases().into_iter().map(|kernel| match &kernel {
        Kernel::QuantizingConv(family) => (kernel.clone(), family.clone()),
        _ => panic!("another family"),
    })
}

/// The image's integers, as `linear` of the cases says in f32, where the convolution reads them.
fn quantized(family: &QuantizingConv, image: &[u8]) -> Operand {
    let (from, to) = (&family.quantize.inputs[0], &family.quantize.output);
    let mut integers = Operand::filled(to.bytes().unwrap(), 0);
    let mut walk = Walk::new(&to.shape, [&to.strides], [to.offset]);
    loop {
        let index: Vec<i64> = walk.index().iter().map(|&i| i64::from(i)).collect();
        let Some([at]) = walk.next() else { return integers };
        let whole = (element(from, image, &index) as f32 / 0.03).round_ties_even();
        let value = whole + f32::from(family.conv.padding_value);
        integers[at] = if to.dtype == DType::I8 { value as i8 as u8 } else { value as u8 };
    }
}

#[test]
fn cases_agree_with_the_definition() {
    for (kernel, family) in families() {
        let integers = OnceCell::new();
        testing::compare(&kernel, 0.0, |operands, index| {
            let operands = integers.get_or_init(|| {
                let mut operands = operands.to_vec();
                operands[0] = quantized(&family, &operands[0]);
                operands
            });
            expected(&family.conv, operands, index)
        });
    }
}

#[test]
fn what_is_no_number_is_quantised_as_by_its_member() {
    for (kernel, family) in families() {
        let mut inputs = testing::inputs(&kernel, 7);
        inputs[0] = testing::inputs_of(&kernel, Values::Special, 7).swap_remove(0);
        let integers = testing::run(&Kernel::Pointwise(family.quantize.clone()), &inputs[..1]);
        let members = [&family.conv].into_iter();
        assert!(*testing::run(&kernel, &inputs) == *testing::in_turn(integers, &inputs[1..], members), "{kernel:?}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    for (_, good) in families() {
        let refused = |change: &dyn Fn(&mut QuantizingConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::QuantizingConv(bad));
            error
        };
        assert_eq!(refused(&|_| ()), Ok(()));
        let between = Err(KernelError::Shape("quantisation and convolution"));
        assert_eq!(refused(&|bad| bad.quantize.output.offset += 16), between);
        assert_eq!(refused(&|bad| bad.quantize.output.strides[0] += 1), between);
        assert_eq!(refused(&|bad| bad.quantize.output.dtype = DType::Bool), between);
        let number = Err(KernelError::Parameter("inputs of a quantisation"));
        assert_eq!(refused(&|bad| bad.quantize.inputs.clear()), number);
        assert_eq!(refused(&|bad| bad.quantize.inputs.push(bad.quantize.output.clone()).unwrap()), number);
        let wide = refused(&|bad| {
            bad.quantize.output.dtype = DType::I16;
            bad.conv.geometry.input.dtype = DType::I16;
        });
        assert_eq!(wide, Err(KernelError::Type("factors behind a quantisation")));
        assert!(refused(&|bad| bad.quantize.inputs[0].shape[3] += 1).is_err());
        assert!(refused(&|bad| bad.quantize.program.instructions.clear()).is_err());
        assert!(refused(&|bad| bad.conv.padding_value = 300).is_err());
    }
}
