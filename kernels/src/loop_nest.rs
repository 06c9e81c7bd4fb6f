//! Loops over several strided operands at once, reordered and merged: what the pointwise and data-movement families
//! iterate over, on the host and in generated kernels.

use crate::{Dims, KernelError, MAX_RANK, Strides};

/// Nested loops, outermost first, over `N` operands with a stride for each loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopNest<const N: usize> {
    /// Iterations of each loop; empty for a single element.
    pub extents: Dims,
    /// For each operand, the distance between neighbours along each loop, in elements.
    pub strides: [Strides; N],
}

impl<const N: usize> LoopNest<N> {
    /// The loops over equally shaped operands. Loops of one iteration are dropped; the others are ordered by falling
    /// stride of operand 0 (then 1, …), and neighbours that every operand crosses with one stride become one loop.
    pub fn new(extents: &[u32], strides: [&[i32]; N]) -> Self {
        let mut order: heapless::Vec<usize, MAX_RANK> = heapless::Vec::new();
        for d in (0..extents.len().min(MAX_RANK)).filter(|&d| extents[d] != 1) {
            let _ = order.push(d);
        }
        let stride = |operand: usize, d: usize| strides[operand].get(d).copied().unwrap_or(0);
        // Insertion sort: stable, without allocation, and eight dimensions at most.
        let key = |d: usize| -> [u32; N] { core::array::from_fn(|operand| stride(operand, d).unsigned_abs()) };
        for i in 1..order.len() {
            for j in (1..=i).rev() {
                if key(order[j]) <= key(order[j - 1]) {
                    break;
                }
                order.swap(j, j - 1);
            }
        }
        let mut nest = Self { extents: Dims::new(), strides: core::array::from_fn(|_| Strides::new()) };
        for d in order {
            nest.push(extents[d], core::array::from_fn(|operand| stride(operand, d)));
        }
        nest
    }

    /// Adds an innermost loop, merging it with the one around it where that changes nothing.
    fn push(&mut self, extent: u32, strides: [i32; N]) {
        if let Some(last) = self.extents.len().checked_sub(1) {
            let merges =
                self.strides.iter().zip(strides).all(|(outer, inner)| {
                    i64::from(inner).checked_mul(i64::from(extent)) == Some(i64::from(outer[last]))
                });
            if let (true, Some(product)) = (merges, self.extents[last].checked_mul(extent)) {
                self.extents[last] = product;
                for (outer, inner) in self.strides.iter_mut().zip(strides) {
                    outer[last] = inner;
                }
                return;
            }
        }
        // As many loops as dimensions at most, so there is room.
        let _ = self.extents.push(extent);
        for (outer, inner) in self.strides.iter_mut().zip(strides) {
            let _ = outer.push(inner);
        }
    }

    /// Splits off the innermost loop: its extent and strides, and the nest around it. One iteration where there is no
    /// loop at all.
    pub fn split_innermost(mut self) -> (Self, u32, [i32; N]) {
        let extent = self.extents.pop().unwrap_or(1);
        let mut inner = [0; N];
        for (step, strides) in inner.iter_mut().zip(&mut self.strides) {
            *step = strides.pop().unwrap_or(0);
        }
        (self, extent, inner)
    }

    /// The strides as slices, for a walk.
    pub fn stride_slices(&self) -> [&[i32]; N] {
        core::array::from_fn(|operand| self.strides[operand].as_slice())
    }
}

/// Number of elements of a shape.
///
/// # Errors
/// `Shape` from 2³¹ elements on, an extent of 0 counting as 1: larger loops could overflow.
pub(crate) fn elements(shape: &[u32]) -> Result<u32, KernelError> {
    let bound = shape.iter().fold(1u64, |product, &extent| product.saturating_mul(extent.max(1).into()));
    if bound >= 1 << 31 {
        return Err(KernelError::Shape("2^31 elements or more"));
    }
    Ok(if shape.contains(&0) { 0 } else { bound as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_operands_become_one_loop_whatever_their_order() {
        // Both channels-last: [n, c, h, w] with c innermost.
        let strides = [60, 1, 15, 3];
        let nest = LoopNest::new(&[2, 3, 4, 5], [&strides, &strides]);
        assert_eq!(nest.extents.as_slice(), [120]);
        assert_eq!(nest.strides.each_ref().map(|s| s.as_slice()), [[1], [1]]);
    }

    #[test]
    fn a_channel_broadcast_keeps_its_loop() {
        let nest = LoopNest::new(&[2, 3, 4, 5], [&[60, 20, 5, 1], &[0, 1, 0, 0]]);
        assert_eq!(nest.extents.as_slice(), [2, 3, 20]);
        assert_eq!(nest.strides.each_ref().map(|s| s.as_slice()), [[60, 20, 1], [0, 1, 0]]);
        let (outer, extent, inner) = nest.split_innermost();
        assert_eq!((outer.extents.as_slice(), extent, inner), ([2, 3].as_slice(), 20, [1, 0]));
    }
}
