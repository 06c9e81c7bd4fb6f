//! The largest or smallest elements along one dimension, in order.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// The k largest (smallest) elements of every row along `axis` with their indices, the best first (ONNX `TopK`). Of
/// equal elements the one with the smallest index comes first; NaN counts as larger than any number.
///
/// Operands: input; two outputs, values and indices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopK {
    /// Input.
    pub input: View,
    /// The input's extents but k along `axis`, which is at most the input's.
    pub values: View,
    /// As `values`, i64.
    pub indices: View,
    /// Dimension.
    pub axis: u8,
    /// Largest; false is smallest.
    pub largest: bool,
}
