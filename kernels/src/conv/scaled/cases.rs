//! Cases that the reference kernel and the GPU are verified on.

use super::{Product, ScaledConv};
use crate::conv::cases::finish::{bias, residual};
use crate::conv::cases::{RELU, epilogue, view};
use crate::conv::{Conv, Geometry};
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

/// A projection of `[1, c, h, w]` to `columns` channels.
fn scaled(dtype: DType, last: bool, image: [u32; 4], columns: u32, finish: impl FnOnce(&View) -> Epilogue) -> Kernel {
    let input = view(dtype, last, &image);
    let output = view(dtype, last, &[image[0], columns, image[2], image[3]]);
    let mut scale = view(dtype, last, &[image[0], image[1], 1, 1]);
    scale.shape = input.shape.clone();
    scale.strides[2..].fill(0);
    let weights = View::contiguous(dtype, &[columns, image[1], 1, 1]).expect("a small shape");
    let conv = Conv { epilogue: finish(&output), geometry: Geometry::plain(input, weights, output) };
    Kernel::ScaledConv(ScaledConv { conv, scale, scaling: Product })
}

/// Kernels of this family: projections of networks, odd channels, a residual.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false)] {
        cases.push(scaled(dtype, last, [1, 32, 30, 20], 16, bias));
        cases.push(scaled(dtype, last, [1, 240, 14, 14], 80, residual));
        cases.push(scaled(dtype, last, [1, 1152, 7, 7], 192, bias));
        cases.push(scaled(dtype, last, [1, 21, 9, 5], 13, |_| epilogue(false, RELU, &[])));
        cases.push(scaled(dtype, last, [2, 24, 5, 6], 40, bias));
    }
    cases
}
