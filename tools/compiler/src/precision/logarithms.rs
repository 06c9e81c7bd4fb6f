//! Logarithms: their digits come from the exponents of small numbers, of which f16 has too few.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_kernels::pointwise::{Instruction, Unary};
use floe_models::{
    TensorId,
    op::{Inputs, Properties, Size},
};
use std::collections::HashSet;

/// Keeps what a logarithm sees, back to the network's inputs or the last activation function, windows and twiddle factors
/// included: the logarithm of a spectrum tells 1e-8 from 1e-6, which f16 rounds to zero and to two digits, and noise of f16's
/// rounding in the transform that made it lies above the quiet bins.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    let computed: HashSet<TensorId> = graph.nodes.iter().flat_map(|node| node.outputs.iter().copied()).collect();
    let constant = |id: &TensorId| graph.values[id.0].constant.is_some();
    // Values that a logarithm depends on.
    let mut logged: HashSet<TensorId> = HashSet::new();
    for node in graph.nodes.iter().rev() {
        let mut seen = under_logarithm(node);
        if seen != Inputs::NONE && !matches!(node.op, FusedOp::Pointwise(_)) {
            // The arithmetic of an operator is that of its output.
            kept.keep_all(&node.outputs, Reason::LogSum);
        }
        if seen == Inputs::NONE && node.outputs.iter().any(|output| logged.contains(output)) {
            seen = in_proportion(node);
        }
        logged.extend(seen.of(&node.inputs).filter(|input| computed.contains(input) || constant(input)));
    }
    kept.keep_all(&logged, Reason::Logarithm);
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
    node.program().map_or(&[], |program| &program.instructions)
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
pub(super) mod tests {
    use super::super::{
        Reason,
        tests::{HALF, kept, node},
    };
    use crate::{
        evaluate,
        passes::{self, tests::Network},
    };
    use floe_models::{
        DType, Fact, Graph, Op, Tensor, TensorId,
        op::{Binary, Coordinates, Interpolation, Pooling, Reduction, Rounding, Unary, Window},
    };

    #[test]
    fn what_a_logarithm_sees_stays_f32() {
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
        graph.outputs = vec![logarithm];
        let fused = passes::fuse::run(passes::normalise(graph)).unwrap();
        let names = kept(&fused, HALF, |reason| *reason == Reason::Logarithm);
        assert_eq!(names, ["activated", "largest", "product", "turned", "window", "windowed"]);
    }

    /// What two networks compute that differ only in the type that values are stored in: f32, and f16 where that is allowed.
    pub fn in_both_types(
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
            (resize(Interpolation::Nearest(Rounding::Floor)), vec![enlarged.clone()]),
            (resize(Interpolation::Linear), vec![enlarged]),
            (pool(Pooling::Max), vec![fact(&[1, 4, 5, 5])]),
            (pool(Pooling::AverageExcludingPads), vec![fact(&[1, 4, 5, 5])]),
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
}
