//! Convolution of integers with exact sums.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Cross-correlation as ONNX `ConvInteger` with zero points already taken off, spatial dimensions always three (unused
/// leading ones have extent 1). Products are summed in i32 and wrap.
///
/// Operands: input, weights (i8, u8 or i16 each); one output (i32).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IntegerConv {
    /// `[n, c, spatial…]`, rank 3 to 5.
    pub input: View,
    /// `[m, c / groups, kernel…]`.
    pub weights: View,
    /// `[n, m, spatial…]`.
    pub output: View,
    /// As in [`crate::conv::Conv`].
    pub strides: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub dilations: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub pads: [u32; 3],
    /// Number of groups.
    pub groups: u32,
}
