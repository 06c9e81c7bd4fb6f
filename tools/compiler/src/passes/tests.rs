//! Whole networks in miniature through all passes: what fuses with what, and the same numbers as node by node.

use super::*;
use crate::{
    evaluate::{HostEvaluator, run_fused},
    fused::{FusedNode, FusedOp},
    kernel_graph::KernelGraph,
    lower::lower,
    store_options::StoreOptions,
    stored::StoredGraph,
};
use floe_models::{
    DType, Evaluate, Fact, Node, Op, Tensor, TensorId,
    op::{Binary, Composite, PadMode, Pooling, Reduction, Unary, Window},
};
use proptest::prelude::*;

mod float8;
mod long;
mod quantized;

/// Runs every pass before fusion.
pub(crate) fn simplify(graph: Graph) -> Result<Graph, PassError> {
    super::simplify(graph, &HostEvaluator::default())
}

/// Builds graphs with deterministic pseudo-random constants.
pub(crate) struct Network {
    pub(crate) graph: Graph,
    seed: u64,
}

impl Network {
    pub(crate) fn new() -> Self {
        Self { graph: Graph { name: "test".into(), ..Graph::default() }, seed: 1 }
    }

    /// Numbers in −1 … 1 (SplitMix64).
    fn random(&mut self, count: usize) -> Vec<f32> {
        (0..count)
            .map(|_| {
                self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = self.seed;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect()
    }

    pub(crate) fn input(&mut self, shape: &[usize]) -> TensorId {
        self.typed_input(DType::F32, shape)
    }

    fn typed_input(&mut self, dtype: DType, shape: &[usize]) -> TensorId {
        let name = format!("input_{}", self.graph.inputs.len());
        let id = self.graph.add_value(name, Fact::new(dtype, shape));
        self.graph.inputs.push(id);
        id
    }

    pub(crate) fn constant(&mut self, shape: &[usize]) -> TensorId {
        let values = self.random(shape.iter().product());
        self.graph.add_constant("constant", Tensor::f32(shape, &values))
    }

    fn positive(&mut self, shape: &[usize]) -> TensorId {
        let values: Vec<f32> = self.random(shape.iter().product()).into_iter().map(|v| v.abs() + 0.1).collect();
        self.graph.add_constant("positive", Tensor::f32(shape, &values))
    }

    /// A constant whose element `i` is `of(i)`.
    pub(crate) fn filled(&mut self, shape: &[usize], of: impl Fn(usize) -> f32) -> TensorId {
        let values: Vec<f32> = (0..shape.iter().product()).map(of).collect();
        self.graph.add_constant("filled", Tensor::f32(shape, &values))
    }

    pub(crate) fn scalar(&mut self, value: f32) -> TensorId {
        self.graph.add_constant("scalar", Tensor::f32(&[], &[value]))
    }

    /// A node whose output's fact follows from inference, or from `declared` where that is open.
    pub(crate) fn node_as(&mut self, op: Op, inputs: &[TensorId], declared: &[Fact]) -> Vec<TensorId> {
        let facts: Vec<&Fact> = inputs.iter().map(|&input| self.graph.fact(input)).collect();
        let facts = floe_models::infer(&op, &facts, declared).expect("legal operands");
        let name = format!("{}_{}", op.name(), self.graph.nodes.len());
        let outputs: Vec<TensorId> = facts.into_iter().map(|fact| self.graph.add_value(name.clone(), fact)).collect();
        let sources = vec![name.as_str().into()];
        self.graph.nodes.push(Node { name, op, inputs: inputs.to_vec(), outputs: outputs.clone(), sources });
        outputs
    }

    pub(crate) fn node(&mut self, op: Op, inputs: &[TensorId]) -> TensorId {
        self.node_as(op, inputs, &[])[0]
    }

    pub(crate) fn unary(&mut self, op: impl Into<Op>, x: TensorId) -> TensorId {
        self.node(op.into(), &[x])
    }

    pub(crate) fn binary(&mut self, op: Binary, a: TensorId, b: TensorId) -> TensorId {
        self.node(Op::Binary(op), &[a, b])
    }

    pub(crate) fn conv(&mut self, x: TensorId, outputs: usize, kernel: usize, groups: usize) -> TensorId {
        let channels = self.graph.fact(x).shape[1];
        let weights = self.constant(&[outputs, channels / groups, kernel, kernel]);
        let bias = self.constant(&[outputs]);
        self.node(Op::Conv { window: window(kernel / 2), groups }, &[x, weights, bias])
    }

    fn batch_norm(&mut self, x: TensorId) -> TensorId {
        let channels = [self.graph.fact(x).shape[1]];
        let (scale, bias) = (self.constant(&channels), self.constant(&channels));
        let (mean, variance) = (self.constant(&channels), self.positive(&channels));
        self.node(Op::BatchNormalization { epsilon: 1e-5 }, &[x, scale, bias, mean, variance])
    }

    pub(crate) fn output(&mut self, id: TensorId) {
        self.graph.outputs.push(id);
    }

    /// Simplifies and fuses, checks that the result is legal and that it computes what the unfused nodes do.
    /// What a GPU of f16 runs before kernels are fused.
    pub(crate) fn kernels_of_f16(self) -> KernelGraph {
        let fused = fuse(simplify(self.graph).expect("legal")).expect("fusible");
        let options = StoreOptions { host: false, half: true, keep_f32: &[], budget_f32: &[], states: &[] };
        lower(&StoredGraph::of(&fused, options)).expect("lowered")
    }

    pub(crate) fn finish(mut self) -> FusedGraph {
        let shapes: Vec<Vec<usize>> =
            self.graph.inputs.iter().map(|&input| self.graph.fact(input).shape.clone()).collect();
        let inputs: Vec<Tensor> =
            shapes.iter().map(|shape| Tensor::f32(shape, &self.random(shape.iter().product()))).collect();
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let expected = node_by_node(&self.graph, &inputs);
        let simplified = simplify(self.graph).expect("legal at every step");
        let fused = fuse(simplified).expect("fusible");
        legality::fused::check(&fused, "fuse").expect("legal");
        let found = run_fused(&fused, &inputs).expect("runs on the host");
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.dtype, &found.shape), (expected.dtype, &expected.shape));
            for (a, b) in found.to_f64().iter().zip(expected.to_f64()) {
                assert!((a - b).abs() <= 1e-5 + 1e-5 * b.abs(), "{a} for {b}");
            }
        }
        fused
    }
}

pub(crate) fn window(pad: usize) -> Window {
    Window { strides: vec![1, 1], dilations: vec![1, 1], pads_begin: vec![pad; 2], pads_end: vec![pad; 2] }
}

/// The reference: every node alone, in order.
fn node_by_node(graph: &Graph, inputs: &[&Tensor]) -> Vec<Tensor> {
    let mut values: Vec<Option<Tensor>> = graph.values.iter().map(|value| value.constant.clone()).collect();
    for (&id, &tensor) in graph.inputs.iter().zip(inputs) {
        values[id.0] = Some(tensor.clone());
    }
    for node in &graph.nodes {
        let operands: Vec<&Tensor> = node.inputs.iter().map(|id| values[id.0].as_ref().expect("made before")).collect();
        let facts: Vec<Fact> = node.outputs.iter().map(|&id| graph.fact(id).clone()).collect();
        let results = HostEvaluator::default().evaluate(&node.op, &operands, &facts);
        let results = results.unwrap_or_else(|| panic!("{} does not run", node.name));
        for (id, result) in node.outputs.iter().zip(results) {
            values[id.0] = Some(result);
        }
    }
    graph.outputs.iter().map(|id| values[id.0].clone().expect("outputs are made")).collect()
}

/// Kinds of nodes in order, with the number of inputs beside the operator's own.
fn kinds(graph: &FusedGraph) -> Vec<(&'static str, usize)> {
    let kind = |node: &FusedNode| match &node.op {
        FusedOp::Operator(op) => (op.name(), 0),
        FusedOp::Pointwise(_) => ("pointwise", node.inputs.len()),
        FusedOp::Anchored { op, operands, program: None } => {
            assert_eq!(node.inputs.len(), *operands);
            (op.name(), 0)
        }
        FusedOp::Anchored { op, operands, program: Some(program) } => {
            assert_eq!(node.inputs.len() - operands + 1, usize::from(program.inputs));
            (op.name(), 1 + node.inputs.len() - operands)
        }
    };
    graph.nodes.iter().map(kind).collect()
}

#[test]
fn a_residual_block_is_one_kernel_a_convolution() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 6]);
    let mut y = x;
    for (channels, kernel) in [(4, 1), (4, 3), (8, 1)] {
        y = net.conv(y, channels, kernel, 1);
        y = net.batch_norm(y);
        if channels == 4 {
            y = net.unary(Unary::Relu, y);
        }
    }
    let shortcut = net.conv(x, 8, 1, 1);
    let shortcut = net.batch_norm(shortcut);
    let sum = net.binary(Binary::Add, y, shortcut);
    let result = net.unary(Unary::Relu, sum);
    net.output(result);
    // The last convolution in order, the shortcut, takes the addition.
    assert_eq!(kinds(&net.finish()), [("Conv", 1), ("Conv", 1), ("Conv", 0), ("Conv", 2)]);
}

#[test]
fn an_identity_shortcut_becomes_an_extra_input() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 6]);
    let first = net.conv(x, 4, 3, 1);
    let first = net.unary(Unary::Relu, first);
    let second = net.conv(first, 4, 3, 1);
    let sum = net.binary(Binary::Add, second, first);
    let result = net.unary(Unary::Relu, sum);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("Conv", 1), ("Conv", 2)]);
}

#[test]
fn silu_and_gelu_are_epilogues() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 5, 5]);
    let y = net.conv(x, 4, 3, 1);
    let gate = net.unary(Unary::Sigmoid, y);
    let y = net.binary(Binary::Mul, y, gate);
    let y = net.conv(y, 4, 1, 1);
    let root = net.scalar(std::f32::consts::SQRT_2);
    let scaled = net.binary(Binary::Div, y, root);
    let erf = net.unary(Unary::Erf, scaled);
    let one = net.scalar(1.0);
    let sum = net.binary(Binary::Add, erf, one);
    let product = net.binary(Binary::Mul, y, sum);
    let half = net.scalar(0.5);
    let result = net.binary(Binary::Mul, product, half);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("Conv", 1), ("Conv", 1)]);
}

#[test]
fn squeeze_and_excitation_scales_after_its_own_branch() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 6]);
    let y = net.conv(x, 8, 3, 8 / 4);
    let y = net.unary(Composite::HardSwish, y);
    let pooled = net.node(Op::GlobalPool { kind: Pooling::AverageExcludingPads }, &[y]);
    let squeezed = net.conv(pooled, 2, 1, 1);
    let squeezed = net.unary(Unary::Relu, squeezed);
    let excited = net.conv(squeezed, 8, 1, 1);
    let gate = net.unary(Composite::HardSigmoid { alpha: 0.2, beta: 0.5 }, excited);
    let scaled = net.binary(Binary::Mul, y, gate);
    let projected = net.conv(scaled, 4, 1, 1);
    let result = net.binary(Binary::Add, projected, x);
    net.output(result);
    let expected = [("Conv", 1), ("Reduce", 0), ("Conv", 1), ("Conv", 1), ("pointwise", 2), ("Conv", 2)];
    assert_eq!(kinds(&net.finish()), expected);
}

#[test]
fn an_inverted_residual_keeps_three_convolutions() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 6]);
    let mut y = x;
    for (channels, kernel, groups) in [(8, 1, 1), (8, 3, 8)] {
        y = net.conv(y, channels, kernel, groups);
        y = net.batch_norm(y);
        y = net.unary(Composite::Clip { min: Some(0.0), max: Some(6.0) }, y);
    }
    y = net.conv(y, 4, 1, 1);
    y = net.batch_norm(y);
    let result = net.binary(Binary::Add, x, y);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("Conv", 1), ("Conv", 1), ("Conv", 2)]);
}

#[test]
fn a_detection_head_joins_epilogues() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 6]);
    let parts: Vec<TensorId> = (0..3)
        .map(|number| {
            let y = net.conv(x, [4, 1, 2][number], 1, 1);
            if number == 0 { y } else { net.unary(Unary::Sigmoid, y) }
        })
        .collect();
    let joined = net.node(Op::Concat { axis: 1 }, &parts);
    let flat = net.node_as(Op::Reshape, &[joined], &[Fact::new(DType::F32, &[1, 7, 36])])[0];
    let result = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[flat]);
    net.output(result);
    let expected = [("Conv", 0), ("Conv", 1), ("Conv", 1), ("Concat", 0), ("Reshape", 0), ("Transpose", 0)];
    assert_eq!(kinds(&net.finish()), expected);
}

#[test]
fn a_value_that_is_also_an_output_is_made_once_and_kept() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 5, 5]);
    let y = net.conv(x, 4, 1, 1);
    let rectified = net.unary(Unary::Relu, y);
    let result = net.unary(Unary::Exp, rectified);
    net.output(rectified);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("Conv", 1), ("pointwise", 1)]);
}

#[test]
fn a_diamond_through_an_opaque_operator_does_not_become_a_cycle() {
    let mut net = Network::new();
    let x = net.input(&[2, 6]);
    let a = net.unary(Unary::Exp, x);
    let opaque = net.node(Op::Softmax { axis: 1, log: false }, &[a]);
    let b = net.unary(Unary::Neg, a);
    let result = net.binary(Binary::Mul, b, opaque);
    net.output(result);
    // exp is read by softmax too, so it stands alone; the rest is one program.
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("Softmax", 0), ("pointwise", 2)]);
}

#[test]
fn an_epilogue_takes_what_fits_and_leaves_the_rest() {
    let mut net = Network::new();
    let x = net.input(&[1, 4, 5, 5]);
    let mut y = net.conv(x, 4, 1, 1);
    for _ in 0..5 {
        let other = net.input(&[1, 4, 5, 5]);
        y = net.binary(Binary::Mul, y, other);
    }
    net.output(y);
    assert_eq!(kinds(&net.finish()), [("Conv", 4), ("pointwise", 3)]);
}

#[test]
fn long_chains_are_split() {
    let mut net = Network::new();
    let x = net.input(&[3, 5]);
    let mut y = x;
    for number in 0..100 {
        y = net.unary(if number % 2 == 0 { Unary::Sin } else { Unary::Tanh }, y);
    }
    net.output(y);
    let fused = net.finish();
    assert_eq!(kinds(&fused), [("pointwise", 1); 3]);
}

#[test]
fn padding_moves_into_windows() {
    let mut net = Network::new();
    let x = net.input(&[1, 3, 7, 7]);
    let pad = Op::Pad { before: vec![0, 0, 1, 0], after: vec![0, 0, 0, 1], mode: PadMode::Constant(0.0) };
    let padded = net.node(pad.clone(), &[x]);
    let y = net.conv(padded, 4, 3, 1);
    let padded = net.node(pad, &[y]);
    let pool = Op::Pool { kind: Pooling::AverageExcludingPads, kernel: vec![2, 2], window: window(0) };
    let result = net.node_as(pool, &[padded], &[Fact::new(DType::F32, &[1, 4, 8, 8])])[0];
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("Conv", 0), ("Pool", 0)]);
}

#[test]
fn products_take_their_factors_and_biases() {
    let mut net = Network::new();
    let x = net.input(&[3, 4]);
    let (weights, bias) = (net.constant(&[5, 4]), net.constant(&[1, 5]));
    let gemm = Op::Gemm { alpha: 0.5, beta: 2.0, transpose_a: false, transpose_b: true };
    let y = net.node(gemm, &[x, weights, bias]);
    let weights = net.constant(&[5, 6]);
    let y = net.node(Op::MatMul, &[y, weights]);
    let bias = net.constant(&[6]);
    let y = net.binary(Binary::Add, bias, y);
    let vector = net.constant(&[6]);
    let result = net.node(Op::MatMul, &[y, vector]);
    net.output(result);
    let fused = net.finish();
    assert_eq!(kinds(&fused), [("Gemm", 0), ("MatMul", 0), ("MatMul", 0), ("Reshape", 0)]);
    let biases = fused.nodes.iter().map(|node| node.inputs.len() - 2).take(2).collect::<Vec<_>>();
    assert_eq!(biases, [1, 1], "both biases are operands");
}

#[test]
fn a_gemm_with_a_matrix_addend_becomes_an_epilogue() {
    let mut net = Network::new();
    let (a, b, c) = (net.input(&[4, 3]), net.input(&[4, 5]), net.input(&[3, 1]));
    let gemm = Op::Gemm { alpha: 0.25, beta: 0.5, transpose_a: true, transpose_b: false };
    let result = net.node(gemm, &[a, b, c]);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("Gemm", 2)]);
}

#[test]
fn decomposed_layer_normalisation_is_recognised() {
    let mut net = Network::new();
    let x = net.input(&[2, 3, 8]);
    let mean = Op::Reduce { kind: Reduction::Mean, axes: vec![2], keep: true };
    let average = net.node(mean.clone(), &[x]);
    let centred = net.binary(Binary::Sub, x, average);
    let two = net.scalar(2.0);
    let square = net.binary(Binary::Pow, centred, two);
    let variance = net.node(mean, &[square]);
    let epsilon = net.scalar(1e-5);
    let sum = net.binary(Binary::Add, variance, epsilon);
    let deviation = net.unary(Unary::Sqrt, sum);
    let normal = net.binary(Binary::Div, centred, deviation);
    let (scale, shift) = (net.constant(&[8]), net.constant(&[8]));
    let scaled = net.binary(Binary::Mul, normal, scale);
    let result = net.binary(Binary::Add, scaled, shift);
    net.output(result);
    let fused = net.finish();
    assert_eq!(kinds(&fused), [("LayerNormalization", 0)]);
    assert_eq!(fused.nodes[0].sources.len(), 8);
}

#[test]
fn decomposed_normalisation_by_the_root_mean_square_is_recognised() {
    for form in 0..3 {
        let mut net = Network::new();
        let x = net.input(&[2, 5, 8]);
        let (two, epsilon, one, power) = (net.scalar(2.0), net.scalar(1e-3), net.scalar(1.0), net.scalar(-0.5));
        let square = net.binary(Binary::Pow, x, two);
        let mean = net.node(Op::Reduce { kind: Reduction::Mean, axes: vec![2], keep: true }, &[square]);
        let sum = net.binary(Binary::Add, mean, epsilon);
        let root = net.unary(Unary::Sqrt, sum);
        let factor = match form {
            0 => net.unary(Unary::Reciprocal, root),
            1 => net.binary(Binary::Div, one, root),
            _ => net.binary(Binary::Pow, sum, power),
        };
        let scale = net.constant(&[8]);
        let y = net.binary(Binary::Mul, x, factor);
        let y = net.binary(Binary::Mul, scale, y);
        net.output(y);
        assert_eq!(work(&net.finish()), ["LayerNormalization"]);
    }
}

#[test]
fn batch_normalisation_without_a_convolution_is_one_program() {
    let mut net = Network::new();
    let x = net.input(&[2, 3, 4, 4]);
    let y = net.batch_norm(x);
    let result = net.unary(Unary::Relu, y);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("pointwise", 3)]);
}

#[test]
fn no_ops_and_duplicates_vanish() {
    let mut net = Network::new();
    let x = net.input(&[2, 3, 4]);
    let same = net.node(Op::Identity, &[x]);
    let there = net.node(Op::Transpose { permutation: vec![2, 0, 1] }, &[same]);
    let back = net.node(Op::Transpose { permutation: vec![1, 2, 0] }, &[there]);
    let pieces = net.node_as(Op::Split { axis: 1 }, &[back], &[Fact::new(DType::F32, &[2, 3, 4])]);
    let one = net.node(Op::Softmax { axis: 2, log: false }, &[pieces[0]]);
    let other = net.node(Op::Softmax { axis: 2, log: false }, &[x]);
    let sum = net.binary(Binary::Add, one, other);
    let result = net.node(Op::Identity, &[sum]);
    net.output(result);
    let fused = net.finish();
    assert_eq!(kinds(&fused), [("Softmax", 0), ("pointwise", 1)]);
    assert_eq!(fused.values[fused.outputs[0].0].name, "Identity_7", "an output keeps its name");
}

#[test]
fn an_input_may_be_an_output() {
    let mut net = Network::new();
    let x = net.input(&[2, 3]);
    let result = net.node(Op::Identity, &[x]);
    net.output(result);
    net.output(x);
    assert_eq!(kinds(&net.finish()), [("Reshape", 0)]);
}

#[test]
fn constants_are_computed() {
    let mut net = Network::new();
    let shape = net.graph.add_constant("shape", Tensor::i64(&[4], &[1, 3, 1 << 40, 7]));
    let indices = net.graph.add_constant("indices", Tensor::i64(&[], &[2]));
    let picked = net.node(Op::Gather { axis: 0 }, &[shape, indices]);
    let three = net.graph.add_constant("three", Tensor::i64(&[], &[-3]));
    let quotient = net.binary(Binary::Div, picked, three);
    net.output(quotient);
    let graph = simplify(net.graph).expect("legal");
    assert!(graph.nodes.is_empty());
    let result = graph.constant(graph.outputs[0]).and_then(Tensor::to_i64);
    assert_eq!(result, Some(vec![-((1_i64 << 40) / 3)]));
}

#[test]
fn narrow_integers_wrap_between_operators() {
    let mut net = Network::new();
    let x = net.typed_input(DType::U8, &[3]);
    let two = net.graph.add_constant("two", Tensor::from_slice(DType::U8, &[], &[2_u8]));
    let difference = net.binary(Binary::Sub, x, two);
    let result = net.binary(Binary::Div, difference, two);
    net.output(result);
    let fused = fuse(simplify(net.graph).expect("legal")).expect("fusible");
    assert_eq!(kinds(&fused), [("pointwise", 1), ("pointwise", 1)]);
    let x = Tensor::from_slice(DType::U8, &[3], &[0_u8, 1, 9]);
    let found = run_fused(&fused, &[&x]).expect("runs");
    assert_eq!(found[0].bytes(), [127, 127, 3]);
}

#[test]
fn an_illegal_graph_is_named() {
    let mut net = Network::new();
    let x = net.input(&[2, 3]);
    let y = net.unary(Unary::Exp, x);
    net.output(y);
    net.graph.values[y.0].fact.shape = vec![3, 2];
    let error = simplify(net.graph).expect_err("the fact is wrong");
    assert!(error.to_string().starts_with("after pass import: node Unary_0 (Unary): makes"), "{error}");
}

#[test]
fn passes_that_undo_each_other_are_an_error() {
    let mut net = Network::new();
    let x = net.input(&[2]);
    let y = net.unary(Unary::Exp, x);
    net.output(y);
    let turn = |mut graph: Graph| {
        let node = &mut graph.nodes[0];
        node.op = Op::Unary(if node.op == Op::Unary(Unary::Exp) { Unary::Neg } else { Unary::Exp });
        graph
    };
    assert_eq!(settle(net.graph.clone(), &[("there", &turn)]).err(), Some(PassError::Unsettled));
    assert!(settle(net.graph, &[("there", &turn), ("back", &turn)]).is_ok());
}

#[test]
fn an_attribute_that_is_not_a_number_changes_nothing() {
    let mut net = Network::new();
    let x = net.input(&[2]);
    let y = net.node(Op::Pad { before: vec![1], after: vec![0], mode: PadMode::Constant(f64::NAN) }, &[x]);
    net.output(y);
    assert!(simplify(net.graph).is_ok());
}

type Formula = Box<dyn Fn(f64) -> f64>;

#[test]
fn activations_follow_their_formulas() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let cases: Vec<(Composite, Formula)> = vec![
        (Composite::Softsign, Box::new(|x| x / (1.0 + x.abs()))),
        (Composite::LeakyRelu { alpha: 0.1 }, Box::new(|x| if x < 0.0 { 0.1 * x } else { x })),
        (Composite::Elu { alpha: 1.5 }, Box::new(|x| if x < 0.0 { 1.5 * x.exp_m1() } else { x })),
        (Composite::Selu { alpha: 1.6, gamma: 1.05 }, Box::new(|x| 1.05 * if x > 0.0 { x } else { 1.6 * x.exp_m1() })),
        (Composite::Celu { alpha: 2.0 }, Box::new(|x| x.max(0.0) + (2.0 * (x / 2.0).exp_m1()).min(0.0))),
        (Composite::ThresholdedRelu { alpha: 0.5 }, Box::new(|x| if x > 0.5 { x } else { 0.0 })),
        (Composite::HardSigmoid { alpha: 0.2, beta: 0.5 }, Box::new(|x| (0.2 * x + 0.5).clamp(0.0, 1.0))),
        (Composite::HardSwish, Box::new(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0)),
        (Composite::Mish, Box::new(|x| x * x.exp().ln_1p().tanh())),
        (
            Composite::Gelu { tanh: true },
            Box::new(|x| 0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x.powi(3))).tanh())),
        ),
        (Composite::Swish { alpha: 1.7 }, Box::new(move |x| x * sigmoid(1.7 * x))),
        (Composite::Clip { min: Some(-1.0), max: None }, Box::new(|x| x.max(-1.0))),
        (Composite::Clip { min: None, max: Some(0.25) }, Box::new(|x| x.min(0.25))),
        (
            Composite::Shrink { bias: 0.5, lambda: 1.5 },
            Box::new(|x| {
                if x < -1.5 {
                    x + 0.5
                } else if x > 1.5 {
                    x - 0.5
                } else {
                    0.0
                }
            }),
        ),
    ];
    let points: Vec<f32> = (-40..=40).map(|n| n as f32 / 8.0).collect();
    let x = Tensor::f32(&[points.len()], &points);
    let fact = Fact::new(DType::F32, &[points.len()]);
    for (op, formula) in cases {
        let result =
            HostEvaluator::default().evaluate(&Op::Composite(op), &[&x], std::slice::from_ref(&fact)).expect("runs");
        for (&x, found) in points.iter().zip(result[0].to_f64()) {
            let expected = formula(x.into());
            assert!((found - expected).abs() <= 1e-6 + 1e-6 * expected.abs(), "{op:?} of {x}: {found} for {expected}");
        }
    }
}

/// The names of the fused graph's operators that are more than movement.
pub(crate) fn work(graph: &FusedGraph) -> Vec<&'static str> {
    let moves = |op: &Op| matches!(op, Op::Reshape | Op::Transpose { .. } | Op::Slice { .. } | Op::Split { .. });
    let name = |node: &FusedNode| match &node.op {
        FusedOp::Operator(op) if moves(op) => None,
        FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => Some(op.name()),
        FusedOp::Pointwise(_) => Some("pointwise"),
    };
    graph.nodes.iter().filter_map(name).collect()
}

#[test]
fn a_block_of_attention_is_three_operators() {
    let mut net = Network::new();
    let (tokens, heads, size) = (7, 2, 4);
    let width = heads * size;
    let x = net.input(&[1, tokens, width]);
    let mask = net.input(&[tokens, tokens]);
    let scale = net.scalar(0.7);
    // Three projections, of which the key's is stored with heads first; the scale on both factors.
    let mut parts = Vec::new();
    for _ in 0..3 {
        let (matrix, bias) = (net.constant(&[width, width]), net.constant(&[width]));
        let product = net.node(Op::MatMul, &[x, matrix]);
        let sum = net.binary(Binary::Add, bias, product);
        let fact = Fact::new(DType::F32, &[1, tokens, heads, size]);
        parts.push(net.node_as(Op::Reshape, &[sum], &[fact])[0]);
    }
    let query = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[parts[0]]);
    let key = net.node(Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[parts[1]]);
    let value = net.node(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[parts[2]]);
    let query = net.binary(Binary::Mul, query, scale);
    let key = net.binary(Binary::Mul, scale, key);
    let scores = net.node(Op::MatMul, &[query, key]);
    let scores = net.binary(Binary::Add, mask, scores);
    let weights = net.node(Op::Softmax { axis: 3, log: false }, &[scores]);
    let mean = net.node(Op::MatMul, &[weights, value]);
    let joined = net.node(Op::Transpose { permutation: vec![2, 0, 1, 3] }, &[mean]);
    let joined = net.node_as(Op::Reshape, &[joined], &[Fact::new(DType::F32, &[tokens, width])])[0];
    let (matrix, bias) = (net.constant(&[width, width]), net.constant(&[width]));
    let op = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let projected = net.node(op, &[joined, matrix, bias]);
    let projected = net.node_as(Op::Reshape, &[projected], &[Fact::new(DType::F32, &[1, tokens, width])])[0];
    let residual = net.binary(Binary::Add, projected, x);
    net.output(residual);
    assert_eq!(work(&net.finish()), ["MatMul", "Attention", "MatMul"]);
}

#[test]
fn attention_is_recognised_with_a_bound_and_a_condition() {
    let mut net = Network::new();
    let (query, key) = (net.input(&[3, 5, 4]), net.input(&[3, 4, 6]));
    let (value, chosen) = (net.input(&[3, 6, 2]), net.input(&[1, 5, 6]));
    let (bound, inverse, lowest) = (net.scalar(2.0), net.scalar(0.5), net.scalar(f32::MIN));
    let scores = net.node(Op::MatMul, &[query, key]);
    let scores = net.binary(Binary::Mul, scores, inverse);
    let scores = net.unary(Unary::Tanh, scores);
    let scores = net.binary(Binary::Mul, scores, bound);
    let zero = net.scalar(-0.5);
    let condition = net.binary(Binary::Greater, chosen, zero);
    let scores = net.node(Op::Where, &[condition, scores, lowest]);
    let weights = net.node(Op::Softmax { axis: 2, log: false }, &[scores]);
    let mean = net.node(Op::MatMul, &[weights, value]);
    net.output(mean);
    let graph = net.finish();
    assert_eq!(work(&graph), ["pointwise", "Attention"]);
    let softcap = graph.nodes.iter().find_map(|node| match node.op {
        FusedOp::Operator(Op::Attention { softcap, .. }) => Some(softcap),
        _ => None,
    });
    assert_eq!(softcap, Some(2.0));
}

#[test]
fn attention_is_recognised_with_shared_heads_and_a_guard() {
    let mut net = Network::new();
    let (n, heads, shared, rows, size) = (2, 4, 2, 3, 4);
    let query = net.input(&[n, heads, rows, size]);
    let mut repeated = Vec::new();
    for _ in 0..2 {
        let x = net.input(&[n, shared, rows, size]);
        let reshaped = |net: &mut Network, op: Op, x: TensorId, shape: &[usize]| {
            net.node_as(op, &[x], &[Fact::new(DType::F32, shape)])[0]
        };
        let x = reshaped(&mut net, Op::Reshape, x, &[n, shared, 1, rows, size]);
        let x = reshaped(&mut net, Op::Expand, x, &[n, shared, heads / shared, rows, size]);
        repeated.push(reshaped(&mut net, Op::Reshape, x, &[n, heads, rows, size]));
    }
    let joined = net.node_as(Op::Reshape, &[repeated[0]], &[Fact::new(DType::F32, &[n * heads, rows, size])])[0];
    let columns = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[joined]);
    let key = net.node_as(Op::Reshape, &[columns], &[Fact::new(DType::F32, &[n, heads, size, rows])])[0];
    let (half, zero, hidden) = (net.scalar(0.5), net.scalar(0.0), net.scalar(f32::NEG_INFINITY));
    let query = net.binary(Binary::Mul, query, half);
    let scores = net.node(Op::MatMul, &[query, key]);
    // The first query sees no key.
    let numbers =
        net.graph.add_constant("numbers", Tensor::f32(&[3, 3], &[-2.0, -2.0, -2.0, 2.0, -2.0, 2.0, 2.0, 2.0, 2.0]));
    let chosen = net.input(&[1, 1, 1, rows]);
    let sum = net.binary(Binary::Add, chosen, numbers);
    let condition = net.binary(Binary::Greater, sum, zero);
    let mask = net.node(Op::Where, &[condition, zero, hidden]);
    let scores = net.binary(Binary::Add, scores, mask);
    let weights = net.node(Op::Softmax { axis: 3, log: false }, &[scores]);
    let unseen = net.unary(Unary::IsNan, weights);
    let weights = net.node(Op::Where, &[unseen, zero, weights]);
    let mean = net.node(Op::MatMul, &[weights, repeated[1]]);
    net.output(mean);
    assert_eq!(work(&net.finish()), ["pointwise", "Attention", "pointwise"]);
}

#[test]
fn attention_of_shifted_windows_has_one_mask() {
    let mut net = Network::new();
    let (windows, heads, rows, size) = (3, 2, 4, 8);
    let [query, value] = [(); 2].map(|()| net.input(&[windows, heads, rows, size]));
    let key = net.input(&[windows, heads, size, rows]);
    let (bias, mask) = (net.constant(&[1, heads, rows, rows]), net.constant(&[1, windows, 1, rows, rows]));
    let scores = net.node(Op::MatMul, &[query, key]);
    let scores = net.binary(Binary::Add, scores, bias);
    let of_images = Fact::new(DType::F32, &[1, windows, heads, rows, rows]);
    let scores = net.node_as(Op::Reshape, &[scores], &[of_images])[0];
    let scores = net.binary(Binary::Add, scores, mask);
    let of_windows = Fact::new(DType::F32, &[windows, heads, rows, rows]);
    let scores = net.node_as(Op::Reshape, &[scores], &[of_windows])[0];
    let weights = net.node(Op::Softmax { axis: 3, log: false }, &[scores]);
    let mean = net.node(Op::MatMul, &[weights, value]);
    net.output(mean);
    assert_eq!(work(&net.finish()), ["Attention"]);
}

#[test]
fn attention_of_windows_of_images_is_recognised() {
    // A mask for all, and ones of the images or of the windows alone, which one dimension of batches does not have.
    for (images, mask, kinds) in [
        (2, [1, 1], ["Attention"].as_slice()),
        (2, [2, 3], &["Attention"]),
        (1, [1, 3], &["Attention"]),
        (2, [1, 3], &["MatMul", "Softmax", "MatMul"]),
        (2, [2, 1], &["MatMul", "Softmax", "MatMul"]),
    ] {
        let mut net = Network::new();
        let (windows, heads, rows, size) = (3, 2, 4, 8);
        let [query, value] = [(); 2].map(|()| net.input(&[images, windows, heads, rows, size]));
        let key = net.input(&[images, windows, heads, size, rows]);
        let mask = net.constant(&[&mask[..], &[heads, rows, rows]].concat());
        let scores = net.node(Op::MatMul, &[query, key]);
        let scores = net.binary(Binary::Add, scores, mask);
        let weights = net.node(Op::Softmax { axis: 4, log: false }, &[scores]);
        let mean = net.node(Op::MatMul, &[weights, value]);
        let joined = net.node(Op::Transpose { permutation: vec![0, 1, 3, 2, 4] }, &[mean]);
        net.output(joined);
        assert_eq!(work(&net.finish()), kinds, "{images} images");
    }
}

#[test]
fn rotations_of_pairs_are_one_program() {
    for neighbours in [false, true] {
        let mut net = Network::new();
        let (rows, half) = (3, 4);
        let x = net.input(&[1, 2, rows, 2 * half]);
        let (cosine, sine) = (net.input(&[1, 1, rows, 2 * half]), net.input(&[rows, 2 * half]));
        let part = |net: &mut Network, start: usize, step: i64| {
            let op = Op::Slice { starts: vec![0, 0, 0, start], steps: vec![1, 1, 1, step] };
            net.node_as(op, &[x], &[Fact::new(DType::F32, &[1, 2, rows, half])])[0]
        };
        let turned = if neighbours {
            let (odd, even) = (part(&mut net, 1, 2), part(&mut net, 0, 2));
            let odd = net.unary(Unary::Neg, odd);
            let column = Fact::new(DType::F32, &[1, 2, rows, half, 1]);
            let odd = net.node_as(Op::Reshape, &[odd], std::slice::from_ref(&column))[0];
            let even = net.node_as(Op::Reshape, &[even], &[column])[0];
            let stacked = net.node(Op::Concat { axis: 4 }, &[odd, even]);
            net.node_as(Op::Reshape, &[stacked], &[Fact::new(DType::F32, &[1, 2, rows, 2 * half])])[0]
        } else {
            let (second, first) = (part(&mut net, half, 1), part(&mut net, 0, 1));
            let second = net.unary(Unary::Neg, second);
            net.node(Op::Concat { axis: 3 }, &[second, first])
        };
        let straight = net.binary(Binary::Mul, x, cosine);
        let crossed = net.binary(Binary::Mul, turned, sine);
        let sum = net.binary(Binary::Add, straight, crossed);
        net.output(sum);
        let graph = net.finish();
        // The sine with its signs, which other rotations share, and the rotation.
        assert!(work(&graph).iter().all(|&kind| kind == "pointwise") && work(&graph).len() <= 2, "{:?}", work(&graph));
    }
}

#[test]
fn weights_that_are_an_output_stay_apart() {
    let mut net = Network::new();
    let (query, key, value) = (net.input(&[3, 5, 4]), net.input(&[3, 4, 6]), net.input(&[3, 6, 2]));
    let scores = net.node(Op::MatMul, &[query, key]);
    let weights = net.node(Op::Softmax { axis: 2, log: false }, &[scores]);
    let mean = net.node(Op::MatMul, &[weights, value]);
    net.output(weights);
    net.output(mean);
    assert_eq!(work(&net.finish()), ["MatMul", "Softmax", "MatMul"]);
}

#[test]
fn gathers_of_constant_indices_are_slices() {
    let mut net = Network::new();
    let x = net.input(&[5, 3]);
    let one = net.graph.add_constant("one", Tensor::i64(&[], &[-1]));
    let even = net.graph.add_constant("even", Tensor::i64(&[3], &[4, 2, 0]));
    let uneven = net.graph.add_constant("uneven", Tensor::i64(&[3], &[0, 1, 4]));
    for indices in [one, even, uneven] {
        let picked = net.node(Op::Gather { axis: 0 }, &[x, indices]);
        net.output(picked);
    }
    assert_eq!(work(&net.finish()), ["Gather"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Random graphs of element-wise and opaque operators, some values also outputs.
    #[test]
    fn fusion_keeps_order_and_results(steps in proptest::collection::vec((0_u8..9, any::<u16>(), any::<u16>(), 0_u8..6), 1..24)) {
        let mut net = Network::new();
        let mut values = vec![net.input(&[1, 4, 3, 3]), net.input(&[1, 4, 3, 3]), net.input(&[4, 1, 1])];
        for (kind, a, b, exported) in steps {
            let a = values[usize::from(a) % values.len()];
            let b = values[usize::from(b) % values.len()];
            let image = net.graph.fact(a).shape.len() == 4;
            let made = match kind {
                0 => net.unary(Unary::Tanh, a),
                1 => net.unary(Unary::Sigmoid, a),
                2 => net.binary(Binary::Add, a, b),
                3 => net.binary(Binary::Mul, a, b),
                4 => net.binary(Binary::Max, a, b),
                5 => {
                    let condition = net.binary(Binary::Less, a, b);
                    net.node(Op::Where, &[condition, a, b])
                }
                6 if image => {
                    let y = net.conv(a, 4, 1, 1);
                    net.unary(Unary::Tanh, y)
                }
                7 if image => net.batch_norm(a),
                _ => net.node(Op::Softmax { axis: 0, log: false }, &[a]),
            };
            values.push(made);
            if exported == 0 {
                net.output(made);
            }
        }
        let last = values[values.len() - 1];
        if !net.graph.outputs.contains(&last) {
            net.output(last);
        }
        net.finish();
    }
}

#[test]
fn quantising_and_dequantising_is_one_program() {
    let mut net = Network::new();
    let x = net.input(&[2, 40]);
    let (scale, zero) = (net.scalar(0.03), net.scalar(7.0));
    let quotient = net.binary(Binary::Div, x, scale);
    let rounded = net.unary(Unary::Round, quotient);
    let shifted = net.binary(Binary::Add, rounded, zero);
    let integer = net.node_as(Op::Cast, &[shifted], &[Fact::new(DType::I8, &[2, 40])])[0];
    let float = net.node_as(Op::Cast, &[integer], &[Fact::new(DType::F32, &[2, 40])])[0];
    let centred = net.binary(Binary::Sub, float, zero);
    let result = net.binary(Binary::Mul, centred, scale);
    net.output(result);
    assert_eq!(kinds(&net.finish()), [("pointwise", 1)]);
}

#[test]
fn programs_of_floats_load_and_store_integers() {
    let mut net = Network::new();
    let x = net.input(&[3, 30]);
    let fifty = net.scalar(50.0);
    let wide = net.binary(Binary::Mul, x, fifty);
    let integer = net.node_as(Op::Cast, &[wide], &[Fact::new(DType::U8, &[3, 30])])[0];
    let float = net.node_as(Op::Cast, &[integer], &[Fact::new(DType::F32, &[3, 30])])[0];
    let result = net.unary(Unary::Sqrt, float);
    net.output(result);
    // Not rounded before, so the integer is made: the cast truncates.
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("pointwise", 1)]);
}

#[test]
fn branches_of_one_input_are_one_convolution() {
    let mut net = Network::new();
    let x = net.input(&[2, 12, 5, 7]);
    // An inception block: the branch that is concatenated as it is stays apart, as its slice is written in place.
    let alone = net.conv(x, 16, 1, 1);
    let alone = net.unary(Unary::Relu, alone);
    let mut parts = vec![alone];
    for (reduced, kernel) in [(8, 3), (24, 5)] {
        let y = net.conv(x, reduced, 1, 1);
        let y = net.batch_norm(y);
        let y = net.unary(Unary::Relu, y);
        let y = net.conv(y, 16, kernel, 1);
        parts.push(net.unary(Unary::Relu, y));
    }
    let joined = net.node(Op::Concat { axis: 1 }, &parts);
    net.output(joined);
    assert_eq!(work(&net.finish()), ["Conv", "Conv", "Conv", "Conv", "Concat"]);
}

#[test]
fn gated_branches_merge_without_their_biases_being_alike() {
    let mut net = Network::new();
    let x = net.input(&[1, 8, 6, 6]);
    for width in [8, 16] {
        let filters = net.constant(&[width, 8, 3, 3]);
        let mut operands = vec![x, filters];
        operands.extend((width == 16).then(|| net.constant(&[width])));
        let y = net.node(Op::Conv { window: window(1), groups: 1 }, &operands);
        let gate = net.unary(Unary::Sigmoid, y);
        let y = net.binary(Binary::Mul, y, gate);
        let y = net.conv(y, 4, 3, 1);
        net.output(y);
    }
    assert_eq!(work(&net.finish()), ["Conv", "Conv", "Conv"]);
}

#[test]
fn blocks_of_products_over_channels_have_no_steps_between_them() {
    let mut net = Network::new();
    let x = net.input(&[1, 3, 6, 6]);
    let mut x = net.conv(x, 8, 3, 1);
    for _ in 0..2 {
        let y = net.conv(x, 8, 3, 8);
        let y = net.node(Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[y]);
        let (wide, narrow) = (net.constant(&[8, 16]), net.constant(&[16, 8]));
        let y = net.node(Op::MatMul, &[y, wide]);
        let y = net.unary(Unary::Relu, y);
        let y = net.node(Op::MatMul, &[y, narrow]);
        let bias = net.constant(&[8]);
        let y = net.binary(Binary::Add, y, bias);
        let y = net.node(Op::Transpose { permutation: vec![0, 3, 1, 2] }, &[y]);
        let scale = net.constant(&[8, 1, 1]);
        let y = net.binary(Binary::Mul, y, scale);
        x = net.binary(Binary::Add, y, x);
    }
    net.output(x);
    let block = [("Conv", 0), ("MatMul", 1), ("MatMul", 2)];
    let kinds: Vec<_> = kinds(&net.finish()).into_iter().filter(|(kind, _)| *kind != "Transpose").collect();
    assert_eq!(kinds, [&[("Conv", 0)], &block[..], &block[..]].concat());
}

#[test]
fn unlike_branches_stay_apart() {
    // Widths, kernels and activations of two branches, and whether the second has a residual sum.
    let like = ([8, 16], [3, 3], [Unary::Relu, Unary::Relu], false);
    for (case, expected) in [
        (like, 3),
        (([8, 12], like.1, like.2, false), 4),
        ((like.0, [1, 3], like.2, false), 4),
        ((like.0, like.1, [Unary::Relu, Unary::Tanh], false), 4),
        ((like.0, like.1, like.2, true), 4),
    ] {
        let (widths, kernels, activations, residual) = case;
        let mut net = Network::new();
        let x = net.input(&[1, 16, 6, 6]);
        for branch in 0..2 {
            let mut y = net.conv(x, widths[branch], kernels[branch], 1);
            y = net.unary(activations[branch], y);
            if residual && branch == 1 {
                y = net.binary(Binary::Add, y, x);
            }
            let y = net.conv(y, 8, 1, 1);
            net.output(y);
        }
        let graph = net.finish();
        assert_eq!(work(&graph), vec!["Conv"; expected], "{case:?}");
    }
}
