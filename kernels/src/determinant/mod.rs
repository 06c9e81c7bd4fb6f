//! Determinants of square matrices.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// The determinant of every matrix (ONNX `Det`): the product of the pivots of Gaussian elimination with partial pivoting
/// (Golub and Van Loan, "Matrix Computations", 3.4), in f64 whatever the type.
///
/// Operands: input; one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Determinant {
    /// `[b, n, n]`, any float type.
    pub input: View,
    /// `[b]`, of the same type.
    pub output: View,
}
