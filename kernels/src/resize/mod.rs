//! Resampling (ONNX `Resize`).

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
mod taps;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// How values between samples are found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Interpolation {
    /// The nearest sample.
    Nearest(Rounding),
    /// Linear in every resized dimension.
    Linear,
    /// Keys' cubic with coefficient `.0`; with `.1` taps outside the input get weight 0 and the rest are renormalised.
    Cubic(f32, bool),
}

/// Which sample is the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Rounding {
    HalfDown,
    HalfUp,
    Floor,
    Ceil,
}

/// How an output index becomes an input coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Coordinates {
    HalfPixel,
    HalfPixelSymmetric,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
}

/// Resampling along any dimensions, separable. Dimensions with scale 1 and equal extents are left alone.
///
/// Operands: input; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resize {
    /// Input.
    pub input: View,
    /// Output, same rank.
    pub output: View,
    /// Output extent over input extent along each dimension, as the model gives it (not recomputed from extents).
    pub scales: heapless::Vec<f32, { crate::MAX_RANK }>,
    /// Interpolation.
    pub interpolation: Interpolation,
    /// Coordinate transformation.
    pub coordinates: Coordinates,
}
