//! A plan that hands out what it stores computes what the usual plan computes, bit for bit. Needs NVRTC; skipped without it,
//! except in CI.

use floe::{
    inputs::length,
    session::{DeviceKind, Place, Request},
};
use floe_accuracy::{
    compare::{self, Options, Subject},
    samples::Samples,
};
use floe_compiler::{
    fused::FusedGraph,
    nvrtc::Compiler,
    pipeline::{self, CompileOptions},
    targets,
};
use floe_engine::{
    host::Block,
    plan::{Plan, format::Direction},
};
use floe_models::{
    DType, Fact, Graph, Node, Op, Tensor, TensorId,
    op::{Binary, Unary, Window},
};

const TARGET: &str = "jetson-orin-nano";

/// Convolutions with a residual connection and a concatenation: views, slices of one buffer, padded channels.
fn network() -> FusedGraph {
    let mut graph = Graph { name: "residual".into(), ..Graph::default() };
    let x = graph.add_value("x", Fact::new(DType::F32, &[1, 3, 9, 9]));
    graph.inputs.push(x);
    let add = |graph: &mut Graph, name: &str, op: Op, inputs: &[TensorId], channels: usize| {
        let output = graph.add_value(name, Fact::new(DType::F32, &[1, channels, 9, 9]));
        let (inputs, outputs) = (inputs.to_vec(), vec![output]);
        graph.nodes.push(Node { name: name.into(), op, inputs, outputs, sources: vec![name.into()] });
        output
    };
    let conv = |graph: &mut Graph, name: &str, input: TensorId, from: usize, to: usize| {
        let numbers: Vec<f32> = (0..to * from * 9).map(|n| ((n * 37 + to) % 101) as f32 / 200.0 - 0.25).collect();
        let weights = graph.add_constant(format!("{name} weights"), Tensor::f32(&[to, from, 3, 3], &numbers));
        let window =
            Window { strides: vec![1, 1], dilations: vec![1, 1], pads_begin: vec![1, 1], pads_end: vec![1, 1] };
        let op = Op::Conv { window, groups: 1 };
        let sums = add(graph, &format!("{name} sums"), op, &[input, weights], to);
        add(graph, name, Op::Unary(Unary::Relu), &[sums], to)
    };
    let first = conv(&mut graph, "first", x, 3, 12);
    let second = conv(&mut graph, "second", first, 12, 12);
    let third = conv(&mut graph, "third", second, 12, 12);
    let sum = add(&mut graph, "sum", Op::Binary(Binary::Add), &[first, third], 12);
    let both = add(&mut graph, "both", Op::Concat { axis: 1 }, &[sum, second], 24);
    let last = conv(&mut graph, "last", both, 24, 5);
    graph.outputs.push(last);
    pipeline::fuse(graph, &|_| ()).unwrap()
}

#[test]
fn an_exposed_plan_computes_the_same_bits() {
    let target = targets::find(TARGET).unwrap();
    if Compiler::find(target, None).is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI has NVRTC");
        eprintln!("skipped: no NVRTC");
        return;
    }
    let fused = network();
    let options = CompileOptions { targets: vec![target.clone()], ptx: true, ..CompileOptions::default() };
    let facts = [("x".to_owned(), Fact::new(DType::F32, &[1, 3, 9, 9]))];
    let samples = Samples::random(&facts, 2, 5);

    let usual = pipeline::compile_fused(&fused, &options, &|_| ()).unwrap().bytes;
    let mut file = vec![Block::ZERO; usual.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..usual.len()].copy_from_slice(&usual);
    let plan = Plan::parse(&aligned[..usual.len()]).unwrap();
    let request = Request { device: DeviceKind::Emulated, ..Request::default() };
    let (mut place, variant) = Place::choose(&plan, &request).unwrap();
    let mut session = place.session(variant).unwrap();
    let mut expected = Vec::new();
    for number in 0..samples.len() {
        session.write(0, samples.load(number).unwrap().inputs[0].1.bytes()).unwrap();
        session.replay().unwrap();
        let (number, binding) = session.bindings(Direction::Output).remove(0);
        let mut bytes = vec![0; length(&binding).unwrap()];
        session.read(number, &mut bytes).unwrap();
        expected.push(bytes);
    }
    drop(session);

    let exposed = pipeline::compile_exposed(&fused, target, &options, None, &|_| ()).unwrap();
    let subject = Subject::Plan { plan: &exposed, target: TARGET, device: DeviceKind::Emulated };
    let mut found = Vec::new();
    let mut dump = |_: &str, tensors: &[(String, Tensor)]| {
        found.push(tensors.to_vec());
        Ok(())
    };
    let comparison =
        compare::compare(&fused, subject, &samples, None, Options::default(), &|_, _| true, &mut dump, &|_| ())
            .unwrap();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found[0].1.bytes(), expected);
        assert!(found.len() > 3, "{}", found.len());
    }
    // Every stored value is near the host's, none is another one's bytes.
    assert!(comparison.layers.len() >= 4, "{:?}", comparison.layers);
    for layer in &comparison.layers {
        assert!(layer.relative().is_none_or(|error| error < 3e-3), "{layer:?}");
    }
    assert!(comparison.layers.iter().filter(|layer| layer.error.is_some()).count() >= 4);
}
