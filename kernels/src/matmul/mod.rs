//! Batched matrix product with a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub mod normalized;
#[cfg(test)]
mod tests;

use crate::quantized_conv::is_float_factor;
use crate::{View, pointwise::Epilogue};
use serde::{Deserialize, Serialize};

/// `c[b…, i, j] = Σₖ a[b…, i, k]·b[b…, k, j]`, accumulated in f32 (f64 for f64 operands).
///
/// Element types are any mixture of f32, f16 and bf16, or one of f64 and the integers for all three (then without a
/// program; integers wrap and take no bias). Factors of E4M3 and E5M2 have each other; their products are exact, their sums
/// f32, and a program may store such a float too.
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

impl MatMul {
    /// Whether it multiplies floats of 8 bits.
    pub fn is_float8(&self) -> bool {
        is_float_factor(self.a.dtype)
    }
}
