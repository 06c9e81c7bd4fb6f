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
    let products = products(graph, host);
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
                Layout::Plain => {
                    let written =
                        is_one_piece(shape, axis) || (products[part.0] && is_aligned(shape, axis, shape[axis], dtype));
                    written && (host || is_aligned(shape, axis, start, dtype))
                }
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

/// For every value whether a product on a GPU makes it that only one node reads. Its kernels write rows at any distance. On the
/// host, where what a step reads and writes must not overlap, another part may lie in the gaps between rows.
fn products(graph: &FusedGraph, host: bool) -> Vec<bool> {
    let readers = graph.readers();
    let mut products = vec![false; graph.values.len()];
    for node in graph.nodes.iter().filter(|_| !host) {
        if let FusedOp::Anchored { op: Op::MatMul | Op::Gemm { .. }, .. } = node.op {
            let output = node.outputs[0];
            products[output.0] = readers[output.0].len() == 1;
        }
    }
    products
}

/// Whether a slice of a row-major value along this dimension has no gaps.
fn is_one_piece(shape: &[usize], axis: usize) -> bool {
    shape[..axis].iter().all(|&extent| extent == 1)
}

/// Whether it starts where a GPU's operands may; a start at the extent stands for the next rows of a slice with gaps.
fn is_aligned(shape: &[usize], axis: usize, start: usize, dtype: DType) -> bool {
    let inner: usize = shape[axis + 1..].iter().product();
    (start * inner * dtype.size()).is_multiple_of(16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{passes::tests::Network, store_options::StoreOptions, stored::StoredGraph};
    use floe_models::op::Unary;

    /// Which parts of a concatenation along rows lie in place: two products of these widths, the second of which may have another
    /// reader, and what is computed from an input.
    fn in_place(widths: [usize; 2], shared: bool, host: bool) -> [bool; 3] {
        let mut net = Network::new();
        let left = net.input(&[1, 4, 8]);
        let products = widths.map(|width| {
            let right = net.input(&[1, 8, width]);
            net.node(Op::MatMul, &[left, right])
        });
        let other = net.input(&[1, 4, 8]);
        let other = net.unary(Unary::Exp, other);
        let parts = [products[0], products[1], other];
        let whole = net.node(Op::Concat { axis: 2 }, &parts);
        let y = net.node(Op::Softmax { axis: 1, log: false }, &[whole]);
        net.output(y);
        if shared {
            let y = net.node(Op::Softmax { axis: 2, log: false }, &[products[1]]);
            net.output(y);
        }
        let fused = net.finish();
        let options = StoreOptions { host, half: !host, ..StoreOptions::default() };
        let slices = StoredGraph::of(&fused, options).layouts.slices;
        parts.map(|part| slices[part.0].is_some())
    }

    #[test]
    fn products_write_rows_with_gaps_where_these_are_aligned() {
        assert_eq!(in_place([24, 16], false, false), [true, true, false]);
        assert_eq!(in_place([24, 16], true, false), [true, false, false]);
        // Second parts, and second rows, that start at no multiple of 16 bytes.
        assert_eq!(in_place([20, 20], false, false), [true, false, false]);
        assert_eq!(in_place([24, 20], false, false), [false; 3]);
        // On the host gaps are others' bytes.
        assert_eq!(in_place([24, 16], false, true), [false; 3]);
    }
}
