//! In which type products read their factors.

use super::{Reason, Storage};
use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_kernels::DType;
use floe_models::Op;

/// The factors of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factors {
    /// The type that they are read in.
    pub dtype: DType,
}

/// For every node that is a product, how it reads its factors: in the type of its result, but for results that are f32 only because
/// the epilogue makes large numbers of them, or because they are whole sums of numbers that f16 holds.
pub fn factors(graph: &FusedGraph, storage: &[Storage]) -> Vec<Option<Factors>> {
    let of = |node: &FusedNode| {
        let FusedOp::Anchored { .. } = node.op else { return None };
        let small = has_small_factors(node, storage);
        Some(Factors { dtype: if small { DType::F16 } else { storage[node.outputs[0].0].dtype } })
    };
    graph.nodes.iter().map(of).collect()
}

fn has_small_factors(node: &FusedNode, storage: &[Storage]) -> bool {
    let large = |reason: &Reason| matches!(reason, Reason::Beyond { .. });
    let only_large = |reasons: &[Reason]| !reasons.is_empty() && reasons.iter().all(large);
    if node.outputs.iter().all(|output| storage[output.0].reasons == [Reason::WholeSum]) {
        return true;
    }
    matches!(&node.op, FusedOp::Anchored { op: Op::MatMul | Op::Gemm { .. }, .. })
        && node.program().is_some()
        && node.outputs.iter().all(|output| only_large(&storage[output.0].reasons))
        && node.inputs[..2].iter().all(|factor| !storage[factor.0].reasons.iter().any(large))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        passes::{self, tests::Network},
        precision::{self, tests::HALF},
        store_options::StoreOptions,
    };
    use floe_models::{Graph, op::Binary};

    fn types(graph: Graph, keep_f32: &[String]) -> (DType, DType) {
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let storage = precision::assign(&fused, StoreOptions { keep_f32, ..HALF });
        let factors = factors(&fused, &storage)[0].expect("a product");
        (factors.dtype, storage[fused.nodes[0].outputs[0].0].dtype)
    }

    /// A product, and a mask that is added to it.
    fn masked(first: impl FnOnce(&mut Network) -> floe_models::TensorId) -> Graph {
        let mut network = Network::new();
        let (a, b, mask) = (first(&mut network), network.input(&[4, 4]), network.input(&[4, 4]));
        let lowest = network.scalar(-1e9);
        let product = network.node(Op::MatMul, &[a, b]);
        let mask = network.binary(Binary::Mul, mask, lowest);
        let sum = network.binary(Binary::Add, product, mask);
        network.graph.outputs.push(sum);
        network.graph
    }

    #[test]
    fn a_mask_in_the_epilogue_leaves_the_factors_f16() {
        let input = |network: &mut Network| network.input(&[4, 4]);
        assert_eq!(types(masked(input), &[]), (DType::F16, DType::F32));
    }

    #[test]
    fn factors_of_a_result_that_is_f32_for_itself_are_f32() {
        let graph = masked(|network| network.input(&[4, 4]));
        let product = graph.nodes.iter().find(|node| node.op == Op::MatMul).expect("a product").name.clone();
        assert_eq!(types(graph, &[product]), (DType::F32, DType::F32));
    }

    #[test]
    fn large_factors_are_f32() {
        let constant =
            |network: &mut Network| network.graph.add_constant("large", floe_models::Tensor::f32(&[4, 4], &[1e6; 16]));
        assert_eq!(types(masked(constant), &[]), (DType::F32, DType::F32));
    }
}
