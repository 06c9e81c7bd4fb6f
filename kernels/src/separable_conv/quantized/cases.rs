//! Cases that the reference kernel and the GPU are verified on.

use super::QuantizedSeparableConv;
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel};
use DType::{I8, U8};

/// What a case is made of.
#[derive(Clone, Copy)]
struct Size<'a> {
    /// Types of the image, of the filters and of the weights.
    types: [DType; 3],
    image: &'a [u32],
    taps: u32,
    stride: u32,
    padding_value: i16,
    columns: u32,
    /// Requantisations.
    finishes: [Finish; 2],
}

fn separable(size: &Size<'_>) -> QuantizedSeparableConv {
    let Size { types: [x, filters, weights], image, taps, stride, padding_value, columns, finishes } = *size;
    let groups = image[1];
    let depthwise = layer(&Layer {
        input: image,
        maps: groups,
        taps,
        stride,
        groups,
        padding_value,
        finish: finishes[0],
        ..Layer::new([x, filters], true)
    });
    let middle = &depthwise.geometry.output;
    let last =
        Layer { input: &middle.shape, maps: columns, finish: finishes[1], ..Layer::new([middle.dtype, weights], true) };
    let pointwise = layer(&last);
    QuantizedSeparableConv { depthwise, pointwise }
}

/// Kernels of this family: odd channels and extents, batches, strides, taps of one word and of two, signed and unsigned, residuals.
pub fn cases() -> Vec<Kernel> {
    use Finish::{Block, FloatSilu, PerChannel, Requantise, Residual, Shortcut, Silu, Sums};
    let size = |image, taps, stride, padding_value, columns| Size {
        types: [I8; 3],
        image,
        taps,
        stride,
        padding_value,
        columns,
        finishes: [PerChannel(I8), PerChannel(I8)],
    };
    [
        size(&[1, 32, 112, 112], 3, 1, -128, 16),
        size(&[1, 64, 30, 26], 3, 2, 5, 64),
        size(&[1, 20, 9, 7], 3, 1, 11, 12),
        size(&[2, 41, 15, 14], 5, 2, -3, 33),
        size(&[1, 96, 12, 30], 5, 1, 7, 24),
        size(&[1, 17, 3, 2], 5, 1, -7, 5),
        Size { types: [U8, I8, I8], finishes: [Silu(U8), Requantise(U8)], ..size(&[1, 40, 11, 13], 3, 2, 114, 32) },
        Size { types: [U8, U8, U8], finishes: [Requantise(U8), Silu(I8)], ..size(&[3, 22, 10, 9], 3, 1, 200, 20) },
        Size { types: [I8, U8, I8], finishes: [Requantise(I8), FloatSilu(U8)], ..size(&[1, 70, 8, 31], 3, 1, 9, 48) },
        Size { finishes: [PerChannel(U8), Residual], ..size(&[1, 35, 13, 18], 3, 1, 3, 35) },
        Size { finishes: [Silu(I8), Block], ..size(&[2, 48, 17, 10], 5, 1, -20, 40) },
        Size { finishes: [Requantise(I8), Shortcut], ..size(&[1, 128, 5, 21], 3, 2, 0, 56) },
        size(&[1, 24, 19, 17], 4, 1, 1, 16),
        size(&[1, 16, 21, 37], 3, 3, 13, 8),
        // Plain sums, rows of taps of more than two words, and more results than registers hold.
        Size { finishes: [PerChannel(I8), Sums], ..size(&[1, 32, 9, 9], 3, 1, 2, 16) },
        size(&[1, 32, 12, 11], 7, 1, 2, 16),
        size(&[1, 32, 6, 6], 3, 1, 2, 320),
    ]
    .iter()
    .map(|size| Kernel::QuantizedSeparableConv(separable(size)))
    .collect()
}
