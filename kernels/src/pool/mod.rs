//! Windowed pooling.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
pub(crate) mod cuda;
mod host;
mod lines;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// How a window becomes one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pooling {
    /// Largest element; padding never wins.
    Max,
    /// Mean over the elements inside the input.
    AverageExcludingPads,
    /// Mean over the window clipped to input plus padding (`count_include_pad`): with `ceil_mode`, taps beyond the
    /// end padding do not count.
    AverageIncludingPads,
}

/// Max or average pooling in one to three spatial dimensions.
///
/// Input and output have the same element type: any for `Max` (NaN wins), a float for averages (f16 and bf16 are summed
/// in f32). A window with nothing in it gives the type's lowest value for `Max` (−∞ for floats) and 0 for averages.
/// Operands: input; one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool {
    /// `[n, c, spatial…]`.
    pub input: View,
    /// `[n, c, spatial…]`.
    pub output: View,
    /// What is computed.
    pub kind: Pooling,
    /// Window extents, padded with leading 1s to three.
    pub window: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub strides: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub dilations: [u32; 3],
    /// Padding before, leading 0s.
    pub pads: [u32; 3],
    /// Padding after; only counts for `AverageIncludingPads`.
    pub pads_end: [u32; 3],
}
