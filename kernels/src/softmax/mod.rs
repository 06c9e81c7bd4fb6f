//! Softmax and LogSoftmax along one dimension.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// `eˣ⁻ᵐ / Σ eˣ⁻ᵐ` along `axis`, or its logarithm. Operands: input; one output of the same extents, both f64 or each f32,
/// f16 or bf16.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Softmax {
    /// Input.
    pub input: View,
    /// Output.
    pub output: View,
    /// Dimension.
    pub axis: u8,
    /// Whether the logarithm is returned.
    pub log: bool,
}
