//! Boxes of objects from what a detector's head says, each object once: scores, threshold, decoding, suppression.

mod arithmetic;
#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// Most inputs that boxes come in, and most that scores come in.
pub const MAX_PARTS: usize = 4;
/// Numbers of a row of [`Detect::places`].
pub const PLACE: u32 = 6;
/// Numbers of a detection in front of its points: corners, score, class.
pub const BOX: u32 = 6;

/// Views of the inputs that make up a whole, one behind the other.
pub type Parts = heapless::Vec<View, MAX_PARTS>;

/// What makes scores probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScoreActivation {
    /// They are probabilities.
    None,
    /// Of each number.
    Sigmoid,
    /// Over all classes of a candidate.
    Softmax,
}

/// What the numbers of a candidate mean, and which candidates become detections.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Number of a candidate at which its points begin.
    pub first_point: u32,
    /// Number at which the scores of its classes begin.
    pub first_class: u32,
    /// Classes.
    pub classes: u32,
    /// Number that is the score for any object.
    pub object: Option<u32>,
    /// Whether the first class stands for no object; detections are numbered from the one after it.
    pub background: bool,
    /// Whether y stands before x, and height before width.
    pub rows_first: bool,
    /// Factor of extents that are logarithms.
    pub logarithm: Option<f32>,
    /// What makes scores probabilities.
    pub activation: ScoreActivation,
    /// What a score must exceed.
    pub threshold: f32,
    /// The intersection over union above which the worse box goes.
    pub overlap: f32,
}

/// The objects that the candidates of a detector's head agree on, the best score first.
///
/// The numbers of a candidate are its box (two of place, two of extent), points, scores. Each place `x` becomes
/// `x · factor + summand`, each extent `x · factor` or `exp(x · logarithm) · factor`, with the candidate's own constants.
/// The class of a candidate is its best, the first of equals; its score that of the class, times that for any object where
/// there is one. Of the candidates whose score exceeds `threshold`, by falling score and rising number, each stays whose
/// intersection over union with no better one of its class that stays exceeds `overlap`, until there are as many as rows.
/// A score that is NaN never exceeds; a box without area overlaps none.
///
/// Computed in f32, each operation rounded, and exponents by [`arithmetic`]: decisions are the same on every device.
///
/// Operands: boxes, scores, places; two outputs, detections and count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Detect {
    /// Of one type, f32, f16 or bf16, `[rows, candidates of a row, numbers]`: at least one part.
    pub boxes: Parts,
    /// Scores, likewise, as many candidates as the boxes; none where they are among the numbers of the boxes.
    pub scores: Parts,
    /// f32 `[candidates, 6]`: factor and summand of x, factor of the width, factor and summand of y, factor of the height.
    pub places: View,
    /// f32 `[most, 6 + 2·points]`: left, top, right, bottom, score, class, then x and y of each point; zeros in the rows
    /// after the last.
    pub detections: View,
    /// i32, one element: rows that are used.
    pub count: View,
    /// What the numbers of a candidate mean, and which candidates become detections.
    pub head: Head,
}

impl Detect {
    /// Candidates.
    fn candidates(&self) -> u32 {
        self.places.shape.first().copied().unwrap_or(0)
    }

    /// Most detections.
    fn most(&self) -> u32 {
        self.detections.shape.first().copied().unwrap_or(0)
    }

    /// Points of a detection.
    fn points(&self) -> u32 {
        self.detections.shape.get(1).copied().unwrap_or(0).saturating_sub(BOX) / 2
    }

    /// Views that scores are in.
    fn scored(&self) -> &Parts {
        if self.scores.is_empty() { &self.boxes } else { &self.scores }
    }

    /// Operand of the first part of what scores are in.
    fn first_scored(&self) -> usize {
        if self.scores.is_empty() { 0 } else { self.boxes.len() }
    }
}
