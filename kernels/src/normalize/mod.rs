//! Normalisation by statistics of the data: layer, instance and group normalisation, and RMS.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Normalises each *set* of elements to zero mean and unit variance (or unit RMS), then scales and shifts.
///
/// Seen in row-major logical order, the tensor is `[sets, channels, inner]`: one set of statistics for each `sets` index,
/// over `channels · inner` elements. Scale and shift (f32, contiguous) have `parameters` elements; element
/// `(s, c, i)` uses parameter `((s · channels + c) · inner + i) / per_parameter % parameters`.
/// Layer norm: inner 1, channels = row length, parameters = channels, per_parameter 1. Instance norm over `[n, c, h, w]`: sets n·c,
/// channels 1, inner h·w, parameters c, per_parameter h·w. Variance is the biased one, computed in two passes in f32.
///
/// Operands: input, scale if any, shift if any; one output. The views may be strided (channels-last).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Normalize {
    /// Input.
    pub input: View,
    /// Output, same extents; a float of another type where neither is f64.
    pub output: View,
    /// Number of independent sets.
    pub sets: u32,
    /// Number of scale and shift values.
    pub parameters: u32,
    /// Consecutive logical elements that share a parameter.
    pub per_parameter: u32,
    /// Whether a scale operand is given.
    pub scale: bool,
    /// Whether a shift operand is given.
    pub shift: bool,
    /// Whether the mean is subtracted (false for RMS normalisation).
    pub center: bool,
    /// Added to the variance.
    pub epsilon: f32,
}
