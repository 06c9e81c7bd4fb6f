//! Values that f16 has too few exponents for, found by what is computed from them.

use crate::fused::{FusedGraph, FusedNode, FusedOp};
use floe_kernels::pointwise::{Instruction, Program, Unary};
use floe_models::{
    TensorId,
    op::{Inputs, Properties, Size},
};
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
        let mut seen = under_logarithm(node);
        if seen != Inputs::NONE && !matches!(node.op, FusedOp::Pointwise(_)) {
            // The arithmetic of an operator is that of its output.
            kept.extend(&node.outputs);
        }
        if seen == Inputs::NONE && node.outputs.iter().any(|output| logged.contains(output)) {
            seen = in_proportion(node);
        }
        logged.extend(seen.of(&node.inputs).filter(|input| computed.contains(input) || constant(input)));
    }
    kept.extend(logged);
    kept
}

fn adds_terms(node: &FusedNode) -> bool {
    node.properties().is_some_and(|properties| properties.size == Size::Accumulated)
}

pub(super) fn program(node: &FusedNode) -> Option<&Program> {
    match &node.op {
        FusedOp::Pointwise(program) => Some(program),
        FusedOp::Anchored { program, .. } => program.as_ref(),
        FusedOp::Operator(_) => None,
    }
}

fn compares(node: &FusedNode) -> bool {
    instructions(node).iter().any(compares_operands)
}

/// The inputs that a logarithm in the node sees.
fn under_logarithm(node: &FusedNode) -> Inputs {
    let logarithm = |instruction: &Instruction| match instruction {
        Instruction::Unary(op, _) => passes(*op) == Passes::Logarithm,
        Instruction::Binary(..)
        | Instruction::Select(..)
        | Instruction::Input(_)
        | Instruction::Float(_)
        | Instruction::Integer(_) => false,
    };
    match node.properties() {
        Some(Properties { size: Size::Logarithm, data, .. }) => data,
        Some(_) | None if instructions(node).iter().any(logarithm) => Inputs::All,
        Some(_) | None => Inputs::NONE,
    }
}

/// The inputs whose small values make small values of the outputs: no activation function is in between.
fn in_proportion(node: &FusedNode) -> Inputs {
    let activation = |instruction: &Instruction| match instruction {
        Instruction::Unary(op, _) => passes(*op) == Passes::Bounded,
        Instruction::Binary(..)
        | Instruction::Select(..)
        | Instruction::Input(_)
        | Instruction::Float(_)
        | Instruction::Integer(_) => false,
    };
    match &node.op {
        FusedOp::Operator(op) => match op.properties() {
            Properties {
                size: Size::OfData | Size::Proportional | Size::Accumulated | Size::OfFunction, data, ..
            } => data,
            Properties { size: Size::Normalised | Size::Logarithm | Size::Own, .. } => Inputs::NONE,
        },
        FusedOp::Pointwise(_) | FusedOp::Anchored { .. } => match instructions(node).iter().any(activation) {
            true => Inputs::NONE,
            false => Inputs::All,
        },
    }
}

fn instructions(node: &FusedNode) -> &[Instruction] {
    program(node).map_or(&[], |program| &program.instructions)
}

fn compares_operands(instruction: &Instruction) -> bool {
    use floe_kernels::pointwise::Binary::{
        Add, And, BitAnd, BitOr, BitXor, Div, Equal, Fmod, Greater, GreaterOrEqual, Less, LessOrEqual, Max, Min, Mod,
        Mul, Or, Pow, ShiftLeft, ShiftRight, Sub, Xor,
    };
    match instruction {
        Instruction::Binary(op, ..) => match op {
            Equal | Greater | GreaterOrEqual | Less | LessOrEqual => true,
            Add | Sub | Mul | Div | Pow | Min | Max | Mod | Fmod => false,
            And | Or | Xor | BitAnd | BitOr | BitXor | ShiftLeft | ShiftRight => false,
        },
        Instruction::Unary(..)
        | Instruction::Select(..)
        | Instruction::Input(_)
        | Instruction::Float(_)
        | Instruction::Integer(_) => false,
    }
}

/// What of a small argument's exponent a function passes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passes {
    /// What it makes of small arguments differs as they do, or may: nothing is lost by taking this for granted.
    Exponent,
    /// All arguments of the size of activations give numbers of one size.
    Bounded,
    /// Its digits come from the exponent.
    Logarithm,
}

fn passes(op: Unary) -> Passes {
    use Unary::{
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, BitNot, Ceil, Cos, Cosh, Erf, Exp, Floor, IsInf, IsNan, Log, Neg,
        Not, Reciprocal, Relu, Round, Rsqrt, Sigmoid, Sign, Sin, Sinh, Softplus, Sqrt, Tan, Tanh, ToF16,
    };
    match op {
        Log => Passes::Logarithm,
        Erf | Exp | Relu | Sigmoid | Softplus | Tanh => Passes::Bounded,
        Abs | Neg | Sqrt | Rsqrt | Reciprocal | Sin | Tan | Asin | Atan | Sinh | Asinh | Atanh => Passes::Exponent,
        // No small results, but rarely in front of a logarithm.
        Sign | Floor | Ceil | Round | Cos | Cosh | Acos | Acosh | Not | IsNan | IsInf | BitNot | ToF16 => {
            Passes::Exponent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        evaluate,
        passes::{self, tests::Network},
    };
    use floe_models::{
        DType, Fact, Graph, Node, Op, Tensor,
        op::{Binary, Coordinates, Interpolation, Pooling, Reduction, Unary, Window},
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

    /// What two networks compute that differ only in the type that values are stored in: f32, and f16 where that is allowed.
    fn in_both_types(
        build: impl FnOnce(&mut Network, TensorId) -> TensorId,
        shape: &[usize],
        factor: f32,
    ) -> Vec<[f64; 2]> {
        let mut network = Network::new();
        let x = network.input(shape);
        let output = build(&mut network, x);
        network.graph.outputs.push(output);
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        let values: Vec<f32> =
            (0..shape.iter().product()).map(|i: usize| factor * (1.0 + (i * 37 % 65) as f32 / 65.0)).collect();
        let input = Tensor::f32(shape, &values);
        let expected = evaluate::run_fused(&fused, &[&input]).expect("runs on the host")[0].to_f64();
        let found = evaluate::run_fused_in_half(&fused, &[&input]).expect("runs on the host")[0].to_f64();
        expected.into_iter().zip(found).map(|(expected, found)| [expected, found]).collect()
    }

    #[test]
    fn a_logarithm_sees_every_digit_through_whatever_moves_its_operand() {
        let pool = |kind| Op::Pool {
            kind,
            kernel: vec![2, 2],
            window: Window { strides: vec![1; 2], dilations: vec![1; 2], pads_begin: vec![0; 2], pads_end: vec![0; 2] },
        };
        let shape = [1, 4, 6, 6];
        let fact = |shape: &[usize]| Fact::new(DType::F32, shape);
        let resize = |interpolation| Op::Resize {
            scales: vec![1.0, 1.0, 2.0, 2.0],
            interpolation,
            coordinates: Coordinates::Asymmetric,
        };
        let enlarged = fact(&[1, 4, 12, 12]);
        let cases = [
            (Op::Split { axis: 1 }, vec![fact(&[1, 1, 6, 6]), fact(&[1, 3, 6, 6])]),
            (Op::Expand, vec![fact(&[3, 4, 6, 6])]),
            (Op::Tile { repeats: vec![1, 2, 1, 1] }, vec![]),
            (Op::DepthToSpace { block: 2, column_row_depth: false }, vec![]),
            (Op::SpaceToDepth { block: 2 }, vec![]),
            (resize(Interpolation::NearestFloor), vec![enlarged.clone()]),
            (resize(Interpolation::Linear), vec![enlarged]),
            (pool(Pooling::Max), vec![fact(&[1, 4, 5, 5])]),
            (pool(Pooling::Average { include_pads: false }), vec![fact(&[1, 4, 5, 5])]),
        ];
        for (op, facts) in cases {
            let name = op.name();
            let build = |network: &mut Network, x| {
                let square = network.binary(Binary::Mul, x, x);
                let moved = network.node_as(op, &[square], &facts)[0];
                network.unary(Unary::Log, moved)
            };
            // Squares of 1e-7, of which f16 has one or two bits.
            for [expected, found] in in_both_types(build, &shape, 3e-4) {
                assert!((found - expected).abs() <= 1e-3 * expected.abs(), "{name}: {found} for {expected}");
            }
        }
        let gathered = |network: &mut Network, x| {
            let square = network.binary(Binary::Mul, x, x);
            let indices = network.graph.add_constant("indices", Tensor::i64(&[2], &[3, 1]));
            let taken = network.node(Op::Gather { axis: 1 }, &[square, indices]);
            network.unary(Unary::Log, taken)
        };
        for [expected, found] in in_both_types(gathered, &shape, 3e-4) {
            assert!((found - expected).abs() <= 1e-3 * expected.abs(), "Gather: {found} for {expected}");
        }
    }

    #[test]
    fn reductions_to_logarithms_see_every_digit() {
        for kind in [Reduction::LogSum, Reduction::LogSumExp] {
            let build = |network: &mut Network, x| {
                let operand = network.binary(Binary::Mul, x, x);
                network.node(Op::Reduce { kind, axes: vec![1], keep: true }, &[operand])
            };
            // LogSumExp of small numbers is the logarithm of their count; of large ones its digits are theirs.
            let factor = if kind == Reduction::LogSum { 1e-3 } else { 30.0 };
            for [expected, found] in in_both_types(build, &[3, 1], factor) {
                assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{kind:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn running_sums_stay_f32() {
        let build = |network: &mut Network, x| {
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
