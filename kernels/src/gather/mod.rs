//! Gather along one axis by an index tensor.

#[cfg(feature = "codegen")]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;

use crate::View;
use serde::{Deserialize, Serialize};

/// `output[a…, i…, b…] = data[a…, indices[i…], b…]` (ONNX `Gather`). Negative indices count from the end; an index
/// outside the axis is clamped to it, on the host and on a GPU alike, so no memory outside the operand is read.
///
/// Operands: data, indices (i32 or i64); one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Gather {
    /// The gathered tensor.
    pub data: View,
    /// Index tensor.
    pub indices: View,
    /// `data` with dimension `axis` replaced by the dimensions of `indices`.
    pub output: View,
    /// Dimension of `data` that is indexed.
    pub axis: u8,
}
