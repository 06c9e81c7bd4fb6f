//! Values that are written straight into a slice of the concatenation that reads them.

use super::{Layout, Reason};
use crate::{
    fused::{FusedGraph, FusedOp},
    precision::Storage,
};
use floe_kernels::DType;
use floe_models::{Op, TensorId};

/// A slice of a concatenation's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The output.
    pub whole: TensorId,
    /// The dimension along which values are joined.
    pub axis: usize,
    /// Where the slice starts there.
    pub start: usize,
}

/// For every value its slice, if it has one.
pub(super) fn assign(
    graph: &FusedGraph,
    host: bool,
    storage: &[Storage],
    layouts: &[(Layout, Reason)],
) -> Vec<Option<Slice>> {
    let mut free = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let view = node.properties().is_some_and(|properties| properties.is_view());
        node.outputs.iter().for_each(|output| free[output.0] = !view);
    }
    graph.outputs.iter().for_each(|output| free[output.0] = false);
    let mut slices = vec![None; graph.values.len()];
    for node in &graph.nodes {
        let FusedOp::Operator(Op::Concat { axis }) = node.op else { continue };
        let whole = node.outputs[0];
        let (layout, dtype, shape) = (&layouts[whole.0].0, storage[whole.0].dtype, &graph.values[whole.0].fact.shape);
        let mut start: usize = 0;
        for (position, &part) in node.inputs.iter().enumerate() {
            let extent = graph.values[part.0].fact.shape[axis];
            let last = position + 1 == node.inputs.len();
            let writable = match layout {
                Layout::ChannelsLast => {
                    let multiple = dtype.channel_multiple() as usize;
                    axis != 1 || (start.is_multiple_of(multiple) && (last || extent.is_multiple_of(multiple)))
                }
                Layout::Plain => is_one_piece(shape, axis) && (host || is_aligned(shape, axis, start, dtype)),
                Layout::Permuted(_) => false,
            };
            let same = layouts[part.0].0 == *layout && storage[part.0].dtype == dtype;
            if free[part.0] && same && writable {
                free[part.0] = false;
                slices[part.0] = Some(Slice { whole, axis, start });
            }
            start += extent;
        }
    }
    slices
}

/// Whether a slice of a row-major value along this dimension has no gaps.
fn is_one_piece(shape: &[usize], axis: usize) -> bool {
    shape[..axis].iter().all(|&extent| extent == 1)
}

/// Whether it starts where a GPU's operands may.
fn is_aligned(shape: &[usize], axis: usize, start: usize, dtype: DType) -> bool {
    let inner: usize = shape[axis + 1..].iter().product();
    (start * inner * dtype.size()).is_multiple_of(16)
}
