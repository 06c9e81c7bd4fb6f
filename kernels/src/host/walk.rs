//! Walks over the indices of several strided views at once, without allocation.

use crate::MAX_RANK;

/// Iterates over all indices of `dims` in row-major order and yields the element offset in each of `N` operands.
///
/// For speed walk the outer dimensions only (`&dims[..rank - 1]`) and loop over the innermost one by its strides.
/// Rank 0 yields once. Offsets wrap on overflow, which a checked view cannot cause.
pub(crate) struct Walk<'a, const N: usize> {
    dims: &'a [u32],
    strides: [&'a [i32]; N],
    index: [u32; MAX_RANK],
    offsets: [usize; N],
    done: bool,
}

impl<'a, const N: usize> Walk<'a, N> {
    /// A walk over at most [`MAX_RANK`] dimensions (further ones are left at index 0), from the given first offsets.
    /// Strides past `dims` are not used; missing ones count as 0.
    pub(crate) fn new(dims: &'a [u32], strides: [&'a [i32]; N], offsets: [u32; N]) -> Self {
        let done = dims.contains(&0);
        let dims = &dims[..dims.len().min(MAX_RANK)];
        Self { dims, strides, index: [0; MAX_RANK], offsets: offsets.map(|o| o as usize), done }
    }

    /// The index that the next call of `next` yields offsets for.
    #[allow(dead_code)]
    pub(crate) fn index(&self) -> &[u32] {
        &self.index[..self.dims.len()]
    }
}

impl<const N: usize> Iterator for Walk<'_, N> {
    type Item = [usize; N];

    #[inline]
    fn next(&mut self) -> Option<[usize; N]> {
        if self.done {
            return None;
        }
        let current = self.offsets;
        for d in (0..self.dims.len()).rev() {
            let wrapped = self.index[d] + 1 == self.dims[d];
            // One step forward, or all the way back to index 0 of this dimension.
            let steps = if wrapped { -i64::from(self.index[d]) } else { 1 };
            for (offset, strides) in self.offsets.iter_mut().zip(self.strides) {
                let stride = i64::from(strides.get(d).copied().unwrap_or(0));
                *offset = offset.wrapping_add_signed(stride.wrapping_mul(steps) as isize);
            }
            if !wrapped {
                self.index[d] += 1;
                return Some(current);
            }
            self.index[d] = 0;
        }
        self.done = true;
        Some(current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_in_row_major_order_with_any_strides() {
        let offsets: Vec<[usize; 2]> = Walk::new(&[2, 3], [&[3, 1], &[-1, 2]], [0, 1]).collect();
        assert_eq!(offsets, [[0, 1], [1, 3], [2, 5], [3, 0], [4, 2], [5, 4]]);
    }

    #[test]
    fn rank_zero_is_one_element_and_empty_dims_are_none() {
        assert_eq!(Walk::new(&[], [&[]], [7]).collect::<Vec<_>>(), [[7]]);
        assert_eq!(Walk::new(&[3, 0], [&[1, 1]], [0]).count(), 0);
    }
}
