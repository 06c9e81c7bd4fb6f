//! Long models: passes take time in proportion, and names do not pile up.

use super::*;

#[test]
fn names_of_a_long_chain_are_gathered_once() {
    // Before names were gathered at the end of a chain only, each of 20,000 reshapes bore all before it.
    let mut network = Network::new();
    let mut x = network.input(&[4, 4]);
    for number in 0..20_000 {
        let shape: &[usize] = if number % 2 == 0 { &[16] } else { &[2, 8] };
        x = network.node_as(Op::Reshape, &[x], &[Fact::new(DType::F32, shape)])[0];
    }
    network.graph.outputs = vec![x];
    let graph = simplify(network.graph).unwrap();
    let [node] = graph.nodes.as_slice() else { panic!("{} nodes", graph.nodes.len()) };
    assert_eq!(node.sources.len(), rewrite::MOST_SOURCES);
    assert_eq!(node.sources[..2], ["Reshape_19999".into(), "Reshape_19998".into()]);
}

#[test]
fn every_reader_of_a_chain_reads_past_it() {
    let mut network = Network::new();
    let mut x = network.input(&[2, 3]);
    let mut made = Vec::new();
    for _ in 0..3 {
        x = network.node(Op::Transpose { permutation: vec![1, 0] }, &[x]);
        made.push(network.unary(Unary::Sigmoid, x));
    }
    network.graph.outputs = made;
    let graph = merge::run(network.graph);
    let sources = |name: &str| &graph.nodes.iter().find(|node| node.name == name).unwrap().sources;
    assert_eq!(*sources("Transpose_4"), ["Transpose_4".into(), "Transpose_2".into(), "Transpose_0".into()]);
    assert_eq!(*sources("Transpose_2"), ["Transpose_2".into(), "Transpose_0".into()]);
}

/// What a model casts to fewer bits and back, it wants rounded.
#[test]
fn a_pair_of_casts_rounds() {
    for narrow in [DType::F16, DType::Bf16] {
        let mut network = Network::new();
        let x = network.input(&[4]);
        let doubled = network.node(Op::Binary(Binary::Add), &[x, x]);
        let rounded = network.node_as(Op::Cast, &[doubled], &[Fact::new(narrow, &[4])])[0];
        let wide = network.node_as(Op::Cast, &[rounded], &[Fact::new(DType::F32, &[4])])[0];
        let negated = network.unary(Unary::Neg, wide);
        network.graph.outputs = vec![negated];
        let fused = fuse(simplify(network.graph).unwrap()).unwrap();
        let x = [0.333_333_34_f32, 1000.3, -5.1, 1e-3];
        let found = run_fused(&fused, &[&Tensor::f32(&[4], &x)]).unwrap().remove(0).to_f64();
        let expected = x.map(|x| match narrow {
            DType::F16 => -half::f16::from_f32(x + x).to_f64(),
            _ => -half::bf16::from_f32(x + x).to_f64(),
        });
        assert_eq!(found, expected, "{narrow:?}");
    }
}

/// The weights of a product of integers may be too large for folding to take their zero point off.
#[test]
fn weights_of_integers_that_were_not_folded() {
    let mut network = Network::new();
    let x = network.typed_input(DType::U8, &[3, 4]);
    let zero_x = network.typed_input(DType::U8, &[]);
    let bytes: Vec<u8> = (0..20).map(|number| number * 11).collect();
    let weights = network.graph.add_constant("weights", Tensor::new(DType::U8, vec![4, 5], bytes));
    let zero = network.graph.add_constant("zero", Tensor::from_slice(DType::I32, &[], &[120_i32]));
    let mut wide = |id, shape: &[usize]| network.node_as(Op::Cast, &[id], &[Fact::new(DType::I32, shape)])[0];
    let (x, zero_x, weights) = (wide(x, &[3, 4]), wide(zero_x, &[]), wide(weights, &[4, 5]));
    let x = network.node(Op::Binary(Binary::Sub), &[x, zero_x]);
    let weights = network.node(Op::Binary(Binary::Sub), &[weights, zero]);
    let product = network.node(Op::MatMul, &[x, weights]);
    network.graph.outputs = vec![product];
    let before = run_fused(&fuse(network.graph.clone()).unwrap(), &inputs()).unwrap();
    let graph = quantized_products::run(network.graph);
    assert!(graph.nodes.iter().any(|node| node.op == Op::QuantizedMatMul));
    let after = run_fused(&fuse(simplify(graph).unwrap()).unwrap(), &inputs()).unwrap();
    assert_eq!(before, after);

    fn inputs() -> [&'static Tensor; 2] {
        static INPUTS: std::sync::LazyLock<[Tensor; 2]> = std::sync::LazyLock::new(|| {
            let x = (0..12).map(|number| number * 21).collect();
            [Tensor::new(DType::U8, vec![3, 4], x), Tensor::new(DType::U8, vec![], vec![131])]
        });
        let [x, zero] = &*INPUTS;
        [x, zero]
    }
}
