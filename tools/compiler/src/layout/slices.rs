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

/// What is written into slices.
pub(super) struct Slices {
    /// For every value its slice, if it has one.
    pub of: Vec<Option<Slice>>,
    /// For every value the node, its only reader, that makes another view of it, where this lies in a slice.
    pub viewed: Vec<Option<usize>>,
}

/// Finds them.
pub(super) fn assign(graph: &FusedGraph, host: bool, storage: &[Storage], layouts: &[(Layout, Reason)]) -> Slices {
    let mut free = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let view = node.properties().is_some_and(|properties| properties.is_view());
        node.outputs.iter().for_each(|output| free[output.0] = !view);
    }
    graph.outputs.iter().for_each(|output| free[output.0] = false);
    let views = Views::of(graph);
    let gaps = gaps(graph, &views.readers, host);
    let (mut slices, mut viewed) = (vec![None; graph.values.len()], vec![None; graph.values.len()]);
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
                    let aligned = |start| host || is_aligned(shape, axis, start, dtype);
                    match gaps[part.0] {
                        Gaps::Any => true,
                        Gaps::Aligned if aligned(shape[axis]) => aligned(start),
                        _ => is_one_piece(shape, axis) && aligned(start),
                    }
                }
                Layout::Permuted(_) => false,
            };
            let same = layouts[part.0].0 == *layout && storage[part.0].dtype == dtype;
            let (source, through) = views.behind(graph, part);
            if free[source.0] && same && writable && storage[source.0].dtype == dtype {
                free[source.0] = false;
                slices[part.0] = Some(Slice { whole, axis, start });
                through.into_iter().for_each(|node| viewed[graph.nodes[node].inputs[0].0] = Some(node));
            }
            start += extent;
        }
    }
    Slices { of: slices, viewed }
}

/// Nodes that only look at a value otherwise.
struct Views {
    makers: Vec<Option<usize>>,
    readers: Vec<Vec<usize>>,
}

impl Views {
    fn of(graph: &FusedGraph) -> Self {
        Self { makers: graph.makers(), readers: graph.readers() }
    }

    /// The value that a part is a view of, which nobody else reads, and the nodes between, the last first.
    fn behind(&self, graph: &FusedGraph, part: TensorId) -> (TensorId, Vec<usize>) {
        let (mut value, mut nodes) = (part, Vec::new());
        while let Some(maker) = self.makers[value.0]
            && let FusedOp::Operator(Op::Reshape | Op::Transpose { .. } | Op::Identity) = graph.nodes[maker].op
            && self.readers[value.0].len() == 1
            && !graph.outputs.contains(&value)
        {
            nodes.push(maker);
            value = graph.nodes[maker].inputs[0];
        }
        match self.readers[value.0].len() {
            1 => (value, nodes),
            _ => (part, Vec::new()),
        }
    }
}

/// Which gaps between its rows a value may have where it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gaps {
    None,
    /// Rows start at multiples of 16 bytes.
    Aligned,
    Any,
}

/// For every value that only one node reads. On a GPU products write rows at any distance, and element-wise programs anything. On the
/// host, where what a step reads and writes must not overlap, another part may lie in the gaps.
fn gaps(graph: &FusedGraph, readers: &[Vec<usize>], host: bool) -> Vec<Gaps> {
    let mut gaps = vec![Gaps::None; graph.values.len()];
    for node in graph.nodes.iter().filter(|_| !host) {
        let written = match node.op {
            FusedOp::Anchored { op: Op::MatMul | Op::Gemm { .. }, .. } => Gaps::Aligned,
            FusedOp::Pointwise(_) => Gaps::Any,
            _ => continue,
        };
        for output in node.outputs.iter().filter(|output| readers[output.0].len() == 1) {
            gaps[output.0] = written;
        }
    }
    gaps
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
    use crate::{lower, passes::tests::Network, store_options::StoreOptions, stored::StoredGraph};
    use floe_kernels::Kernel;
    use floe_models::{Fact, op::Unary};

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
    fn views_of_what_is_joined_are_written_in_place() {
        let mut net = Network::new();
        let levels = [8, 4].map(|extent| {
            let x = net.input(&[1, 8, extent, extent]);
            let y = net.conv(x, 16, 3, 1);
            let y = net.node(Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[y]);
            net.node_as(Op::Reshape, &[y], &[Fact::new(DType::F32, &[1, extent * extent * 4, 4])])[0]
        });
        let whole = net.node(Op::Concat { axis: 1 }, &levels);
        let y = net.node(Op::Softmax { axis: 2, log: false }, &[whole]);
        net.output(y);
        let fused = net.finish();
        let copies = |host: bool| {
            let options = StoreOptions { host, half: !host, ..StoreOptions::default() };
            let kernels = lower::lower(&StoredGraph::of(&fused, options)).expect("every kernel has a form");
            kernels.nodes.iter().filter(|node| matches!(node.kernel, Kernel::Copy(_))).count()
        };
        // On the GPU of the two inputs, which are brought to channels last; on the host the transpositions, into the whole.
        assert_eq!([copies(false), copies(true)], [2, 2]);
        let slices = StoredGraph::of(&fused, StoreOptions { half: true, ..StoreOptions::default() }).layouts;
        assert!(slices.viewed.iter().flatten().count() == 4, "a transposition and a reshape of each level");
    }

    #[test]
    fn products_write_rows_with_gaps_where_these_are_aligned_and_programs_anywhere() {
        assert_eq!(in_place([24, 16], false, false), [true; 3]);
        assert_eq!(in_place([24, 16], true, false), [true, false, true]);
        // Second parts, and second rows, that start at no multiple of 16 bytes: what is element-wise may.
        assert_eq!(in_place([20, 20], false, false), [true, false, true]);
        assert_eq!(in_place([24, 20], false, false), [false, false, true]);
        // On the host gaps are others' bytes.
        assert_eq!(in_place([24, 16], false, true), [false; 3]);
    }
}
