//! From what a detector's head says to boxes.

use super::ScoreActivation;

/// The objects that the candidates of a detector's head agree on: scores, threshold, decoding, suppression of each class.
///
/// A place `x` of a candidate becomes `x · factor + summand`, an extent `x · factor` or `exp(x · logarithm) · factor`.
#[derive(Clone, Debug, PartialEq)]
pub struct Detect {
    /// Inputs of boxes, at least one.
    pub boxes: usize,
    /// Inputs of scores; none where they are among the numbers of the boxes.
    pub scores: usize,
    /// Whether candidates are the last dimension: `[1, numbers, candidates]`.
    pub columns: bool,
    /// Numbers of a candidate in an input of boxes.
    pub numbers: usize,
    /// Points of a detection.
    pub points: usize,
    /// Number of a candidate at which its points begin.
    pub first_point: usize,
    /// Number at which the scores of its classes begin.
    pub first_class: usize,
    /// Classes; in inputs of scores, all numbers of a candidate.
    pub classes: usize,
    /// Number that is the score for any object.
    pub object: Option<usize>,
    /// Whether the first class stands for no object.
    pub background: bool,
    /// Whether y stands before x, and height before width.
    pub rows_first: bool,
    /// Factor of extents that are logarithms.
    pub logarithm: Option<f32>,
    /// What makes scores probabilities.
    pub activation: ScoreActivation,
    /// What a score must exceed.
    pub threshold: f32,
    /// The intersection over union with a better box of the class above which a box goes.
    pub overlap: f32,
    /// Most detections.
    pub most: usize,
}
