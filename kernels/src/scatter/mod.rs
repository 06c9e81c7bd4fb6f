//! Writing slices into a copy of a matrix at rows that an index vector names.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// What an update does to the element that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ScatterReduction {
    Replace,
    Add,
    Multiply,
    /// NaN wins.
    Max,
    /// NaN wins.
    Min,
}

/// A copy of `data` in which row `indices[i]` has taken update i, in the order of i, rounded to the element type after
/// each. Negative indices count from the end; updates whose index is outside are left out, on the host and on a GPU.
///
/// Operands: data, indices, updates; one output. All element types for `Replace`, numbers for the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scatter {
    /// `[rows, width]`.
    pub data: View,
    /// `[count]`, i64.
    pub indices: View,
    /// `[count, width]`.
    pub updates: View,
    /// `[rows, width]`.
    pub output: View,
    /// What an update does.
    pub reduction: ScatterReduction,
}
