//! Cases that the reference kernel and the GPU are verified on.

use super::QuantizedAverage;
use crate::conv::cases::view;
use crate::pointwise::{Binary, Class, Instruction, Pointwise, Program, Unary};
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel, View};
use DType::{I8, I32, U8};

/// `(sum − zero · n) · s / n / 0.7 + 3`, rounded.
fn requantise(pixels: u32, zero: f64) -> Vec<Instruction> {
    let pixels = f64::from(pixels);
    vec![
        Instruction::Input(0),
        Instruction::Float(zero * pixels),
        Instruction::Binary(Binary::Sub, 0, 1),
        Instruction::Float(f64::from((0.9 / pixels) as f32)),
        Instruction::Binary(Binary::Mul, 2, 3),
        Instruction::Float(f64::from(0.7_f32)),
        Instruction::Binary(Binary::Div, 4, 5),
        Instruction::Unary(Unary::Round, 6),
        Instruction::Float(3.0),
        Instruction::Binary(Binary::Add, 7, 8),
    ]
}

/// An average of 8 bits, with layers by way of `squeezed` channels unless that is 0.
fn average(types: [DType; 3], shape: [u32; 4], zero: f64, squeezed: u32, finishes: [Finish; 2]) -> QuantizedAverage {
    let [of_image, of_layers @ ..] = types;
    average_of(view(of_image, true, &shape), of_layers, zero, squeezed, finishes)
}

/// The same of an image that lies somewhere.
pub(crate) fn average_of(
    image: View,
    [of_average, of_squeezed]: [DType; 2],
    zero: f64,
    squeezed: u32,
    finishes: [Finish; 2],
) -> QuantizedAverage {
    let pixels = image.shape[2..].iter().product();
    let mut one = image.shape.clone();
    one[2..].fill(1);
    let requantise = Pointwise {
        output: view(of_average, true, &one),
        inputs: [view(I32, true, &one)].into_iter().collect(),
        program: Program { class: Class::F32, inputs: 1, instructions: requantise(pixels, zero).into_iter().collect() },
    };
    let one_tap = |types, input: &[u32], maps, finish| layer(&Layer { input, maps, finish, ..Layer::new(types, true) });
    let mut narrow = one.clone();
    narrow[1] = squeezed;
    let layers = (squeezed != 0).then(|| {
        [
            one_tap([of_average, I8], &one, squeezed, finishes[0]),
            one_tap([of_squeezed, I8], &narrow, one[1], finishes[1]),
        ]
    });
    QuantizedAverage { image, requantise, layers }
}

/// Kernels of this family: averages alone and with layers, signed and unsigned, odd channels, batches, one pixel.
pub fn cases() -> Vec<Kernel> {
    use Finish::{PerChannel, Requantise, Silu};
    [
        average([I8, I8, I8], [1, 32, 112, 112], 0.0, 8, [Silu(I8), PerChannel(I8)]),
        average([I8, I8, I8], [1, 672, 14, 14], -5.0, 28, [Silu(I8), PerChannel(I8)]),
        average([U8, U8, U8], [2, 40, 9, 7], 113.0, 11, [Requantise(U8), Silu(U8)]),
        average([U8, I8, U8], [1, 1152, 7, 7], 0.0, 48, [PerChannel(U8), Requantise(I8)]),
        average([I8, U8, I8], [1, 21, 5, 3], 2.0, 40, [Silu(I8), Requantise(U8)]),
        average([I8, I8, I8], [1, 1280, 7, 7], 0.0, 0, [Silu(I8); 2]),
        average([U8, U8, I8], [3, 70, 33, 1], 255.0, 0, [Silu(I8); 2]),
        average([I8, U8, I8], [1, 16, 1, 1], 0.0, 0, [Silu(I8); 2]),
    ]
    .into_iter()
    .map(Kernel::QuantizedAverage)
    .collect()
}
