//! Where finite numbers reach that are beyond f16's range, found by the constants that they come from.

use super::{Kept, Reason};
use crate::{
    fused::{FusedGraph, FusedNode, FusedOp},
    store_options::StoreOptions,
};
use floe_kernels::pointwise::{Binary, Instruction, Program, Unary};
use floe_models::{
    DType, Op, Tensor, TensorId,
    op::{Properties, Size},
};
use std::{collections::HashSet, ops::BitOr};

/// Keeps values that may hold finite numbers beyond f16's range because a constant does.
///
/// Masks are made of such constants: the lowest f32 hides a key from a softmax, and a query that sees no key at all
/// then weighs all alike. As f16 the constant is −∞, and such a row is NaN. Comparisons with the constant, and products
/// with 0, need the number itself, too. An input of the network that serves as a mask alone may hold such numbers as well.
///
/// Overflow of what is computed from numbers that f16 holds is not considered: that is the network's own range.
pub(super) fn keep(graph: &FusedGraph, _: StoreOptions<'_>, kept: &mut Kept) {
    let mut reaches: Vec<Reach> = graph.values.iter().map(|value| value.constant.as_ref().into()).collect();
    let readers = graph.readers();
    for &input in &graph.inputs {
        if is_mask(graph, &readers, input) {
            reaches[input.0] = Reach { below: f64::from(f32::MAX), above: f64::from(f32::MAX) };
        }
    }
    for node in &graph.nodes {
        let of = |id: &TensorId| reaches[id.0];
        let all = |ids: &[TensorId]| ids.iter().map(of).fold(Reach::default(), Reach::bitor);
        let reach = match &node.op {
            FusedOp::Pointwise(program) => program_reach(program, &node.inputs.iter().map(of).collect::<Vec<_>>()),
            FusedOp::Anchored { operands, program, .. } => {
                let (operands, extras) = node.inputs.split_at(*operands);
                let product = all(operands).either_sign();
                let inputs: Vec<Reach> = [product].into_iter().chain(extras.iter().map(of)).collect();
                program.as_ref().map_or(product, |program| program_reach(program, &inputs))
            }
            FusedOp::Operator(op) => {
                let Properties { size, data, number, .. } = op.properties();
                let data = data.of(&node.inputs).map(of).fold(number.map_or(Reach::default(), Reach::of), Reach::bitor);
                match size {
                    Size::OfData => data,
                    Size::Proportional | Size::Accumulated | Size::OfFunction | Size::Logarithm => data.either_sign(),
                    Size::Normalised | Size::Own => Reach::default(),
                }
            }
        };
        for output in &node.outputs {
            reaches[output.0] = reach;
        }
    }
    for (number, reach) in reaches.iter().enumerate() {
        if let Some(number_beyond) = reach.farthest().filter(|_| graph.values[number].fact.dtype == DType::F32) {
            kept.keep(TensorId(number), Reason::Beyond { number: number_beyond });
        }
    }
    // Normalisations work in the type of their output.
    for node in graph.nodes.iter().filter(|node| normalises(node)) {
        let input = node.inputs[0];
        if let Some(number) = reaches[input.0].farthest().filter(|_| graph.values[input.0].fact.dtype == DType::F32) {
            kept.keep_all(&node.outputs, Reason::Beyond { number });
        }
    }
}

/// Whether all that is made of a value by movement and arithmetic hides keys from softmaxes.
fn is_mask(graph: &FusedGraph, readers: &[Vec<usize>], input: TensorId) -> bool {
    let (mut found, mut seen, mut open) = (false, HashSet::from([input]), vec![input]);
    while let Some(id) = open.pop() {
        if graph.values[id.0].fact.dtype != DType::F32 || graph.outputs.contains(&id) {
            return false;
        }
        for node in readers[id.0].iter().map(|&reader| &graph.nodes[reader]) {
            let reads = |inputs: &[TensorId]| inputs.contains(&id);
            match &node.op {
                FusedOp::Operator(Op::Softmax { .. }) => found = true,
                FusedOp::Operator(Op::Attention { .. }) if !reads(&node.inputs[..3]) => found = true,
                FusedOp::Anchored { operands, .. } if reads(&node.inputs[..*operands]) => return false,
                FusedOp::Operator(op) if !op.properties().moves() => return false,
                FusedOp::Pointwise(_) | FusedOp::Anchored { .. } | FusedOp::Operator(_) => {
                    open.extend(node.outputs.iter().filter(|&&output| seen.insert(output)));
                }
            }
        }
    }
    found
}

fn normalises(node: &FusedNode) -> bool {
    node.properties().is_some_and(|properties| properties.size == Size::Normalised)
}

/// How far finite numbers beyond f16's range may lie from 0, on either side; 0 where none is beyond it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reach {
    below: f64,
    above: f64,
}

impl Reach {
    fn of(value: f64) -> Self {
        let large = value.is_finite() && (value as f32).abs() >= ROUNDS_TO_INFINITY;
        let on = |side: bool| if large && side { value.abs() } else { 0.0 };
        Self { below: on(value < 0.0), above: on(value > 0.0) }
    }

    /// The number that is farthest from 0, if one is beyond f16's range.
    fn farthest(self) -> Option<f64> {
        let number = if self.below > self.above { -self.below } else { self.above };
        (number != 0.0).then_some(number)
    }

    fn mirrored(self) -> Self {
        Self { below: self.above, above: self.below }
    }

    fn either_sign(self) -> Self {
        self | self.mirrored()
    }
}

impl BitOr for Reach {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { below: self.below.max(other.below), above: self.above.max(other.above) }
    }
}

/// The least f32 that f16 rounds to infinity.
const ROUNDS_TO_INFINITY: f32 = 65520.0;

impl From<Option<&Tensor>> for Reach {
    fn from(constant: Option<&Tensor>) -> Self {
        match constant {
            Some(tensor) if tensor.dtype == DType::F32 => {
                let [below, above] = farthest_finite(tensor.bytes().as_chunks().0);
                Self::of(-f64::from(below)) | Self::of(above.into())
            }
            Some(tensor) if tensor.dtype.is_float() => {
                tensor.to_f64().into_iter().fold(Self::default(), |reach, value| reach | Self::of(value))
            }
            _ => Self::default(),
        }
    }
}

/// How far finite numbers reach below and above 0. Sixteen at a time: a network has millions of weights.
fn farthest_finite(numbers: &[[u8; 4]]) -> [f32; 2] {
    let mut far = [[0.0_f32; 16]; 2];
    let mut add = |numbers: &[[u8; 4]]| {
        let [below, above] = &mut far;
        for ((below, above), &bytes) in below.iter_mut().zip(above).zip(numbers) {
            let number = f32::from_le_bytes(bytes);
            let number = if number.is_finite() { number } else { 0.0 };
            *below = if -number > *below { -number } else { *below };
            *above = if number > *above { number } else { *above };
        }
    };
    let (whole, rest) = numbers.as_chunks::<16>();
    whole.iter().for_each(|numbers| add(numbers));
    add(rest);
    far.map(|far| far.into_iter().fold(0.0, f32::max))
}

fn program_reach(program: &Program, inputs: &[Reach]) -> Reach {
    let mut registers: Vec<Reach> = Vec::with_capacity(program.instructions.len());
    for instruction in &program.instructions {
        let at = |register: u8| registers[usize::from(register)];
        registers.push(match *instruction {
            Instruction::Input(index) => inputs[usize::from(index)],
            Instruction::Float(value) => Reach::of(value),
            Instruction::Integer(_) => Reach::default(),
            Instruction::Select(_, a, b) => at(a) | at(b),
            Instruction::Unary(op, x) => unary_reach(op, at(x)),
            Instruction::Binary(op, a, b) => binary_reach(op, at(a), at(b)),
        });
    }
    registers.last().copied().unwrap_or_default()
}

fn unary_reach(op: Unary, x: Reach) -> Reach {
    use Unary::{
        Abs, Acos, Acosh, Asin, Asinh, Atan, Atanh, BitNot, Ceil, Cos, Cosh, Erf, Exp, Floor, IsInf, IsNan, Log, Neg,
        Not, Reciprocal, Relu, Round, Rsqrt, Sigmoid, Sign, Sin, Sinh, Softplus, Sqrt, Tan, Tanh, ToF16,
    };
    match op {
        Floor | Ceil | Round => x,
        Neg => x.mirrored(),
        Abs => Reach { below: 0.0, above: x.below.max(x.above) },
        Relu | Softplus | Sqrt => Reach { below: 0.0, above: x.above },
        // Bounded, or far smaller than its argument.
        Sign | Erf | Sigmoid | Tanh | Sin | Cos | Asin | Acos | Atan | Log | Asinh | Acosh => Reach::default(),
        // Large only where its argument is small.
        Rsqrt | Reciprocal | Tan | Atanh => Reach::default(),
        // Of a large argument it is infinite in f32, too, or 0.
        Exp | Sinh | Cosh => Reach::default(),
        // Bits, and yes or no.
        Not | IsNan | IsInf | BitNot => Reach::default(),
        // Infinite beyond f16's range.
        ToF16 => Reach::default(),
    }
}

fn binary_reach(op: Binary, a: Reach, b: Reach) -> Reach {
    match op {
        Binary::Add => a | b,
        Binary::Sub => a | b.mirrored(),
        Binary::Mul | Binary::Pow => (a | b).either_sign(),
        Binary::Div | Binary::Mod | Binary::Fmod => a.either_sign(),
        Binary::Max => Reach { below: a.below.min(b.below), above: a.above.max(b.above) },
        Binary::Min => Reach { below: a.below.max(b.below), above: a.above.min(b.above) },
        Binary::Equal
        | Binary::Less
        | Binary::LessOrEqual
        | Binary::Greater
        | Binary::GreaterOrEqual
        | Binary::And
        | Binary::Or
        | Binary::Xor => Reach::default(),
        Binary::BitAnd | Binary::BitOr | Binary::BitXor | Binary::ShiftLeft | Binary::ShiftRight => Reach::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::HALF, *};
    use crate::{
        evaluate,
        passes::{self, tests::Network},
        precision,
    };
    use floe_models::{
        Fact,
        op::{self, Reduction},
    };

    /// Queries of two heads; the last sees no key.
    const QUERIES: usize = 3;
    const KEYS: usize = 10;
    const SIZE: usize = 8;
    const SCORES: [usize; 4] = [1, 2, QUERIES, KEYS];

    impl Network {
        /// `(1 − seen)·value`.
        fn added_mask(&mut self, seen: TensorId, value: f32) -> TensorId {
            let (one, value) = (self.scalar(1.0), self.scalar(value));
            let unseen = self.binary(Binary::Sub, one, seen);
            self.binary(Binary::Mul, unseen, value)
        }

        fn softmax(&mut self, scores: TensorId) -> TensorId {
            self.node(Op::Softmax { axis: 3, log: false }, &[scores])
        }

        fn node_as_float(&mut self, id: TensorId) -> TensorId {
            let float = Fact::new(DType::F32, &self.graph.fact(id).shape);
            self.node_as(Op::Cast, &[id], &[float])[0]
        }
    }

    /// Numbers in −4 … 4.
    fn numbers(shape: &[usize]) -> Tensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|i: usize| (i * 37 % 65) as f32 / 8.0 - 4.0).collect();
        Tensor::f32(shape, &values)
    }

    /// Holds the network to its f32 results where it is stored as f16; `masked` gets which keys a query sees, 0 or 1.
    #[track_caller]
    fn check(masked: impl FnOnce(&mut Network, TensorId) -> TensorId) {
        check_with([0.0, 1.0], masked);
    }

    /// As [`check`], with other numbers for unseen and seen keys.
    #[track_caller]
    fn check_with([unseen, visible]: [f32; 2], masked: impl FnOnce(&mut Network, TensorId) -> TensorId) {
        let mut network = Network::new();
        let seen = network.input(&[1, 1, QUERIES, KEYS]);
        let output = masked(&mut network, seen);
        network.graph.outputs.push(output);
        let fused = passes::fuse::run(passes::tests::simplify(network.graph).unwrap()).unwrap();
        let shapes = fused.inputs.iter().map(|id| fused.values[id.0].fact.shape.as_slice());
        let mut inputs: Vec<Tensor> = shapes.map(numbers).collect();
        let key = |i: usize| if i < 2 * KEYS && !i.is_multiple_of(3) { visible } else { unseen };
        let keys: Vec<f32> = (0..QUERIES * KEYS).map(key).collect();
        inputs[0] = Tensor::f32(&[1, 1, QUERIES, KEYS], &keys);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let expected = evaluate::run_fused(&fused, &inputs).expect("runs on the host");
        let found = evaluate::run_fused_in_half(&fused, &inputs).expect("runs on the host");
        for (found, expected) in found[0].to_f64().into_iter().zip(expected[0].to_f64()) {
            assert!(expected.is_finite() && (found - expected).abs() <= 4e-3, "{found} for {expected}");
        }
    }

    #[test]
    fn constants_reach_as_far_as_their_farthest_finite_number() {
        let mut numbers = vec![1.0; 37];
        (numbers[3], numbers[20], numbers[35], numbers[36]) = (-65520.0, f32::INFINITY, 65519.0, f32::NAN);
        let reach = |numbers: &[f32]| Reach::from(Some(&Tensor::f32(&[numbers.len()], numbers)));
        assert_eq!(reach(&numbers), Reach { below: 65520.0, above: 0.0 });
        numbers[36] = 1e30;
        assert_eq!(reach(&numbers).farthest(), Some(f64::from(1e30_f32)));
        for number in [65519.996_f32, 65520.0, -7e4, f32::NAN] {
            let infinite = half::f16::from_f32(number).is_infinite();
            assert_eq!(reach(&[number]).farthest().is_some(), infinite, "{number}");
        }
    }

    #[test]
    fn queries_that_see_nothing_weigh_all_keys_alike() {
        let boolean = |network: &mut Network, seen| {
            let zero = network.scalar(0.0);
            network.binary(Binary::Greater, seen, zero)
        };
        for value in [f32::MIN, -1e9] {
            // The mask chosen, added, and added behind a transposition.
            check(|network, seen| {
                let scores = network.input(&SCORES);
                let (seen, value) = (boolean(network, seen), network.scalar(value));
                let masked = network.node(Op::Where, &[seen, scores, value]);
                network.softmax(masked)
            });
            check(|network, seen| {
                let scores = network.input(&SCORES);
                let mask = network.added_mask(seen, value);
                let masked = network.binary(Binary::Add, scores, mask);
                network.softmax(masked)
            });
            check(|network, seen| {
                let scores = network.input(&[KEYS, QUERIES]);
                let mask = network.added_mask(seen, value);
                let mask = network.node(Op::Transpose { permutation: vec![0, 1, 3, 2] }, &[mask]);
                let masked = network.binary(Binary::Add, scores, mask);
                let masked = network.node(Op::Transpose { permutation: vec![0, 1, 3, 2] }, &[masked]);
                network.softmax(masked)
            });
            // In the epilogue of a product, and in attention.
            check(|network, seen| {
                let (a, b) = (network.input(&[1, 2, QUERIES, SIZE]), network.input(&[1, 2, SIZE, KEYS]));
                let product = network.node(Op::MatMul, &[a, b]);
                let (seen, value) = (boolean(network, seen), network.scalar(value));
                let masked = network.node(Op::Where, &[seen, product, value]);
                network.softmax(masked)
            });
            check(|network, seen| {
                let (a, b) = (network.input(&[1, 2, QUERIES, SIZE]), network.input(&[1, 2, SIZE, KEYS]));
                let product = network.node(Op::MatMul, &[a, b]);
                let mask = network.added_mask(seen, value);
                let masked = network.binary(Binary::Add, product, mask);
                let weights = network.softmax(masked);
                let value = network.input(&[1, 2, KEYS, SIZE]);
                network.node(Op::MatMul, &[weights, value])
            });
        }
    }

    #[test]
    fn masks_are_compared_and_silenced_exactly() {
        // 0 where a query would see nothing, as transformers mends its masks.
        check(|network, seen| {
            let scores = network.input(&SCORES);
            let mask = network.added_mask(seen, f32::MIN);
            let largest = Op::Reduce { kind: Reduction::Max, axes: vec![3], keep: true };
            let largest = network.node(largest, &[mask]);
            let lowest = network.scalar(f32::MIN);
            let nothing = network.binary(Binary::Equal, largest, lowest);
            let nothing = network.node_as_float(nothing);
            let one = network.scalar(1.0);
            let factor = network.binary(Binary::Sub, one, nothing);
            let mask = network.binary(Binary::Mul, mask, factor);
            let masked = network.binary(Binary::Add, scores, mask);
            network.softmax(masked)
        });
    }

    #[test]
    fn inputs_that_are_masks_stay_exact() {
        check_with([f32::MIN, 0.0], |network, mask| {
            let scores = network.input(&SCORES);
            let masked = network.binary(Binary::Add, scores, mask);
            network.softmax(masked)
        });
        check_with([-1e9, 0.0], |network, mask| {
            let (a, b) = (network.input(&[1, 2, QUERIES, SIZE]), network.input(&[1, 2, SIZE, KEYS]));
            let product = network.node(Op::MatMul, &[a, b]);
            let two = network.scalar(2.0);
            let mask = network.binary(Binary::Mul, mask, two);
            let masked = network.binary(Binary::Add, product, mask);
            let weights = network.softmax(masked);
            let value = network.input(&[1, 2, KEYS, SIZE]);
            network.node(Op::MatMul, &[weights, value])
        });
    }

    #[test]
    fn the_farthest_number_is_the_reason() {
        let mut network = Network::new();
        let x = network.input(&[2, 8]);
        let (low, high) = (network.scalar(-1e6), network.scalar(7e4));
        let larger = network.binary(Binary::Add, x, high);
        let scores = network.node(Op::Softmax { axis: 1, log: false }, &[larger]);
        let both = network.binary(Binary::Add, larger, low);
        network.graph.outputs = vec![larger, scores, both];
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        let storage = precision::assign(&fused, HALF);
        let reasons: Vec<&[Reason]> = fused.outputs.iter().map(|id| storage[id.0].reasons.as_slice()).collect();
        assert_eq!(reasons[0], [Reason::Beyond { number: 7e4 }]);
        assert!(reasons[1].is_empty());
        assert_eq!(reasons[2], [Reason::Beyond { number: -1e6 }]);
    }

    #[test]
    fn bounds_and_activations_keep_f16() {
        let mut network = Network::new();
        let x = network.input(&[2, 8]);
        let clipped =
            network.node(Op::Composite(op::Composite::Clip { min: Some(0.0), max: Some(f32::MAX.into()) }), &[x]);
        let factor = network.scalar(1e6);
        let scaled = network.binary(Binary::Mul, x, factor);
        let gate = network.node(Op::Unary(Unary::Sigmoid), &[scaled]);
        let infinite = network.scalar(f32::NEG_INFINITY);
        let largest = network.binary(Binary::Max, x, infinite);
        network.graph.outputs = vec![clipped, gate, largest];
        let fused = passes::fuse::run(passes::normalise(network.graph)).unwrap();
        let storage = precision::assign(&fused, HALF);
        assert!(fused.nodes.iter().all(|node| storage[node.outputs[0].0].reasons.is_empty()));
    }

    /// Scores of two heads that a mask of one is added to.
    fn softmax_of(network: &mut Network, mask: TensorId) -> TensorId {
        let scores = network.input(&SCORES);
        let masked = network.binary(Binary::Add, scores, mask);
        network.softmax(masked)
    }

    #[test]
    fn inputs_that_are_masks_stay_exact_through_whatever_moves_them() {
        check_with([f32::MIN, 0.0], |network, mask| {
            let mask = network.node(Op::Tile { repeats: vec![1, 2, 1, 1] }, &[mask]);
            softmax_of(network, mask)
        });
        check_with([f32::MIN, 0.0], |network, mask| {
            let indices = network.graph.add_constant("indices", Tensor::i64(&[QUERIES], &[2, 1, 0]));
            let mask = network.node(Op::Gather { axis: 2 }, &[mask, indices]);
            softmax_of(network, mask)
        });
        check_with([f32::MIN, 0.0], |network, mask| {
            let half =
                [Fact::new(DType::F32, &[1, 1, QUERIES, KEYS / 2]), Fact::new(DType::F32, &[1, 1, QUERIES, KEYS / 2])];
            let halves = network.node_as(Op::Split { axis: 3 }, &[mask], &half);
            let mask = network.node(Op::Concat { axis: 3 }, &[halves[1], halves[0]]);
            softmax_of(network, mask)
        });
    }

    #[test]
    fn a_number_that_pads_a_mask_stays_exact() {
        check(|network, seen| {
            let visible = Op::Slice { starts: vec![0; 4], steps: vec![1; 4] };
            let visible = network.node_as(visible, &[seen], &[Fact::new(DType::F32, &[1, 1, QUERIES - 1, KEYS])])[0];
            let after = vec![0, 0, 1, 0];
            let pad = Op::Pad { before: vec![0; 4], after, mode: op::PadMode::Constant(f32::MIN.into()) };
            let mask = network.node(pad, &[visible]);
            softmax_of(network, mask)
        });
    }
}
