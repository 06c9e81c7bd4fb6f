//! Matrix product that stores the moments of its rows as well, for a normalisation of these rows that is part of the product behind it.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use super::MatMul;
use crate::View;
use serde::{Deserialize, Serialize};

/// Columns whose moments are one part.
pub const PART: u32 = 32;

/// `c = a·b`, then the epilogue; and of each row of `c` the sum of its elements and that of their squares, for each [`PART`] columns. They
/// are summed as f32, before they are rounded to the type that they are stored as.
///
/// Operands: those of the product. Outputs: its own, and the moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MomentsMatMul {
    /// Of results of floats of up to 32 bits; their columns are a multiple of [`PART`].
    pub product: MatMul,
    /// `[parts, rows, 2]` of f32, contiguous; the rows are those of all batches.
    pub moments: View,
}
