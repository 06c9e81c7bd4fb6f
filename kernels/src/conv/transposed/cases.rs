//! Transposed convolutions that exercise the family, for the tests of reference kernels and candidates.

use super::ConvTranspose;
use crate::conv::cases::finish::{bias, clip, none, relu, residual, silu};
use crate::conv::cases::{self, Size, slice, view};
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

/// Sizes without padding.
fn size<'a>(input: &'a [u32], channels: u32, kernel: &'a [u32], stride: u32) -> Size<'a> {
    Size { pads: (0, 0), ..cases::size(input, channels, kernel, stride) }
}

fn transposed(
    dtype: DType,
    channels_last: bool,
    size: &Size<'_>,
    extra: u32,
    finish: impl FnOnce(&View) -> Epilogue,
) -> ConvTranspose {
    let geometry = size.transposed(dtype, channels_last, extra);
    ConvTranspose { epilogue: finish(&geometry.output), geometry }
}

/// The cases, in both layouts and both float types.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false), (DType::F16, false)] {
        let mut case = |size: Size<'_>, extra, finish: fn(&View) -> Epilogue| {
            cases.push(transposed(dtype, last, &size, extra, finish));
        };
        // What networks have: 2×2 and 4×4 with stride 2, 3×3 with output padding, and stride 1.
        case(size(&[1, 64, 10, 10], 32, &[2, 2], 2), 0, relu);
        case(Size { pads: (1, 1), ..size(&[1, 24, 9, 7], 21, &[4, 4], 2) }, 0, bias);
        case(Size { pads: (1, 1), ..size(&[2, 16, 8, 6], 24, &[3, 3], 2) }, 1, silu);
        case(Size { pads: (1, 1), ..size(&[1, 32, 9, 9], 40, &[3, 3], 1) }, 0, residual);
        // Strides that leave holes, dilation that shares a factor with the stride and one that does not.
        case(size(&[1, 6, 5, 5], 10, &[2, 2], 3), 0, bias);
        case(Size { dilation: 2, ..size(&[1, 12, 6, 7], 8, &[3, 3], 2) }, 0, relu);
        case(Size { dilation: 3, pads: (2, 1), ..size(&[1, 5, 6, 6], 7, &[3, 3], 2) }, 0, clip);
        // Groups, depthwise, one channel.
        case(Size { groups: 2, ..size(&[1, 16, 6, 6], 24, &[4, 4], 2) }, 0, none);
        case(Size { groups: 18, pads: (1, 1), ..size(&[1, 18, 8, 8], 18, &[4, 4], 2) }, 0, relu);
        case(size(&[1, 24, 12, 12], 1, &[2, 2], 2), 0, bias);
        // One and three spatial dimensions.
        case(Size { pads: (2, 2), ..size(&[1, 16, 25], 12, &[8], 4) }, 0, relu);
        case(size(&[1, 8, 3, 4, 5], 6, &[2, 3, 2], 2), 0, bias);
        // A slice of a wider tensor.
        let mut sliced = transposed(dtype, last, &size(&[1, 16, 7, 7], 16, &[2, 2], 2), 0, relu);
        sliced.geometry.output = slice(&view(dtype, last, &[1, 48, 14, 14]), 24, 16);
        cases.push(sliced);
    }
    cases.into_iter().map(Kernel::ConvTranspose).collect()
}
