//! Scales of packed weights.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedOp},
    store_options::StoreOptions,
};
use floe_models::Op;

/// Keeps scales unless they are constants of which f16 loses no digits.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    // Smaller ones would be subnormal.
    let normal = |scale: f64| scale == 0.0 || (6.2e-5..6.5e4).contains(&scale.abs());
    for node in graph.nodes.iter().filter(|node| matches!(node.op, FusedOp::Operator(Op::PackedMatMul { .. }))) {
        let scales = node.inputs[2];
        let constant = graph.values[scales.0].constant.as_ref();
        if !constant.is_some_and(|constant| constant.to_f64().into_iter().all(normal)) {
            kept.keep(scales, Reason::Scale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept, node},
    };
    use crate::passes;
    use floe_models::{DType, Fact, Graph, Op, Tensor};

    /// The names of the scales that stay f32, of a product with these scales in both columns.
    fn kept_scales(scale: f32) -> Vec<String> {
        let mut graph = Graph::default();
        let rows = graph.add_value("rows", Fact::new(DType::F32, &[1, 32]));
        graph.inputs.push(rows);
        let weights = graph.add_constant("weights", Tensor::new(DType::U8, vec![2, 1, 16], vec![0x5a; 32]));
        let scales = graph.add_constant("scales", Tensor::f32(&[2, 1], &[scale; 2]));
        let product = node(&mut graph, "product", Op::PackedMatMul { bits: 4 }, &[rows, weights, scales], &[1, 2]);
        graph.outputs.push(product);
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        kept(&fused, HALF, |reason| *reason == Reason::Scale).into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn scales_are_f16_unless_digits_would_be_lost() {
        assert!(kept_scales(0.01).is_empty() && kept_scales(0.0).is_empty());
        assert_eq!(kept_scales(1e-5), ["scales"]);
    }
}
