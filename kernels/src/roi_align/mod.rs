//! Pooling of regions of images, sampled by bilinear interpolation.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
mod cells;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// How the samples of a bin become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RegionPooling {
    /// Mean of the interpolated samples.
    Average,
    /// Largest of the weighted neighbours of all samples, as ONNX Runtime has it.
    Max,
    /// Largest of the pixels that a bin covers, nothing sampled; 0 where it covers none (ONNX `MaxRoiPool`). Corners are
    /// rounded to pixels, half away from zero, and belong to the region. `samples` and `half_pixel` have no meaning.
    Cells,
}

/// `output[r, c, i, j]`: bin (i, j) of region r of image `batch[r]` (ONNX `RoiAlign`), computed in f32 (f64 for f64).
/// Batch indices outside are clamped; samples more than one pixel outside count as 0, nearer ones as the border.
///
/// Operands: input, regions, batch; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RoiAlign {
    /// `[n, c, h, w]`.
    pub input: View,
    /// `[r, 4]`: x₁, y₁, x₂, y₂. Any float type.
    pub regions: View,
    /// `[r]`, i64.
    pub batch: View,
    /// `[r, c, height, width]`.
    pub output: View,
    /// How samples become one value.
    pub kind: RegionPooling,
    /// Samples along each side of a bin; 0 takes as many as the bin has pixels, rounded up, at most
    /// [`MOST_SAMPLES`].
    pub samples: u32,
    /// Pixels for each unit of the regions.
    pub scale: f32,
    /// Whether pixel centres are at ½; otherwise regions are at least one pixel large too.
    pub half_pixel: bool,
}

/// Most samples along a side of a bin.
pub const MOST_SAMPLES: u32 = 1 << 12;
