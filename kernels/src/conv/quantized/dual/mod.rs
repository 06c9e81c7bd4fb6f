//! Convolution of integers whose result is stored twice: as it is, and in 8 bits at another scale, as a concatenation needs it whose
//! parts have scales of their own.

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

/// `y = conv(x)`, and what a program makes of some or all channels of `y`.
///
/// Operands: those of the convolution. Outputs: its own, and the second one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DualQuantizedConv {
    /// Of results of 8 bits, or of floats.
    pub conv: QuantizedConv,
    /// From results as they are stored to 8 bits. Its one input is a view over the convolution's output.
    pub second: Pointwise,
}
