//! Products and movement of 8-bit integers. Scales are powers of two here: then the floats between dequantising and
//! quantising are exact, and so must the integers be that come out.

use super::*;
use floe_models::Quantized;

impl Network {
    /// `saturate(round(y / scale) + zero)`, as the importer makes it.
    pub(crate) fn quantise(&mut self, y: TensorId, scale: f32, zero: i64, dtype: DType) -> TensorId {
        let (scale, zero) = (self.scalar(scale), self.scalar(zero as f32));
        let quotient = self.binary(Binary::Div, y, scale);
        let rounded = self.unary(Unary::Round, quotient);
        let shifted = self.binary(Binary::Add, rounded, zero);
        self.cast(shifted, dtype)
    }

    /// `(x − zero) · scale`.
    pub(crate) fn dequantise(&mut self, x: TensorId, scale: f32, zero: i64) -> TensorId {
        let (scale, zero) = (self.scalar(scale), self.scalar(zero as f32));
        let float = self.cast(x, DType::F32);
        let centred = self.binary(Binary::Sub, float, zero);
        self.binary(Binary::Mul, centred, scale)
    }

    fn cast(&mut self, x: TensorId, dtype: DType) -> TensorId {
        let fact = Fact { dtype, ..self.graph.fact(x).clone() };
        self.node_as(Op::Cast, &[x], &[fact])[0]
    }

    /// A u8 tensor that is made of an input, with zero point 70, and its value.
    pub(crate) fn activation(&mut self, shape: &[usize]) -> (TensorId, TensorId) {
        let x = self.input(shape);
        let integers = self.quantise(x, 1.0 / 64.0, 70, DType::U8);
        (integers, self.dequantise(integers, 1.0 / 64.0, 70))
    }

    /// Whole numbers of −`size` … `size`.
    fn whole(&mut self, count: usize, size: f32) -> Vec<i64> {
        self.random(count).into_iter().map(|value| (value * size).round() as i64).collect()
    }

    /// A constant that was dequantised: `integers` of `dtype` with one scale and zero point, or one for each index of
    /// `axis`.
    fn dequantised(
        &mut self,
        dtype: DType,
        shape: &[usize],
        integers: &[i64],
        scales: &[f32],
        axis: usize,
        zero: i64,
    ) -> TensorId {
        let inner: usize = shape[axis + 1..].iter().product();
        let scale = |index: usize| scales[index / inner % shape[axis] % scales.len()];
        let value = |(index, &integer): (usize, &i64)| (integer - zero) as f32 * scale(index);
        let floats: Vec<f32> = integers.iter().enumerate().map(value).collect();
        let tensor = |values: &[i64], shape: &[usize]| match dtype {
            DType::I32 => {
                Tensor::from_slice(dtype, shape, &values.iter().map(|&value| value as i32).collect::<Vec<_>>())
            }
            _ => Tensor::new(dtype, shape.to_vec(), values.iter().map(|&value| value as u8).collect()),
        };
        let mut along = vec![1; shape.len()];
        along[axis] = scales.len();
        let quantized = Quantized {
            integers: tensor(integers, shape),
            scale: Tensor::f32(if scales.len() == 1 { &[] } else { &along }, scales),
            zero: (zero != 0).then(|| tensor(&[zero], &[])),
        };
        let id = self.graph.add_constant("weights", Tensor::f32(shape, &floats));
        self.graph.values[id.0].quantized = Some(quantized);
        id
    }

    /// Random signed weights with a power of two as the scale of each output channel.
    pub(crate) fn signed(&mut self, shape: &[usize], axis: usize) -> TensorId {
        let integers = self.whole(shape.iter().product(), 127.0);
        let scales: Vec<f32> = (0..shape[axis]).map(|channel| [0.25, 0.125, 0.5][channel % 3] / 64.0).collect();
        self.dequantised(DType::I8, shape, &integers, &scales, axis, 0)
    }
}

fn names(graph: &Graph) -> Vec<&'static str> {
    graph.nodes.iter().map(|node| node.op.name()).collect()
}

/// The quantised products of a graph after the pass: operators and the operands that are constant.
fn products(graph: &Graph) -> Vec<(Op, Vec<Tensor>)> {
    let constants = |node: &Node| node.inputs.iter().filter_map(|&id| graph.constant(id).cloned()).collect();
    let products = graph.nodes.iter().filter(|node| fuse::is_quantized(&node.op));
    products.map(|node| (node.op.clone(), constants(node))).collect()
}

/// The only product, after the passes that make it.
fn product(net: &Network) -> (Op, Vec<Tensor>) {
    let graph = requantization::run(quantized_products::run(quantized_moves::run(net.graph.clone())));
    legality::graph::check(&graph, "quantised").expect("legal");
    let [product] = &products(&graph)[..] else { panic!("{:?}", names(&graph)) };
    product.clone()
}

#[test]
fn a_convolution_between_quantising_sums_integers() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 6, 5]);
    let weights = net.signed(&[8, 4, 3, 3], 0);
    // In steps of the product's scale, as quantisers make biases.
    let integers = net.whole(8, 3000.0);
    let scales: Vec<f32> = (0..8).map(|channel| [0.25, 0.125, 0.5][channel % 3] / 64.0 / 64.0).collect();
    let bias = net.dequantised(DType::I32, &[8], &integers, &scales, 0, 0);
    let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights, bias]);
    let y = net.quantise(y, 1.0 / 4.0, 30, DType::U8);
    net.output(y);

    let (op, constants) = product(&net);
    // The padding value is the zero point, which the bias takes off everywhere.
    assert_eq!(op, Op::QuantizedConv { window: window(1), groups: 1, padding_value: 70 });
    let filters = net.graph.value(weights).quantized.as_ref().unwrap().integers.clone();
    let sums: Vec<i64> = filters.to_i64().unwrap().chunks(36).map(|filter| filter.iter().sum()).collect();
    let total: Vec<i64> = integers.iter().zip(&sums).map(|(bias, sum)| bias - 70 * sum).collect();
    assert_eq!(
        constants,
        [filters, Tensor::from_slice(DType::I32, &[8], &total.iter().map(|&v| v as i32).collect::<Vec<_>>())]
    );
    // One kernel quantises the input, one does everything else.
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("QuantizedConv", 2)]);
}

#[test]
fn residual_sums_of_integers_are_epilogues() {
    let mut net = Network::new();
    let (integers, x) = net.activation(&[1, 8, 6, 6]);
    let weights = net.signed(&[8, 8, 3, 3], 0);
    let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights]);
    let y = net.unary(Unary::Relu, y);
    let y = net.quantise(y, 1.0 / 4.0, 0, DType::U8);
    let y = net.dequantise(y, 1.0 / 4.0, 0);
    let again = net.dequantise(integers, 1.0 / 64.0, 70);
    let sum = net.binary(Binary::Add, y, again);
    let sum = net.quantise(sum, 1.0 / 2.0, 11, DType::U8);
    net.output(sum);
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("QuantizedConv", 3)]);
}

#[test]
fn a_shortcut_with_a_product_is_stored_as_bytes() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 8, 6, 6]);
    // Whichever of the two products comes first.
    for shortcut_first in [true, false] {
        let branch = |net: &mut Network, shortcut: bool| {
            let (size, padding) = if shortcut { (1, 0) } else { (3, 1) };
            let weights = net.signed(&[8, 8, size, size], 0);
            let y = net.node(Op::Conv { window: window(padding), groups: 1 }, &[x, weights]);
            let y = net.quantise(y, 1.0 / 4.0, 3, DType::I8);
            net.dequantise(y, 1.0 / 4.0, 3)
        };
        let (first, second) = (branch(&mut net, shortcut_first), branch(&mut net, !shortcut_first));
        let sum = net.binary(Binary::Add, second, first);
        let sum = net.unary(Unary::Relu, sum);
        let sum = net.quantise(sum, 1.0 / 2.0, 11, DType::U8);
        net.output(sum);
    }
    let graph = net.finish();
    let stored = |node: &FusedNode| graph.values[node.outputs[0].0].fact.dtype;
    let products = graph.nodes.iter().filter(|node| matches!(node.op, FusedOp::Anchored { .. }));
    assert_eq!(products.map(stored).collect::<Vec<_>>(), [DType::I8, DType::U8, DType::I8, DType::U8]);
    assert_eq!(graph.nodes.len(), 5);
}

#[test]
fn weights_around_a_zero_point_are_centred() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[2, 5, 12]);
    let mut integers: Vec<i64> = net.whole(12 * 6, 120.0).into_iter().map(|value| value + 128).collect();
    integers[0] = 3;
    let weights = net.dequantised(DType::U8, &[12, 6], &integers, &[1.0 / 32.0], 1, 128);
    let y = net.node(Op::MatMul, &[x, weights]);
    net.output(y);
    let (op, constants) = product(&net);
    assert_eq!(op, Op::QuantizedMatMul);
    let centred: Vec<u8> = integers.iter().map(|value| (value - 128) as i8 as u8).collect();
    assert_eq!(constants[0], Tensor::new(DType::I8, vec![12, 6], centred));
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("QuantizedMatMul", 1)]);

    // Around a zero point near an end they are beyond 8 bits.
    let mut net = Network::new();
    let (_, x) = net.activation(&[5, 12]);
    let weights = net.dequantised(DType::I8, &[12, 6], &[-120; 72], &[1.0 / 32.0], 1, 90);
    let y = net.node(Op::MatMul, &[x, weights]);
    net.output(y);
    assert_eq!(kinds(&net.finish()).last(), Some(&("MatMul", 0)));
}

#[test]
fn a_turned_gemm_with_a_float_bias_sums_integers() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[3, 20]);
    let (weights, bias) = (net.signed(&[9, 20], 0), net.constant(&[9]));
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: true };
    let y = net.node(gemm, &[x, weights, bias]);
    let y = net.unary(Unary::Relu, y);
    net.output(y);
    let (op, constants) = product(&net);
    assert_eq!(op, Op::QuantizedMatMul);
    let rows = net.graph.value(weights).quantized.as_ref().unwrap().integers.to_i64().unwrap();
    let turned: Vec<i64> = (0..180).map(|index| rows[index % 9 * 20 + index / 9]).collect();
    assert_eq!(constants[0].shape, [20, 9]);
    assert_eq!(constants[0].to_i64().unwrap(), turned);
    // Scales and biases of the columns are read beside the sums.
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("QuantizedMatMul", 3)]);
}

#[test]
fn integer_operators_take_zero_points_and_constants_into_the_bias() {
    // x − zero, w, then a bias that is added to the sums, as QLinearConv is taken apart.
    let mut net = Network::new();
    let (integers, _) = net.activation(&[1, 6, 5, 5]);
    let point = net.graph.add_constant("zero", Tensor::from_slice(DType::I16, &[], &[70_i16]));
    let wide = net.cast(integers, DType::I16);
    let centred = net.binary(Binary::Sub, wide, point);
    let values: Vec<i16> = net.whole(4 * 6 * 9, 90.0).into_iter().map(|value| value as i16).collect();
    let weights = net.graph.add_constant("weights", Tensor::from_slice(DType::I16, &[4, 6, 3, 3], &values));
    let sums = net.node(Op::ConvInteger { window: window(1), groups: 1 }, &[centred, weights]);
    let bias = net.graph.add_constant("bias", Tensor::from_slice(DType::I32, &[4, 1, 1], &[5_i32, -400, 0, 7000]));
    let sums = net.binary(Binary::Add, sums, bias);
    let sums = net.cast(sums, DType::F32);
    let factor = net.scalar(1.0 / 256.0);
    let scaled = net.binary(Binary::Mul, sums, factor);
    let rounded = net.unary(Unary::Round, scaled);
    let y = net.cast(rounded, DType::I8);
    net.output(y);
    let (op, constants) = product(&net);
    assert_eq!(op, Op::QuantizedConv { window: window(1), groups: 1, padding_value: 70 });
    let sums: Vec<i64> = values.chunks(54).map(|filter| filter.iter().map(|&value| i64::from(value)).sum()).collect();
    let total: Vec<i64> = [5, -400, 0, 7000].iter().zip(sums).map(|(bias, sum): (&i64, i64)| bias - 70 * sum).collect();
    assert_eq!(constants[1].to_i64().unwrap(), total);
    assert_eq!(kinds(&net.finish()), [("pointwise", 1), ("QuantizedConv", 1)]);
}

#[test]
fn a_zero_point_that_is_computed_weighs_the_sums_of_columns() {
    let mut net = Network::new();
    let (integers, _) = net.activation(&[4, 16]);
    let level = net.input(&[]);
    let hundred = net.scalar(100.0);
    let level = net.binary(Binary::Mul, level, hundred);
    let level = net.unary(Unary::Abs, level);
    let point = net.cast(level, DType::U8);
    let (wide, point) = (net.cast(integers, DType::I32), net.cast(point, DType::I32));
    let centred = net.binary(Binary::Sub, wide, point);
    let values: Vec<i32> = net.whole(16 * 5, 127.0).into_iter().map(|value| value as i32).collect();
    let weights = net.graph.add_constant("weights", Tensor::from_slice(DType::I32, &[16, 5], &values));
    let sums = net.node(Op::MatMul, &[centred, weights]);
    net.output(sums);
    let (op, constants) = product(&net);
    assert_eq!((op, constants.len()), (Op::QuantizedMatMul, 1));
    net.finish();
}

#[test]
fn products_of_two_activations_are_exact_in_floats() {
    // 185 · 127 is odd, so that 801 of them have a sum that f32 does not hold; 700 have one that it does.
    for (depth, parts) in [(700, 1), (801, 2)] {
        let mut net = Network::new();
        let mut saturated = |shape: &[usize], zero, dtype| {
            let x = net.input(shape);
            let large = net.scalar(1e6);
            let x = net.binary(Binary::Mul, x, large);
            let x = net.unary(Unary::Abs, x);
            let integers = net.quantise(x, 1.0, zero, dtype);
            let wide = net.cast(integers, DType::I32);
            let zero = net.graph.add_constant("zero", Tensor::from_slice(DType::I32, &[], &[zero as i32]));
            net.binary(Binary::Sub, wide, zero)
        };
        let (a, b) = (saturated(&[2, 3, depth], 70, DType::U8), saturated(&[2, depth, 5], 0, DType::I8));
        let sums = net.node(Op::MatMul, &[a, b]);
        net.output(sums);
        let graph = whole_products::run(net.graph.clone());
        legality::graph::check(&graph, "whole").expect("legal");
        let types =
            graph.nodes.iter().filter(|node| node.op == Op::MatMul).map(|node| graph.fact(node.inputs[0]).dtype);
        assert_eq!(types.collect::<Vec<_>>(), vec![DType::F32; parts]);
        let aligned = |node: &Node| match &node.op {
            Op::Slice { starts, .. } => starts.iter().all(|start| start.is_multiple_of(16)),
            _ => true,
        };
        assert!(graph.nodes.iter().all(aligned));
        let inputs =
            [[2, 3, depth], [2, depth, 5]].map(|shape| Tensor::f32(&shape, &net.random(shape.iter().product())));
        let inputs = [&inputs[0], &inputs[1]];
        let expected = node_by_node(&net.graph, &inputs);
        let fused = fuse(simplify(net.graph).expect("legal")).expect("fusible");
        assert_eq!(run_fused(&fused, &inputs).expect("runs")[0].to_i64(), expected[0].to_i64());
    }
}

#[test]
fn whole_sums_are_requantised_as_they_are() {
    let mut net = Network::new();
    let factors = [[2, 3, 40], [2, 40, 5]].map(|shape| {
        let (integers, _) = net.activation(&shape);
        net.cast(integers, DType::I32)
    });
    let sums = net.node(Op::MatMul, &factors);
    let float = net.cast(sums, DType::F32);
    let result = net.quantise(float, 2048.0, 3, DType::U8);
    net.output(result);
    let mut graph = whole_products::run(net.graph.clone());
    graph = dead_code::run(graph);
    legality::graph::check(&graph, "whole").expect("legal");
    let product = names(&graph).iter().position(|&name| name == "MatMul").expect("a product");
    assert_eq!(names(&graph)[product + 1], "Binary", "no cast in between: {:?}", names(&graph));
    net.finish();
}

#[test]
fn what_is_no_product_of_8_bits_stays_one_of_floats() {
    let conv = || Op::Conv { window: window(1), groups: 1 };
    let kept = |net: Network, op: &str| {
        assert!(names(&quantized_products::run(net.graph.clone())).contains(&op));
        assert!(products(&quantized_products::run(net.graph.clone())).is_empty());
    };
    // Activations of 16 bits.
    let mut net = Network::new();
    let x = net.input(&[1, 4, 6, 5]);
    let x = net.quantise(x, 1.0 / 64.0, 0, DType::I16);
    let x = net.dequantise(x, 1.0 / 64.0, 0);
    let weights = net.signed(&[8, 4, 3, 3], 0);
    let y = net.node(conv(), &[x, weights]);
    net.output(y);
    kept(net, "Conv");
    // A scale for each input channel of the weights.
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 6, 5]);
    let weights = net.signed(&[8, 4, 3, 3], 1);
    let y = net.node(conv(), &[x, weights]);
    net.output(y);
    kept(net, "Conv");
    // Floats that are no integers, on either side.
    let mut net = Network::new();
    let (_, x) = net.activation(&[5, 12]);
    let weights = net.constant(&[12, 6]);
    let y = net.node(Op::MatMul, &[x, weights]);
    net.output(y);
    kept(net, "MatMul");
    let mut net = Network::new();
    let x = net.input(&[5, 12]);
    let weights = net.signed(&[12, 6], 1);
    let y = net.node(Op::MatMul, &[x, weights]);
    net.output(y);
    kept(net, "MatMul");
    // Sums beyond 32 bits, which floats would only round.
    let mut net = Network::new();
    let (_, x) = net.activation(&[5, 12]);
    let weights = net.dequantised(DType::I8, &[12, 2], &[127; 24], &[1.0 / 64.0], 1, 0);
    let bias = net.dequantised(DType::I32, &[2], &[i64::from(i32::MAX) - 1; 2], &[1.0 / 4096.0], 0, 0);
    let gemm = Op::Gemm { alpha: 1.0, beta: 1.0, transpose_a: false, transpose_b: false };
    let y = net.node(gemm, &[x, weights, bias]);
    net.output(y);
    kept(net, "Gemm");
}

#[test]
fn movement_between_like_scales_is_that_of_integers() {
    let mut net = Network::new();
    let (_, a) = net.activation(&[1, 4, 6, 6]);
    let (_, b) = net.activation(&[1, 2, 6, 6]);
    let joined = net.node(Op::Concat { axis: 1 }, &[a, b]);
    let pool = Op::Pool { kind: Pooling::Max, kernel: vec![3, 3], window: window(1) };
    let pooled = net.node_as(pool, &[joined], &[Fact::new(DType::F32, &[1, 6, 6, 6])])[0];
    let turned = net.node(Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[pooled]);
    let y = net.quantise(turned, 1.0 / 64.0, 70, DType::U8);
    net.output(y);
    let graph = quantized_moves::run(net.graph.clone());
    legality::graph::check(&graph, "quantized_moves").expect("legal");
    let on_integers = |node: &&Node| graph.fact(node.outputs[0]).dtype == DType::U8 && node.op != Op::Cast;
    let moved: Vec<&str> = graph.nodes.iter().filter(on_integers).map(|node| node.op.name()).collect();
    assert_eq!(moved, ["Concat", "Pool", "Transpose"]);
    assert_eq!(graph.outputs, [y]);
    let fused = net.finish();
    assert_eq!(work(&fused), ["pointwise", "pointwise", "Concat", "Pool"]);
}

#[test]
fn quantising_what_was_just_dequantised_is_nothing() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[2, 9]);
    let y = net.quantise(x, 1.0 / 64.0, 70, DType::U8);
    net.output(y);
    let graph = quantized_moves::run(net.graph.clone());
    assert_eq!(graph.nodes.last().map(|node| &node.op), Some(&Op::Identity));
    assert_eq!(kinds(&net.finish()), [("pointwise", 1)]);
}

#[test]
fn a_pool_of_one_element_does_not_part_dequantising_from_quantising() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 2, 3, 3]);
    let pool = Op::Pool { kind: Pooling::AverageExcludingPads, kernel: vec![1; 2], window: window(0) };
    let pooled = net.node_as(pool, &[x], &[Fact::new(DType::F32, &[1, 2, 3, 3])])[0];
    let y = net.quantise(pooled, 1.0 / 64.0, 70, DType::U8);
    net.output(y);
    let graph = simplify(net.graph.clone()).expect("legal");
    let rounded = graph.nodes.iter().filter(|node| node.op == Op::Unary(Unary::Round));
    assert_eq!(rounded.count(), 1);
    net.finish();
}

#[test]
fn movement_between_unlike_scales_or_that_computes_stays_on_floats() {
    let moved = |scale: f32, zero: i64, dtype: DType, op: Op, shape: &[usize]| {
        let mut net = Network::new();
        let (_, x) = net.activation(&[1, 4, 6, 6]);
        let y = net.node_as(op, &[x], &[Fact::new(DType::F32, shape)])[0];
        let y = net.quantise(y, scale, zero, dtype);
        net.output(y);
        let graph = quantized_moves::run(net.graph.clone());
        let changed = names(&graph) != names(&net.graph);
        net.finish();
        changed
    };
    let turned = |scale: f32, zero: i64, dtype: DType| {
        moved(scale, zero, dtype, Op::Transpose { permutation: vec![0, 2, 3, 1] }, &[1, 6, 6, 4])
    };
    assert!(turned(1.0 / 64.0, 70, DType::U8));
    assert!(!turned(1.0 / 32.0, 70, DType::U8));
    assert!(!turned(1.0 / 64.0, 69, DType::U8));
    assert!(!turned(1.0 / 64.0, 70, DType::I8));
    let kind = Pooling::AverageIncludingPads;
    let average = Op::Pool { kind, kernel: vec![2, 2], window: window(0) };
    assert!(!moved(1.0 / 64.0, 70, DType::U8, average, &[1, 4, 5, 5]));
}

#[test]
fn a_scale_that_divides_again_is_part_of_the_factor() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[3, 20]);
    let weights = net.signed(&[20, 6], 1);
    let y = net.node(Op::MatMul, &[x, weights]);
    let y = net.unary(Unary::Relu, y);
    let y = net.quantise(y, 1.0 / 2.0, 0, DType::U8);
    net.output(y);
    let graph = requantization::run(quantized_products::run(net.graph.clone()));
    let divisions = |graph: &Graph| graph.nodes.iter().filter(|node| node.op == Op::Binary(Binary::Div)).count();
    assert_eq!((divisions(&net.graph), divisions(&graph)), (2, 1));
    net.finish();
}

#[test]
fn pieces_of_a_split_are_slices_of_integers() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[2, 12]);
    let facts = [Fact::new(DType::F32, &[2, 8]), Fact::new(DType::F32, &[2, 4])];
    let pieces = net.node_as(Op::Split { axis: 1 }, &[x], &facts);
    for piece in pieces {
        let y = net.quantise(piece, 1.0 / 64.0, 70, DType::U8);
        net.output(y);
    }
    let graph = quantized_moves::run(net.graph.clone());
    let slices: Vec<&Op> =
        graph.nodes.iter().map(|node| &node.op).filter(|op| matches!(op, Op::Slice { .. })).collect();
    let slice = |start: usize| Op::Slice { starts: vec![0, start], steps: vec![1, 1] };
    assert_eq!(slices, [&slice(0), &slice(8)]);
    // The input is quantised; the rest is views.
    assert_eq!(work(&net.finish()), ["pointwise"]);
}

#[test]
fn a_residual_sum_behind_a_reshape_is_an_epilogue() {
    // As ONNX Runtime makes them of a transformer's linear layers: rows as a matrix, and back.
    let mut net = Network::new();
    let (integers, _) = net.activation(&[2, 3, 16]);
    let rows = net.node_as(Op::Reshape, &[integers], &[Fact::new(DType::U8, &[6, 16])])[0];
    let x = net.dequantise(rows, 1.0 / 64.0, 70);
    let weights = net.signed(&[16, 9], 1);
    let y = net.node(Op::MatMul, &[x, weights]);
    let y = net.quantise(y, 1.0 / 4.0, 99, DType::U8);
    let y = net.node_as(Op::Reshape, &[y], &[Fact::new(DType::U8, &[2, 3, 9])])[0];
    let y = net.dequantise(y, 1.0 / 4.0, 99);
    let residual = net.input(&[2, 3, 9]);
    let sum = net.binary(Binary::Add, residual, y);
    net.output(sum);
    assert_eq!(work(&net.finish()), ["pointwise", "QuantizedMatMul"]);
}

#[test]
fn parts_of_a_concatenation_are_quantised_where_they_are_made() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 6, 6]);
    let mut parts = vec![x];
    for _ in 0..2 {
        let weights = net.signed(&[16, 4, 3, 3], 0);
        let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights]);
        parts.push(net.unary(Unary::Relu, y));
    }
    let joined = net.node(Op::Concat { axis: 1 }, &parts);
    let y = net.quantise(joined, 1.0 / 64.0, 70, DType::U8);
    net.output(y);
    // The activation has the scale already.
    let work = work(&net.finish());
    assert_eq!(work, ["pointwise", "QuantizedConv", "QuantizedConv", "Concat"]);
}

#[test]
fn an_enlargement_that_chooses_moves_integers_and_is_quantised_before() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 3, 3]);
    let (_, other) = net.activation(&[1, 2, 6, 6]);
    let resize = Op::Resize {
        scales: vec![1.0, 1.0, 2.0, 2.0],
        interpolation: floe_models::op::Interpolation::Nearest(floe_models::op::Rounding::Floor),
        coordinates: floe_models::op::Coordinates::Asymmetric,
    };
    let large = net.node_as(resize, &[x], &[Fact::new(DType::F32, &[1, 4, 6, 6])])[0];
    let large = net.quantise(large, 1.0 / 64.0, 70, DType::U8);
    let large = net.dequantise(large, 1.0 / 64.0, 70);
    let joined = net.node(Op::Concat { axis: 1 }, &[large, other]);
    let y = net.quantise(joined, 1.0 / 16.0, 90, DType::U8);
    net.output(y);
    let graph = quantized_moves::run(net.graph.clone());
    let enlarged =
        |node: &&Node| matches!(node.op, Op::Resize { .. }) && graph.fact(node.outputs[0]).dtype == DType::U8;
    // One for the enlarged image itself, which nothing reads in the end, and one at the scale of the concatenation.
    assert_eq!(graph.nodes.iter().filter(enlarged).count(), 2);
    // Each part is quantised straight from its input; what is enlarged has a quarter of the elements.
    let fused = net.finish();
    assert_eq!(work(&fused), ["pointwise", "Resize", "pointwise", "Concat"]);
}

#[test]
fn what_is_reshaped_or_turned_before_a_concatenation_is_quantised_where_it_is_made() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 6, 6]);
    let mut parts = Vec::new();
    for _ in 0..2 {
        let weights = net.signed(&[4, 4, 3, 3], 0);
        let mut y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights]);
        for op in [Op::Reshape, Op::Transpose { permutation: vec![0, 2, 1] }] {
            y = net.quantise(y, 1.0 / 32.0, 80, DType::U8);
            y = net.dequantise(y, 1.0 / 32.0, 80);
            let shape: &[usize] = if op == Op::Reshape { &[1, 4, 36] } else { &[1, 36, 4] };
            y = net.node_as(op, &[y], &[Fact::new(DType::F32, shape)])[0];
        }
        y = net.quantise(y, 1.0 / 32.0, 80, DType::U8);
        parts.push(net.dequantise(y, 1.0 / 32.0, 80));
    }
    let joined = net.node(Op::Concat { axis: 1 }, &parts);
    let y = net.quantise(joined, 1.0 / 16.0, 90, DType::U8);
    net.output(y);
    // Both scales are in the epilogue; nothing follows but movement.
    assert_eq!(work(&net.finish()), ["pointwise", "QuantizedConv", "QuantizedConv", "Concat"]);
}

#[test]
fn halves_that_are_joined_at_another_scale_are_quantised_at_once() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 8, 6, 6]);
    let half = Fact::new(DType::F32, &[1, 4, 6, 6]);
    let halves = net.node_as(Op::Split { axis: 1 }, &[x], &[half.clone(), half]);
    let mut parts: Vec<TensorId> = halves
        .into_iter()
        .map(|part| {
            let part = net.quantise(part, 1.0 / 64.0, 70, DType::U8);
            net.dequantise(part, 1.0 / 64.0, 70)
        })
        .collect();
    let weights = net.signed(&[4, 4, 3, 3], 0);
    parts.push(net.node(Op::Conv { window: window(1), groups: 1 }, &[parts[1], weights]));
    let joined = net.node(Op::Concat { axis: 1 }, &parts);
    let y = net.quantise(joined, 1.0 / 16.0, 90, DType::U8);
    net.output(y);
    let work = work(&net.finish());
    // One for the input, one for both halves.
    assert_eq!(work.iter().filter(|&&kind| kind == "pointwise").count(), 2, "{work:?}");
}

#[test]
fn concatenations_of_integers_share_their_beginnings() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 4, 6, 6]);
    let mut parts = vec![x];
    for _ in 0..3 {
        let all = if parts.len() > 1 { net.node(Op::Concat { axis: 1 }, &parts) } else { x };
        let all = net.quantise(all, 1.0 / 64.0, 70, DType::U8);
        let all = net.dequantise(all, 1.0 / 64.0, 70);
        let channels = net.graph.fact(all).shape[1];
        let weights = net.signed(&[4, channels, 3, 3], 0);
        let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[all, weights]);
        let y = net.quantise(y, 1.0 / 64.0, 70, DType::U8);
        parts.push(net.dequantise(y, 1.0 / 64.0, 70));
    }
    let last = net.node(Op::Concat { axis: 1 }, &parts);
    let last = net.quantise(last, 1.0 / 64.0, 70, DType::U8);
    net.output(last);
    let fused = net.finish();
    let concats = fused.nodes.iter().filter(|node| matches!(node.op, FusedOp::Operator(Op::Concat { .. })));
    assert_eq!(concats.map(|node| node.inputs.len()).collect::<Vec<_>>(), [2, 2, 2]);
}

#[test]
fn readers_of_integers_dequantise_for_themselves() {
    // A residual block: the integers are read by a product, by the sum behind it and by another scale.
    let block = |floats: bool| {
        let mut net = Network::new();
        let (integers, x) = net.activation(&[1, 4, 6, 6]);
        let weights = net.signed(&[4, 4, 3, 3], 0);
        let y = net.node(Op::Conv { window: window(1), groups: 1 }, &[x, weights]);
        let y = if floats { net.conv(x, 4, 3, 1) } else { y };
        let sum = net.binary(Binary::Add, y, x);
        let sum = net.quantise(sum, 1.0 / 16.0, 90, DType::U8);
        net.output(sum);
        let other = if floats { integers } else { net.quantise(x, 1.0 / 32.0, 80, DType::U8) };
        net.output(other);
        let graph = simplify(net.graph.clone()).expect("legal");
        let dequantised = |graph: &Graph| {
            let producers = graph.producers();
            let chains = quantization::Chains { graph, producers: &producers };
            let values = graph.nodes.iter().map(|node| node.outputs[0]);
            values.filter(|&value| chains.dequantized(value).is_some()).count()
        };
        let copied = dequantized_reads::run(graph.clone());
        legality::graph::check(&copied, "dequantized_reads").expect("legal");
        let counts = (dequantised(&graph), dequantised(&copied));
        (counts, work(&net.finish()))
    };
    let (counts, work) = block(false);
    assert_eq!(counts, (1, 2));
    assert_eq!(work, ["pointwise", "QuantizedConv", "pointwise"]);
    // A product of floats has no epilogue that reads integers: one copy serves all.
    let (counts, _) = block(true);
    assert_eq!(counts, (1, 1));
}

#[test]
fn averages_and_gates_of_integers_stay_integers() {
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 8, 4, 4]);
    let mean = net.node(Op::GlobalPool { kind: Pooling::AverageExcludingPads }, &[x]);
    let mean = net.quantise(mean, 1.0 / 128.0, 90, DType::U8);
    let mean = net.dequantise(mean, 1.0 / 128.0, 90);
    let weights = net.signed(&[8, 8, 1, 1], 0);
    let gate = net.node(Op::Conv { window: window(0), groups: 1 }, &[mean, weights]);
    let gate = net.quantise(gate, 1.0 / 4.0, 3, DType::I8);
    let gate = net.dequantise(gate, 1.0 / 4.0, 3);
    let scaled = net.binary(Binary::Mul, x, gate);
    let scaled = net.quantise(scaled, 1.0 / 2.0, 5, DType::I8);
    net.output(scaled);

    let graph = quantized_average::run(quantized_products::run(quantized_moves::run(net.graph.clone())));
    legality::graph::check(&graph, "average").expect("legal");
    let sums: Vec<&Node> = graph.nodes.iter().filter(|node| matches!(node.op, Op::Reduce { .. })).collect();
    assert_eq!(sums.len(), 1, "{:?}", names(&graph));
    assert_eq!(graph.fact(sums[0].outputs[0]).dtype, DType::I32);
    // The gate is stored as bytes, which the product with the image reads: one kernel quantises the input, one widens bytes,
    // one sums them, one requantises the sums, one computes the gate and one scales.
    let fused = net.finish();
    assert_eq!(kinds(&fused).len(), 6, "{:?}", kinds(&fused));
    let stored = |node: &FusedNode| fused.values[node.outputs[0].0].fact.dtype;
    assert!(fused.nodes.iter().all(|node| !stored(node).is_float()), "{:?}", kinds(&fused));

    // An average over channels is left alone, and so is one of floats.
    let mut net = Network::new();
    let (_, x) = net.activation(&[1, 8, 4, 4]);
    let y = net.node(Op::Reduce { kind: Reduction::Mean, axes: vec![1], keep: true }, &[x]);
    let floats = net.input(&[1, 8, 4, 4]);
    let z = net.node(Op::Reduce { kind: Reduction::Mean, axes: vec![2, 3], keep: true }, &[floats]);
    net.output(y);
    net.output(z);
    assert_eq!(names(&quantized_average::run(net.graph.clone())), names(&net.graph));
}
