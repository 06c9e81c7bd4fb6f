//! Sums over a dimension, which grow with its extent: a few hundred squares of activations are beyond 65504.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_models::{Op, TensorId, op::Size};
use std::collections::HashSet;

/// Keeps sums and products over a dimension, and the terms that a program computes for them.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    let programs = graph.nodes.iter().filter(|node| matches!(node.op, FusedOp::Pointwise(_)));
    let by_program: HashSet<TensorId> = programs.flat_map(|node| node.outputs.iter().copied()).collect();
    for node in graph.nodes.iter().filter(|node| adds_terms(node)) {
        let terms = terms(graph, node);
        kept.keep_all(&node.outputs, Reason::Sum { terms });
        kept.keep_all(node.inputs.iter().filter(|input| by_program.contains(input)), Reason::Term { terms });
    }
}

fn adds_terms(node: &FusedNode) -> bool {
    node.properties().is_some_and(|properties| properties.size == Size::Accumulated)
}

/// How many elements of the first input one of the first output is made of, at most.
fn terms(graph: &FusedGraph, node: &FusedNode) -> usize {
    let fact = |id: TensorId| &graph.values[id.0].fact;
    let (input, output) = (fact(node.inputs[0]), fact(node.outputs[0]));
    match &node.op {
        FusedOp::Operator(Op::Cumulative { axis, .. }) => input.shape[*axis],
        FusedOp::Operator(_) | FusedOp::Pointwise(_) | FusedOp::Anchored { .. } => {
            input.elements().checked_div(output.elements()).unwrap_or(0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        logarithms::tests::in_both_types,
        tests::{HALF, kept, node},
    };
    use crate::passes;
    use floe_models::{
        DType, Fact, Graph, Op,
        op::{Binary, Reduction},
    };

    #[test]
    fn sums_and_their_terms_stay_f32_and_means_do_not() {
        let mut graph = Graph::default();
        let x = graph.add_value("x", Fact::new(DType::F32, &[2, 8]));
        graph.inputs.push(x);
        let square = node(&mut graph, "square", Op::Binary(Binary::Mul), &[x, x], &[2, 8]);
        let reduce = |kind| Op::Reduce { kind, axes: vec![1], keep: true };
        let sum = node(&mut graph, "sum", reduce(Reduction::Sum), &[square], &[2, 1]);
        let mean = node(&mut graph, "mean", reduce(Reduction::Mean), &[x], &[2, 1]);
        graph.outputs = vec![sum, mean];
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::Sum { terms: 8 }), ["sum"]);
        assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::Term { terms: 8 }), ["square"]);
        assert_eq!(kept(&fused, HALF, |_| true), ["square", "sum"]);
    }

    #[test]
    fn running_sums_stay_f32() {
        let build = |network: &mut passes::tests::Network, x| {
            let op = Op::Cumulative { axis: 1, product: false, exclusive: false, reverse: false };
            let sums = network.node(op, &[x]);
            let scale = network.scalar(1e-3);
            network.binary(Binary::Mul, sums, scale)
        };
        for [expected, found] in in_both_types(build, &[1, 1024], 100.0) {
            assert!((found - expected).abs() <= 1e-3 * expected.abs(), "{found} for {expected}");
        }
    }
}
