//! Expansion, depthwise convolution and gate of a mobile inverted bottleneck in 8-bit integers: one kernel, so that the wide image
//! in the middle never leaves the chip.

#[cfg(feature = "codegen")]
pub(crate) mod band;
#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

pub(crate) use host::{check_chained, is_factor};

use crate::{quantized_average::QuantizedAverage, quantized_conv::QuantizedConv};
use serde::{Deserialize, Serialize};

/// `y = depthwise(expand(x))` and, where there is one, `gate(y)`, each with exact sums and its own requantisation.
///
/// The expansion's output view is the depthwise convolution's input view, whose output view is what the gate averages. Extras of the
/// epilogues are factors of channels: f32, the same at all positions.
///
/// Operands: image; weights, bias and extras of the expansion, of the depthwise convolution, of both layers of the gate (what of
/// these there is). Outputs: the depthwise convolution's and, with a gate, the gate's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizedMbConv {
    /// A pointwise convolution from few channels to many.
    pub expand: Option<QuantizedConv>,
    /// One filter a channel.
    pub depthwise: QuantizedConv,
    /// The average of the result and what follows it, such as both layers of squeeze-and-excitation.
    pub gate: Option<QuantizedAverage>,
}
