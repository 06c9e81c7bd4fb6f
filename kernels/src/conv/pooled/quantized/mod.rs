//! The same of integers of 8 bits.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;

use super::Pooled;
use crate::quantized_conv::QuantizedConv;

/// A convolution of integers.
pub type PooledQuantizedConv = Pooled<QuantizedConv>;
