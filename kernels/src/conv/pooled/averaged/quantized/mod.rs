//! The same of integers of 8 bits: each channel becomes the requantised sum of its image.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;

use crate::conv::pooled::Pooled;
use crate::conv::pooled::host::Pools;
use crate::quantized_average::QuantizedAverage;
use crate::quantized_conv::QuantizedConv;
use crate::{KernelError, View};

/// A convolution whose results have 8 bits, and the average of each channel, of 8 bits too. The sums of the results are exact.
///
/// Shapes: `[n, m, spatial…]` becomes `[n, m, 1, …]`.
pub type AveragedQuantizedConv = Pooled<QuantizedConv, QuantizedAverage>;

impl Pools for QuantizedAverage {
    fn views(&self) -> [&View; 2] {
        [&self.image, self.result()]
    }

    fn check_kind(&self) -> Result<(), KernelError> {
        if self.layers.is_some() { Err(KernelError::Parameter("layers behind an average")) } else { Ok(()) }
    }
}
