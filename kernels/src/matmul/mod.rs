//! Batched matrix product with a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{View, pointwise::Epilogue};
use serde::{Deserialize, Serialize};

/// `c[b…, i, j] = Σₖ a[b…, i, k]·b[b…, k, j]`, accumulated in f32 (f64 for f64 operands).
///
/// Element types are any mixture of f32, f16 and bf16, or one of f64 and the integers for all three (then without a
/// program; integers wrap and take no bias).
/// All views have the same rank ≥ 2; batch dimensions broadcast by stride 0, transposition is in the strides.
/// Operands: a, b, bias if `epilogue.bias` (f32, one value for each column), extras; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatMul {
    /// `[batch…, m, k]`.
    pub a: View,
    /// `[batch…, k, n]`.
    pub b: View,
    /// `[batch…, m, n]`.
    pub output: View,
    /// What happens before the store.
    pub epilogue: Epilogue,
}
