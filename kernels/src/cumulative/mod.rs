//! Running sums and products along one dimension.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// `output[…, i, …] = Σ input[…, j, …]` over j ≤ i (ONNX `CumSum`), or the product. Numbers of any type; f16 and bf16
/// are summed in f32, integers wrap.
///
/// Operands: input; one output of the same extents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cumulative {
    /// Input.
    pub input: View,
    /// Output.
    pub output: View,
    /// Dimension.
    pub axis: u8,
    /// Products instead of sums.
    pub product: bool,
    /// Over j < i.
    pub exclusive: bool,
    /// Over j ≥ i.
    pub reverse: bool,
}
