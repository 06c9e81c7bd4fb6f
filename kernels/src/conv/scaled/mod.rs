//! Pointwise convolution of an image that is scaled per channel first: the projection after squeeze-and-excitation, which
//! multiplies while it reads.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::{View, conv::Conv};
use serde::{Deserialize, Serialize};

/// `conv(x · scale)`; the products are rounded to the element type of x.
///
/// Operands: those of the convolution, then the scale; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaledConv {
    /// One tap, stride 1, no padding, no groups.
    pub conv: Conv,
    /// Extents of the convolution's input, stride 0 along the spatial dimensions.
    pub scale: View,
}
