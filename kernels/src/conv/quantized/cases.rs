//! Cases that the reference kernel and the GPU are verified on.

use super::{QuantizedConv, is_float_factor};
use crate::conv::Geometry;
use crate::conv::cases::{Size, epilogue, size, view};
use crate::pointwise::{Binary, Epilogue, Instruction, Unary};
use crate::{DType, Kernel, View};
use DType::{F8E4M3, F8E5M2, F16, F32, I8, I16, I32, U8};

/// `x · 0.001 + 3`, rounded: what a layer with one scale does.
const REQUANTISE: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Float(0.001),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Unary(Unary::Round, 2),
    Instruction::Float(3.0),
    Instruction::Binary(Binary::Add, 3, 4),
];
/// `x · extra / 7`, no less than 0, rounded: a scale for each channel.
const PER_CHANNEL: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Unary(Unary::Relu, 2),
    Instruction::Float(7000.0),
    Instruction::Binary(Binary::Div, 3, 4),
    Instruction::Unary(Unary::Round, 5),
];
/// `x · 0.002 + (extra − 9) · 0.5`, rounded: a quantised residual.
const RESIDUAL: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Float(0.002),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Input(1),
    Instruction::Float(9.0),
    Instruction::Binary(Binary::Sub, 3, 4),
    Instruction::Float(0.5),
    Instruction::Binary(Binary::Mul, 5, 6),
    Instruction::Binary(Binary::Add, 2, 7),
    Instruction::Unary(Unary::Round, 8),
];
/// A value of 8 bits with scale 0.04 and zero point 7, times its sigmoid (rounded at 1/255), at another scale: what
/// quantisers make of SiLU.
const SILU: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Float(0.0003),
    Instruction::Binary(Binary::Mul, 2, 3),
    Instruction::Unary(Unary::Round, 4),
    Instruction::Float(7.0),
    Instruction::Binary(Binary::Add, 5, 6),
    Instruction::Float(-128.0),
    Instruction::Binary(Binary::Max, 7, 8),
    Instruction::Float(127.0),
    Instruction::Binary(Binary::Min, 9, 10),
    Instruction::Binary(Binary::Sub, 11, 6),
    Instruction::Float(0.04),
    Instruction::Binary(Binary::Mul, 12, 13),
    Instruction::Unary(Unary::Sigmoid, 14),
    Instruction::Float(1.0 / 255.0),
    Instruction::Binary(Binary::Div, 15, 16),
    Instruction::Unary(Unary::Round, 17),
    Instruction::Binary(Binary::Mul, 18, 16),
    Instruction::Binary(Binary::Mul, 14, 19),
    Instruction::Float(0.021),
    Instruction::Binary(Binary::Div, 20, 21),
    Instruction::Unary(Unary::Round, 22),
    Instruction::Float(-115.0),
    Instruction::Binary(Binary::Add, 23, 24),
];
/// The sums at one scale and a residual at another, both of 8 bits, added up.
const fn two_scales(own: f64, residual: f64) -> [Instruction; 16] {
    [
        Instruction::Input(0),
        Instruction::Input(1),
        Instruction::Binary(Binary::Mul, 0, 1),
        Instruction::Float(0.0003),
        Instruction::Binary(Binary::Mul, 2, 3),
        Instruction::Unary(Unary::Round, 4),
        Instruction::Float(-128.0),
        Instruction::Binary(Binary::Max, 5, 6),
        Instruction::Float(127.0),
        Instruction::Binary(Binary::Min, 7, 8),
        Instruction::Float(own),
        Instruction::Binary(Binary::Mul, 9, 10),
        Instruction::Input(2),
        Instruction::Float(residual),
        Instruction::Binary(Binary::Mul, 12, 13),
        Instruction::Binary(Binary::Add, 11, 14),
    ]
}
/// What follows at a third scale, and of what is positive of it at a fourth: the last layer of a block.
const BLOCK: &[Instruction] = &[
    Instruction::Float(0.043),
    Instruction::Binary(Binary::Div, 15, 16),
    Instruction::Unary(Unary::Round, 17),
    Instruction::Binary(Binary::Max, 18, 6),
    Instruction::Binary(Binary::Min, 19, 8),
    Instruction::Binary(Binary::Mul, 20, 16),
    Instruction::Unary(Unary::Relu, 21),
    Instruction::Float(0.0367),
    Instruction::Binary(Binary::Div, 22, 23),
    Instruction::Unary(Unary::Round, 24),
];
/// What follows where both scales are one: two bytes decide the result, and no pair lies halfway between two results.
const SHORTCUT: &[Instruction] = &[
    Instruction::Unary(Unary::Relu, 15),
    Instruction::Float(0.0431271),
    Instruction::Binary(Binary::Div, 16, 17),
    Instruction::Unary(Unary::Round, 18),
];
/// `x · extra / 1000`: what a product of floats has by its scales.
const SCALED: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Float(0.001),
    Instruction::Binary(Binary::Mul, 2, 3),
];
/// The same times its own sigmoid, rounded at a scale whose results few sums lie between.
const FLOAT_SILU: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Float(0.00002),
    Instruction::Binary(Binary::Mul, 2, 3),
    Instruction::Unary(Unary::Sigmoid, 4),
    Instruction::Binary(Binary::Mul, 4, 5),
    Instruction::Float(0.11),
    Instruction::Binary(Binary::Div, 6, 7),
    Instruction::Unary(Unary::Round, 8),
    Instruction::Float(-20.0),
    Instruction::Binary(Binary::Add, 9, 10),
];
/// The scaled sums and a residual at another scale, no less than 0, at a third and within the range of E4M3.
const FLOAT_BLOCK: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Float(0.001),
    Instruction::Binary(Binary::Mul, 2, 3),
    Instruction::Input(2),
    Instruction::Float(0.37),
    Instruction::Binary(Binary::Mul, 5, 6),
    Instruction::Binary(Binary::Add, 4, 7),
    Instruction::Unary(Unary::Relu, 8),
    Instruction::Float(0.3),
    Instruction::Binary(Binary::Div, 9, 10),
    Instruction::Float(448.0),
    Instruction::Binary(Binary::Min, 11, 12),
];

/// What follows the sums.
#[derive(Clone, Copy)]
pub(crate) enum Finish {
    Sums,
    Requantise(DType),
    PerChannel(DType),
    Residual,
    Silu(DType),
    FloatSilu(DType),
    Block,
    Shortcut,
    Scaled(DType),
    FloatBlock(DType),
}

/// Extents and types of a case: a square window with half of it as padding.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    pub types: [DType; 2],
    pub last: bool,
    pub input: &'a [u32],
    pub maps: u32,
    pub taps: u32,
    pub stride: u32,
    pub groups: u32,
    pub padding_value: i16,
    pub finish: Finish,
}

pub(crate) fn layer(layer: &Layer<'_>) -> QuantizedConv {
    let Layer { types: [x, w], last, input, maps, taps, stride, groups, padding_value, finish } = *layer;
    let block = [&two_scales(0.031, 0.0173)[..], BLOCK].concat();
    let shortcut = [&two_scales(0.0312643, 0.0173915)[..], SHORTCUT].concat();
    let (dtype, instructions) = match finish {
        Finish::Sums => (if is_float_factor(x) { F32 } else { I32 }, &[][..]),
        Finish::Requantise(dtype) => (dtype, REQUANTISE),
        Finish::PerChannel(dtype) => (dtype, PER_CHANNEL),
        Finish::Residual => (U8, RESIDUAL),
        Finish::Silu(dtype) => (dtype, SILU),
        Finish::FloatSilu(dtype) => (dtype, FLOAT_SILU),
        Finish::Block => (I8, &block[..]),
        Finish::Shortcut => (I8, &shortcut[..]),
        Finish::Scaled(dtype) => (dtype, SCALED),
        Finish::FloatBlock(dtype) => (dtype, FLOAT_BLOCK),
    };
    let kernel = vec![taps; input.len() - 2];
    let size = Size { groups, pads: (taps / 2, taps / 2), ..size(input, maps, &kernel, stride) };
    let geometry = size.geometry([x, w, dtype], last);
    let dense = |dtype, shape: &[u32]| view(dtype, false, shape);
    let output = &geometry.output;
    let factors = || {
        let mut scale = dense(F32, &[maps]);
        scale.shape = output.shape.clone();
        scale.strides = (0..output.rank()).map(|d| i32::from(d == 1)).collect();
        scale
    };
    let extras: Vec<View> = match finish {
        Finish::PerChannel(_) | Finish::Silu(_) | Finish::FloatSilu(_) | Finish::Scaled(_) => vec![factors()],
        Finish::Residual => vec![output.clone()],
        Finish::Block | Finish::Shortcut | Finish::FloatBlock(_) => vec![factors(), output.clone()],
        _ => vec![],
    };
    QuantizedConv {
        padding_value,
        bias: (maps % 3 != 0 && !is_float_factor(x)).then(|| dense(I32, &[maps])),
        epilogue: epilogue(false, instructions, &extras),
        geometry,
    }
}

/// Plain sums of one tap, without what the model adds.
#[cfg(test)]
pub(crate) fn sums(input: View, weights: View, output: View) -> QuantizedConv {
    let geometry = Geometry::plain(input, weights, output);
    QuantizedConv { geometry, padding_value: 0, bias: None, epilogue: Default::default() }
}

/// A product of `[m, k]` and `[k, n]` as a convolution over m positions; the weights lie as the model has them.
fn product(types: [DType; 2], [m, k, n]: [u32; 3], finish: Finish) -> QuantizedConv {
    let mut conv = layer(&Layer { input: &[1, k, m], maps: n, finish, ..Layer::new(types, false) });
    let columns = |view: &mut View, extent: u32| view.strides[1..3].copy_from_slice(&[1, extent as i32]);
    columns(&mut conv.geometry.input, k);
    columns(&mut conv.geometry.output, n);
    for extra in conv.epilogue.extras.iter_mut().filter(|extra| extra.strides[2] != 0) {
        columns(extra, n);
    }
    conv.geometry.weights.strides[..2].copy_from_slice(&[1, n as i32]);
    conv
}

impl Layer<'_> {
    /// Of one tap and one group, with plain sums and zeros outside; without extents.
    pub(crate) const fn new(types: [DType; 2], last: bool) -> Self {
        let finish = Finish::Sums;
        Self { types, last, input: &[], maps: 0, taps: 1, stride: 1, groups: 1, padding_value: 0, finish }
    }
}

/// Plain sums of factors of 16 bits, or of 8 in windows of odd strides, dilations and padding.
fn wide() -> Vec<QuantizedConv> {
    let dense = |dtype, shape: &[u32]| view(dtype, false, shape);
    let mut cases = Vec::new();
    let mut case = |[x, w]: [DType; 2], shapes: [&[u32]; 3], steps: [[u32; 3]; 3], groups: u32| {
        let [input, weights, output] = shapes;
        let [strides, dilations, pads] = steps;
        let (input, weights, output) = (dense(x, input), dense(w, weights), dense(I32, output));
        let geometry = Geometry { input, weights, output, strides, dilations, pads, groups };
        cases.push(QuantizedConv { geometry, padding_value: 0, bias: None, epilogue: Epilogue::default() });
    };
    let (one, zero) = ([1; 3], [0; 3]);
    case([U8, I8], [&[1, 3, 9, 9], &[5, 3, 3, 3], &[1, 5, 9, 9]], [one, one, [0, 1, 1]], 1);
    case([I16, I16], [&[2, 4, 8, 7], &[6, 4, 2, 3], &[2, 6, 4, 3]], [[1, 2, 2], one, zero], 1);
    case([I8, I8], [&[1, 6, 11, 5], &[6, 1, 3, 3], &[1, 6, 9, 5]], [one, one, [0, 0, 1]], 6);
    case([U8, U8], [&[2, 4, 30], &[4, 2, 5], &[2, 4, 26]], [one, one, zero], 2);
    case([I8, I16], [&[1, 2, 5, 6, 7], &[3, 2, 2, 3, 2], &[1, 3, 4, 6, 3]], [[1, 1, 2], one, [0, 1, 0]], 1);
    case([I16, I8], [&[1, 2, 12, 12], &[3, 2, 3, 3], &[1, 3, 8, 10]], [one, [1, 2, 1], zero], 1);
    case([I16, I16], [&[1, 16, 1, 1], &[300, 16, 1, 1], &[1, 300, 1, 1]], [one, one, zero], 1);
    case([I8, I8], [&[1, 1, 4, 200], &[2, 1, 4, 4], &[1, 2, 1, 199]], [one, one, [0, 0, 1]], 1);
    let mut last = cases[0].clone();
    last.geometry.input = View::channels_last(U8, &[1, 3, 9, 9]).unwrap();
    last.geometry.output = View::channels_last(I32, &[1, 5, 9, 9]).unwrap();
    cases.push(last);
    // What tensor cores and depthwise kernels would take if they were bytes.
    for (types, taps, groups) in [([I16, I16], 1, 1), ([I8, I16], 3, 1), ([I16, I8], 3, 64), ([I16, I16], 3, 4)] {
        let layer = Layer { input: &[1, 64, 10, 10], maps: 64, taps, groups, ..Layer::new(types, true) };
        cases.push(self::layer(&layer));
    }
    // A value outside that no byte holds, a bias and a program.
    let finish = Finish::PerChannel(I8);
    cases.push(layer(&Layer {
        input: &[1, 5, 6, 7],
        maps: 4,
        taps: 3,
        padding_value: -3000,
        finish,
        ..Layer::new([I16, I8], false)
    }));
    cases
}

/// Kernels of this family: layers of networks, channels that fill tiles and channels that do not, every pair of types.
pub fn cases() -> Vec<Kernel> {
    use Finish::{Block, FloatBlock, FloatSilu, PerChannel, Requantise, Residual, Scaled, Shortcut, Silu, Sums};
    let (both, signed) = ([U8, I8], [I8, I8]);
    let mut cases = Vec::new();
    for last in [true, false] {
        let mut add = |types, input: &'static [u32], [maps, taps, stride, groups]: [u32; 4], padding_value, finish| {
            cases.push(layer(&Layer { types, last, input, maps, taps, stride, groups, padding_value, finish }));
        };
        // One tap.
        add(both, &[1, 64, 14, 14], [128, 1, 1, 1], 0, Requantise(U8));
        add(signed, &[1, 24, 9, 7], [21, 1, 1, 1], 0, Sums);
        add(both, &[2, 32, 13, 11], [40, 1, 2, 1], 0, PerChannel(I8));
        add(both, &[1, 96, 7, 7], [256, 1, 1, 1], 0, Residual);
        add(both, &[1, 512, 1, 1], [1000, 1, 1, 1], 0, PerChannel(F32));
        add(both, &[1, 64, 9, 8], [48, 1, 1, 1], 0, Silu(I8));
        add(both, &[1, 48, 7, 9], [43, 1, 1, 1], 0, Silu(F16));
        add(both, &[1, 64, 8, 7], [56, 1, 1, 1], 0, FloatSilu(I8));
        add(signed, &[1, 64, 11, 9], [72, 1, 1, 1], 0, Block);
        add(signed, &[1, 64, 9, 11], [40, 1, 1, 1], 0, Shortcut);
        // Windows, with zero points and without.
        add(both, &[1, 32, 20, 20], [64, 3, 1, 1], 114, PerChannel(U8));
        add(signed, &[1, 32, 19, 21], [16, 3, 1, 1], 7, Requantise(I8));
        add(signed, &[2, 20, 17, 15], [36, 3, 2, 1], -7, Requantise(I8));
        add(both, &[1, 64, 9, 9], [64, 3, 1, 1], 0, Residual);
        add(both, &[1, 256, 5, 4], [128, 3, 1, 1], 255, Sums);
        add(both, &[1, 128, 14, 13], [72, 3, 1, 1], 114, Block);
        add(both, &[1, 64, 13, 14], [56, 3, 1, 1], 0, Shortcut);
        add(both, &[1, 3, 45, 37], [64, 7, 2, 1], 0, Requantise(F16));
        add([U8, U8], &[1, 48, 8, 9], [19, 3, 1, 1], 0, Sums);
        add([I8, U8], &[1, 40, 6, 5], [33, 5, 1, 1], 5, Sums);
        // Patches with all channels of a pixel, filled up to whole fragments or not.
        add(signed, &[1, 80, 11, 18], [80, 3, 1, 1], 5, PerChannel(I8));
        add(both, &[2, 112, 9, 13], [40, 3, 1, 1], 114, Silu(I8));
        add(signed, &[1, 144, 8, 7], [72, 3, 1, 1], -9, Requantise(U8));
        // First layers: a 7×7 one of two images, a 3×3 one, one of a single channel and one of four, with values outside.
        add(signed, &[2, 3, 33, 37], [64, 7, 2, 1], -3, PerChannel(I8));
        add(both, &[1, 3, 40, 35], [16, 3, 2, 1], 128, Silu(I8));
        add(both, &[1, 1, 19, 21], [20, 5, 1, 1], 0, Requantise(F16));
        add(both, &[1, 4, 18, 18], [24, 3, 1, 1], 0, Requantise(U8));
        // Groups and depthwise.
        add(both, &[1, 64, 10, 10], [64, 3, 1, 4], 3, Requantise(U8));
        add(both, &[1, 72, 14, 14], [72, 3, 1, 72], 9, PerChannel(U8));
        add(signed, &[2, 40, 15, 13], [40, 5, 2, 40], -128, PerChannel(I8));
        add(signed, &[1, 40, 12, 13], [40, 3, 1, 40], 4, Silu(I8));
        // One and three spatial dimensions.
        add(both, &[1, 16, 100], [24, 3, 1, 1], 0, Requantise(U8));
        add(both, &[1, 16, 5, 6, 7], [16, 3, 1, 1], 1, Sums);
    }
    // First layers that read planes: rows of whole fours, of which a thread loads four pixels, and others.
    for (types, input, [maps, taps, stride], padding_value, finish) in [
        (signed, &[2, 3, 34, 40], [64, 7, 2], -3, PerChannel(I8)),
        (both, &[1, 3, 40, 36], [16, 3, 2], 128, Silu(I8)),
        (both, &[1, 1, 19, 20], [20, 5, 1], 0, Requantise(F16)),
        (signed, &[1, 4, 17, 24], [32, 3, 1], 5, PerChannel(I8)),
        (both, &[1, 2, 21, 28], [72, 6, 2], 9, Requantise(U8)),
        (both, &[1, 3, 33, 35], [64, 3, 2], 114, PerChannel(U8)),
    ] {
        let mut first = layer(&Layer { input, maps, taps, stride, padding_value, finish, ..Layer::new(types, true) });
        first.geometry.input = view(types[0], false, input);
        cases.push(first);
    }
    // Matrix products: of a transformer, of one row, and odd ones.
    for (extents, finish) in [
        ([128, 768, 256], PerChannel(F16)),
        ([1, 512, 1000], Requantise(F32)),
        ([1, 1280, 1000], PerChannel(F32)),
        ([5, 2048, 72], Requantise(U8)),
        ([33, 80, 41], Sums),
        ([17, 30, 24], Requantise(U8)),
        ([64, 2048, 64], Residual),
        // Many columns, no multiple of 8: the characters that a reader of text knows.
        ([69, 256, 8210], PerChannel(F32)),
    ] {
        cases.push(product(both, extents, finish));
    }
    // Floats: layers of one tap and of windows, with groups and depthwise, then matrix products.
    let (four, five) = ([F8E4M3, F8E4M3], [F8E5M2, F8E4M3]);
    for last in [true, false] {
        let mut add = |types, input: &'static [u32], [maps, taps, stride, groups]: [u32; 4], finish| {
            cases.push(layer(&Layer { types, last, input, maps, taps, stride, groups, padding_value: 0, finish }));
        };
        add(four, &[1, 64, 14, 14], [128, 1, 1, 1], FloatBlock(F8E4M3));
        add(five, &[1, 24, 9, 7], [21, 1, 1, 1], Sums);
        add(four, &[1, 32, 20, 20], [64, 3, 1, 1], FloatBlock(F8E4M3));
        add([F8E5M2, F8E5M2], &[2, 20, 17, 15], [36, 3, 2, 1], Scaled(F16));
        add(five, &[1, 256, 5, 4], [128, 3, 1, 1], Scaled(F8E5M2));
        // First layers, of two images too.
        add(four, &[1, 3, 45, 37], [64, 7, 2, 1], Scaled(F16));
        add(four, &[2, 3, 33, 29], [24, 3, 2, 1], FloatBlock(F8E4M3));
        add(five, &[1, 1, 19, 21], [20, 5, 1, 1], Scaled(F8E5M2));
        add([F8E5M2, F8E5M2], &[1, 4, 18, 18], [40, 3, 1, 1], Sums);
        add(four, &[1, 64, 10, 10], [64, 3, 1, 4], FloatBlock(F8E4M3));
        add(four, &[1, 72, 14, 14], [72, 3, 1, 72], FloatBlock(F8E4M3));
        add(five, &[2, 40, 15, 13], [40, 5, 2, 40], Scaled(F16));
        add(four, &[1, 16, 100], [24, 3, 1, 1], Scaled(F8E4M3));
    }
    for (types, extents, finish) in [
        (four, [128, 768, 256], Scaled(F16)),
        (five, [1, 512, 1000], Scaled(F32)),
        (four, [5, 2048, 72], FloatBlock(F8E4M3)),
        (four, [33, 80, 41], Sums),
        ([F8E5M2, F8E5M2], [17, 30, 24], Scaled(F8E5M2)),
    ] {
        cases.push(product(types, extents, finish));
    }
    cases.extend(wide());
    cases.into_iter().map(Kernel::QuantizedConv).collect()
}
