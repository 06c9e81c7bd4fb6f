//! Expansion and depthwise convolution of a mobile inverted bottleneck in 8-bit integers: one kernel, so that the wide image in
//! the middle never leaves the chip.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
pub(crate) mod cuda;
mod host;
#[cfg(test)]
mod tests;

pub(crate) use host::is_factor;

use crate::quantized_conv::QuantizedConv;
use serde::{Deserialize, Serialize};

/// `y = depthwise(expand(x))`, each with exact sums and its own requantisation.
///
/// The expansion's output view is the depthwise convolution's input view. Extras of the epilogues are factors of channels: f32,
/// the same at all positions.
///
/// Operands: image; weights, bias and extras of the expansion, of the depthwise convolution (what of these there is). One
/// output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizedMbConv {
    /// A pointwise convolution from few channels to many.
    pub expand: Option<QuantizedConv>,
    /// One filter a channel.
    pub depthwise: QuantizedConv,
}
