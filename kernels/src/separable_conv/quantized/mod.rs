//! The same of integers of 8 bits, each with exact sums and its own requantisation.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;

use super::Separable;
use super::host::Chained;
use crate::KernelError;
use crate::quantized_conv::QuantizedConv;
use crate::quantized_mbconv::check_chained;

/// Convolutions of integers; those that the depthwise one multiplies have 8 bits.
pub type QuantizedSeparableConv = Separable<QuantizedConv>;

impl Chained for QuantizedConv {
    fn check_chained(&self) -> Result<(), KernelError> {
        check_chained(self)
    }
}
