//! Layer or RMS normalisation of the rows that a matrix product reads.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{matmul::MatMul, normalize::Normalize};
use serde::{Deserialize, Serialize};

/// A normalisation whose result is the left factor of a product.
///
/// Both read and write the same dense rows: the normalisation's output and the product's `a` are contiguous views of one
/// type and of as many elements, rows of which are the sets. Operands: x, scale and shift as the normalisation has them,
/// b, then the product's bias and extras. Outputs: the product, then the normalised rows where `keep` is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalizedMatMul {
    /// The normalisation, a row of `k` elements a set.
    pub normalize: Normalize,
    /// The product.
    pub product: MatMul,
    /// Whether something else reads the normalised rows.
    pub keep: bool,
}
