//! Chooses a memory layout for every value.
//!
//! On the host everything is row-major. On a GPU, images (rank 3 to 5) that convolutions, pooling and their neighbours
//! touch are channels-last with channels padded to 8; the rest is row-major.

use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_kernels::{
    View,
    conv::{reads_any_layout, reads_integers_of_any_layout},
};
use floe_models::{DType, Op, TensorId, op::ImageLayout};

/// Memory layout of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row-major in the model's order of dimensions.
    Plain,
    /// Channels innermost, padded to a multiple of 8.
    ChannelsLast,
}

/// The permutation that undoes another.
pub fn inverse(permutation: &[usize]) -> Vec<usize> {
    let mut result = vec![0; permutation.len()];
    for (to, &from) in permutation.iter().enumerate() {
        result[from] = to;
    }
    result
}

/// Whether the node computes on channels-last images whatever its neighbours do.
fn works_channels_last(node: &FusedNode) -> bool {
    node.properties().is_some_and(|properties| properties.layout == ImageLayout::ChannelsLast)
}

/// The layout that a node's operator works in where no program is part of it; a program alone takes that of its inputs.
fn own_layout(node: &FusedNode) -> Option<ImageLayout> {
    match &node.op {
        FusedOp::Pointwise(_) => Some(ImageLayout::OfInputs),
        FusedOp::Operator(op) => Some(op.properties().layout),
        FusedOp::Anchored { .. } => None,
    }
}

/// Whether the layout of the node's outputs is that of its inputs: it works in any, or its outputs are windows on its input.
fn follows_inputs(node: &FusedNode) -> bool {
    matches!(own_layout(node), Some(ImageLayout::OfInputs | ImageLayout::Window))
}

/// Whether the node can write whatever layout its readers want.
fn writes_any_layout(node: &FusedNode) -> bool {
    matches!(own_layout(node), Some(ImageLayout::OfInputs | ImageLayout::OfReaders))
}

/// Whether the node is a convolution of few channels, in f16 or of 8-bit integers as asked, which reads its input fastest as
/// it lies, without padding.
fn reads_unpadded(graph: &FusedGraph, node: &FusedNode, integers: bool) -> bool {
    let (FusedOp::Anchored { op, .. } | FusedOp::Operator(op)) = &node.op else { return false };
    let window = match op {
        Op::Conv { window, groups: 1 } if !integers => window,
        Op::QuantizedConv { window, groups: 1, .. } if integers => window,
        _ => return false,
    };
    let view = |id: TensorId| {
        let fact = &graph.values[id.0].fact;
        let extents: Option<Vec<u32>> = fact.shape.iter().map(|&e| u32::try_from(e).ok()).collect();
        let dtype = if integers { crate::fused::kernel_dtype(fact.dtype) } else { floe_kernels::DType::F16 };
        View::contiguous(dtype, &extents?).ok()
    };
    let pair =
        |values: &[usize]| Some([1, u32::try_from(*values.first()?).ok()?, u32::try_from(*values.get(1)?).ok()?]);
    let operands = (view(node.inputs[0]), view(node.inputs[1]), pair(&window.strides), pair(&window.dilations));
    let (Some(input), Some(weights), Some(strides), Some(dilations)) = operands else { return false };
    match integers {
        true => reads_integers_of_any_layout(&input, &weights, strides, dilations),
        false => reads_any_layout(&input, &weights, floe_kernels::DType::F16, strides, dilations),
    }
}

/// A layout for every value of the graph; `half` says whether f32 is stored as f16.
pub fn assign(graph: &FusedGraph, host: bool, half: bool) -> Vec<Layout> {
    let mut layouts = vec![Layout::Plain; graph.values.len()];
    if host {
        return layouts;
    }
    let image = |id: TensorId| {
        let fact = &graph.values[id.0].fact;
        (3..=5).contains(&fact.shape.len()) && matches!(fact.dtype, DType::F32 | DType::F16 | DType::Bf16)
    };
    // Images of integers between quantised convolutions and what is fused around them.
    let integers = |node: &FusedNode, id: TensorId| {
        let moves = node.properties().is_none_or(|properties| properties.integer_images);
        let fact = &graph.values[id.0].fact;
        let kind = match node.op {
            // What another convolution's epilogue adds.
            FusedOp::Anchored { .. } => matches!(fact.dtype, DType::I8 | DType::U8 | DType::I32),
            FusedOp::Operator(_) | FusedOp::Pointwise(_) => matches!(fact.dtype, DType::I8 | DType::U8),
        };
        moves && (3..=5).contains(&fact.shape.len()) && kind
    };
    let image = |node: &FusedNode, id: TensorId| image(id) || integers(node, id);
    // Forwards: images stay channels-last through everything that can follow.
    for node in &graph.nodes {
        let from_input = follows_inputs(node)
            && node.inputs.iter().any(|input| {
                layouts[input.0] == Layout::ChannelsLast
                    && graph.values[input.0].fact.shape.len() == graph.values[node.outputs[0].0].fact.shape.len()
            });
        if works_channels_last(node) || from_input {
            for output in node.outputs.iter().filter(|&&output| image(node, output)) {
                layouts[output.0] = Layout::ChannelsLast;
            }
        }
    }
    let readers = graph.readers();
    let mut outputs = vec![false; graph.values.len()];
    graph.outputs.iter().for_each(|output| outputs[output.0] = true);
    // Backwards: what only channels-last nodes read is written that way at once.
    for node in graph.nodes.iter().rev() {
        if !writes_any_layout(node) || node.outputs.iter().any(|output| !image(node, *output) || outputs[output.0]) {
            continue;
        }
        let frame = half && matches!(node.op, FusedOp::Operator(Op::Frame(_)));
        let mut read = node.outputs.iter().flat_map(|output| &readers[output.0]).map(|&reader| &graph.nodes[reader]);
        let any = node.outputs.iter().any(|output| !readers[output.0].is_empty());
        let all = read.all(|reader| {
            let unpadded = reads_unpadded(graph, reader, true) || frame && reads_unpadded(graph, reader, false);
            !unpadded && (works_channels_last(reader) || layouts[reader.outputs[0].0] == Layout::ChannelsLast)
        });
        if any && all {
            for output in &node.outputs {
                layouts[output.0] = Layout::ChannelsLast;
            }
        }
    }
    layouts
}
