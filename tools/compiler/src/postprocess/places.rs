//! The constants that turn a candidate's numbers into places: factor and summand of x, factor of the width, and the same of y
//! and of the height. `map` leads from pixels of the network's input to those of the frame.

/// The factor and summand of a coordinate, from the network's input to the frame.
pub(super) type Map = (f64, f64);

/// Numbers are parts of an anchor's size, divided by `scale` (of centres and points, of extents); anchors (centre x, centre y,
/// width, height) are parts of the input's `size`.
pub(super) fn of_anchors(size: [usize; 2], anchors: &[[f64; 4]], scale: [f64; 2], map: [Map; 2]) -> Vec<[f64; 6]> {
    let place = |anchor: &[f64; 4]| {
        each(|d| {
            let pixels = size[d] as f64;
            let whole = anchor[2 + d] * pixels * map[d].0;
            [whole / scale[0], anchor[d] * pixels * map[d].0 + map[d].1, whole / scale[1]]
        })
    };
    anchors.iter().map(place).collect()
}

/// Numbers are in cells of a grid a stride, places from the cell's own: row after row, grid after grid.
pub(super) fn of_cells(size: [usize; 2], strides: &[usize], map: [Map; 2]) -> Vec<[f64; 6]> {
    let mut places = Vec::new();
    for &stride in strides {
        let [columns, rows] = size.map(|extent| extent / stride);
        for cell in (0..rows).flat_map(|y| (0..columns).map(move |x| [x as f64, y as f64])) {
            places.push(each(|d| {
                let factor = stride as f64 * map[d].0;
                [factor, cell[d] * factor + map[d].1, factor]
            }));
        }
    }
    places
}

/// Numbers are pixels of the network's input: the same for all candidates.
pub(super) fn of_pixels(map: [Map; 2]) -> Vec<[f64; 6]> {
    vec![each(|d| [map[d].0, map[d].1, map[d].0])]
}

/// Constants of x, then of y.
fn each(of: impl Fn(usize) -> [f64; 3]) -> [f64; 6] {
    let [[a, b, c], [d, e, f]] = [0, 1].map(of);
    [a, b, c, d, e, f]
}
