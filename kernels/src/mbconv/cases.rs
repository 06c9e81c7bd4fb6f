//! Cases that the reference kernel and the GPU are verified on.

use super::MbConv;
use crate::conv::cases::{CLIP, HARD_SIGMOID, RELU, SIGMOID, SILU, epilogue, view};
use crate::conv::{Conv, Geometry};
use crate::pointwise::Instruction;
use crate::squeeze_excite::cases::gate;
use crate::{DType, Kernel, View};

/// What a case is made of.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// `[n, channels, height, width]` of the image.
    pub image: [u32; 4],
    /// Channels in the middle; 0 for no expansion.
    pub hidden: u32,
    /// Taps along height and width.
    pub taps: [u32; 2],
    /// Step of the window.
    pub stride: u32,
    /// Distance between taps.
    pub dilation: u32,
    /// Squeezed channels; 0 for no gate.
    pub squeezed: u32,
    /// Whether the convolutions have biases.
    pub bias: bool,
}

/// A kernel of this family, padded so that stride 1 keeps the extents.
pub(crate) fn mbconv(dtype: DType, last: bool, size: Size, activation: &[Instruction]) -> MbConv {
    let Size { image: [n, c, h, w], hidden, taps, stride, dilation, squeezed, bias } = size;
    let image = view(dtype, last, &[n, c, h, w]);
    let channels = if hidden == 0 { c } else { hidden };
    let wide = view(dtype, last, &[n, channels, h, w]);
    let weights = |shape: &[u32]| View::contiguous(dtype, shape).expect("a small shape");
    let finish = || epilogue(bias, activation, &[]);
    let expand = (hidden != 0).then(|| Conv {
        geometry: Geometry::plain(image, weights(&[channels, c, 1, 1]), wide.clone()),
        epilogue: finish(),
    });
    let reach = taps.map(|taps| (taps - 1) * dilation);
    let extent = |extent: u32, reach: u32| (extent + reach / 2 * 2 - reach - 1) / stride + 1;
    let output = view(dtype, last, &[n, channels, extent(h, reach[0]), extent(w, reach[1])]);
    let geometry = Geometry {
        strides: [1, stride, stride],
        dilations: [1, dilation, dilation],
        pads: [0, reach[0] / 2, reach[1] / 2],
        groups: channels,
        ..Geometry::plain(wide, weights(&[channels, 1, taps[0], taps[1]]), output.clone())
    };
    let depthwise = Conv { geometry, epilogue: finish() };
    let gate =
        (squeezed != 0).then(|| gate(&output, squeezed, bias, [RELU, if bias { SIGMOID } else { HARD_SIGMOID }]));
    MbConv { expand, depthwise, gate }
}

/// Kernels of this family: blocks of mobile networks, odd channels, batches, strides and dilations.
pub fn cases() -> Vec<Kernel> {
    let size = |image, hidden, taps: u32, stride| Size {
        image,
        hidden,
        taps: [taps; 2],
        stride,
        dilation: 1,
        squeezed: 0,
        bias: true,
    };
    let gated = |image, hidden, taps, stride, squeezed| Size { squeezed, ..size(image, hidden, taps, stride) };
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::Bf16] {
        let mut case = |size, activation| cases.push(Kernel::MbConv(mbconv(dtype, true, size, activation)));
        case(size([1, 24, 28, 28], 144, 3, 1), CLIP);
        case(size([1, 16, 40, 44], 96, 3, 2), CLIP);
        case(size([1, 160, 7, 7], 96, 3, 1), RELU);
        case(size([2, 12, 11, 9], 20, 5, 2), SILU);
        case(Size { taps: [3, 5], bias: false, ..size([1, 40, 10, 13], 56, 3, 1) }, SILU);
        case(Size { dilation: 2, ..size([1, 64, 17, 15], 48, 5, 1) }, RELU);
        case(size([1, 32, 33, 29], 0, 3, 1), CLIP);
        case(size([1, 24, 15, 14], 0, 7, 1), &[]);
        // Filters that registers do not hold, columns of three parts, a single column.
        case(size([1, 16, 19, 18], 0, 9, 2), RELU);
        case(size([1, 16, 20, 23], 0, 5, 3), &[]);
        case(Size { taps: [5, 1], ..size([1, 16, 12, 18], 24, 5, 1) }, RELU);
        case(gated([1, 80, 14, 14], 480, 3, 1, 20), SILU);
        case(gated([1, 40, 28, 28], 120, 5, 2, 32), RELU);
        case(gated([1, 32, 30, 34], 0, 3, 1, 8), SILU);
        case(Size { bias: false, ..gated([3, 20, 6, 7], 42, 5, 1, 11) }, RELU);
    }
    // The host runs these in row-major order.
    cases.push(Kernel::MbConv(mbconv(DType::F32, false, gated([2, 6, 8, 9], 10, 3, 2, 4), SILU)));
    cases
}
