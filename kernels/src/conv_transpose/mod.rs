//! Transposed convolution (ONNX `ConvTranspose`) with a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{View, pointwise::Epilogue};
use serde::{Deserialize, Serialize};

/// Transposed convolution. Output position `o` gathers input `i` where `o + pad = i·stride + tap·dilation`.
///
/// Element types as in [`crate::conv::Conv`]. Operands: input, weights, bias if `epilogue.bias`, extras; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvTranspose {
    /// `[n, c, spatial…]`, rank 3 to 5.
    pub input: View,
    /// `[c, m / groups, kernel…]`.
    pub weights: View,
    /// `[n, m, spatial…]`.
    pub output: View,
    /// As in [`crate::conv::Conv`].
    pub strides: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub dilations: [u32; 3],
    /// Elements cut from the start of the full output; the end is cut by the output's extents.
    pub pads: [u32; 3],
    /// Number of groups.
    pub groups: u32,
    /// What happens before the store.
    pub epilogue: Epilogue,
}
