//! The reference kernel against the definition in f64, and against nonsense.

use super::{SqueezeExcite, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, Operand, element};
use crate::{Family, Kernel, KernelError};

/// Gates of image `n` by their definition.
fn expected(kernel: &SqueezeExcite, operands: &[Operand], n: i64) -> Vec<f64> {
    let image = &kernel.average.input;
    let layer = |conv: &crate::conv::Conv, first: usize, channel: i64, inputs: &[f64]| {
        let sum = inputs.iter().enumerate().map(|(c, x)| {
            let at = [&[channel, c as i64][..], &vec![0; image.rank() - 2]].concat();
            x * element(&conv.geometry.weights, &operands[first], &at)
        });
        testing::finish(&conv.epilogue, operands, first + 1, channel, &[], sum.sum())
    };
    let (height, width) = (i64::from(image.shape[2]), i64::from(image.shape[3]));
    let means: Vec<f64> = (0..i64::from(image.shape[1]))
        .map(|c| {
            let sum: f64 = (0..height)
                .flat_map(|y| (0..width).map(move |x| (y, x)))
                .map(|(y, x)| element(image, &operands[0], &[n, c, y, x]))
                .sum();
            sum / (height * width) as f64
        })
        .collect();
    let squeezed: Vec<f64> =
        (0..i64::from(kernel.squeeze.geometry.output.shape[1])).map(|s| layer(&kernel.squeeze, 1, s, &means)).collect();
    let first = 2 + usize::from(kernel.squeeze.epilogue.bias);
    (0..i64::from(image.shape[1])).map(|c| layer(&kernel.excite, first, c, &squeezed)).collect()
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        // What lies between the stages is rounded to the image's type.
        let tolerance = if kernel.family().input(0).unwrap().dtype == crate::DType::F16 { 2e-3 } else { 5e-5 };
        let Kernel::SqueezeExcite(family) = &kernel else { panic!("another family") };
        // The operands that the comparison makes, too.
        let operands = testing::inputs(&kernel, 42);
        let images = i64::from(family.average.input.shape[0]);
        let gates: Vec<_> = (0..images).map(|n| expected(family, &operands, n)).collect();
        testing::compare(&kernel, tolerance, |_, index| gates[index[0] as usize][index[1] as usize]);
    }
}

#[test]
fn stages_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::SqueezeExcite(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut SqueezeExcite)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::SqueezeExcite(bad));
            error
        };
        assert_eq!(
            refused(&|bad| bad.average.kind = crate::reduce::Reduction::Sum),
            Err(KernelError::Parameter("average of squeeze-and-excitation"))
        );
        assert!(refused(&|bad| bad.average.input.shape[2] = 0).is_err());
        assert!(refused(&|bad| bad.squeeze.geometry.input.offset += 1).is_err());
        assert!(refused(&|bad| bad.excite.geometry.output.shape[1] -= 1).is_err());
        assert!(refused(&|bad| bad.squeeze.geometry.strides[2] = 2).is_err());
    }
}
