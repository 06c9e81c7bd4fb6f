//! Batched matrix product with a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub mod moments;
pub mod normalized;
#[cfg(test)]
mod tests;
mod widened;

use crate::quantized_conv::is_float_factor;
use crate::view::Strides;
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

    /// `b` packed so that each column's elements lie side by side along K and begin at a multiple of eight, a broadcast batch once.
    /// `None` where it is no matrix, where strides of 0 repeat a batch, and where the result would have 2³¹ elements or more.
    pub fn packed_b(&self) -> Option<View> {
        let b = &self.b;
        let k = b.rank().checked_sub(2).filter(|_| b.strides.len() == b.rank())?;
        let depth = i64::from(b.shape[k].checked_next_multiple_of(8)?);
        let mut strides = Strides::from_slice(&b.strides).ok()?;
        (strides[k], strides[k + 1]) = (1, i32::try_from(depth).ok()?);
        let mut step = depth.checked_mul(b.shape[k + 1].into())?;
        for d in (0..k).rev() {
            let broadcast = b.shape[d] == 1;
            if b.strides[d] == 0 && !broadcast {
                return None;
            }
            strides[d] = if broadcast { 0 } else { i32::try_from(step).ok()? };
            step = step.checked_mul(b.shape[d].into())?;
        }
        i32::try_from(step).ok()?;
        Some(View { offset: 0, padded_channels: 0, strides, ..b.clone() })
    }
}
