//! Products of a few rows with weights of 4 or 8 bits, as language models have them: the weights are read packed and become
//! floats in registers.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Most rows; with more of them each weight is used so often that it pays to have it as a float.
pub const MOST_ROWS: u32 = 8;
/// Consecutive weights of a column of which one thread takes all, so that blocks are multiples of it.
pub const RUN: u32 = 16;

/// `y[i, j] = Σₖ x[i, k] · (w[j, k] − zero[j, k / block]) · scale[j, k / block]`, in f32 (ONNX Runtime's `MatMulNBits`).
///
/// Operands: input, weights, scales, zeros if there are any; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackedMatMul {
    /// x, `[m, k]` of f32, f16 or bf16; at most [`MOST_ROWS`] rows.
    pub input: View,
    /// w, u8 `[n, blocks, bytes of a block]`, contiguous: unsigned integers, the first in the lowest bits.
    pub weights: View,
    /// `[n, blocks]` of f32 or f16, contiguous.
    pub scales: View,
    /// As the scales, or packed as the weights: u8 `[n, bytes of a row]`, each row from a new byte on. Without them half
    /// the integers' range.
    pub zeros: Option<View>,
    /// y, `[m, n]` of f32, f16 or bf16.
    pub output: View,
    /// Bits of a weight: 4 or 8.
    pub bits: u32,
}
