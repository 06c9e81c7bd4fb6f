//! Cheaper operators with exactly the same results.

use super::rewrite;
use floe_models::{Graph, Op, op::Binary};

/// Replaces divisions by powers of two with products.
pub fn run(mut graph: Graph) -> Graph {
    for number in 0..graph.nodes.len() {
        let node = &graph.nodes[number];
        let (Op::Binary(Binary::Div), Some(divisor)) = (&node.op, node.inputs.get(1).copied()) else { continue };
        let Some(value) = rewrite::scalar(&graph, divisor) else { continue };
        // Exponents stay far from the ends of f16's range, where the reciprocal would be subnormal.
        let exact = value.to_bits() & ((1 << 52) - 1) == 0 && (value.abs().log2()).abs() <= 14.0;
        let fact = graph.fact(divisor).clone();
        if exact && let Some(reciprocal) = rewrite::float_tensor(fact.dtype, &fact.shape, &[1.0 / value]) {
            let constant = graph.add_constant(format!("{}_reciprocal", graph.value(divisor).name), reciprocal);
            let node = &mut graph.nodes[number];
            (node.op, node.inputs[1]) = (Op::Binary(Binary::Mul), constant);
        }
    }
    graph
}
