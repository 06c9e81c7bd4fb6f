//! Rows of a matrix without repetition.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// What stands in the first rows and the counts past the last different row.
pub const UNUSED: i64 = -1;

/// The different rows of a matrix (ONNX `Unique` without its values, which gathering `first` gives), in the order of their
/// elements or of their first places. NaN differs from everything and comes last, in the order of its places.
///
/// Operands: input; four outputs, first, inverse, counts and count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unique {
    /// `[n, width]`, any type.
    pub input: View,
    /// `[n]`, i64: number of the first row that is equal to different row i; [`UNUSED`] past the last.
    pub first: View,
    /// `[n]`, i64: which different row each row is.
    pub inverse: View,
    /// `[n]`, i64: how often different row i occurs; [`UNUSED`] past the last.
    pub counts: View,
    /// One element, i64: number of different rows.
    pub count: View,
    /// Whether different rows are in the order of their elements, the first elements first; otherwise in that of their
    /// first places.
    pub sorted: bool,
}
