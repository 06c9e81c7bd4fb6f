//! Results that postprocessing makes: places in large images, say, which f16 does not hold.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    stored::StoreOptions,
};

/// Keeps what postprocessing makes, and the constants that it takes for that. What runs in the epilogue of a layer stays as exact
/// as the layer.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    for node in graph.nodes.iter().filter(|node| is_result(node)) {
        kept.keep_all(&node.outputs, Reason::Result);
        let constants = node.inputs.iter().filter(|id| graph.values[id.0].constant.is_some());
        kept.keep_all(constants, Reason::Result);
    }
}

fn is_result(node: &FusedNode) -> bool {
    let ours = |source: &String| source.starts_with(crate::postprocess::PREFIX);
    !matches!(node.op, FusedOp::Anchored { .. }) && node.sources.iter().any(ours)
}
