//! Squeeze-and-excitation: the gate of every channel, from the global average through two fully connected layers.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
pub(crate) mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{conv::Conv, reduce::Reduce};
use serde::{Deserialize, Serialize};

/// `gate = excite(squeeze(average(image)))` (Hu, Shen, Sun: Squeeze-and-Excitation Networks, 2018).
///
/// The average runs over all spatial dimensions; both layers are pointwise convolutions whose epilogues may have a bias
/// and a program, but no extras. What lies between the three has one place each: the average's output view is the
/// squeeze's input view, and the squeeze's output view the excite's input view.
///
/// Operands: image, the squeeze's weights and bias, the excite's weights and bias (biases where the epilogues have
/// them); one output, `[n, c, 1…]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SqueezeExcite {
    /// Mean over the spatial dimensions.
    pub average: Reduce,
    /// From c to few channels.
    pub squeeze: Conv,
    /// Back to c channels.
    pub excite: Conv,
}
