//! Reductions over any set of dimensions.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// What is computed over the reduced elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Reduction {
    Sum,
    Mean,
    Max,
    Min,
    Product,
    /// Σ|x|
    L1,
    /// √Σx²
    L2,
    /// Σx²
    SumSquare,
    /// ln Σx
    LogSum,
    /// ln Σeˣ, shifted by the maximum.
    LogSumExp,
    /// Index of the largest element along the one reduced dimension, the first of equals; output i64.
    ArgMax,
    /// Index of the last of the largest.
    ArgMaxLast,
    /// Index of the smallest, the first of equals.
    ArgMin,
    /// Index of the last of the smallest.
    ArgMinLast,
}

/// Reduction. `output` has the input's rank with extent 1 along reduced dimensions (the compiler reshapes afterwards).
///
/// f16 and bf16 accumulate in f32; integers in i64. An empty reduction gives the neutral element.
/// Operands: input; one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reduce {
    /// Input.
    pub input: View,
    /// Output.
    pub output: View,
    /// What is computed.
    pub kind: Reduction,
}
