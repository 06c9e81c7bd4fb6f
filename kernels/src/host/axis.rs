//! One spatial dimension of a window that slides over an input.

/// One spatial dimension: output position `j` meets, through tap `q`, the input at `j · step + q · tap_step + shift`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Axis {
    /// Extent of the input.
    pub(crate) input: i64,
    /// Number of output positions.
    pub(crate) output: i64,
    /// Number of taps.
    pub(crate) taps: i64,
    /// Input elements between output positions.
    pub(crate) step: i64,
    /// Input elements between taps.
    pub(crate) tap_step: i64,
    /// Input position of the first tap of the first output position.
    pub(crate) shift: i64,
    /// First tap, and distance between taps, in the weights.
    pub(crate) weight: (i64, i64),
    /// First position, and distance between positions, in the output.
    pub(crate) place: (i64, i64),
}

/// The indices of element `number` of three dimensions in row-major order; extents of 0 count as 1.
#[inline]
pub(crate) fn unravel(number: i64, extents: [i64; 3]) -> [i64; 3] {
    let [_, height, width] = extents.map(|extent| extent.max(1));
    [number / width / height, number / width % height, number % width]
}

impl Axis {
    /// Input position that output position `j` meets through tap `q`, if it is inside.
    #[inline]
    pub(crate) fn meets(&self, j: i64, q: i64) -> Option<i64> {
        let at = j * self.step + q * self.tap_step + self.shift;
        (0..self.input).contains(&at).then_some(at)
    }

    /// Of `count` output positions from `j` on: how many at the start lie before the input, the input position that
    /// the next one meets through tap `q`, and how many are inside from there.
    #[inline]
    pub(crate) fn meets_range(&self, j: i64, q: i64, count: usize) -> (usize, i64, usize) {
        let at = j * self.step + q * self.tap_step + self.shift;
        let first = if at >= 0 { 0 } else { (-at + self.step - 1) / self.step };
        let end = if at >= self.input { 0 } else { (self.input - 1 - at) / self.step + 1 };
        let end = end.min(count as i64);
        if first >= end { (0, 0, 0) } else { (first as usize, at + first * self.step, (end - first) as usize) }
    }
}
