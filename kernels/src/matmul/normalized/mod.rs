//! Matrix product of normalised rows: a layer normalisation whose scale and shift are in the factors of the product behind it.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use super::MatMul;
use serde::{Deserialize, Serialize};

/// `c[i, j] = (Σₖ a[i, k]·b[k, j] − mean(a[i])·sums[j]) / √(variance(a[i]) + ε)`, then the epilogue.
///
/// Where `sums[j]` is `Σₖ b[k, j]`, this is the product of normalised rows of a. The mean leaves the sum over k, so that the rows'
/// moments can be added up beside their products, each element read once. Without a centre the mean is 0, and the variance the mean
/// square. A variance of given moments that is negative is 0.
///
/// Operands: those of the product, then the sums (f32, one for each column) where there is a centre, then given moments; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalizedMatMul {
    /// Of floats of up to 32 bits; all batches have one matrix b.
    pub product: MatMul,
    /// Whether the mean is subtracted (false: division by the root of the mean square).
    pub center: bool,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether moments of a's rows are an operand, as [`MomentsMatMul`](super::moments::MomentsMatMul) stores them; else they are those of a.
    pub given: bool,
}
