//! Local response normalisation across channels (ONNX `LRN`).

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// `y = x / (bias + alpha/size · Σ x²)^beta`, the sum over the channels `c − ⌊(size−1)/2⌋ ..= c + ⌈(size−1)/2⌉`.
///
/// Operands: input; one output. Both views `[n, c, spatial…]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lrn {
    /// Input.
    pub input: View,
    /// Output.
    pub output: View,
    /// Channels in the window.
    pub size: u32,
    /// Scale.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Offset.
    pub bias: f32,
}
