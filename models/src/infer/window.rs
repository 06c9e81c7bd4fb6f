//! Extents and padding of windows: convolution, transposed convolution, pooling.

use super::shape::{MAX_EXTENT, Result, ShapeError, ensure};
use crate::op::Window;

/// What happens with a last window that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Left out.
    Floor,
    /// Kept where it starts inside the input or its leading padding (`ceil_mode`).
    Ceil,
}

/// Where `auto_pad` puts the odd element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamePadding {
    /// `SAME_UPPER`: at the end.
    Upper,
    /// `SAME_LOWER`: at the beginning.
    Lower,
}

/// Extent of a kernel with its gaps.
fn effective(kernel: usize, dilation: usize) -> Result<i128> {
    ensure!((1..=MAX_EXTENT).contains(&kernel), "a kernel extent of {kernel}");
    Ok((kernel as i128 - 1) * dilation as i128 + 1)
}

/// Number of windows along spatial dimension `d` over `input` elements:
/// ⌊(input + pads − effective kernel) / stride⌋ + 1, or with ⌈⌉.
///
/// # Errors
/// Where no window fits.
pub fn pooled_extent(window: &Window, d: usize, input: usize, kernel: usize, rounding: Rounding) -> Result<usize> {
    let (stride, begin) = (window.strides[d] as i128, window.pads_begin[d] as i128);
    let effective = effective(kernel, window.dilations[d])?;
    let room = input as i128 + begin + window.pads_end[d] as i128 - effective;
    ensure!(room >= 0, "a window of {effective} does not fit an extent of {input} with its padding");
    let count = match rounding {
        Rounding::Floor => room / stride + 1,
        Rounding::Ceil => {
            let count = (room + stride - 1) / stride + 1;
            // A window that starts in the trailing padding would see nothing.
            if (count - 1) * stride >= input as i128 + begin { count - 1 } else { count }
        }
    };
    usize::try_from(count).map_err(|_| ShapeError(format!("{count} windows")))
}

/// Padding of `auto_pad` = `SAME_*` before and after: as much as makes ⌈input / stride⌉ windows.
///
/// # Errors
/// Where the kernel has no extent.
pub fn same_pads(
    side: SamePadding,
    input: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
) -> Result<(usize, usize)> {
    let count = (input as i128 + stride as i128 - 1) / stride as i128;
    let total = ((count - 1) * stride as i128 + effective(kernel, dilation)? - input as i128).max(0) as usize;
    let small = total / 2;
    Ok(match side {
        SamePadding::Upper => (small, total - small),
        SamePadding::Lower => (total - small, small),
    })
}

/// Extent of a transposed convolution before padding is cut off: stride·(input − 1) + effective kernel + output padding.
///
/// # Errors
/// Where the input or kernel has no extent.
pub fn transposed_extent(input: usize, kernel: usize, stride: usize, dilation: usize, extra: usize) -> Result<i128> {
    ensure!(input >= 1, "an extent of 0");
    Ok((input as i128 - 1) * stride as i128 + effective(kernel, dilation)? + extra as i128)
}
