//! Faces as the plan gives them: rows of its output `detections`.

use bytemuck::{Pod, Zeroable};

/// A face: a row of `detections`. Positions are in pixels of the frame, 0 at its outer edge.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Face {
    /// Left, top, right, bottom.
    pub corners: [f32; 4],
    /// How sure the network is, 0.5 to 1.
    pub score: f32,
    /// 0, the only class.
    pub class: f32,
    /// The person's right eye, left eye, nose, mouth, right ear, left ear.
    pub points: [[f32; 2]; 6],
}

/// Numbers of a row.
pub const NUMBERS: usize = size_of::<Face>() / size_of::<f32>();

/// The rows that are used; `count` is the plan's output of that name.
pub fn used(rows: &[Face], count: i32) -> &[Face] {
    &rows[..usize::try_from(count).unwrap_or(0).min(rows.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_faces() {
        let numbers: [f32; 2 * NUMBERS] = core::array::from_fn(|i| i as f32);
        let rows: &[Face] = bytemuck::cast_slice(&numbers);
        let second = used(rows, 2)[1];
        assert_eq!((second.corners, second.score, second.class), ([18.0, 19.0, 20.0, 21.0], 22.0, 23.0));
        assert_eq!((second.points[0], second.points[5]), ([24.0, 25.0], [34.0, 35.0]));
        assert_eq!([-1, 0, 1, 2, 3].map(|count| used(rows, count).len()), [0, 0, 1, 2, 2]);
    }
}
