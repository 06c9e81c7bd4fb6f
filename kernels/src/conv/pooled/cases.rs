//! Cases that the reference kernel and the GPU are verified on.

use super::Pooled;
use crate::conv::cases::finish::{bias, none, relu, residual, silu};
use crate::conv::cases::{Size, size, three};
use crate::conv::{Conv, Parameters};
use crate::pointwise::Epilogue;
use crate::pool::{Pool, Pooling};
use crate::{DType, Kernel, View};

/// A convolution, and the maxima of windows side by side; results that no window has are left out.
pub(crate) fn pooled<C: Parameters>(conv: C, window: [u32; 2]) -> Pooled<C> {
    let input = conv.convolution().geometry.output.clone();
    let mut shape = input.shape.clone();
    for (extent, window) in shape[2..].iter_mut().zip(window) {
        *extent /= window;
    }
    let last = input.strides[1] == 1;
    let output = if last { View::channels_last(input.dtype, &shape) } else { View::contiguous(input.dtype, &shape) };
    let window = three(&window, 1);
    let pool = Pool {
        input,
        output: output.expect("a small shape"),
        kind: Pooling::Max,
        window,
        strides: window,
        dilations: [1; 3],
        pads: [0; 3],
        pads_end: [0; 3],
    };
    Pooled { conv, pool }
}

/// Of floats of one type.
fn case(dtype: DType, last: bool, size: &Size<'_>, window: [u32; 2], finish: impl FnOnce(&View) -> Epilogue) -> Kernel {
    let geometry = size.geometry([dtype; 3], last);
    Kernel::PooledConv(pooled(Conv { epilogue: finish(&geometry.output), geometry }, window))
}

/// Kernels of this family: windows of several shapes, rows and columns left over, odd channels, several images, a residual, and f32 and
/// windows of nine, which no GPU takes.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::Bf16, true), (DType::F32, true), (DType::F32, false)] {
        cases.push(case(dtype, last, &size(&[1, 32, 20, 20], 64, &[3, 3], 1), [2, 2], relu));
        cases.push(case(dtype, last, &size(&[2, 24, 13, 11], 21, &[3, 3], 1), [2, 2], bias));
    }
    let mut of_halves = |size: &Size<'_>, window, finish: fn(&View) -> Epilogue| {
        cases.push(case(DType::F16, true, size, window, finish));
    };
    of_halves(&size(&[1, 64, 28, 14], 128, &[3, 3], 1), [2, 2], relu);
    of_halves(&size(&[1, 16, 34, 30], 80, &[3, 3], 1), [2, 2], silu);
    of_halves(&size(&[1, 64, 41, 38], 248, &[3, 3], 1), [2, 2], relu);
    of_halves(&size(&[1, 96, 15, 17], 40, &[1, 1], 1), [2, 2], none);
    of_halves(&size(&[1, 64, 8, 25], 72, &[3, 3], 1), [2, 1], relu);
    of_halves(&size(&[3, 32, 9, 12], 48, &[5, 5], 2), [1, 2], bias);
    of_halves(&size(&[1, 40, 12, 17], 32, &[3, 3], 1), [2, 4], relu);
    of_halves(&size(&[1, 16, 5, 6], 8, &[3, 3], 1), [2, 2], relu);
    of_halves(&size(&[1, 32, 12, 12], 32, &[3, 3], 1), [3, 3], relu);
    of_halves(&size(&[1, 32, 12, 12], 32, &[3, 3], 1), [2, 2], residual);
    cases
}
