//! Outputs of the network that products of integers make: their epilogues store f32 as fast as f16, and nothing has to be
//! converted behind them.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedOp},
    passes::fuse::is_quantized,
    store_options::StoreOptions,
};

/// Keeps such outputs.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    for node in &graph.nodes {
        if matches!(&node.op, FusedOp::Anchored { op, .. } if is_quantized(op)) {
            kept.keep_all(node.outputs.iter().filter(|output| graph.outputs.contains(output)), Reason::IntegerSum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept},
    };
    use crate::passes::{self, tests::Network};
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
}
