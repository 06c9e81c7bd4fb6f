//! The reference kernel against the definition, and against nonsense.

use super::{ScaledQuantizedConv, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, element};
use crate::{DType, Family, Kernel, KernelError};

/// What `gated` of the cases says, in f32 as ONNX has it.
fn scaled(x: f64, zero: f64, scale: f64, dtype: DType) -> f64 {
    let product = ((x - zero) as f32 * 0.05) * (scale as f32 * 0.004);
    let rounded = f64::from((product / 0.03).round_ties_even());
    if dtype == DType::I8 { rounded.clamp(-128.0, 127.0) } else { rounded.clamp(0.0, 255.0) }
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::ScaledQuantizedConv(family) = &kernel else { panic!("another family") };
        let geometry = &family.conv.geometry;
        let crate::pointwise::Instruction::Float(zero) = family.scaling.instructions[1] else { panic!("no zero") };
        let inputs = testing::inputs(&kernel, 3);
        let scale = &inputs[family.scale_input()];
        // The scaled image by the definition, then the convolution's reference kernel, which has tests of its own.
        let mut image = inputs[0].clone();
        let [_, channels, height, width] = *geometry.input.shape else { panic!("four dimensions") };
        for (n, c, h, w) in (0..geometry.input.shape[0]).flat_map(|n| {
            (0..channels).flat_map(move |c| (0..height).flat_map(move |h| (0..width).map(move |w| (n, c, h, w))))
        }) {
            let at = [n, c, h, w].map(i64::from);
            let x = element(&geometry.input, &inputs[0], &at);
            let value = scaled(x, zero, element(&family.scale, scale, &at), geometry.input.dtype);
            let place = at.iter().zip(&geometry.input.strides).map(|(i, &s)| i * i64::from(s)).sum::<i64>();
            image[usize::try_from(place).unwrap()] = value as i32 as u8;
        }
        let mut operands = inputs.clone();
        operands.truncate(family.scale_input());
        operands[0] = image;
        let wanted = testing::run(&Kernel::QuantizedConv(family.conv.clone()), &operands);
        assert!(*testing::run(&kernel, &inputs) == *wanted, "{kernel:?}");
    }
}

#[test]
fn what_is_no_scale_is_refused() {
    for kernel in cases() {
        let Kernel::ScaledQuantizedConv(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut ScaledQuantizedConv)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::ScaledQuantizedConv(bad));
            error
        };
        assert!(refused(&|bad| bad.scale.strides[3] = 1).is_err());
        assert!(refused(&|bad| bad.scale.shape[1] += 1).is_err());
        assert!(refused(&|bad| bad.scaling.inputs = 3).is_err());
        assert!(refused(&|bad| bad.conv.geometry.pads[2] = 1).is_err());
        assert_eq!(refused(&|bad| bad.scale.dtype = DType::F32), Err(KernelError::Type("scaled elements")));
    }
}
