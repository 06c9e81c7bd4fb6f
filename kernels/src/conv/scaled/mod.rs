//! Pointwise convolution of an image that is scaled per channel first: the projection after squeeze-and-excitation, which
//! scales while it reads.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub mod quantized;
#[cfg(test)]
mod tests;

use crate::{View, conv::Conv};
use serde::{Deserialize, Serialize};

/// `conv(scaling(x, scale))`; what the scaling gives is rounded to the element type of x.
///
/// Operands: those of the convolution, then the scale; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled<C, S> {
    /// One tap, stride 1, no padding, no groups.
    pub conv: C,
    /// Extents of the convolution's input, stride 0 along the spatial dimensions.
    pub scale: View,
    /// How x is scaled.
    pub scaling: S,
}

/// `x · scale`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product;

/// A convolution of floats.
pub type ScaledConv = Scaled<Conv, Product>;
