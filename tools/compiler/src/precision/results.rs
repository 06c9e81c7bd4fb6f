//! Results that postprocessing makes: places in large images, say, which f16 does not hold.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_models::Origin;

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
    !matches!(node.op, FusedOp::Anchored { .. })
        && node.sources.iter().any(|source| source.origin == Origin::Postprocess)
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept, node},
    };
    use crate::passes;
    use floe_models::{DType, Fact, Graph, Op, Origin, Source, Tensor, op::Binary};

    /// What is a result of a product's probabilities times a factor, where the last node has this name and origin.
    fn results(name: &str, origin: Origin) -> String {
        let mut graph = Graph::default();
        let x = graph.add_value("x", Fact::new(DType::F32, &[2, 2]));
        graph.inputs.push(x);
        let product = node(&mut graph, "product", Op::MatMul, &[x, x], &[2, 2]);
        let scores = node(&mut graph, "scores", Op::Softmax { axis: 1, log: false }, &[product], &[2, 2]);
        let factor = graph.add_constant("factor", Tensor::f32(&[2], &[640.0, 480.0]));
        let placed = node(&mut graph, "placed", Op::Binary(Binary::Mul), &[scores, factor], &[2, 2]);
        graph.nodes.last_mut().unwrap().sources = vec![Source { name: name.into(), origin }];
        graph.outputs.push(placed);
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        kept(&fused, HALF, |reason| *reason == Reason::Result).join(" ")
    }

    #[test]
    fn results_are_what_postprocessing_makes_whatever_nodes_are_called() {
        assert_eq!(results("anything", Origin::Postprocess), "factor placed");
        assert_eq!(results("postprocess:x", Origin::Model), "");
        assert_eq!(results("preprocess:x", Origin::Preprocess), "");
    }
}
