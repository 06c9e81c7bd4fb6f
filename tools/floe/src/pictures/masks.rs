//! Instance masks: which points of a box belong to its object.

use super::Place;

/// Evidence on a grid over a part of the picture: above zero where a point belongs to the object.
#[derive(Clone, Debug, PartialEq)]
pub struct Mask {
    width: usize,
    height: usize,
    /// `[height, width]`.
    values: Vec<f64>,
    /// Factors and summands of x and of y, from the picture's pixels to cells.
    scale: [f64; 2],
    offset: [f64; 2],
}

/// A prototype for each of the coefficients of a box, over the whole input of the network (YOLACT, YOLO-seg).
#[derive(Clone, Copy, Debug)]
pub(super) struct Prototypes<'a> {
    pub width: usize,
    pub height: usize,
    /// `[prototypes, height, width]`.
    pub values: &'a [f64],
}

impl Prototypes<'_> {
    /// The mask of a box (left, top, right, bottom in the picture): the sum of the prototypes, each times its coefficient.
    pub(super) fn mask(&self, coefficients: &[f64], corners: [f64; 4], place: &Place) -> Mask {
        let planes = || self.values.chunks_exact(self.width * self.height).zip(coefficients);
        let value = |at: usize| -> f64 { planes().map(|(plane, coefficient)| plane[at] * coefficient).sum() };
        Mask::over_network(value, [self.height, self.width], corners, place)
    }
}

impl Mask {
    /// Of evidence on a grid over the whole input of the network; what is not near the box is left out.
    fn over_network(
        value: impl Fn(usize) -> f64,
        [height, width]: [usize; 2],
        corners: [f64; 4],
        place: &Place,
    ) -> Self {
        let extents = [width, height];
        let cell = |point| {
            let at = place.to_network(place.to_frame(point));
            [0, 1].map(|d| at[d] * extents[d] as f64 / f64::from(place.frame.network[d]))
        };
        let (origin, one) = (cell([0.0; 2]), cell([1.0; 2]));
        let (first, last) = (cell([corners[0], corners[1]]), cell([corners[2], corners[3]]));
        // A cell more on each side, which a point at the edge is interpolated with. Casts saturate.
        let cells = [0, 1].map(|d| {
            let first = ((first[d] - 1.0) as usize).min(extents[d] - 1);
            first..((last[d] + 2.0) as usize).clamp(first + 1, extents[d])
        });
        let [columns, rows] = cells;
        let values = rows.clone().flat_map(|y| columns.clone().map(move |x| y * width + x)).map(value).collect();
        Self {
            width: columns.len(),
            height: rows.len(),
            values,
            scale: [0, 1].map(|d| one[d] - origin[d]),
            offset: [origin[0] - columns.start as f64, origin[1] - rows.start as f64],
        }
    }

    /// Of probabilities `[height, width]` over the whole input of the network (torchvision).
    pub(super) fn of_network(probabilities: &[f64], extents: [usize; 2], corners: [f64; 4], place: &Place) -> Self {
        Self::over_network(|at| probabilities[at] - 0.5, extents, corners, place)
    }

    /// Of probabilities `[height, width]` that are laid over a box of the picture, zero around them (Mask R-CNN).
    pub(super) fn of_box(probabilities: &[f64], [height, width]: [usize; 2], corners: [f64; 4]) -> Self {
        let mut values = vec![-0.5; (height + 2) * (width + 2)];
        for (y, row) in probabilities.chunks_exact(width.max(1)).take(height).enumerate() {
            let inner = &mut values[(y + 1) * (width + 2) + 1..][..width];
            inner.iter_mut().zip(row).for_each(|(value, probability)| *value = probability - 0.5);
        }
        let [left, top, right, bottom] = corners;
        let scale = [width as f64 / (right - left), height as f64 / (bottom - top)];
        let offset = [1.0 - left * scale[0], 1.0 - top * scale[1]];
        Self { width: width + 2, height: height + 2, values, scale, offset }
    }

    /// Whether a point of the picture, in pixels from its outer edge, belongs to the object: bilinear between the centres of
    /// cells, those at the border continued outside.
    pub fn covers(&self, point: [f64; 2]) -> bool {
        let along = |d: usize, extent: usize| {
            let last = (extent - 1) as f64;
            let at = (point[d] * self.scale[d] + self.offset[d] - 0.5).clamp(0.0, last);
            let first = at as usize;
            (first, (first + 1).min(extent - 1), at - at.floor())
        };
        let ((left, right, across), (top, bottom, down)) = (along(0, self.width), along(1, self.height));
        let row = |y: usize| {
            let [left, right] = [left, right].map(|x| self.values[y * self.width + x]);
            left + (right - left) * across
        };
        let (top, bottom) = (row(top), row(bottom));
        top + (bottom - top) * down > 0.0
    }
}
