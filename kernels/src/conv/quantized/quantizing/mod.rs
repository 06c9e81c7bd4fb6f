//! Convolution of integers that quantises its input while it reads: the first layer of a quantised network.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use super::QuantizedConv;
use crate::pointwise::Pointwise;
use serde::{Deserialize, Serialize};

/// `y = conv(quantize(x))`.
///
/// Operands: x, then those of the convolution behind its input; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizingConv {
    /// From x, its one input, to 8 bits.
    pub quantize: Pointwise,
    /// Of integers of 8 bits. Its input is the result of `quantize`, as it would lie in memory.
    pub conv: QuantizedConv,
}
