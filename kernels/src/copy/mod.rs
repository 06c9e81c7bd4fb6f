//! Strided copy with conversion: transpose, slice, concat, expand, layout change, constant pad, cast.

#[cfg(feature = "codegen")]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;

use crate::View;
use serde::{Deserialize, Serialize};

/// `destination[i] = source[i]` for every index inside the source's extents, 0 elsewhere, lanes included.
///
/// Views have the same rank; every destination extent is ≥ the source's. Element types may differ: floats to integers
/// truncate towards zero and saturate (ONNX Cast leaves out-of-range open), anything to bool is `≠ 0`,
/// integers wrap. Operands: source; one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Copy {
    /// Where elements come from.
    pub source: View,
    /// Where they go.
    pub destination: View,
}
