//! Global pooling is a reduction over the spatial dimensions.

use floe_models::{
    Graph, Op,
    op::{Pooling, Reduction},
};

/// Replaces `GlobalPool` by `Reduce`.
pub fn run(mut graph: Graph) -> Graph {
    for number in 0..graph.nodes.len() {
        let node = &graph.nodes[number];
        if let Op::GlobalPool { kind } = node.op {
            let kind = if kind == Pooling::Max { Reduction::Max } else { Reduction::Mean };
            let axes = (2..graph.fact(node.inputs[0]).shape.len()).collect();
            graph.nodes[number].op = Op::Reduce { kind, axes, keep: true };
        }
    }
    graph
}
