//! A transposed convolution as one dense correlation for each residue of the output position modulo the strides.
//!
//! Output positions `o = φ + s·j` of one residue `φ` meet only the taps `t` with `φ + pad − t·dilation` divisible by
//! the stride `s`, which are every `s / gcd(s, dilation)`-th one, and meet them at input `j + (φ + pad − t·dilation)/s`.
//! No product with an inserted zero is computed.

use crate::KernelError;
use crate::conv::Geometry;
use crate::host::axis::Axis;
use crate::host::window;

/// Most taps that one output position meets.
pub(in crate::conv) fn most_taps(geometry: &Geometry) -> u64 {
    let taps = geometry.taps();
    let most = |d: usize| u64::from(taps[d].div_ceil(tap_distance(geometry.strides[d], geometry.dilations[d])));
    (0..3).fold(1, |product: u64, d| product.saturating_mul(most(d)))
}

/// Spatial dimension `d` for the output positions with residue `phase`.
pub(in crate::conv) fn axis(geometry: &Geometry, d: usize, phase: u32) -> Result<Axis, KernelError> {
    let (input, output) = (window::spatial(&geometry.input)?[d], window::spatial(&geometry.output)?[d]);
    let (stride, dilation) = (i64::from(geometry.strides[d]), i64::from(geometry.dilations[d]));
    let distance = i64::from(tap_distance(geometry.strides[d], geometry.dilations[d]));
    let from = i64::from(phase) + i64::from(geometry.pads[d]);
    let taps = i64::from(geometry.taps()[d]);
    // The bound of `window::check_axis`, for operands of an unchecked kernel.
    if taps.checked_mul(dilation).is_none_or(|reach| reach >= 1 << 40) {
        return Err(KernelError::Parameter("dilations"));
    }
    let first = (0..distance.min(taps)).find(|tap| (from - tap * dilation) % stride == 0);
    Ok(Axis {
        input: i64::from(input),
        output: (i64::from(output) - i64::from(phase) + stride - 1) / stride,
        taps: first.map_or(0, |first| (taps - first + distance - 1) / distance),
        step: 1,
        tap_step: -(dilation / (stride / distance)),
        shift: first.map_or(0, |first| (from - first * dilation) / stride),
        weight: (first.unwrap_or(0), distance),
        place: (i64::from(phase), stride),
    })
}

/// Distance between the taps that one output position meets.
fn tap_distance(stride: u32, dilation: u32) -> u32 {
    let (mut a, mut b) = (stride, dilation);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    stride.checked_div(a).unwrap_or(1).max(1)
}
