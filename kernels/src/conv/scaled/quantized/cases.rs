//! Cases that the reference kernel and the GPU are verified on.

use super::ScaledQuantizedConv;
use crate::conv::cases::view;
use crate::pointwise::{Binary, Class, Instruction, Program, Unary};
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel};
use DType::{I8, U8};

/// `(x − zero) · 0.05 · (scale · 0.004) / 0.03`, rounded: what quantisers make of a gate.
fn gated(zero: f64) -> Program {
    let instructions = [
        Instruction::Input(0),
        Instruction::Float(zero),
        Instruction::Binary(Binary::Sub, 0, 1),
        Instruction::Float(0.05),
        Instruction::Binary(Binary::Mul, 2, 3),
        Instruction::Input(1),
        Instruction::Float(0.004),
        Instruction::Binary(Binary::Mul, 5, 6),
        Instruction::Binary(Binary::Mul, 4, 7),
        Instruction::Float(0.03),
        Instruction::Binary(Binary::Div, 8, 9),
        Instruction::Unary(Unary::Round, 10),
    ];
    Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() }
}

/// A projection to `maps` channels: types of the image, of the scale and of the weights.
fn scaled(types: [DType; 3], last: bool, image: &[u32], maps: u32, zero: f64, finish: Finish) -> Kernel {
    let [x, of_scale, weights] = types;
    let conv = layer(&Layer { input: image, maps, finish, ..Layer::new([x, weights], last) });
    let mut scale = view(of_scale, last, &[image[0], image[1], 1, 1]);
    scale.shape = conv.geometry.input.shape.clone();
    scale.strides[2..].fill(0);
    Kernel::ScaledQuantizedConv(ScaledQuantizedConv { conv, scale, scaling: gated(zero) })
}

/// Kernels of this family: projections of networks, signed and unsigned, odd channels, a residual, plain sums.
pub fn cases() -> Vec<Kernel> {
    use Finish::{Block, PerChannel, Requantise, Residual, Sums};
    vec![
        scaled([I8, I8, I8], true, &[1, 32, 30, 20], 16, 0.0, PerChannel(I8)),
        scaled([I8, U8, I8], true, &[1, 240, 14, 14], 80, -5.0, Block),
        scaled([U8, U8, I8], true, &[1, 1152, 7, 7], 192, 3.0, PerChannel(U8)),
        scaled([U8, I8, U8], true, &[1, 96, 28, 28], 40, 128.0, Residual),
        scaled([I8, I8, I8], true, &[1, 21, 9, 5], 13, 7.0, Sums),
        scaled([I8, U8, U8], true, &[1, 672, 5, 3], 112, 0.0, Requantise(DType::F16)),
        scaled([I8, I8, I8], true, &[2, 24, 5, 6], 40, 0.0, Requantise(I8)),
        scaled([I8, I8, I8], false, &[1, 24, 5, 6], 40, 0.0, Requantise(I8)),
    ]
}
