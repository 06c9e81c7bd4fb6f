//! Depthwise separable convolution: a depthwise convolution and the pointwise one that reads it in one kernel, so that the image
//! between them never leaves the registers.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub mod quantized;
#[cfg(test)]
mod tests;

use crate::conv::Conv;
use serde::{Deserialize, Serialize};

/// `y = pointwise(depthwise(x))` (Howard et al.: MobileNets, 2017).
///
/// The depthwise convolution's output view is the pointwise one's input view. Its epilogue may have a bias and a program; of extras only
/// factors of channels, where it is one of integers. The pointwise one's may have any extras.
///
/// Operands: image; weights, bias and extras of the depthwise convolution, and of the pointwise one (what of these there is). One output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Separable<C> {
    /// One filter a channel.
    pub depthwise: C,
    /// One tap, stride 1, no padding, no groups.
    pub pointwise: C,
}

/// Convolutions of floats.
pub type SeparableConv = Separable<Conv>;
