//! Transposed convolutions that exercise the family, for the tests of reference kernels and candidates.

use super::ConvTranspose;
use crate::conv::cases::{ADD_RELU, CLIP, RELU, SILU, epilogue, slice, three, view};
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

/// The sizes of a case; the same stride, dilation and pads along each dimension with more than one tap.
struct Size<'a> {
    input: &'a [u32],
    channels: u32,
    kernel: &'a [u32],
    stride: u32,
    dilation: u32,
    pads: (u32, u32),
    extra: u32,
    groups: u32,
}

fn size<'a>(input: &'a [u32], channels: u32, kernel: &'a [u32], stride: u32) -> Size<'a> {
    Size { input, channels, kernel, stride, dilation: 1, pads: (0, 0), extra: 0, groups: 1 }
}

fn transposed(
    dtype: DType,
    channels_last: bool,
    size: &Size<'_>,
    finish: impl FnOnce(&View) -> Epilogue,
) -> ConvTranspose {
    let spatial = &size.input[2..];
    let mut output = vec![size.input[0], size.channels];
    for (&extent, &taps) in spatial.iter().zip(size.kernel) {
        let full = (extent - 1) * size.stride + (taps - 1) * size.dilation + 1 + size.extra;
        output.push(full - size.pads.0 - size.pads.1);
    }
    let weights = [&[size.input[1], size.channels / size.groups], size.kernel].concat();
    let every = |value: u32, fill: u32| three(&vec![value; spatial.len()], fill);
    let output = view(dtype, channels_last, &output);
    ConvTranspose {
        input: view(dtype, channels_last, size.input),
        weights: View::contiguous(dtype, &weights).expect("a small shape"),
        epilogue: finish(&output),
        output,
        strides: every(size.stride, 1),
        dilations: every(size.dilation, 1),
        pads: every(size.pads.0, 0),
        groups: size.groups,
    }
}

/// The cases, in both layouts and both float types.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let silu = |_: &View| epilogue(true, SILU, &[]);
    let clip = |_: &View| epilogue(false, CLIP, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false), (DType::F16, false)] {
        // What networks have: 2×2 and 4×4 with stride 2, 3×3 with output padding, and stride 1.
        cases.push(transposed(dtype, last, &size(&[1, 64, 10, 10], 32, &[2, 2], 2), relu));
        cases.push(transposed(dtype, last, &Size { pads: (1, 1), ..size(&[1, 24, 9, 7], 21, &[4, 4], 2) }, bias));
        cases.push(transposed(
            dtype,
            last,
            &Size { pads: (1, 1), extra: 1, ..size(&[2, 16, 8, 6], 24, &[3, 3], 2) },
            silu,
        ));
        cases.push(transposed(dtype, last, &Size { pads: (1, 1), ..size(&[1, 32, 9, 9], 40, &[3, 3], 1) }, residual));
        // Strides that leave holes, dilation that shares a factor with the stride and one that does not.
        cases.push(transposed(dtype, last, &size(&[1, 6, 5, 5], 10, &[2, 2], 3), bias));
        cases.push(transposed(dtype, last, &Size { dilation: 2, ..size(&[1, 12, 6, 7], 8, &[3, 3], 2) }, relu));
        cases.push(transposed(
            dtype,
            last,
            &Size { dilation: 3, pads: (2, 1), ..size(&[1, 5, 6, 6], 7, &[3, 3], 2) },
            clip,
        ));
        // Groups, depthwise, one channel.
        cases.push(transposed(dtype, last, &Size { groups: 2, ..size(&[1, 16, 6, 6], 24, &[4, 4], 2) }, none));
        cases.push(transposed(
            dtype,
            last,
            &Size { groups: 18, pads: (1, 1), ..size(&[1, 18, 8, 8], 18, &[4, 4], 2) },
            relu,
        ));
        cases.push(transposed(dtype, last, &size(&[1, 24, 12, 12], 1, &[2, 2], 2), bias));
        // One and three spatial dimensions.
        cases.push(transposed(dtype, last, &Size { pads: (2, 2), ..size(&[1, 16, 25], 12, &[8], 4) }, relu));
        cases.push(transposed(dtype, last, &size(&[1, 8, 3, 4, 5], 6, &[2, 3, 2], 2), bias));
        // A slice of a wider tensor.
        let mut sliced = transposed(dtype, last, &size(&[1, 16, 7, 7], 16, &[2, 2], 2), relu);
        sliced.output = slice(&view(dtype, last, &[1, 48, 14, 14]), 24, 16);
        cases.push(sliced);
    }
    cases.into_iter().map(Kernel::ConvTranspose).collect()
}
