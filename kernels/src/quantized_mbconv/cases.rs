//! Cases that the reference kernel and the GPU are verified on.

use super::QuantizedMbConv;
use crate::quantized_average::cases::average_of;
use crate::quantized_conv::cases::{Finish, Layer, layer};
use crate::{DType, Kernel};
use DType::{I8, U8};

/// What a case is made of.
#[derive(Clone, Copy)]
struct Size<'a> {
    /// Types of the image, of the expansion's weights, of what lies in the middle and of the filters.
    types: [DType; 4],
    image: &'a [u32],
    /// Channels in the middle; 0 for no expansion.
    hidden: u32,
    taps: u32,
    stride: u32,
    /// The zero point in the middle.
    padding_value: i16,
    /// Requantisations.
    finishes: [Finish; 2],
    /// Squeezed channels of a gate; none without.
    gate: Option<u32>,
}

fn mbconv(size: &Size<'_>) -> QuantizedMbConv {
    let Size { types, image, hidden, taps, stride, padding_value, finishes, gate } = *size;
    let [x, weights, wide, filters] = types;
    let expansion = Layer { input: image, maps: hidden, finish: finishes[0], ..Layer::new([x, weights], true) };
    let expand = (hidden != 0).then(|| layer(&expansion));
    let channels = if hidden == 0 { image[1] } else { hidden };
    let wide_image = [image[0], channels, image[2], image[3]];
    let of_wide = if hidden == 0 { x } else { wide };
    let depthwise = layer(&Layer {
        input: &wide_image,
        maps: channels,
        taps,
        stride,
        groups: channels,
        padding_value,
        finish: finishes[1],
        ..Layer::new([of_wide, filters], true)
    });
    let gate = gate.map(|squeezed| {
        let output = depthwise.geometry.output.clone();
        average_of(output, [I8, U8], 4.0, squeezed, [Finish::Silu(U8), Finish::PerChannel(I8)])
    });
    QuantizedMbConv { expand, depthwise, gate }
}

/// Kernels of this family: blocks of mobile networks, odd channels and extents, batches, strides, signed and unsigned.
pub fn cases() -> Vec<Kernel> {
    use Finish::{FloatSilu, PerChannel, Requantise, Silu};
    let size = |image, hidden, taps, stride, padding_value| Size {
        types: [I8; 4],
        image,
        hidden,
        taps,
        stride,
        padding_value,
        finishes: [PerChannel(I8), PerChannel(I8)],
        gate: None,
    };
    let gated =
        |image, hidden, taps, stride, squeezed| Size { gate: Some(squeezed), ..size(image, hidden, taps, stride, 3) };
    [
        size(&[1, 24, 28, 28], 144, 3, 1, 0),
        size(&[1, 16, 40, 44], 96, 3, 2, -128),
        size(&[1, 160, 7, 7], 96, 3, 1, 5),
        Size { finishes: [Silu(I8), Silu(I8)], ..size(&[1, 40, 14, 14], 240, 5, 1, -7) },
        Size { finishes: [Silu(U8), Requantise(I8)], types: [I8, I8, U8, I8], ..size(&[2, 12, 11, 9], 20, 5, 2, 9) },
        Size {
            finishes: [Requantise(U8), PerChannel(U8)],
            types: [U8, I8, U8, U8],
            ..size(&[1, 70, 10, 13], 56, 3, 1, 200)
        },
        Size { finishes: [Requantise(I8), Silu(U8)], types: [U8, U8, I8, I8], ..size(&[1, 192, 6, 5], 43, 3, 2, 1) },
        Size {
            finishes: [PerChannel(U8), PerChannel(I8)],
            types: [U8, I8, U8, I8],
            ..size(&[1, 32, 9, 1], 33, 3, 1, 255)
        },
        Size { finishes: [FloatSilu(I8), FloatSilu(U8)], ..size(&[1, 48, 7, 7], 80, 5, 1, -20) },
        size(&[1, 24, 3, 2], 48, 5, 1, 7),
        size(&[1, 32, 33, 29], 0, 3, 1, 4),
        size(&[2, 41, 15, 14], 0, 5, 2, -3),
        Size { finishes: [Silu(U8), Silu(U8)], types: [U8, I8, U8, I8], ..size(&[1, 96, 12, 30], 0, 3, 2, 114) },
        size(&[1, 20, 5, 7], 0, 4, 1, 0),
        gated(&[1, 80, 14, 14], 480, 3, 1, 20),
        gated(&[1, 40, 28, 28], 120, 5, 2, 10),
        gated(&[1, 32, 30, 34], 0, 3, 1, 8),
        Size { finishes: [Silu(U8), Silu(U8)], types: [I8, I8, U8, I8], ..gated(&[3, 20, 6, 7], 42, 5, 1, 11) },
        gated(&[1, 24, 9, 8], 70, 3, 1, 0),
    ]
    .iter()
    .map(|size| Kernel::QuantizedMbConv(mbconv(size)))
    .collect()
}
