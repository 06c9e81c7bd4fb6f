//! How values lie.

use super::{Layout, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_models::{DType, Op, TensorId, op::ImageLayout};

/// Most elements that a pooling writes in rows: each takes a sector of memory.
const MOST_FLATTENED: usize = 1 << 16;

/// The layout that a node's operator works in where no program is part of it; a program alone takes that of its inputs.
fn own_layout(node: &FusedNode) -> Option<ImageLayout> {
    match &node.op {
        FusedOp::Pointwise(_) => Some(ImageLayout::OfInputs),
        FusedOp::Operator(op) => Some(op.properties().layout),
        FusedOp::Anchored { .. } => None,
    }
}

/// The operator that computes on channels-last images whatever its neighbours do.
fn works_channels_last(node: &FusedNode) -> Option<&'static str> {
    let (FusedOp::Operator(op) | FusedOp::Anchored { op, .. }) = &node.op else { return None };
    (op.properties().layout == ImageLayout::ChannelsLast).then(|| op.name())
}

/// Whether the layout of the node's outputs is that of its inputs: it works in any, or its outputs are windows on its input.
fn follows_inputs(node: &FusedNode) -> bool {
    matches!(own_layout(node), Some(ImageLayout::OfInputs | ImageLayout::Window))
}

/// Whether the node can write whatever layout its readers want.
fn writes_any_layout(node: &FusedNode) -> bool {
    matches!(own_layout(node), Some(ImageLayout::OfInputs | ImageLayout::OfReaders))
}

/// Whether an output of a node may lie channels last: floats, and what lies in bytes between quantised convolutions and what is
/// fused around them.
fn is_image(graph: &FusedGraph, node: &FusedNode, id: TensorId) -> bool {
    let fact = &graph.values[id.0].fact;
    let integers = node.properties().is_none_or(|properties| properties.integer_images);
    let dtype = match fact.dtype {
        DType::F32 | DType::F16 | DType::Bf16 => true,
        DType::I8 | DType::U8 | DType::F8E4M3 | DType::F8E5M2 => integers,
        // What another convolution's epilogue adds.
        DType::I32 => integers && matches!(node.op, FusedOp::Anchored { .. }),
        _ => false,
    };
    dtype && (3..=5).contains(&fact.shape.len())
}

/// The layout of every value, and why.
pub(super) fn assign(graph: &FusedGraph, options: StoreOptions<'_>, first_layers: &[bool]) -> Vec<(Layout, Reason)> {
    let without = if options.host { Reason::Host } else { Reason::NoImage };
    let mut layouts = vec![(Layout::Plain, without); graph.values.len()];
    let readers = graph.readers();
    let mut outputs = vec![false; graph.values.len()];
    graph.outputs.iter().for_each(|output| outputs[output.0] = true);
    permute(graph, &readers, &outputs, &mut layouts);
    if options.host {
        return layouts;
    }
    let lies_so = |layouts: &[(Layout, Reason)], id: TensorId| layouts[id.0].0 == Layout::ChannelsLast;
    let rank = |id: TensorId| graph.values[id.0].fact.shape.len();
    // Forwards: images stay channels-last through everything that can follow.
    for node in &graph.nodes {
        let same_rank = |input: TensorId| rank(input) == rank(node.outputs[0]);
        let follows = || follows_inputs(node) && node.inputs.iter().any(|&id| lies_so(&layouts, id) && same_rank(id));
        let decision = match works_channels_last(node) {
            Some(operator) => (Layout::ChannelsLast, Reason::Works { operator }),
            None if follows() => (Layout::ChannelsLast, Reason::FollowsInput),
            None => (Layout::Plain, Reason::Default),
        };
        for &output in node.outputs.iter().filter(|&&output| is_image(graph, node, output)) {
            if layouts[output.0].0 == Layout::Plain {
                layouts[output.0] = decision.clone();
            }
        }
    }
    // Backwards: what only channels-last nodes read is written that way at once.
    for node in graph.nodes.iter().rev() {
        let bound = node.outputs.iter().any(|&output| !is_image(graph, node, output) || outputs[output.0]);
        if !writes_any_layout(node) || bound {
            continue;
        }
        let frame = matches!(node.op, FusedOp::Operator(Op::Frame(_)));
        let works_so = |&number: &usize| {
            let reader = &graph.nodes[number];
            let integers = matches!(reader.op, FusedOp::Anchored { op: Op::QuantizedConv { .. }, .. });
            let reads_as_it_lies = first_layers[number] && (integers || frame);
            let works_so = works_channels_last(reader).is_some() || lies_so(&layouts, reader.outputs[0]);
            !reads_as_it_lies && works_so
        };
        let mut read = node.outputs.iter().flat_map(|output| &readers[output.0]).peekable();
        if read.peek().is_some() && read.all(works_so) {
            for output in &node.outputs {
                if layouts[output.0].0 != Layout::ChannelsLast {
                    layouts[output.0] = (Layout::ChannelsLast, Reason::Readers);
                }
            }
        }
    }
    flatten(graph, &readers, &mut layouts);
    layouts
}

/// A pooling whose only reader flattens its channels and places to rows writes these, which costs less than a copy where elements are
/// few: its kernels store one element as well as several.
fn flatten(graph: &FusedGraph, readers: &[Vec<usize>], layouts: &mut [(Layout, Reason)]) {
    for node in &graph.nodes {
        let FusedOp::Operator(Op::Pool { .. }) = node.op else { continue };
        let output = node.outputs[0];
        let &[reader] = readers[output.0].as_slice() else { continue };
        let reader = &graph.nodes[reader];
        let shape = |id: TensorId| graph.values[id.0].fact.shape.as_slice();
        let (from, to) = (shape(output), shape(reader.outputs[0]));
        let mixes = from.get(..2) != to.get(..2) && from.iter().skip(2).any(|&extent| extent != 1);
        if matches!(reader.op, FusedOp::Operator(Op::Reshape))
            && mixes
            && from.iter().product::<usize>() <= MOST_FLATTENED
        {
            layouts[output.0] = (Layout::Plain, Reason::Flattened);
        }
    }
}

/// Attention writes its result in the order in which its only reader transposes it.
fn permute(graph: &FusedGraph, readers: &[Vec<usize>], outputs: &[bool], layouts: &mut [(Layout, Reason)]) {
    for node in &graph.nodes {
        let FusedOp::Operator(Op::Attention { .. }) = node.op else { continue };
        let output = node.outputs[0];
        let &[reader] = readers[output.0].as_slice() else { continue };
        if let FusedOp::Operator(Op::Transpose { permutation }) = &graph.nodes[reader].op
            && !outputs[output.0]
        {
            layouts[output.0] = (Layout::Permuted(permutation.clone()), Reason::Transposed);
        }
    }
}
