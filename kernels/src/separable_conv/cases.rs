//! Cases that the reference kernel and the GPU are verified on.

use super::SeparableConv;
use crate::conv::cases::{CLIP, RELU, SIGMOID, SILU, epilogue, view};
use crate::conv::{Conv, Geometry};
use crate::mbconv::cases::{Size, mbconv};
use crate::pointwise::{Binary, Instruction, Unary};
use crate::{DType, Kernel, View};

/// The sum with a residual, clipped from below.
const RESIDUAL: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Add, 0, 1),
    Instruction::Unary(Unary::Relu, 2),
];

/// A kernel of this family with so many channels of the result.
fn separable(
    dtype: DType,
    last: bool,
    size: Size,
    columns: u32,
    activation: &[Instruction],
    finish: &[Instruction],
) -> SeparableConv {
    let depthwise = mbconv(dtype, last, size, activation).depthwise;
    let input = depthwise.geometry.output.clone();
    let extents = [input.shape[0], columns, input.shape[2], input.shape[3]];
    let weights = View::contiguous(dtype, &[columns, input.shape[1], 1, 1]).expect("a small shape");
    let output = view(dtype, last, &extents);
    let extras = if finish == RESIDUAL { vec![output.clone()] } else { Vec::new() };
    let epilogue = epilogue(size.bias, finish, &extras);
    SeparableConv { depthwise, pointwise: Conv { geometry: Geometry::plain(input, weights, output), epilogue } }
}

/// Kernels of this family: odd channels and extents, batches, strides, dilations and residuals.
pub fn cases() -> Vec<Kernel> {
    let size = |image, taps: u32, stride| Size {
        image,
        hidden: 0,
        taps: [taps; 2],
        stride,
        dilation: 1,
        squeezed: 0,
        bias: true,
    };
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::Bf16] {
        let mut case = |size, columns, activation, finish| {
            cases.push(Kernel::SeparableConv(separable(dtype, true, size, columns, activation, finish)));
        };
        case(size([1, 32, 56, 56], 3, 1), 16, CLIP, &[]);
        case(size([1, 64, 28, 28], 3, 2), 64, RELU, RELU);
        case(size([1, 24, 33, 29], 3, 1), 24, &[], RESIDUAL);
        case(size([2, 20, 11, 9], 5, 2), 12, SILU, SIGMOID);
        case(Size { taps: [3, 5], bias: false, ..size([1, 40, 10, 13], 3, 1) }, 56, SILU, &[]);
        case(Size { dilation: 2, ..size([3, 16, 17, 15], 5, 1) }, 33, RELU, RESIDUAL);
        case(size([1, 48, 7, 7], 7, 1), 128, &[], CLIP);
        // Filters that registers do not hold, a single column of taps.
        case(size([1, 16, 19, 18], 9, 1), 8, RELU, &[]);
        case(Size { taps: [5, 1], ..size([1, 80, 12, 18], 5, 1) }, 40, RELU, RELU);
    }
    // The host runs these in row-major order.
    cases.push(Kernel::SeparableConv(separable(DType::F32, false, size([2, 6, 8, 9], 3, 2), 10, SILU, RESIDUAL)));
    cases
}
