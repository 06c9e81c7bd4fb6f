//! Sampling of images at places that a tensor gives.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// How a value between pixels is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sampling {
    /// The nearest pixel, halves to even.
    Nearest,
    /// From two pixels along each dimension.
    Linear,
    /// From four, by cubic convolution with a = −¾ (Keys, 1981).
    Cubic,
}

/// What stands outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// What coordinates mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SampleCoordinates {
    /// −1 and 1 are the outer edges of the first and the last pixel.
    HalfPixel,
    /// −1 and 1 are the centres of the first and the last pixel.
    AlignCorners,
    /// 0 is the centre of the first pixel, 1 that of the second.
    Pixels,
}

/// `output[n, c, o…] = input[n, c, grid[n, o…]]`, between pixels by interpolation (ONNX `GridSample`), computed in f32
/// (f64 for f64). Coordinates beyond ±10⁹ pixels count as that; NaN as −10⁹.
///
/// Operands: input, grid; one output.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GridSample {
    /// `[n, c, spatial…]` with two or three spatial dimensions.
    pub input: View,
    /// `[n, o…, rank]`: coordinates, that of the innermost spatial dimension first. Any float type.
    pub grid: View,
    /// `[n, c, o…]`.
    pub output: View,
    /// Interpolation.
    pub sampling: Sampling,
    /// What stands outside.
    pub outside: Outside,
    /// What coordinates mean.
    pub coordinates: SampleCoordinates,
}

impl Sampling {
    /// Pixels along each dimension that a value comes from.
    pub(crate) const fn taps(self) -> usize {
        match self {
            Self::Nearest => 1,
            Self::Linear => 2,
            Self::Cubic => 4,
        }
    }
}
