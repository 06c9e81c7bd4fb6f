//! Views `[n, c, spatial…]` and the checks that convolutions and poolings share.

use super::axis::Axis;
use crate::{KernelError, View};

/// A window that slides over the spatial dimensions of `[n, c, spatial…]`: three of each number, as in
/// [`crate::conv::Conv`].
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) taps: [u32; 3],
    pub(crate) strides: [u32; 3],
    pub(crate) dilations: [u32; 3],
    pub(crate) pads: [u32; 3],
}

impl Window {
    /// Checks that no position that the window reaches overflows, and that positions and taps can be counted.
    ///
    /// # Errors
    /// `Parameter` or `Shape` naming what is wrong.
    pub(crate) fn check(&self, input: &View, output: &View) -> Result<(), KernelError> {
        let (input, output) = (spatial(input)?, spatial(output)?);
        for d in 0..3 {
            check_axis(input[d], output[d], self.taps[d], self.strides[d], self.dilations[d], self.pads[d])?;
        }
        check_product(&output)?;
        check_product(&self.taps)?;
        Ok(())
    }

    /// The spatial dimensions of a cross-correlation or a pooling.
    ///
    /// # Errors
    /// Those of [`spatial`].
    pub(crate) fn axes(&self, input: &View, output: &View) -> Result<[Axis; 3], KernelError> {
        let (input, output) = (spatial(input)?, spatial(output)?);
        Ok(core::array::from_fn(|d| Axis {
            input: input[d].into(),
            output: output[d].into(),
            taps: self.taps[d].into(),
            step: self.strides[d].into(),
            tap_step: self.dilations[d].into(),
            shift: -i64::from(self.pads[d]),
            weight: (0, 1),
            place: (0, 1),
        }))
    }
}

/// Spatial extents of a view `[n, c, spatial…]`, padded with leading 1s to three.
///
/// # Errors
/// `Shape` where the rank is not 3 to 5.
pub(crate) fn spatial(view: &View) -> Result<[u32; 3], KernelError> {
    let extents = view.shape.get(2..).unwrap_or(&[]);
    if extents.is_empty() || extents.len() > 3 {
        return Err(KernelError::Shape("rank"));
    }
    let mut padded = [1; 3];
    padded[3 - extents.len()..].copy_from_slice(extents);
    Ok(padded)
}

/// Number of spatial positions of a view `[n, c, spatial…]`; the largest number where their product overflows.
pub(crate) fn positions(view: &View) -> u64 {
    view.shape.iter().skip(2).fold(1, |product: u64, &extent| product.saturating_mul(extent.into()))
}

/// Strides of a view's spatial dimensions, with leading 0s to three.
pub(crate) fn spatial_strides(view: &View) -> [i64; 3] {
    let mut strides = [0; 3];
    for (to, &from) in strides.iter_mut().rev().zip(view.strides.iter().skip(2).rev()) {
        *to = i64::from(from);
    }
    strides
}

/// Element at the first position of a channel of an image (or of rows and columns of weights).
pub(crate) fn start(view: &View, image: usize, channel: usize) -> i64 {
    let stride = |d: usize| i64::from(view.strides.get(d).copied().unwrap_or(0));
    i64::from(view.offset) + image as i64 * stride(0) + channel as i64 * stride(1)
}

/// Checks that no position that a window of `taps` taps reaches overflows.
///
/// # Errors
/// `Parameter` or `Shape` naming what is wrong.
pub(crate) fn check_axis(
    input: u32,
    output: u32,
    taps: u32,
    stride: u32,
    dilation: u32,
    pad: u32,
) -> Result<(), KernelError> {
    if taps == 0 {
        return Err(KernelError::Shape("window"));
    }
    if stride == 0 {
        return Err(KernelError::Parameter("strides"));
    }
    if dilation == 0 {
        return Err(KernelError::Parameter("dilations"));
    }
    let product = |a: u32, b: u32| i64::from(a).checked_mul(i64::from(b)).filter(|&p| p < 1 << 40);
    let reach = [product(output.max(input), stride), product(taps, dilation), Some(i64::from(pad))];
    if reach.contains(&None) { Err(KernelError::Shape("size")) } else { Ok(()) }
}

/// Checks a product of extents against what offsets can count (2⁴⁰ is more than any operand has).
///
/// # Errors
/// `Shape`.
pub(crate) fn check_product(extents: &[u32]) -> Result<u64, KernelError> {
    let product = extents.iter().try_fold(1_u64, |p, &e| p.checked_mul(u64::from(e)).filter(|&p| p < 1 << 40));
    product.ok_or(KernelError::Shape("size"))
}
