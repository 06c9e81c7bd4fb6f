//! From what a detector's head says to boxes.

use super::Head;

/// The objects that the candidates of a detector's head agree on, as [`floe_kernels::detect::Detect`] finds them.
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
    /// Most detections.
    pub most: usize,
    /// What the numbers of a candidate mean; in inputs of scores they are the classes alone.
    pub head: Head,
}
