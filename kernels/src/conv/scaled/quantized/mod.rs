//! The same of 8-bit integers: dequantised, multiplied and requantised on the way to the product.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
#[cfg(test)]
mod tests;

use super::Scaled;
use crate::{pointwise::Program, quantized_conv::QuantizedConv};

/// A convolution of integers of 8 bits; the program's inputs are x and the scale, and it rounds.
pub type ScaledQuantizedConv = Scaled<QuantizedConv, Program>;
