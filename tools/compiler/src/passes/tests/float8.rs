//! Products of floats of 8 bits. Scales are powers of two here, so that no result depends on where they are multiplied.

use super::*;
use floe_kernels::narrow::{F8E4M3, F8E5M2, largest};
use floe_models::Quantized;

/// The code of the nearest number of a type.
fn code(dtype: DType, value: f32) -> u8 {
    if dtype == DType::F8E4M3 { F8E4M3::from_f32(value).0 } else { F8E5M2::from_f32(value).0 }
}

impl Network {
    /// `saturate(y / scale)` and `x · scale`, as the importer makes them: the 8-bit tensor and its value.
    fn in_8_bits(&mut self, dtype: DType, y: TensorId, scale: f32) -> (TensorId, TensorId) {
        let most = largest(dtype);
        let scale = self.scalar(scale);
        let quotient = self.binary(Binary::Div, y, scale);
        let clamped = self.unary(Composite::Clip { min: most.map(|most| -most), max: most }, quotient);
        let shape = self.graph.fact(y).shape.clone();
        let narrow = self.node_as(Op::Cast, &[clamped], &[Fact::new(dtype, &shape)])[0];
        let wide = self.node_as(Op::Cast, &[narrow], &[Fact::new(DType::F32, &shape)])[0];
        (narrow, self.binary(Binary::Mul, wide, scale))
    }

    /// Constant weights with a scale for each index of `axis`, as the importer keeps them.
    fn weights_of_8_bits(&mut self, dtype: DType, shape: &[usize], axis: usize) -> TensorId {
        let inner: usize = shape[axis + 1..].iter().product();
        let scale = |index: usize| [0.25, 0.125, 0.5][index / inner % shape[axis] % 3];
        let codes: Vec<u8> = self.random(shape.iter().product()).iter().map(|&value| code(dtype, value)).collect();
        let integers = Tensor::new(dtype, shape.to_vec(), codes);
        let value = |(index, value): (usize, f64)| value as f32 * scale(index);
        let values: Vec<f32> = integers.to_f64().into_iter().enumerate().map(value).collect();
        let mut along = vec![1; shape.len()];
        along[axis] = shape[axis];
        let scales: Vec<f32> = (0..shape[axis]).map(|index| scale(index * inner)).collect();
        let id = self.graph.add_constant("weights", Tensor::f32(shape, &values));
        let quantized = Quantized { integers, scale: Tensor::f32(&along, &scales), zero: None };
        self.graph.values[id.0].quantized = Some(quantized);
        id
    }
}

/// What the nodes of a fused graph are, and the types of their outputs.
fn made(graph: &FusedGraph) -> Vec<(&'static str, DType)> {
    let name = |node: &FusedNode| match &node.op {
        FusedOp::Pointwise(_) => "pointwise",
        FusedOp::Operator(op) | FusedOp::Anchored { op, .. } => op.name(),
    };
    graph.nodes.iter().map(|node| (name(node), graph.values[node.outputs[0].0].fact.dtype)).collect()
}

#[test]
fn a_block_reads_and_writes_8_bits_in_one_kernel_a_layer() {
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        let mut net = Network::new();
        let x = net.input(&[1, 8, 6, 6]);
        let (_, x) = net.in_8_bits(dtype, x, 1.0 / 64.0);
        let weights = net.weights_of_8_bits(dtype, &[8, 8, 3, 3], 0);
        let bias = net.constant(&[8]);
        let conv = Op::Conv { window: window(1), groups: 1 };
        let y = net.node(conv.clone(), &[x, weights, bias]);
        let y = net.unary(Unary::Relu, y);
        let (_, y) = net.in_8_bits(dtype, y, 1.0 / 16.0);
        let weights = net.weights_of_8_bits(dtype, &[8, 8, 3, 3], 0);
        let y = net.node(conv, &[y, weights]);
        // The residual is read as it was quantised, in the same kernel.
        let y = net.binary(Binary::Add, y, x);
        let (y, _) = net.in_8_bits(dtype, y, 1.0 / 16.0);
        net.output(y);
        let graph = net.finish();
        assert_eq!(made(&graph), [("pointwise", dtype), ("QuantizedConv", dtype), ("QuantizedConv", dtype)]);
    }
}

#[test]
fn matrix_products_take_weights_of_8_bits_as_columns() {
    // Of another type than the rows, too.
    let types = [DType::F8E5M2, DType::F8E4M3];
    let mut net = Network::new();
    let x = net.input(&[2, 5, 12]);
    let (_, x) = net.in_8_bits(types[0], x, 1.0 / 64.0);
    let weights = net.weights_of_8_bits(types[1], &[12, 7], 1);
    let y = net.node(Op::MatMul, &[x, weights]);
    net.output(y);
    assert_eq!(made(&net.finish()), [("pointwise", types[0]), ("QuantizedMatMul", DType::F32)]);

    let mut net = Network::new();
    let x = net.input(&[5, 12]);
    let (_, x) = net.in_8_bits(types[0], x, 1.0 / 64.0);
    let weights = net.weights_of_8_bits(types[1], &[7, 12], 0);
    let bias = net.constant(&[7]);
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let y = net.node(gemm, &[x, weights, bias]);
    net.output(y);
    let rows = net.graph.value(weights).quantized.as_ref().unwrap().integers.bytes().to_vec();
    let graph = net.finish();
    assert_eq!(made(&graph), [("pointwise", types[0]), ("QuantizedMatMul", DType::F32)]);
    let constant = graph.values[graph.nodes[1].inputs[1].0].constant.as_ref().unwrap();
    assert_eq!((constant.dtype, &constant.shape), (types[1], &vec![12, 7]));
    assert!((0..12 * 7).all(|at| constant.bytes()[at] == rows[at % 7 * 12 + at / 7]));
}

#[test]
fn what_is_no_product_of_8_bits_stays_one_of_floats() {
    // Integers times floats of 8 bits, weights that were not quantised, and the formats with one zero.
    let plain = |net: &mut Network| net.constant(&[12, 7]);
    let one_zero = |net: &mut Network| {
        let id = net.weights_of_8_bits(DType::F8E4M3, &[12, 7], 1);
        net.graph.values[id.0].quantized.as_mut().unwrap().integers.dtype = DType::F8E4M3Fnuz;
        id
    };
    let weights: [&dyn Fn(&mut Network) -> TensorId; 2] = [&plain, &one_zero];
    for weights in weights {
        let mut net = Network::new();
        let x = net.input(&[5, 12]);
        let (_, x) = net.in_8_bits(DType::F8E4M3, x, 1.0 / 64.0);
        let weights = weights(&mut net);
        let y = net.node(Op::MatMul, &[x, weights]);
        net.output(y);
        assert!(made(&net.finish()).iter().any(|&(name, _)| name == "MatMul"));
    }
}

#[test]
fn the_scale_of_a_result_becomes_part_of_the_factor() {
    let mut net = Network::new();
    let x = net.input(&[5, 16]);
    let (_, x) = net.in_8_bits(DType::F8E4M3, x, 1.0 / 64.0);
    let weights = net.weights_of_8_bits(DType::F8E4M3, &[16, 8], 1);
    let y = net.node(Op::MatMul, &[x, weights]);
    let y = net.unary(Unary::Relu, y);
    // No power of two, whose reciprocal would be multiplied in any case.
    let (y, _) = net.in_8_bits(DType::F8E4M3, y, 0.07);
    net.output(y);
    let graph = net.finish();
    assert_eq!(made(&graph), [("pointwise", DType::F8E4M3), ("QuantizedMatMul", DType::F8E4M3)]);
    let FusedOp::Anchored { program: Some(program), .. } = &graph.nodes[1].op else { panic!("no program") };
    let divides = |instruction: &floe_kernels::pointwise::Instruction| {
        matches!(instruction, floe_kernels::pointwise::Instruction::Binary(Binary::Div, ..))
    };
    assert!(!program.instructions.iter().any(divides));
}

#[test]
fn moves_between_8_bits_of_one_scale_move_bytes() {
    let mut net = Network::new();
    let x = net.input(&[2, 3, 8]);
    let dtype = DType::F8E4M3;
    let (_, a) = net.in_8_bits(dtype, x, 1.0 / 64.0);
    let turned = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[a]);
    let other = net.unary(Unary::Neg, x);
    let other = net.node(Op::Transpose { permutation: vec![0, 2, 1] }, &[other]);
    // A part at another scale is quantised before it is joined.
    let joined = net.node(Op::Concat { axis: 2 }, &[turned, other]);
    let (y, _) = net.in_8_bits(dtype, joined, 1.0 / 64.0);
    net.output(y);
    let graph = net.finish();
    // The other part is made and moved as floats.
    let other = [("pointwise", DType::F32), ("Transpose", DType::F32)];
    let bytes = [("Transpose", dtype), ("pointwise", dtype), ("Concat", dtype)];
    assert_eq!(made(&graph), [&[("pointwise", dtype)], &other[..], &bytes[..]].concat());

    // A pool has no kernel for them, and infinities of E5M2 would be clamped.
    for (dtype, op, size) in [
        (dtype, Op::Pool { kind: Pooling::Max, kernel: vec![2, 2], window: window(0) }, 7),
        (DType::F8E5M2, Op::Transpose { permutation: vec![0, 1, 3, 2] }, 8),
    ] {
        let mut net = Network::new();
        let x = net.input(&[2, 3, 8, 8]);
        let (_, a) = net.in_8_bits(dtype, x, 1.0 / 64.0);
        let moved = net.node_as(op.clone(), &[a], &[Fact::new(DType::F32, &[2, 3, size, size])])[0];
        let (y, _) = net.in_8_bits(dtype, moved, 1.0 / 64.0);
        net.output(y);
        assert!(made(&net.finish()).contains(&(op.name(), DType::F32)));
    }
}

#[test]
fn attention_between_whose_products_is_quantised_multiplies_8_bits() {
    for types in [[DType::F8E4M3; 2], [DType::F8E5M2, DType::F8E4M3]] {
        let mut net = Network::new();
        let factor = |net: &mut Network, dtype| {
            let x = net.input(&[2, 3, 6, 4]);
            net.in_8_bits(dtype, x, 1.0 / 64.0).1
        };
        let [q, k, v] = [types[0], types[1], types[1]].map(|dtype| factor(&mut net, dtype));
        let keys = net.node(Op::Transpose { permutation: vec![0, 1, 3, 2] }, &[k]);
        let scores = net.node(Op::MatMul, &[q, keys]);
        let half = net.scalar(0.5);
        let scores = net.binary(Binary::Mul, scores, half);
        let weights = net.node(Op::Softmax { axis: 3, log: false }, &[scores]);
        // No last bit of a softmax decides how a number is rounded.
        let (_, weights) = net.in_8_bits(types[0], weights, 1.0);
        let y = net.node(Op::MatMul, &[weights, v]);
        let (y, _) = net.in_8_bits(types[0], y, 1.0 / 16.0);
        net.output(y);
        let graph = net.finish();
        let products: Vec<_> = made(&graph).into_iter().filter(|(name, _)| name.ends_with("MatMul")).collect();
        assert_eq!(products, [("QuantizedMatMul", DType::F32), ("QuantizedMatMul", types[0])]);
        // No factor is dequantised: three are quantised, and the weights.
        assert_eq!(made(&graph).iter().filter(|(name, _)| *name == "pointwise").count(), 4);
        assert!(graph.nodes.iter().all(|node| matches!(node.op, FusedOp::Operator(Op::Softmax { .. }))
            || graph.values[node.outputs[0].0].fact.dtype.is_narrow()
            || matches!(node.op, FusedOp::Anchored { op: Op::QuantizedMatMul, .. })));
    }
}

#[test]
fn one_kernel_computes_attention_of_8_bits_where_nothing_is_quantised_inside() {
    let mut net = Network::new();
    let [q, k, v] = [(); 3].map(|()| {
        let x = net.input(&[2, 3, 6, 4]);
        net.in_8_bits(DType::F8E4M3, x, 1.0 / 64.0).1
    });
    let keys = net.node(Op::Transpose { permutation: vec![0, 1, 3, 2] }, &[k]);
    let scores = net.node(Op::MatMul, &[q, keys]);
    let weights = net.node(Op::Softmax { axis: 3, log: false }, &[scores]);
    let y = net.node(Op::MatMul, &[weights, v]);
    net.output(y);
    let graph = net.finish();
    assert!(made(&graph).contains(&("Attention", DType::F32)));
    assert!(!made(&graph).iter().any(|(name, _)| name.ends_with("MatMul")));
}

#[test]
fn a_product_of_8_bits_and_floats_stays_one_of_floats() {
    let mut net = Network::new();
    let (x, y) = (net.input(&[2, 6, 4]), net.input(&[2, 4, 5]));
    let (_, x) = net.in_8_bits(DType::F8E4M3, x, 1.0 / 64.0);
    let y = net.unary(Unary::Tanh, y);
    let product = net.node(Op::MatMul, &[x, y]);
    net.output(product);
    assert!(made(&net.finish()).contains(&("MatMul", DType::F32)));
}
