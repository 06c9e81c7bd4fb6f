//! Poolings that exercise the family, for the tests of reference kernels and candidates.

use super::{Pool, Pooling};
use crate::conv::cases::{slice, three, view};
use crate::{DType, Kernel};

/// Windows along the dimensions of a case.
struct Size<'a> {
    input: &'a [u32],
    window: &'a [u32],
    stride: u32,
    dilation: u32,
    pads: (u32, u32),
    /// Whether a last window that sticks out counts.
    ceil: bool,
}

fn size<'a>(input: &'a [u32], window: &'a [u32], stride: u32) -> Size<'a> {
    Size { input, window, stride, dilation: 1, pads: (0, 0), ceil: false }
}

fn pool(dtype: DType, channels_last: bool, kind: Pooling, size: &Size<'_>) -> Pool {
    let spatial = &size.input[2..];
    let mut output = size.input[..2].to_vec();
    for (&extent, &taps) in spatial.iter().zip(size.window) {
        let room = extent + size.pads.0 + size.pads.1 - ((taps - 1) * size.dilation + 1);
        output.push(if size.ceil { room.div_ceil(size.stride) } else { room / size.stride } + 1);
    }
    let every = |value: u32, fill: u32| three(&vec![value; spatial.len()], fill);
    Pool {
        input: view(dtype, channels_last, size.input),
        output: view(dtype, channels_last, &output),
        kind,
        window: three(size.window, 1),
        strides: every(size.stride, 1),
        dilations: every(size.dilation, 1),
        pads: every(size.pads.0, 0),
        pads_end: every(size.pads.1, 0),
    }
}

/// The cases: every kind in both layouts and both float types, then integers.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for (dtype, last) in [(DType::F16, true), (DType::F32, true), (DType::F32, false), (DType::F16, false)] {
        let mut add = |kind, size: &Size<'_>| cases.push(pool(dtype, last, kind, size));
        for kind in [Pooling::Max, Pooling::AverageExcludingPads, Pooling::AverageIncludingPads] {
            add(kind, &Size { pads: (1, 1), ..size(&[1, 64, 30, 30], &[3, 3], 2) });
            add(kind, &size(&[2, 21, 13, 11], &[2, 2], 2));
            add(kind, &Size { pads: (1, 2), ceil: true, ..size(&[1, 12, 14, 9], &[3, 4], 3) });
            add(kind, &Size { dilation: 2, pads: (2, 2), ..size(&[1, 10, 12, 12], &[3, 3], 1) });
        }
        add(Pooling::Max, &Size { pads: (2, 2), ..size(&[1, 40, 13, 13], &[5, 5], 1) });
        add(Pooling::Max, &Size { ceil: true, ..size(&[1, 24, 17, 17], &[3, 3], 2) });
        // Global, square and large, one row, one spatial dimension and three.
        add(Pooling::AverageExcludingPads, &size(&[2, 100, 7, 7], &[7, 7], 1));
        add(Pooling::AverageExcludingPads, &size(&[1, 24, 56, 40], &[56, 40], 1));
        add(Pooling::Max, &size(&[1, 300, 9, 5], &[9, 5], 1));
        add(Pooling::AverageIncludingPads, &Size { pads: (1, 1), ..size(&[1, 16, 50], &[3], 2) });
        add(Pooling::Max, &Size { pads: (1, 1), ..size(&[1, 9, 5, 6, 7], &[3, 3, 3], 2) });
        add(Pooling::Max, &Size { pads: (1, 1), ..size(&[1, 4, 5, 600], &[3, 3], 2) });
        let mut sliced = pool(dtype, last, Pooling::Max, &Size { pads: (1, 1), ..size(&[1, 16, 10, 10], &[3, 3], 1) });
        sliced.input = slice(&view(dtype, last, &[1, 48, 10, 10]), 24, 16);
        sliced.output = slice(&view(dtype, last, &[1, 40, 10, 10]), 8, 16);
        cases.push(sliced);
    }
    // Two floats of 16 bits at once: windows that reach past the image on both sides, and taps apart.
    for dtype in [DType::Bf16, DType::F16] {
        cases.push(pool(dtype, true, Pooling::Max, &Size { pads: (2, 2), ..size(&[2, 19, 2, 3], &[5, 3], 2) }));
        cases.push(pool(
            dtype,
            true,
            Pooling::Max,
            &Size { dilation: 3, pads: (1, 1), ..size(&[1, 44, 9, 11], &[2, 3], 1) },
        ));
    }
    cases.push(pool(DType::U8, false, Pooling::Max, &Size { pads: (1, 1), ..size(&[1, 5, 9, 9], &[3, 3], 2) }));
    cases.push(pool(DType::I8, false, Pooling::Max, &size(&[1, 3, 8, 8], &[2, 2], 2)));
    // Bytes side by side; windows that reach past the image on both sides, and one that lies outside.
    for dtype in [DType::U8, DType::I8] {
        cases.push(pool(dtype, true, Pooling::Max, &Size { pads: (2, 2), ..size(&[1, 40, 9, 7], &[5, 5], 1) }));
        cases.push(pool(dtype, true, Pooling::Max, &Size { pads: (2, 2), ..size(&[2, 19, 2, 3], &[5, 3], 2) }));
    }
    cases.push(pool(DType::F16, true, Pooling::Max, &Size { pads: (0, 3), ..size(&[1, 16, 4, 4], &[2, 2], 2) }));
    // From channels side by side to rows: flattened behind the pooling.
    for dtype in [DType::F16, DType::I8] {
        let mut rows = pool(dtype, true, Pooling::Max, &Size { pads: (1, 0), ..size(&[2, 21, 9, 8], &[3, 2], 2) });
        rows.output = view(dtype, false, &rows.output.shape);
        cases.push(rows);
    }
    cases.into_iter().map(Kernel::Pool).collect()
}
