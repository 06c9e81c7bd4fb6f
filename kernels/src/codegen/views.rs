//! Views that test cases are written with.

use crate::{DType, MAX_RANK, View};

/// Row-major.
pub(crate) fn dense(dtype: DType, shape: &[u32]) -> View {
    View::contiguous(dtype, shape).expect("a case's shape")
}

/// Channels-last, channels padded to 8.
pub(crate) fn channels_last(dtype: DType, shape: &[u32]) -> View {
    View::channels_last(dtype, shape).expect("a case's shape")
}

/// Every dimension reversed in memory.
pub(crate) fn reversed(dtype: DType, shape: &[u32]) -> View {
    let mut view = dense(dtype, shape);
    view.offset = shape.iter().product::<u32>() - 1;
    view.strides.iter_mut().for_each(|stride| *stride = -*stride);
    view
}

/// Dimension `order[i]` is the i-th in memory, outermost first.
pub(crate) fn permuted(dtype: DType, shape: &[u32], order: &[usize]) -> View {
    let stored: heapless::Vec<u32, MAX_RANK> = order.iter().map(|&d| shape[d]).collect();
    let memory = dense(dtype, &stored);
    let mut view = dense(dtype, shape);
    for (&d, &stride) in order.iter().zip(&memory.strides) {
        view.strides[d] = stride;
    }
    view
}

/// A dense operand of extents `from` (1 where it repeats), seen with extents `to`.
pub(crate) fn broadcast(dtype: DType, from: &[u32], to: &[u32]) -> View {
    let mut view = dense(dtype, from);
    for (d, &extent) in from.iter().enumerate() {
        if extent != to[d] {
            view.strides[d] = 0;
        }
    }
    view.shape = dense(dtype, to).shape;
    view
}

/// The part of `whole` that starts at index `start` along dimension `d` and has `extent` indices: a slice or the place
/// of a concatenated tensor.
pub(crate) fn slice(mut whole: View, d: usize, start: u32, extent: u32) -> View {
    whole.offset = (i64::from(whole.offset) + i64::from(start) * i64::from(whole.strides[d])) as u32;
    whole.shape[d] = extent;
    if d == 1 {
        whole.padded_channels = 0;
    }
    whole
}
