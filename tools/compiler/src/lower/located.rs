//! Where a value lies: a strided window on a buffer, and the view algebra that makes movement operators free.

use crate::kernel_graph::{BufferId, BufferRange};
use floe_kernels::{DType, Dims, KernelError, Strides, View};

/// A value's place: element type, extents and strides over a buffer. Strides and offset are in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The buffer.
    pub buffer: BufferId,
    /// Element type in memory.
    pub dtype: DType,
    /// Element at index 0, from the buffer's start.
    pub offset: i64,
    /// Logical extents.
    pub shape: Vec<usize>,
    /// Distances between neighbours.
    pub strides: Vec<i64>,
    /// Zero-padded channels in memory (see [`View::padded_channels`]), 0 where there are none.
    pub padded_channels: usize,
}

/// Row-major strides.
pub fn row_major(shape: &[usize]) -> Vec<i64> {
    let mut strides = vec![1; shape.len()];
    for d in (1..shape.len()).rev() {
        strides[d - 1] = strides[d] * shape[d].max(1) as i64;
    }
    strides
}

impl Located {
    /// A row-major value at the start of a buffer.
    pub fn plain(buffer: BufferId, dtype: DType, shape: &[usize]) -> Self {
        Self { buffer, dtype, offset: 0, shape: shape.to_vec(), strides: row_major(shape), padded_channels: 0 }
    }

    /// A channels-last value at the start of a buffer, channels padded to a multiple of [`DType::channel_multiple`].
    pub fn channels_last(buffer: BufferId, dtype: DType, shape: &[usize]) -> Self {
        let padded_channels = shape[1].next_multiple_of(dtype.channel_multiple() as usize);
        let mut strides = vec![1; shape.len()];
        let mut step = padded_channels as i64;
        for d in (2..shape.len()).rev() {
            strides[d] = step;
            step *= shape[d].max(1) as i64;
        }
        strides[0] = step;
        Self { buffer, dtype, offset: 0, shape: shape.to_vec(), strides, padded_channels }
    }

    /// Weights at the start of a buffer, what one tap sums side by side: of a matrix `[k, n]` its columns, of filters
    /// `[m, channels, …]` the channels.
    pub fn sums_innermost(buffer: BufferId, dtype: DType, shape: &[usize]) -> Self {
        let mut order: Vec<usize> = (0..shape.len()).collect();
        let summed = order.remove(if shape.len() == 2 { 0 } else { 1 });
        order.push(summed);
        let extents: Vec<usize> = order.iter().map(|&d| shape[d]).collect();
        Self::plain(buffer, dtype, &extents).permuted(&crate::layout::inverse(&order))
    }

    /// Bytes that the whole value spans when it starts at offset 0.
    pub fn span_bytes(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        let reach: i64 = (0..self.shape.len())
            .map(|d| {
                let extent = if d == 1 && self.padded_channels != 0 { self.padded_channels } else { self.shape[d] };
                (extent as i64 - 1) * self.strides[d].max(0)
            })
            .sum();
        (reach as u64 + 1) * self.dtype.size() as u64
    }

    /// Whether elements of the same shape lie where those of another place do.
    pub fn is_at(&self, other: &Self) -> bool {
        let mut strides = self.strides.iter().zip(&other.strides).zip(&self.shape);
        let same = |((a, b), &extent): ((&i64, &i64), &usize)| a == b || extent == 1;
        self.buffer == other.buffer && self.offset == other.offset && strides.all(same)
    }

    /// Whether every dimension but the first is packed in row-major order.
    pub fn is_plain(&self) -> bool {
        let expected = row_major(&self.shape);
        let outer = usize::from(self.shape.len() > 1);
        self.padded_channels == 0
            && (outer..self.shape.len()).all(|d| self.shape[d] == 1 || self.strides[d] == expected[d])
            && (outer == 0 || self.shape[0] == 1 || self.strides[0] >= expected[0])
    }

    /// Whether the whole value is packed in row-major order.
    pub fn is_contiguous(&self) -> bool {
        let expected = row_major(&self.shape);
        self.padded_channels == 0 && (0..self.shape.len()).all(|d| self.shape[d] == 1 || self.strides[d] == expected[d])
    }

    /// Whether channels are innermost and padded, and every pixel starts at a multiple of what they are padded to.
    pub fn is_channels_last(&self) -> bool {
        let multiple = self.dtype.channel_multiple() as usize;
        self.shape.len() >= 3
            && self.padded_channels == self.shape[1].next_multiple_of(multiple)
            && self.strides[1] == 1
            && self.offset % multiple as i64 == 0
            && (0..self.shape.len()).all(|d| {
                d == 1
                    || self.shape[d] == 1
                    || (self.strides[d] % multiple as i64 == 0 && self.strides[d] >= self.padded_channels as i64)
            })
    }

    /// The same place, known to need no padding of channels where their number is a multiple of what they are padded to:
    /// a row-major value whose last dimension a transposition has made the channels, say.
    pub fn with_whole_channels(mut self) -> Self {
        let packed = self.padded_channels == 0 && self.shape.len() >= 3 && self.strides[1] == 1;
        if packed && self.shape[1].is_multiple_of(self.dtype.channel_multiple() as usize) {
            self.padded_channels = self.shape[1];
        }
        self
    }

    /// Dimension d of the result is dimension `permutation[d]`.
    pub fn permuted(&self, permutation: &[usize]) -> Self {
        let keeps_channels = permutation.len() >= 3 && permutation[1] == 1;
        Self {
            shape: permutation.iter().map(|&p| self.shape[p]).collect(),
            strides: permutation.iter().map(|&p| self.strides[p]).collect(),
            padded_channels: if keeps_channels { self.padded_channels } else { 0 },
            ..self.clone()
        }
    }

    /// Elements `starts + i·steps`, `shape` of them.
    pub fn sliced(&self, starts: &[usize], steps: &[i64], shape: &[usize]) -> Self {
        let mut result = self.clone();
        for d in 0..shape.len() {
            result.offset += starts[d] as i64 * self.strides[d];
            result.strides[d] = self.strides[d] * steps[d];
        }
        result.shape = shape.to_vec();
        if self.padded_channels != 0 {
            let to_end = steps[1] == 1 && starts[1] + shape[1] == self.shape[1];
            result.padded_channels = if to_end {
                self.padded_channels - starts[1]
            } else if steps[1] == 1 && shape[1].is_multiple_of(8) {
                shape[1]
            } else {
                0
            };
        }
        result
    }

    /// Broadcast to `shape` by NumPy's rules.
    pub fn expanded(&self, shape: &[usize]) -> Self {
        let missing = shape.len() - self.shape.len();
        let mut strides = vec![0; missing];
        for d in 0..self.shape.len() {
            strides.push(if self.shape[d] == 1 && shape[d + missing] != 1 { 0 } else { self.strides[d] });
        }
        let padded_channels =
            if missing == 0 && shape.len() > 1 && self.shape[1] == shape[1] { self.padded_channels } else { 0 };
        Self { shape: shape.to_vec(), strides, padded_channels, ..self.clone() }
    }

    /// With leading extents of 1 up to a rank.
    pub fn with_rank(&self, rank: usize) -> Self {
        let missing = rank.saturating_sub(self.shape.len());
        let mut result = self.clone();
        result.shape.splice(0..0, std::iter::repeat_n(1, missing));
        result.strides.splice(0..0, std::iter::repeat_n(0, missing));
        if missing != 0 {
            result.padded_channels = 0;
        }
        result
    }

    /// The same elements in row-major order under other extents, where strides can express it.
    pub fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let mut strides = vec![0i64; shape.len()];
        let old: Vec<(usize, i64)> =
            self.shape.iter().copied().zip(self.strides.iter().copied()).filter(|&(extent, _)| extent != 1).collect();
        let (mut o, mut n) = (0, 0);
        while o < old.len() {
            // Grow both sides until they cover the same number of elements.
            let (o_start, n_start) = (o, n);
            let (mut old_count, mut new_count) = (old[o].0, 1);
            o += 1;
            while old_count != new_count {
                if new_count < old_count {
                    new_count *= shape.get(n)?;
                    n += 1;
                } else {
                    old_count *= old.get(o)?.0;
                    o += 1;
                }
            }
            // Inside the group the old dimensions must be packed against each other.
            for i in o_start..o - 1 {
                if old[i].1 != old[i + 1].1 * old[i + 1].0 as i64 {
                    return None;
                }
            }
            let mut step = old[o - 1].1;
            for d in (n_start..n).rev() {
                strides[d] = step;
                step *= shape[d] as i64;
            }
        }
        if shape[n..].iter().any(|&extent| extent != 1) {
            return None;
        }
        // Extents of 1 keep the stride that packs them, so that alignment checks see sensible numbers.
        for d in (0..shape.len()).rev() {
            if shape[d] == 1 {
                strides[d] = if d + 1 < shape.len() { strides[d + 1] * shape[d + 1] as i64 } else { 1 };
            }
        }
        Some(Self { shape: shape.to_vec(), strides, padded_channels: 0, ..self.clone() })
    }

    /// The operand and view that a kernel gets. `alignment` is what operand offsets must be a multiple of, in bytes.
    ///
    /// # Errors
    /// Where the rank or a size exceeds what views can express.
    pub fn operand(&self, alignment: u64) -> Result<(BufferRange, View), KernelError> {
        let size = self.dtype.size() as i64;
        let lowest: i64 = self.offset
            + self.shape.iter().zip(&self.strides).map(|(&e, &s)| (e as i64 - 1).max(0) * s.min(0)).sum::<i64>();
        let first_byte = (lowest * size) as u64;
        let offset = first_byte - first_byte % alignment.max(size as u64);
        let rest = self.offset - (offset / size as u64) as i64;
        let (shape, strides): (Vec<usize>, Vec<i64>) =
            if self.shape.is_empty() { (vec![1], vec![1]) } else { (self.shape.clone(), self.strides.clone()) };
        let mut view = View {
            dtype: self.dtype,
            offset: u32::try_from(rest).map_err(|_| KernelError::Shape("offset"))?,
            padded_channels: self.padded_channels as u32,
            shape: Dims::new(),
            strides: Strides::new(),
        };
        for (&extent, &stride) in shape.iter().zip(&strides) {
            let extent = u32::try_from(extent).map_err(|_| KernelError::Shape("size"))?;
            let stride = i32::try_from(stride).map_err(|_| KernelError::Shape("size"))?;
            view.shape.push(extent).map_err(|_| KernelError::Shape("rank above 8"))?;
            view.strides.push(stride).map_err(|_| KernelError::Shape("rank above 8"))?;
        }
        let bytes = view.bytes()?;
        Ok((BufferRange { buffer: self.buffer, offset, bytes }, view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(shape: &[usize]) -> Located {
        Located::plain(BufferId(0), DType::F32, shape)
    }

    #[test]
    fn reshape_of_a_contiguous_value_is_free() {
        let value = plain(&[2, 3, 4]);
        assert_eq!(value.reshaped(&[6, 4]).unwrap().strides, [4, 1]);
        assert_eq!(value.reshaped(&[1, 2, 12, 1]).unwrap().strides, [24, 12, 1, 1]);
        assert_eq!(value.reshaped(&[24]).unwrap().strides, [1]);
    }

    #[test]
    fn weights_lie_with_sums_innermost() {
        let of = |shape: &[usize]| Located::sums_innermost(BufferId(0), DType::I8, shape);
        assert_eq!((of(&[5, 7]).strides, of(&[4, 3, 2, 5]).strides), (vec![1, 5], vec![30, 1, 15, 3]));
        assert_eq!(of(&[4, 3, 2, 5]).shape, [4, 3, 2, 5]);
    }

    #[test]
    fn reshape_across_a_transposition_is_refused() {
        let value = plain(&[2, 3, 4]).permuted(&[0, 2, 1]);
        assert!(value.reshaped(&[2, 12]).is_none());
        assert_eq!(value.reshaped(&[2, 4, 3, 1]).unwrap().strides, [12, 1, 4, 1]);
    }

    #[test]
    fn transposing_channels_last_back_is_contiguous() {
        let value = Located::channels_last(BufferId(0), DType::F16, &[1, 16, 5, 7]);
        assert!(value.permuted(&[0, 2, 3, 1]).is_contiguous());
        let ragged = Located::channels_last(BufferId(0), DType::F16, &[1, 3, 5, 7]);
        assert!(!ragged.permuted(&[0, 2, 3, 1]).is_contiguous());
    }

    #[test]
    fn channels_that_need_no_padding_are_channels_last() {
        let turned = |channels| plain(&[1, 5, 7, channels]).permuted(&[0, 3, 1, 2]).with_whole_channels();
        assert!(turned(16).is_channels_last());
        assert!(!turned(12).is_channels_last());
        assert!(!plain(&[1, 16, 5, 7]).with_whole_channels().is_channels_last());
    }

    #[test]
    fn reversed_slice_has_its_operand_at_the_lowest_byte() {
        let value = plain(&[4]).sliced(&[3], &[-1], &[4]);
        let (range, view) = value.operand(4).unwrap();
        assert_eq!((range.offset, view.offset, view.strides[0]), (0, 3, -1));
    }

    #[test]
    fn a_channel_slice_keeps_padding_only_where_it_is_zero() {
        let value = Located::channels_last(BufferId(0), DType::F16, &[1, 20, 5, 7]);
        assert_eq!(value.sliced(&[0, 16, 0, 0], &[1; 4], &[1, 4, 5, 7]).padded_channels, 8);
        assert_eq!(value.sliced(&[0, 8, 0, 0], &[1; 4], &[1, 8, 5, 7]).padded_channels, 8);
        assert_eq!(value.sliced(&[0, 0, 0, 0], &[1; 4], &[1, 3, 5, 7]).padded_channels, 0);
    }
}
