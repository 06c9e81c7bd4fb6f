//! Sums of integers. Outputs of the network that products of integers make: their epilogues store f32 as fast as f16, and nothing
//! has to be converted behind them. And products of whole numbers in floats, whose sums f16 neither holds exactly nor at all.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    passes::fuse::is_quantized,
    store_options::StoreOptions,
};
use floe_models::{Op, TensorId};

/// Keeps such outputs and sums.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    let mut makers = vec![None; graph.values.len()];
    for node in &graph.nodes {
        node.outputs.iter().for_each(|output| makers[output.0] = Some(node));
        match &node.op {
            FusedOp::Anchored { op, .. } if is_quantized(op) => {
                kept.keep_all(node.outputs.iter().filter(|output| graph.outputs.contains(output)), Reason::IntegerSum);
            }
            // Sums that an epilogue scales are as large as the network's other values.
            FusedOp::Anchored { op: Op::MatMul, program: None, .. }
                if node.inputs[..2].iter().all(|&factor| is_whole(graph, &makers, factor)) =>
            {
                kept.keep_all(&node.outputs, Reason::WholeSum);
            }
            _ => {}
        }
    }
}

/// Whether a float value consists of whole numbers that were cast, and perhaps moved.
fn is_whole(graph: &FusedGraph, makers: &[Option<&FusedNode>], mut id: TensorId) -> bool {
    while let Some(node) = makers[id.0] {
        id = node.inputs[0];
        match node.op {
            FusedOp::Operator(Op::Slice { .. } | Op::Transpose { .. } | Op::Reshape) => {}
            FusedOp::Operator(Op::Cast) => {
                let dtype = graph.values[id.0].fact.dtype;
                return !dtype.is_float() && !dtype.is_narrow();
            }
            _ => return false,
        }
    }
    graph.values[id.0].constant.as_ref().is_some_and(|tensor| tensor.to_f64().iter().all(|value| value.fract() == 0.0))
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::{
        passes::{self, tests::Network},
        precision,
    };
    use floe_models::{
        DType, Fact, Op, Tensor,
        op::{Binary, Unary},
    };

    #[test]
    fn outputs_that_sums_of_integers_make_stay_f32_and_what_goes_on_does_not() {
        let mut network = Network::new();
        let weights = network.graph.add_constant("weights", Tensor::new(DType::I8, vec![2, 2], vec![1, 2, 3, 4]));
        let scale = network.scalar(0.25);
        for name in ["output", "inside"] {
            let x = network.graph.add_value("x", Fact::new(DType::U8, &[3, 2]));
            network.graph.inputs.push(x);
            let sums = network.node(Op::QuantizedMatMul, &[x, weights]);
            let float = network.node_as(Op::Cast, &[sums], &[Fact::new(DType::F32, &[3, 2])])[0];
            let scaled = network.binary(Binary::Mul, float, scale);
            network.graph.values[scaled.0].name = name.into();
            let output = match name {
                "output" => scaled,
                _ => {
                    let scores = network.node(Op::Softmax { axis: 1, log: false }, &[scaled]);
                    network.unary(Unary::Tanh, scores)
                }
            };
            network.graph.outputs.push(output);
        }
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::IntegerSum), ["output"]);
        assert_eq!(kept(&fused, HALF, |_| true), ["output"]);
    }

    #[test]
    fn whole_sums_stay_f32_and_their_factors_do_not() {
        // In one part, and in two.
        for (depth, parts) in [(200, 1), (300, 2)] {
            let mut network = Network::new();
            let integers = [[2, 3, depth], [2, depth, 5]].map(|shape| {
                let x = network.graph.add_value("x", Fact::new(DType::U8, &shape));
                network.graph.inputs.push(x);
                network.node_as(Op::Cast, &[x], &[Fact::new(DType::I32, &shape)])[0]
            });
            let sums = network.node(Op::MatMul, &integers);
            network.output(sums);
            let fused = passes::fuse(passes::tests::simplify(network.graph).unwrap()).unwrap();
            assert_eq!(kept(&fused, HALF, |reason| *reason == Reason::WholeSum).len(), parts);
            let storage = precision::assign(&fused, HALF);
            let factors = precision::factors(&fused, &storage).into_iter().flatten();
            assert!(factors.map(|factors| factors.dtype).eq(vec![DType::F16; parts]));
        }
    }
}
