//! Average of an image of 8-bit integers, and the two fully connected layers of squeeze-and-excitation behind it, in one kernel.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
pub(crate) mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{View, pointwise::Pointwise, quantized_conv::QuantizedConv};
use serde::{Deserialize, Serialize};

/// `y = requantise(Σ image)` over all spatial dimensions, the sums exact; with layers, `excite(squeeze(y))`.
///
/// What lies between the stages has one place each: the requantisation's output view is the squeeze's input view, and the
/// squeeze's output view the excite's input view. Extras of the layers are factors of channels.
///
/// Operands: image; weights, bias and extras of both layers, where there are layers. One output: `[n, c, 1…]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizedAverage {
    /// `[n, c, spatial…]`.
    pub image: View,
    /// From one sum in i32 for each channel to 8 bits.
    pub requantise: Pointwise,
    /// From c to few channels, and back to c channels.
    pub layers: Option<[QuantizedConv; 2]>,
}
