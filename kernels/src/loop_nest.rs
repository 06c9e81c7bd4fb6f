//! Loops over several strided operands at once, with neighbours merged: what most families iterate over, on the host and in
//! generated kernels.

use crate::{KernelError, MAX_RANK, View};

/// One loop: its extent and how far each of `N` operands moves per step, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis<const N: usize> {
    pub extent: u64,
    pub strides: [i64; N],
}

/// Nested loops over `N` strided operands at once, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nest<const N: usize> {
    pub axes: heapless::Vec<Axis<N>, MAX_RANK>,
}

impl<const N: usize> Nest<N> {
    /// The loops over the dimensions of equally shaped views that `keep` selects; neighbouring dimensions that all
    /// operands cross with one stride are one loop.
    pub fn over(views: [&View; N], keep: impl Fn(usize) -> bool) -> Self {
        let mut nest = Self { axes: heapless::Vec::new() };
        for d in (0..views.first().map_or(0, |v| v.rank())).filter(|&d| keep(d)) {
            let extent = views[0].shape[d].into();
            nest.push(Axis { extent, strides: views.map(|v| v.strides[d].into()) });
        }
        nest
    }

    /// The loops over dimensions of these extents, by falling stride of operand 0 (then 1, …): the order of elements in
    /// memory where the operation does not care. Missing strides count as 0.
    pub fn in_memory_order(extents: &[u32], strides: [&[i32]; N]) -> Self {
        let axis = |d: usize| Axis {
            extent: extents[d].into(),
            strides: strides.map(|strides| strides.get(d).copied().unwrap_or(0).into()),
        };
        let mut axes: heapless::Vec<Axis<N>, MAX_RANK> = heapless::Vec::new();
        for d in (0..extents.len().min(MAX_RANK)).filter(|&d| extents[d] != 1) {
            // Insertion sort: stable, without allocation, and eight dimensions at most.
            let distances = |axis: &Axis<N>| axis.strides.map(i64::unsigned_abs);
            let axis = axis(d);
            let place =
                axes.iter().rposition(|before| distances(before) >= distances(&axis)).map_or(0, |last| last + 1);
            let _ = axes.insert(place, axis);
        }
        let mut nest = Self { axes: heapless::Vec::new() };
        axes.into_iter().for_each(|axis| nest.push(axis));
        nest
    }

    /// Adds an innermost loop, merging it with the one around it where that changes nothing.
    pub fn push(&mut self, axis: Axis<N>) {
        if axis.extent == 1 {
            return;
        }
        if let Some(outer) = self.axes.last_mut() {
            let fits = |(outer, inner): (&i64, &i64)| inner.checked_mul(axis.extent as i64) == Some(*outer);
            if outer.strides.iter().zip(&axis.strides).all(fits) {
                *outer = Axis { extent: outer.extent.saturating_mul(axis.extent), strides: axis.strides };
                return;
            }
        }
        // As many axes as dimensions at most, so this cannot overflow.
        let _ = self.axes.push(axis);
    }

    /// Takes the innermost loop out, or one of a single step where there is none.
    pub fn pop(&mut self) -> Axis<N> {
        self.axes.pop().unwrap_or(Axis { extent: 1, strides: [0; N] })
    }

    /// Offsets of all operands at every step, from those at index 0.
    pub fn walk(&self, start: [usize; N]) -> Walk<'_, N> {
        let ended = self.axes.iter().any(|axis| axis.extent == 0);
        Walk { axes: &self.axes, index: [0; MAX_RANK], at: start.map(|o| o as i64), ended }
    }
}

/// Iterator of [`Nest::walk`].
pub(crate) struct Walk<'a, const N: usize> {
    axes: &'a [Axis<N>],
    index: [u64; MAX_RANK],
    at: [i64; N],
    ended: bool,
}

impl<const N: usize> Iterator for Walk<'_, N> {
    type Item = [usize; N];

    fn next(&mut self) -> Option<[usize; N]> {
        if self.ended {
            return None;
        }
        let here = self.at.map(|offset| offset as usize);
        for (axis, index) in self.axes.iter().zip(&mut self.index).rev() {
            *index += 1;
            if *index < axis.extent {
                for (at, stride) in self.at.iter_mut().zip(&axis.strides) {
                    *at += stride;
                }
                return Some(here);
            }
            *index = 0;
            for (at, stride) in self.at.iter_mut().zip(&axis.strides) {
                *at -= stride * (axis.extent as i64 - 1);
            }
        }
        self.ended = true;
        Some(here)
    }
}

/// Offset `steps` strides away from `base`.
#[inline(always)]
pub(crate) fn offset(base: usize, stride: i64, steps: usize) -> usize {
    base.wrapping_add_signed((stride as isize).wrapping_mul(steps as isize))
}

/// Checks that a shape has fewer than 2³¹ elements.
///
/// # Errors
/// `Shape` otherwise, an extent of 0 counting as 1: it must not hide a product of the others that a loop would overflow on.
pub(crate) fn check_elements(shape: &[u32]) -> Result<(), KernelError> {
    let bound = shape.iter().fold(1u64, |product, &extent| product.saturating_mul(extent.max(1).into()));
    if bound < 1 << 31 { Ok(()) } else { Err(KernelError::Shape("2^31 elements or more")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn neighbouring_dimensions_become_one_loop() {
        let view = View::contiguous(DType::F32, &[2, 3, 1, 4]).unwrap();
        let nest = Nest::over([&view], |_| true);
        assert_eq!(nest.axes.as_slice(), [Axis { extent: 24, strides: [1] }]);
        let last = View::channels_last(DType::F32, &[2, 3, 5, 4]).unwrap();
        let nest = Nest::over([&last], |d| d != 1);
        assert_eq!(nest.axes.as_slice(), [Axis { extent: 40, strides: [8] }]);
        assert_eq!(nest.walk([1]).map(|[o]| o).collect::<Vec<_>>(), (0..40).map(|i| 1 + 8 * i).collect::<Vec<_>>());
    }

    #[test]
    fn dense_operands_become_one_loop_whatever_their_order() {
        // Both channels-last: [n, c, h, w] with c innermost.
        let strides = [60, 1, 15, 3];
        let nest = Nest::in_memory_order(&[2, 3, 4, 5], [&strides, &strides]);
        assert_eq!(nest.axes.as_slice(), [Axis { extent: 120, strides: [1, 1] }]);
    }

    #[test]
    fn a_channel_broadcast_keeps_its_loop() {
        let nest = Nest::in_memory_order(&[2, 3, 4, 5], [&[60, 20, 5, 1], &[0, 1, 0, 0]]);
        let axis = |extent, strides| Axis { extent, strides };
        assert_eq!(nest.axes.as_slice(), [axis(2, [60, 0]), axis(3, [20, 1]), axis(20, [1, 0])]);
    }
}
