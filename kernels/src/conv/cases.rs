//! Convolutions that exercise the family, for the tests of reference kernels and candidates.

use super::{Conv, Geometry};
use crate::pointwise::{Binary, Class, Epilogue, Instruction, Program, Unary};
use crate::{DType, Kernel, View};

/// An epilogue with a bias, a program over the accumulator and `extras`.
pub(crate) fn epilogue(bias: bool, instructions: &[Instruction], extras: &[View]) -> Epilogue {
    let program = (!instructions.is_empty()).then(|| Program {
        class: Class::F32,
        inputs: 1 + extras.len() as u8,
        instructions: heapless::Vec::from_slice(instructions).expect("a short program"),
    });
    Epilogue { bias, program, extras: heapless::Vec::from_slice(extras).expect("at most three extras") }
}

/// `max(x, 0)`.
pub(crate) const RELU: &[Instruction] = &[Instruction::Input(0), Instruction::Unary(Unary::Relu, 0)];
/// `x · sigmoid(x)`.
pub(crate) const SILU: &[Instruction] =
    &[Instruction::Input(0), Instruction::Unary(Unary::Sigmoid, 0), Instruction::Binary(Binary::Mul, 0, 1)];
/// `min(max(x, 0), 6)`.
pub(crate) const CLIP: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Float(0.0),
    Instruction::Float(6.0),
    Instruction::Binary(Binary::Max, 0, 1),
    Instruction::Binary(Binary::Min, 3, 2),
];
/// `1 / (1 + e⁻ˣ)`.
pub(crate) const SIGMOID: &[Instruction] = &[Instruction::Input(0), Instruction::Unary(Unary::Sigmoid, 0)];
/// `min(max(x/6 + 1/2, 0), 1)`.
pub(crate) const HARD_SIGMOID: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Float(1.0 / 6.0),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Float(0.5),
    Instruction::Binary(Binary::Add, 2, 3),
    Instruction::Float(1.0),
    Instruction::Unary(Unary::Relu, 4),
    Instruction::Binary(Binary::Min, 6, 5),
];
/// `max(x + extra, 0)`.
pub(crate) const ADD_RELU: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Add, 0, 1),
    Instruction::Unary(Unary::Relu, 2),
];

/// A view of `shape`, row-major or channels-last.
pub(crate) fn view(dtype: DType, channels_last: bool, shape: &[u32]) -> View {
    if channels_last { View::channels_last(dtype, shape) } else { View::contiguous(dtype, shape) }
        .expect("a small shape")
}

/// Channels `first..first + count` of a wider tensor: what a concatenation in place writes and a split reads.
pub(crate) fn slice(whole: &View, first: u32, count: u32) -> View {
    let mut part = whole.clone();
    part.offset += first * whole.strides[1] as u32;
    part.shape[1] = count;
    part.padded_channels =
        if whole.padded_channels == 0 { 0 } else { count.next_multiple_of(8).min(whole.padded_channels - first) };
    part
}

/// The sizes of a case; the same stride, dilation and pads along each dimension.
#[derive(Clone, Copy)]
pub(crate) struct Size<'a> {
    pub input: &'a [u32],
    pub channels: u32,
    pub kernel: &'a [u32],
    pub stride: u32,
    pub dilation: u32,
    /// Before and after; a dimension with one tap has none.
    pub pads: (u32, u32),
    pub groups: u32,
}

/// `same` padding for an odd kernel, no groups.
pub(crate) fn size<'a>(input: &'a [u32], channels: u32, kernel: &'a [u32], stride: u32) -> Size<'a> {
    let pad = kernel.iter().max().map_or(0, |k| k / 2);
    Size { input, channels, kernel, stride, dilation: 1, pads: (pad, pad), groups: 1 }
}

/// What a spatial dimension of so many taps has before and after.
type Pads = (u32, u32);

impl Size<'_> {
    /// The geometry, of an input, weights and an output of these types.
    pub(crate) fn geometry(&self, types: [DType; 3], channels_last: bool) -> Geometry {
        let weights = [self.channels, self.input[1] / self.groups];
        self.with(types, channels_last, weights, |extent, taps, pads| {
            (extent + pads.0 + pads.1 - (taps - 1) * self.dilation - 1) / self.stride + 1
        })
    }

    /// That of a transposed convolution with `extra` further positions.
    pub(crate) fn transposed(&self, dtype: DType, channels_last: bool, extra: u32) -> Geometry {
        let weights = [self.input[1], self.channels / self.groups];
        self.with([dtype; 3], channels_last, weights, |extent, taps, pads| {
            (extent - 1) * self.stride + (taps - 1) * self.dilation + 1 + extra - pads.0 - pads.1
        })
    }

    /// The geometry with these channels of the weights, and an output as long as `reach` says.
    fn with(
        &self,
        [x, w, y]: [DType; 3],
        channels_last: bool,
        channels: [u32; 2],
        reach: impl Fn(u32, u32, Pads) -> u32,
    ) -> Geometry {
        let pads: Vec<Pads> = self.kernel.iter().map(|&taps| if taps == 1 { (0, 0) } else { self.pads }).collect();
        let spatial = self.input[2..].iter().zip(self.kernel).zip(&pads);
        let places = spatial.map(|((&extent, &taps), &pads)| reach(extent, taps, pads));
        let output: Vec<u32> = [self.input[0], self.channels].into_iter().chain(places).collect();
        let every = |value: u32| three(&vec![value; self.kernel.len()], 1);
        Geometry {
            input: view(x, channels_last, self.input),
            weights: view(w, false, &[&channels, self.kernel].concat()),
            output: view(y, channels_last, &output),
            strides: every(self.stride),
            dilations: every(self.dilation),
            pads: three(&pads.iter().map(|pads| pads.0).collect::<Vec<_>>(), 0),
            groups: self.groups,
        }
    }
}

/// Padded with `fill` in front.
pub(crate) fn three(last: &[u32], fill: u32) -> [u32; 3] {
    let mut all = [fill; 3];
    all[3 - last.len()..].copy_from_slice(last);
    all
}

/// What follows a product: makes an epilogue from the output's view.
pub(crate) mod finish {
    use super::{ADD_RELU, CLIP, Epilogue, RELU, SILU, View, epilogue};

    /// Nothing.
    pub(crate) fn none(_: &View) -> Epilogue {
        Epilogue::default()
    }
    /// A bias.
    pub(crate) fn bias(_: &View) -> Epilogue {
        epilogue(true, &[], &[])
    }
    /// A bias, and [`RELU`].
    pub(crate) fn relu(_: &View) -> Epilogue {
        epilogue(true, RELU, &[])
    }
    /// A bias, and [`SILU`].
    pub(crate) fn silu(_: &View) -> Epilogue {
        epilogue(true, SILU, &[])
    }
    /// [`CLIP`] without a bias.
    pub(crate) fn clip(_: &View) -> Epilogue {
        epilogue(false, CLIP, &[])
    }
    /// A bias, and what else is added.
    pub(crate) fn residual(output: &View) -> Epilogue {
        epilogue(true, ADD_RELU, std::slice::from_ref(output))
    }
}

/// A convolution; `finish` makes its epilogue from the output's view.
fn conv(dtype: DType, channels_last: bool, size: &Size<'_>, finish: impl FnOnce(&View) -> Epilogue) -> Conv {
    let geometry = size.geometry([dtype; 3], channels_last);
    Conv { epilogue: finish(&geometry.output), geometry }
}

/// The cases: every algorithm's shapes, f16 channels-last as networks have them and f32 in both layouts.
pub fn cases() -> Vec<Kernel> {
    use finish::{bias, none, relu, residual, silu};
    let clip = |_: &View| epilogue(true, CLIP, &[]);
    let per_channel = |output: &View| {
        let mut scale = output.clone();
        for d in [0, 2, 3] {
            scale.strides[d] = 0;
        }
        scale.padded_channels = 0;
        scale.offset = 0;
        scale.strides[1] = 1;
        epilogue(
            true,
            &[Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Mul, 0, 1)],
            &[scale],
        )
    };
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false), (DType::F16, false)] {
        // Pointwise kernels, with channels that fill tiles and channels that do not.
        cases.push(conv(dtype, last, &size(&[1, 64, 14, 14], 128, &[1, 1], 1), relu));
        cases.push(conv(dtype, last, &size(&[1, 24, 9, 7], 21, &[1, 1], 1), none));
        cases.push(conv(dtype, last, &size(&[2, 32, 13, 11], 40, &[1, 1], 2), bias));
        cases.push(conv(dtype, last, &size(&[1, 96, 7, 7], 256, &[1, 1], 1), residual));
        // Square windows.
        cases.push(conv(dtype, last, &size(&[1, 32, 20, 20], 64, &[3, 3], 1), relu));
        cases.push(conv(dtype, last, &size(&[2, 16, 19, 21], 16, &[3, 3], 1), residual));
        cases.push(conv(dtype, last, &size(&[2, 20, 17, 15], 36, &[3, 3], 2), silu));
        cases.push(conv(dtype, last, &size(&[1, 64, 9, 9], 64, &[3, 3], 1), residual));
        cases.push(conv(dtype, last, &size(&[1, 512, 4, 4], 128, &[3, 3], 1), bias));
        cases.push(conv(dtype, last, &size(&[1, 3, 45, 37], 64, &[7, 7], 2), relu));
        cases.push(conv(dtype, last, &size(&[1, 3, 32, 32], 16, &[3, 3], 2), silu));
        cases.push(conv(dtype, last, &size(&[1, 8, 12, 12], 1, &[5, 5], 1), none));
        // Dilation, pads before only, windows that are not square, and no padding at all.
        cases.push(conv(
            dtype,
            last,
            &Size { dilation: 2, pads: (2, 2), ..size(&[1, 16, 15, 15], 24, &[3, 3], 1) },
            clip,
        ));
        cases.push(conv(dtype, last, &Size { pads: (0, 1), ..size(&[1, 16, 12, 14], 16, &[3, 3], 2) }, clip));
        cases.push(conv(dtype, last, &size(&[1, 16, 10, 33], 32, &[1, 7], 1), relu));
        cases.push(conv(dtype, last, &Size { pads: (0, 0), ..size(&[1, 12, 6, 6], 10, &[6, 6], 1) }, bias));
        // Groups and depthwise.
        cases.push(conv(dtype, last, &Size { groups: 4, ..size(&[1, 64, 10, 10], 64, &[3, 3], 1) }, relu));
        cases.push(conv(dtype, last, &Size { groups: 3, ..size(&[1, 15, 8, 9], 21, &[3, 3], 2) }, bias));
        cases.push(conv(dtype, last, &Size { groups: 72, ..size(&[1, 72, 14, 14], 72, &[3, 3], 1) }, clip));
        cases.push(conv(dtype, last, &Size { groups: 40, ..size(&[2, 40, 15, 13], 40, &[5, 5], 2) }, silu));
        cases.push(conv(dtype, last, &Size { groups: 20, ..size(&[1, 20, 11, 300], 20, &[3, 3], 1) }, residual));
        cases.push(conv(dtype, last, &Size { groups: 16, ..size(&[1, 16, 9, 9], 32, &[3, 3], 3) }, none));
        cases.push(conv(dtype, last, &size(&[1, 48, 8, 8], 56, &[1, 1], 1), per_channel));
        // One and three spatial dimensions.
        cases.push(conv(dtype, last, &size(&[1, 16, 100], 24, &[3], 1), relu));
        cases.push(conv(dtype, last, &Size { groups: 24, ..size(&[1, 24, 50], 24, &[5], 2) }, bias));
        cases.push(conv(dtype, last, &size(&[1, 8, 5, 6, 7], 16, &[3, 3, 3], 1), relu));
        // 3×3 with more channels than a tile of the products is deep, several images, no padding, and pads on one side.
        cases.push(conv(dtype, last, &size(&[1, 128, 12, 12], 32, &[3, 3], 1), silu));
        cases.push(conv(dtype, last, &Size { pads: (0, 0), ..size(&[3, 16, 11, 13], 24, &[3, 3], 1) }, residual));
        cases.push(conv(dtype, last, &Size { pads: (2, 1), ..size(&[1, 9, 10, 7], 13, &[3, 3], 1) }, none));
        // Patches of pixels: several images, no padding, pads on one side, windows of one line.
        cases.push(conv(dtype, last, &Size { pads: (0, 0), ..size(&[3, 64, 11, 13], 24, &[3, 3], 1) }, residual));
        cases.push(conv(dtype, last, &Size { pads: (2, 1), ..size(&[1, 96, 10, 7], 40, &[3, 3], 1) }, bias));
        cases.push(conv(dtype, last, &size(&[2, 32, 10, 33], 32, &[1, 7], 1), relu));
        // The same with all channels of a pixel, filled up to whole fragments or not.
        cases.push(conv(dtype, last, &size(&[1, 80, 12, 21], 80, &[3, 3], 1), silu));
        cases.push(conv(dtype, last, &Size { pads: (2, 1), ..size(&[2, 40, 11, 9], 24, &[3, 3], 1) }, residual));
        cases.push(conv(dtype, last, &size(&[1, 24, 10, 15], 72, &[3, 3], 1), relu));
        // Large enough for tiles of 208 rows.
        cases.push(conv(dtype, last, &size(&[1, 64, 28, 21], 40, &[3, 3], 1), relu));
        // And for tiles of 80 columns whose sides are exchanged.
        cases.push(conv(dtype, last, &size(&[1, 32, 24, 24], 80, &[3, 3], 1), silu));
        // Long filters: dense, grouped and depthwise with two outputs a channel, and windows of 15×15 and more.
        let long = |pads, groups, size: Size<'static>| Size { pads, groups, ..size };
        cases.push(conv(dtype, last, &long((128, 127), 1, size(&[1, 5, 700], 6, &[256], 1)), relu));
        cases.push(conv(dtype, last, &long((0, 0), 2, size(&[2, 8, 450], 12, &[128], 1)), residual));
        cases.push(conv(dtype, last, &long((300, 0), 10, size(&[1, 10, 1500], 20, &[301], 1)), none));
        cases.push(conv(dtype, last, &long((7, 7), 1, size(&[1, 3, 30, 41], 9, &[15, 15], 1)), silu));
        cases.push(conv(dtype, last, &long((10, 10), 16, size(&[2, 16, 33, 20], 16, &[21, 21], 1)), bias));
        // Reading one slice of a wider tensor and writing another.
        let mut sliced = conv(dtype, last, &size(&[1, 32, 11, 9], 24, &[3, 3], 1), relu);
        sliced.geometry.input = slice(&view(dtype, last, &[1, 80, 11, 9]), 40, 32);
        sliced.geometry.output = slice(&view(dtype, last, &[1, 64, 11, 9]), 16, 24);
        cases.push(sliced);
        let mut ragged = conv(dtype, last, &size(&[1, 10, 6, 6], 11, &[1, 1], 1), bias);
        ragged.geometry.output = slice(&view(dtype, last, &[1, 19, 6, 6]), 8, 11);
        cases.push(ragged);
    }
    // First layers, which read the network's input as it lies.
    let inputs = [
        (DType::F32, false, [1, 3, 45, 37]),
        (DType::F16, true, [2, 4, 19, 21]),
        // Rows of whole fours, of which a thread loads four pixels.
        (DType::F32, false, [2, 3, 30, 36]),
        (DType::F16, false, [1, 1, 21, 40]),
        (DType::F32, false, [1, 2, 19, 20]),
    ];
    for (dtype, last, input) in inputs {
        for (channels, kernel, stride) in
            [(64, [7, 7], 2), (24, [3, 3], 1), (136, [3, 3], 2), (16, [5, 3], 3), (32, [4, 6], 4)]
        {
            let mut first = conv(DType::F16, true, &size(&input, channels, &kernel, stride), relu);
            first.geometry.input = view(dtype, last, &input);
            cases.push(first);
        }
    }
    // Patches with exchanged sides whose warps have 64 columns each.
    cases.push(conv(DType::F16, true, &size(&[1, 32, 48, 48], 128, &[3, 3], 1), relu));
    // More tiles than blocks, each of which computes several.
    let input = [1, 1, 397, 380];
    let mut walked = conv(DType::F16, true, &size(&input, 16, &[2, 3], 1), relu);
    walked.geometry.input = view(DType::F32, false, &input);
    cases.push(walked);
    // Results of a network, in f32: windows, single pixels, groups, one filter for each channel.
    for (extent, channels, outputs, kernel, groups) in
        [(14, 64, 40, [3, 3], 1), (9, 24, 12, [1, 1], 1), (10, 32, 48, [3, 3], 2), (15, 40, 40, [5, 5], 40)]
    {
        let input = [1, channels, extent, extent];
        let size = Size { groups, ..size(&input, outputs, &kernel, 1) };
        let mut result = conv(DType::F16, true, &size, relu);
        result.geometry.output = view(DType::F32, true, &result.geometry.output.shape);
        cases.push(result);
    }
    let mut gray = conv(DType::F16, true, &Size { dilation: 2, ..size(&[1, 1, 30, 18], 32, &[5, 5], 1) }, residual);
    gray.geometry.input = view(DType::F32, false, &[1, 1, 30, 18]);
    cases.push(gray);
    cases.into_iter().map(Kernel::Conv).collect()
}
