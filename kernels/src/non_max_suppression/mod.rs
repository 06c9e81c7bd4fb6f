//! Selection of boxes that no better box overlaps too much.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub(crate) mod overlap;
#[cfg(test)]
mod tests;

#[cfg(feature = "codegen")]
pub(crate) use cuda::OVERLAP;

use crate::View;
use serde::{Deserialize, Serialize};

/// What stands in the rows of the indices past the last selected box.
pub const UNUSED: i64 = -1;

/// For every image b and class c the boxes of the best scores, but none whose intersection over union with a selected
/// one exceeds a threshold (ONNX `NonMaxSuppression`, in the arithmetic and the order of ONNX Runtime): boxes by falling
/// score, of equal scores the one with the smallest index first, images and classes in order. Computed in f32. A box
/// without area is never suppressed; one whose score is NaN is never selected.
///
/// Operands: boxes, scores, thresholds; two outputs, indices and count.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NonMaxSuppression {
    /// `[b, n, 4]`, f32, f16 or bf16: two opposite corners as y, x, y, x, or see `center`.
    pub boxes: View,
    /// `[b, c, n]`, f32, f16 or bf16.
    pub scores: View,
    /// `[1]` or `[2]`, f32: the intersection over union above which a box is suppressed; where it is there, what a score
    /// must exceed.
    pub thresholds: View,
    /// `[b·c·limit, 3]`, i64: image, class and box of the selected ones, without gaps; [`UNUSED`] in the rows after them.
    /// At most `limit` boxes of a class of an image are selected; it is at most n.
    pub indices: View,
    /// One element, i64: the number of selected boxes.
    pub count: View,
    /// Whether boxes are given as centre and size: x, y, width, height.
    pub center: bool,
}

impl NonMaxSuppression {
    /// Number of pairs of image and class.
    fn rows(&self) -> u64 {
        self.scores.shape.iter().take(2).map(|&extent| u64::from(extent)).product()
    }

    /// Most boxes that are selected of a class of an image.
    fn limit(&self) -> u64 {
        let all = self.indices.shape.first().copied().map_or(0, u64::from);
        all.checked_div(self.rows()).unwrap_or(0)
    }
}
