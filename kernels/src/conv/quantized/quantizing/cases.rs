//! Cases that the reference kernel and the GPU are verified on.

use super::QuantizingConv;
use crate::conv::cases::view;
use crate::pointwise::{Binary, Class, Instruction, Pointwise, Program, Unary};
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel, View};
use DType::{Bf16, F16, F32, I8, I32, U8};

/// `round(x / scale) + zero`: what a `QuantizeLinear` does.
fn linear(scale: f64, zero: i16) -> Program {
    let instructions = [
        Instruction::Input(0),
        Instruction::Float(scale),
        Instruction::Binary(Binary::Div, 0, 1),
        Instruction::Unary(Unary::Round, 2),
        Instruction::Float(zero.into()),
        Instruction::Binary(Binary::Add, 3, 4),
    ];
    Program { class: Class::F32, inputs: 1, instructions: instructions.into_iter().collect() }
}

/// A layer of the scale 0.03 on an image, whose zero point is the layer's padding value. The integers would lie as the layer says, or
/// with `planes` row by row.
fn of(image: View, planes: bool, conv: &Layer<'_>) -> Kernel {
    let mut conv = layer(conv);
    let input = &mut conv.geometry.input;
    if planes {
        *input = view(input.dtype, false, &input.shape);
    }
    let quantize = Pointwise {
        output: input.clone(),
        inputs: [image].into_iter().collect(),
        program: linear(0.03, conv.padding_value),
    };
    Kernel::QuantizingConv(QuantizingConv { quantize, conv })
}

/// An image with the channels of a pixel side by side, and nothing between pixels.
fn interleaved(dtype: DType, shape: &[u32; 4]) -> View {
    let [_, channels, height, width] = shape.map(|extent| extent as i32);
    let strides = [height * width * channels, 1, width * channels, channels].into_iter().collect();
    View { strides, ..view(dtype, false, shape) }
}

/// Kernels of this family: images of several types and layouts, of whole fours in a row and of others, with values outside; layers of
/// several images, of one channel and of four, of strides that leave pixels out; and what is none of it.
pub fn cases() -> Vec<Kernel> {
    use Finish::{PerChannel, Requantise, Silu, Sums};
    let small = |x, input, [maps, taps, stride]: [u32; 3], padding_value, finish| Layer {
        input,
        maps,
        taps,
        stride,
        padding_value,
        finish,
        ..Layer::new([x, I8], true)
    };
    let planar = |dtype, conv: &Layer<'_>| of(view(dtype, false, conv.input), true, conv);
    let last = |dtype, conv: &Layer<'_>| of(view(dtype, true, conv.input), false, conv);
    let mut behind = view(F32, false, &[1, 3, 40, 44]);
    (behind.offset, behind.shape[2], behind.shape[3]) = (5 * 44 + 8, 33, 36);
    let reversed = |dtype, input: &[u32]| {
        // From blue to red.
        let mut image = view(dtype, false, input);
        image.offset = 2 * image.strides[1] as u32;
        image.strides[1] = -image.strides[1];
        image
    };
    vec![
        planar(F32, &small(I8, &[1, 3, 33, 35], [16, 3, 2], 1, PerChannel(I8))),
        planar(F32, &small(I8, &[2, 3, 34, 40], [64, 7, 2], -3, PerChannel(I8))),
        planar(F32, &small(U8, &[1, 3, 45, 37], [24, 7, 2], 128, Silu(U8))),
        planar(F32, &small(I8, &[1, 3, 97, 128], [24, 3, 8], -128, Requantise(I8))),
        planar(F16, &small(U8, &[1, 3, 40, 36], [32, 3, 2], 114, Silu(I8))),
        planar(F16, &small(I8, &[2, 3, 29, 31], [40, 3, 2], 9, Sums)),
        planar(F32, &small(U8, &[1, 1, 19, 20], [20, 5, 1], 0, Requantise(F16))),
        planar(F32, &small(I8, &[1, 4, 17, 24], [32, 3, 1], 5, Requantise(U8))),
        planar(Bf16, &small(U8, &[1, 2, 21, 28], [72, 6, 2], 70, Requantise(F32))),
        planar(U8, &small(I8, &[1, 3, 33, 36], [16, 3, 2], -99, PerChannel(U8))),
        last(F16, &small(I8, &[1, 3, 21, 19], [24, 3, 1], 3, PerChannel(I8))),
        of(interleaved(U8, &[2, 3, 24, 31]), true, &small(I8, &[2, 3, 24, 31], [16, 3, 2], -100, Requantise(I8))),
        of(behind, true, &small(I8, &[1, 3, 33, 36], [16, 3, 2], 0, Silu(I8))),
        of(reversed(F32, &[1, 3, 18, 20]), true, &small(I8, &[1, 3, 18, 20], [16, 3, 1], 7, PerChannel(I8))),
        // More tiles than blocks, each of which computes several.
        planar(F32, &small(U8, &[1, 3, 257, 252], [24, 3, 1], 114, PerChannel(I8))),
        planar(I32, &small(I8, &[1, 3, 12, 12], [16, 3, 1], 0, Requantise(I8))),
        planar(F32, &small(I8, &[1, 8, 12, 12], [16, 3, 1], 0, Requantise(I8))),
    ]
}
