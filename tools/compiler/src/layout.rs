//! Chooses a memory layout for every value.
//!
//! On the host everything is row-major. On a GPU, images (rank 3 to 5) that convolutions, pooling and their neighbours
//! touch are channels-last with channels padded to 8; the rest is row-major.

use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_models::{DType, Op, TensorId};

/// Memory layout of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Row-major in the model's order of dimensions.
    Plain,
    /// Channels innermost, padded to a multiple of 8.
    ChannelsLast,
}

/// Whether the node computes on channels-last images whatever its neighbours do.
fn works_channels_last(node: &FusedNode) -> bool {
    match &node.op {
        FusedOp::Anchored { op, .. } | FusedOp::Operator(op) => matches!(
            op,
            Op::Conv { .. }
                | Op::ConvTranspose { .. }
                | Op::Pool { .. }
                | Op::GlobalPool { .. }
                | Op::Lrn { .. }
                | Op::InstanceNormalization { .. }
                | Op::GroupNormalization { .. }
                | Op::DepthToSpace { .. }
        ),
        FusedOp::Pointwise(_) => false,
    }
}

/// Whether the node can work in whatever layout its inputs have.
fn follows_inputs(node: &FusedNode) -> bool {
    match &node.op {
        FusedOp::Pointwise(_) => true,
        FusedOp::Operator(op) => matches!(
            op,
            Op::Concat { .. } | Op::Pad { .. } | Op::Resize { .. } | Op::Cast | Op::Reduce { keep: true, .. }
        ),
        FusedOp::Anchored { .. } => false,
    }
}

/// Whether the node's outputs are windows on its input, so that its layout is its input's.
fn is_window(node: &FusedNode) -> bool {
    matches!(&node.op, FusedOp::Operator(Op::Slice { .. } | Op::Split { .. } | Op::Identity))
}

/// A layout for every value of the graph.
pub fn assign(graph: &FusedGraph, host: bool) -> Vec<Layout> {
    let mut layouts = vec![Layout::Plain; graph.values.len()];
    if host {
        return layouts;
    }
    let image = |id: TensorId| {
        let fact = &graph.values[id.0].fact;
        (3..=5).contains(&fact.shape.len()) && matches!(fact.dtype, DType::F32 | DType::F16 | DType::Bf16)
    };
    // Forwards: images stay channels-last through everything that can follow.
    for node in &graph.nodes {
        let from_input = (follows_inputs(node) || is_window(node))
            && node.inputs.iter().any(|input| {
                layouts[input.0] == Layout::ChannelsLast
                    && graph.values[input.0].fact.shape.len() == graph.values[node.outputs[0].0].fact.shape.len()
            });
        if works_channels_last(node) || from_input {
            for output in node.outputs.iter().filter(|&&output| image(output)) {
                layouts[output.0] = Layout::ChannelsLast;
            }
        }
    }
    // Backwards: what only channels-last nodes read is written that way at once.
    for (number, node) in graph.nodes.iter().enumerate().rev() {
        if !follows_inputs(node) || node.outputs.iter().any(|output| !image(*output) || graph.outputs.contains(output))
        {
            continue;
        }
        let mut read = false;
        let all = graph.nodes[number + 1..].iter().all(|reader| {
            let reads = reader.inputs.iter().any(|input| node.outputs.contains(input));
            read |= reads;
            !reads || works_channels_last(reader) || layouts[reader.outputs[0].0] == Layout::ChannelsLast
        });
        if read && all {
            for output in &node.outputs {
                layouts[output.0] = Layout::ChannelsLast;
            }
        }
    }
    layouts
}
