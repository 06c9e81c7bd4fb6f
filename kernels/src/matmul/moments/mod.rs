//! Matrix product with moments of rows: it leaves those of its own to a normalisation that is part of the kernels behind it, or normalises a
//! residual by those that another product left.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

pub(super) use host::joined;

use super::MatMul;
use crate::View;
use serde::{Deserialize, Serialize};

/// Columns whose moments are one part.
pub const PART: u32 = 32;

/// `c = a·b`, then the epilogue; and of each row of `c` the sum of its elements and that of their squares, for each [`PART`] columns. They
/// are summed as f32, before they are rounded to the type that they are stored as.
///
/// Operands: those of the product, then of a normalised residual the scale if any, the shift if any, its rows' moments. Outputs: the
/// product's own, and the moments if any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MomentsMatMul {
    /// Of results of floats of up to 32 bits; their columns are a multiple of [`PART`].
    pub product: MatMul,
    /// `[parts, rows, 2]` of f32, contiguous; the rows are those of all batches. `None` where nobody takes them; then there is a residual.
    pub moments: Option<View>,
    /// The residual that is normalised.
    pub residual: Option<NormalizedResidual>,
}

/// An operand of the epilogue whose rows are normalised before the epilogue sees them: `(x − mean) / √(variance + ε) · scale + shift`.
///
/// Mean and variance are those of given moments `[parts, rows, 2]`, as [`MomentsMatMul::moments`]; a negative variance is 0. Scale and shift
/// are f32, one value for each column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalizedResidual {
    /// Its number among the epilogue's extras.
    pub extra: u8,
    /// Whether there is a scale.
    pub scale: bool,
    /// Whether there is a shift.
    pub shift: bool,
    /// Whether the mean is subtracted (false: division by the root of the mean square).
    pub center: bool,
    /// Added to the variance.
    pub epsilon: f32,
}
