//! Cases that the reference kernel and the GPU are verified on.

use super::DualQuantizedConv;
use crate::pointwise::{Binary, Class, Instruction, Pointwise, Program, Unary};
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel, View};
use DType::{F16, F32, I8, U8};

/// `(x − zero) · 0.04 / by`, rounded, plus 2.
fn requantise(zero: f64, by: f64) -> Program {
    let instructions = [
        Instruction::Input(0),
        Instruction::Float(zero),
        Instruction::Binary(Binary::Sub, 0, 1),
        Instruction::Float(0.04),
        Instruction::Binary(Binary::Mul, 2, 3),
        Instruction::Float(by),
        Instruction::Binary(Binary::Div, 4, 5),
        Instruction::Unary(Unary::Round, 6),
        Instruction::Float(2.0),
        Instruction::Binary(Binary::Add, 7, 8),
    ];
    Program { class: Class::F32, inputs: 1, instructions: instructions.into_iter().collect() }
}

/// A layer, and its channels `first..first + count` requantised into the middle of an image of `channels`.
fn dual(conv: &Layer<'_>, [first, count, channels]: [u32; 3], to: DType, by: f64) -> Kernel {
    let conv = layer(conv);
    let result = &conv.geometry.output;
    let mut from = View { padded_channels: 0, ..result.clone() };
    from.offset += first * result.strides[1] as u32;
    from.shape[1] = count;
    let mut whole = result.shape.clone();
    whole[1] = channels;
    let mut output = if result.strides[1] == 1 {
        View::channels_last(to, &whole).expect("a small shape")
    } else {
        View::contiguous(to, &whole).expect("a small shape")
    };
    output.offset = 16 * output.strides[1] as u32;
    output.shape[1] = count;
    output.padded_channels = 0;
    let second = Pointwise { output, inputs: [from].into_iter().collect(), program: requantise(3.0, by) };
    Kernel::DualQuantizedConv(DualQuantizedConv { conv, second })
}

/// Kernels of this family: all channels and some, signed and unsigned, windows, a residual, odd channels.
pub fn cases() -> Vec<Kernel> {
    use Finish::{Block, PerChannel, Requantise, Silu};
    let one = |types, input, maps, finish| Layer { input, maps, finish, ..Layer::new(types, true) };
    let three = |types, input, maps, finish| Layer { taps: 3, padding_value: 4, ..one(types, input, maps, finish) };
    vec![
        dual(&one([I8, I8], &[1, 64, 20, 20], 64, Silu(I8)), [0, 64, 96], I8, 0.05),
        dual(&one([U8, I8], &[1, 48, 14, 15], 96, PerChannel(U8)), [48, 48, 112], U8, 0.023),
        dual(&three([I8, I8], &[1, 32, 13, 12], 32, Block), [0, 32, 64], U8, 0.06),
        dual(&three([U8, U8], &[2, 64, 10, 9], 40, Silu(U8)), [8, 24, 48], I8, 0.0317),
        dual(&one([I8, I8], &[1, 128, 9, 9], 72, Requantise(I8)), [16, 56, 80], I8, 0.04),
        dual(&one([U8, I8], &[1, 48, 7, 9], 64, Silu(F16)), [0, 64, 80], I8, 0.002),
        dual(&three([I8, I8], &[1, 16, 9, 10], 48, PerChannel(F32)), [16, 32, 64], U8, 0.05),
        dual(&one([I8, I8], &[1, 32, 8, 8], 21, PerChannel(I8)), [5, 16, 48], I8, 0.05),
        dual(&Layer { last: false, ..one([I8, I8], &[1, 32, 8, 8], 24, PerChannel(I8)) }, [8, 16, 48], I8, 0.05),
    ]
}
