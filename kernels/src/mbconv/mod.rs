//! The front of a mobile inverted bottleneck (MBConv): expansion, depthwise convolution and the gate of
//! squeeze-and-excitation in one kernel, so that the wide image in the middle never leaves the chip.

#[cfg(feature = "codegen")]
pub(crate) mod band;
#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
pub(crate) mod cuda;
#[cfg(feature = "codegen")]
pub(crate) mod geometry;
mod host;
#[cfg(test)]
mod tests;

use crate::{conv::Conv, squeeze_excite::SqueezeExcite};
use serde::{Deserialize, Serialize};

/// `y = depthwise(expand(x))` and, where there is one, `gate(y)` (Sandler et al.: MobileNetV2, 2018; Tan, Le:
/// EfficientNet, 2019).
///
/// What lies between the stages has one place each: the expansion's output view is the depthwise convolution's input
/// view, and its output view is what the gate averages. Epilogues may have a bias and a program, but no extras.
///
/// Operands: image; weights and bias of the expansion, of the depthwise convolution, of both layers of the gate (what
/// of these there is). Outputs: the depthwise convolution's and, with a gate, the gate's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MbConv {
    /// A pointwise convolution from few channels to many.
    pub expand: Option<Conv>,
    /// One filter a channel.
    pub depthwise: Conv,
    /// Squeeze-and-excitation of the result, without the multiplication.
    pub gate: Option<SqueezeExcite>,
}
