//! Values that f16 has too few exponents for, found by what is computed from them.

use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_kernels::pointwise::{Instruction, Program, Unary};
use floe_models::{Op, TensorId, op::Reduction};
use std::collections::HashSet;

/// Values that stay f32 in an f16 variant, for their range:
///
/// - Sums over a dimension, which grow with its extent, and the terms that are computed for them: a few hundred squares
///   of activations are beyond 65504.
/// - What a logarithm sees, back to the network's inputs or the last activation function, windows and twiddle factors
///   included: the logarithm of a spectrum tells 1e-8 from 1e-6, which f16 rounds to zero and to two digits, and noise of
///   f16's rounding in the transform that made it lies above the quiet bins.
/// - Constants that something is compared with: a bound that was rounded puts what equals it on the wrong side.
pub(super) fn beyond_half(graph: &FusedGraph) -> HashSet<TensorId> {
    let computed = |program: bool| {
        let wanted = move |node: &&FusedNode| !program || matches!(node.op, FusedOp::Pointwise(_));
        graph.nodes.iter().filter(wanted).flat_map(|node| node.outputs.iter().copied()).collect::<HashSet<_>>()
    };
    let (computed, by_program) = (computed(false), computed(true));
    let constant = |id: &TensorId| graph.values[id.0].constant.is_some();
    let mut kept = HashSet::new();
    // Values that a logarithm depends on.
    let mut logged: HashSet<TensorId> = HashSet::new();
    for node in graph.nodes.iter().rev() {
        if adds_terms(node) {
            kept.extend(&node.outputs);
            kept.extend(node.inputs.iter().filter(|input| by_program.contains(input)));
        }
        if compares(node) {
            kept.extend(node.inputs.iter().filter(|input| constant(input)));
        }
        let has_logarithm = has_logarithm(node);
        if has_logarithm && matches!(node.op, FusedOp::Anchored { .. }) {
            // The anchor's arithmetic is that of its output.
            kept.extend(&node.outputs);
        }
        if has_logarithm || node.outputs.iter().any(|output| logged.contains(output)) && keeps_range(node) {
            logged.extend(node.inputs.iter().filter(|input| computed.contains(input) || constant(input)));
        }
    }
    kept.extend(logged);
    kept
}

fn adds_terms(node: &FusedNode) -> bool {
    use Reduction::{L1, L2, Product, Sum, SumSquare};
    matches!(&node.op, FusedOp::Operator(Op::Reduce { kind: Sum | SumSquare | Product | L1 | L2, .. }))
}

pub(super) fn program(node: &FusedNode) -> Option<&Program> {
    match &node.op {
        FusedOp::Pointwise(program) => Some(program),
        FusedOp::Anchored { program, .. } => program.as_ref(),
        FusedOp::Operator(_) => None,
    }
}

fn compares(node: &FusedNode) -> bool {
    use floe_kernels::pointwise::Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
    let comparison = |instruction: &Instruction| {
        matches!(instruction, Instruction::Binary(Equal | Greater | GreaterOrEqual | Less | LessOrEqual, ..))
    };
    program(node).is_some_and(|program| program.instructions.iter().any(comparison))
}

fn has_logarithm(node: &FusedNode) -> bool {
    let logarithm = |instruction: &Instruction| matches!(instruction, Instruction::Unary(Unary::Log, _));
    program(node).is_some_and(|program| program.instructions.iter().any(logarithm))
}

/// Whether small values of the inputs make small values of the outputs: no activation function is in between.
fn keeps_range(node: &FusedNode) -> bool {
    use Unary::{Erf, Exp, Relu, Sigmoid, Softplus, Tanh};
    let activation = |instruction: &Instruction| {
        matches!(instruction, Instruction::Unary(Erf | Exp | Relu | Sigmoid | Softplus | Tanh, _))
    };
    match &node.op {
        FusedOp::Operator(op) => matches!(
            op,
            Op::Concat { .. }
                | Op::Identity
                | Op::Pad { .. }
                | Op::Reduce { .. }
                | Op::Reshape
                | Op::Slice { .. }
                | Op::Transpose { .. }
        ),
        _ => program(node).is_none_or(|program| !program.instructions.iter().any(activation)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes;
    use floe_models::{
        DType, Fact, Graph, Node, Tensor,
        op::{Binary, Unary},
    };

    fn node(graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId], shape: &[usize]) -> TensorId {
        let output = graph.add_value(name, Fact::new(DType::F32, shape));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        graph.nodes.push(Node { name: name.into(), op, inputs, outputs, sources: vec![name.into()] });
        output
    }

    #[test]
    fn sums_and_what_a_logarithm_sees_stay_f32() {
        let mut graph = Graph::default();
        let shape = [2, 8];
        let x = graph.add_value("x", Fact::new(DType::F32, &shape));
        graph.inputs.push(x);
        let activated = node(&mut graph, "activated", Op::Unary(Unary::Relu), &[x], &shape);
        // An activation ends what a logarithm needs; movement and products do not.
        let window = Tensor::from_slice(DType::F32, &[8], &[0.0f32, 0.2, 0.6, 1.0, 1.0, 0.6, 0.2, 0.0]);
        let window = graph.add_constant("window", window);
        let windowed = node(&mut graph, "windowed", Op::Binary(Binary::Mul), &[activated, window], &shape);
        let turned = node(&mut graph, "turned", Op::Transpose { permutation: vec![1, 0] }, &[windowed], &[8, 2]);
        let product = node(&mut graph, "product", Op::MatMul, &[activated, turned], &[2, 2]);
        let largest = Op::Reduce { kind: Reduction::Max, axes: vec![1], keep: true };
        let largest = node(&mut graph, "largest", largest, &[product], &[2, 1]);
        let logarithm = node(&mut graph, "logarithm", Op::Unary(Unary::Log), &[largest], &[2, 1]);
        let square = node(&mut graph, "square", Op::Binary(Binary::Mul), &[x, x], &shape);
        let sum = Op::Reduce { kind: Reduction::Sum, axes: vec![1], keep: true };
        let sum = node(&mut graph, "sum", sum, &[square], &[2, 1]);
        let mean = Op::Reduce { kind: Reduction::Mean, axes: vec![1], keep: true };
        let mean = node(&mut graph, "mean", mean, &[x], &[2, 1]);
        let bounds = Tensor::from_slice(DType::F32, &[8], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let bounds = graph.add_constant("bounds", bounds);
        let compared = graph.add_value("compared", Fact::new(DType::Bool, &shape));
        let (inputs, outputs) = (vec![x, bounds], vec![compared]);
        let op = Op::Binary(Binary::GreaterOrEqual);
        graph.nodes.push(Node { name: "compared".into(), op, inputs, outputs, sources: Vec::new() });
        graph.outputs = vec![logarithm, sum, mean, compared];
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let kept = beyond_half(&fused);
        let mut names: Vec<&str> = kept.iter().map(|id| fused.values[id.0].name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["activated", "bounds", "largest", "product", "square", "sum", "turned", "window", "windowed"]
        );
    }
}
