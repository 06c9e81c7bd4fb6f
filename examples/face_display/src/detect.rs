//! BlazeFace's outputs become faces, by the scheme that MediaPipe publishes for its short-range model
//! (`face_detection_short_range.pbtxt`: anchors, decoding, weighted non-maximum suppression).

use heapless::Vec;

/// Side of the network's square input in pixels.
pub const SIDE: usize = 128;
/// Anchors: 2 in each cell of 16 × 16, then 6 in each cell of 8 × 8.
pub const ANCHORS: usize = FINE + 6 * 8 * 8;
/// Those of the finer grid, which come first.
pub const FINE: usize = 2 * 16 * 16;
/// Numbers of each anchor: centre, extents, six points.
pub const NUMBERS: usize = 16;
/// Most faces that are told; of more, those with the highest scores.
pub const MAX_FACES: usize = 32;

/// Scores below this are no faces.
const SCORE: f32 = 0.5;
/// Boxes that share more than this of their union are one face.
const OVERLAP: f32 = 0.3;

/// What the network says.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// A logit for each anchor.
    pub logits: [f32; ANCHORS],
    /// Centre x and y relative to the anchor, width, height, and x and y of the six points relative to the anchor; in
    /// pixels of the input.
    pub boxes: [[f32; NUMBERS]; ANCHORS],
}

impl Outputs {
    /// Nothing yet.
    pub const ZERO: Self = Self { logits: [0.0; ANCHORS], boxes: [[0.0; NUMBERS]; ANCHORS] };
}

/// A face; positions from 0 to 1 along each side of the input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Face {
    /// How sure the network is, 0.5 to 1.
    pub score: f32,
    /// Left, top, right, bottom.
    pub corners: [f32; 4],
    /// The person's right eye, left eye, nose, mouth, right ear, left ear.
    pub points: [[f32; 2]; 6],
}

/// The centre of an anchor.
fn anchor(number: usize) -> [f32; 2] {
    let (cell, cells) = if number < FINE { (number / 2, 16) } else { ((number - FINE) / 6, 8) };
    [cell % cells, cell / cells].map(|at| (at as f32 + 0.5) / cells as f32)
}

fn decode(outputs: &Outputs, number: usize, score: f32) -> Face {
    let anchor = anchor(number);
    let numbers = &outputs.boxes[number];
    let side = SIDE as f32;
    let at = |i: usize| [numbers[i] / side + anchor[0], numbers[i + 1] / side + anchor[1]];
    let ([x, y], half) = (at(0), [numbers[2] / side / 2.0, numbers[3] / side / 2.0]);
    let corners = [x - half[0], y - half[1], x + half[0], y + half[1]];
    Face { score, corners, points: core::array::from_fn(|point| at(4 + 2 * point)) }
}

/// What two boxes share, as a part of what they cover together.
fn overlap(a: &[f32; 4], b: &[f32; 4]) -> f32 {
    let area = |[left, top, right, bottom]: [f32; 4]| (right - left).max(0.0) * (bottom - top).max(0.0);
    let shared = area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]);
    let union = area(*a) + area(*b) - shared;
    if union > 0.0 { shared / union } else { 0.0 }
}

/// Faces, the surest first. Boxes of one face are averaged, weighted by their scores.
pub fn faces(outputs: &Outputs) -> Vec<Face, MAX_FACES> {
    // Logits beyond ±100 are cut there, as MediaPipe does; what is not a number is no face.
    let scores = outputs.logits.iter().map(|logit| 1.0 / (1.0 + libm::expf(-logit.clamp(-100.0, 100.0))));
    let mut left: Vec<(f32, u16), ANCHORS> =
        (0..).zip(scores).filter(|(_, score)| *score >= SCORE).map(|(number, score)| (score, number)).collect();
    // Equal scores in the order of the anchors, so that the result depends on nothing else.
    left.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut faces = Vec::new();
    while let Some(&(score, number)) = left.first() {
        let best = decode(outputs, usize::from(number), score);
        let mut sum = Face { score, corners: [0.0; 4], points: [[0.0; 2]; 6] };
        let mut weight = 0.0;
        left.retain(|&(score, other)| {
            let face = decode(outputs, usize::from(other), score);
            // The best one belongs to itself, even if its box is empty or no number.
            let same = other == number || overlap(&best.corners, &face.corners) > OVERLAP;
            if same {
                weight += score;
                let numbers = sum.corners.iter_mut().chain(sum.points.as_flattened_mut());
                let others = face.corners.iter().chain(face.points.as_flattened());
                numbers.zip(others).for_each(|(sum, number)| *sum += score * number);
            }
            !same
        });
        sum.corners.iter_mut().chain(sum.points.as_flattened_mut()).for_each(|number| *number /= weight);
        if faces.push(sum).is_err() {
            break;
        }
    }
    faces
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    fn nothing() -> Box<Outputs> {
        let mut outputs = Box::new(Outputs::ZERO);
        outputs.logits.fill(-10.0);
        outputs
    }

    #[test]
    fn anchors_are_the_centres_of_cells_in_row_order() {
        assert_eq!(
            [anchor(0), anchor(1), anchor(2)],
            [[1.0 / 32.0, 1.0 / 32.0], [1.0 / 32.0; 2], [3.0 / 32.0, 1.0 / 32.0]]
        );
        assert_eq!(anchor(FINE - 1), [31.0 / 32.0; 2]);
        assert_eq!([anchor(FINE), anchor(FINE + 6)], [[1.0 / 16.0; 2], [3.0 / 16.0, 1.0 / 16.0]]);
        assert_eq!(anchor(ANCHORS - 1), [15.0 / 16.0; 2]);
    }

    #[test]
    fn boxes_of_one_face_are_averaged_and_others_stay() {
        let mut outputs = nothing();
        // Two anchors of one cell: scores 3/4 and 1/2, boxes 32 and 40 pixels wide; a third far away.
        for (number, odds, width) in [(FINE, 3.0f32, 32.0), (FINE + 1, 1.0, 40.0), (ANCHORS - 1, 7.0, 16.0)] {
            outputs.logits[number] = odds.ln();
            outputs.boxes[number][2..6].copy_from_slice(&[width, width, 8.0, -8.0]);
        }
        let found = faces(&outputs);
        assert_eq!(found.len(), 2);
        let (far, near) = (found[0], found[1]);
        let close = |a: f32, b: f32| (a - b).abs() < 1e-6;
        assert!(close(far.score, 0.875) && close(near.score, 0.75));
        assert!(close(far.corners[0], 15.0 / 16.0 - 1.0 / 16.0) && close(far.corners[3], 1.0));
        let half = (0.75 * 32.0 + 0.5 * 40.0) / 1.25 / 128.0 / 2.0;
        assert!(close(near.corners[0], 1.0 / 16.0 - half) && close(near.corners[3], 1.0 / 16.0 + half));
        assert!(close(near.points[0][0], 1.0 / 8.0) && close(near.points[0][1], 0.0));
    }

    #[test]
    fn any_outputs_give_some_faces() {
        assert!(faces(&nothing()).is_empty());
        let mut outputs = nothing();
        outputs.logits.fill(f32::NAN);
        assert!(faces(&outputs).is_empty());
        // Every anchor a face with an empty box: the most that can be told.
        outputs.logits.fill(f32::INFINITY);
        assert_eq!(faces(&outputs).len(), MAX_FACES);
        outputs.boxes.as_flattened_mut().fill(f32::NAN);
        assert_eq!(faces(&outputs).len(), MAX_FACES);
    }
}
