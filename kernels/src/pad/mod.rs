//! Padding by reflection, by the edge, by wrapping or by a constant; negative pads crop.

#[cfg(feature = "codegen")]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;

use crate::View;
use serde::{Deserialize, Serialize};

/// What stands outside the source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum PadMode {
    /// A constant, converted to the element type.
    Constant(f64),
    /// Mirrored without repeating the edge.
    Reflect,
    /// The nearest element.
    Edge,
    /// The other end (period = extent).
    Wrap,
}

/// `output[i] = input[i − before]`, outside of it by `mode`. Same rank and element type.
///
/// Operands: input; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pad {
    /// Input.
    pub input: View,
    /// Output.
    pub output: View,
    /// Elements added before index 0 along each dimension; negative crops.
    pub before: heapless::Vec<i32, { crate::MAX_RANK }>,
    /// Mode.
    pub mode: PadMode,
}
