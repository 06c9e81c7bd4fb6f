//! Places of the elements that are not zero.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// What stands in the columns of the indices past the last element that is not zero.
pub const UNUSED: i64 = -1;

/// Indices of the elements that are not zero, in row-major order (ONNX `NonZero`). NaN is not zero.
///
/// Operands: input; two outputs, indices and count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NonZero {
    /// Any type, at least one dimension.
    pub input: View,
    /// `[rank, elements]`, i64: index d of element i that is not zero in `[d, i]`; [`UNUSED`] in the columns after them.
    pub indices: View,
    /// One element, i64: how many are not zero.
    pub count: View,
}
