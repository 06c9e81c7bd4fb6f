//! States: a plan that keeps them between replays computes step by step what another computes at once.

use floe_compiler::{
    evaluate::HostEvaluator,
    pipeline::{self, CompileOptions},
    targets,
};
use floe_engine::{host, plan::Plan};
use floe_models::{
    DType, Evaluate, Fact, Graph, Node, Op, Tensor, TensorId,
    op::{Activation, ActivationKind, Cell, Recurrence},
};

const FEATURES: usize = 5;
const UNITS: usize = 12;

/// Numbers between -1 and 1, the same for the same seed.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// An LSTM over `steps` steps with its states as inputs and outputs.
fn network(steps: usize) -> Graph {
    let mut graph = Graph { name: "lstm".into(), ..Graph::default() };
    let x = graph.add_value("x", Fact::new(DType::F32, &[steps, 1, FEATURES]));
    let constant = |graph: &mut Graph, name: &str, seed, shape: &[usize]| {
        let count = shape.iter().product();
        let values: Vec<f32> = numbers(seed, count).iter().map(|value| value * 0.6).collect();
        graph.add_constant(name, Tensor::f32(shape, &values))
    };
    let weights = constant(&mut graph, "w", 1, &[1, 4 * UNITS, FEATURES]);
    let recurrent = constant(&mut graph, "r", 2, &[1, 4 * UNITS, UNITS]);
    let state = Fact::new(DType::F32, &[1, 1, UNITS]);
    let inputs = ["h", "c"].map(|name| graph.add_value(name, state.clone()));
    let y = graph.add_value("y", Fact::new(DType::F32, &[steps, 1, 1, UNITS]));
    let outputs = ["hn", "cn"].map(|name| graph.add_value(name, state.clone()));
    let function = |kind| Activation { kind, alpha: 0.0, beta: 0.0 };
    let recurrence = Recurrence {
        cell: Cell::Lstm { input_forget: false },
        reverse: vec![false],
        activations: vec![vec![
            function(ActivationKind::Sigmoid),
            function(ActivationKind::Tanh),
            function(ActivationKind::Tanh),
        ]],
        clip: f32::INFINITY,
        bias: false,
        candidate_bias: false,
        lengths: false,
        initial_hidden: true,
        initial_cell: true,
        peepholes: false,
    };
    graph.nodes.push(Node {
        name: "lstm".into(),
        op: Op::Recurrent(Box::new(recurrence)),
        inputs: vec![x, weights, recurrent, inputs[0], inputs[1]],
        outputs: vec![y, outputs[0], outputs[1]],
        sources: vec!["lstm".into()],
    });
    graph.inputs = vec![x, inputs[0], inputs[1]];
    graph.outputs = vec![y, outputs[0], outputs[1]];
    graph
}

fn compile(graph: Graph, states: &[(&str, &str)]) -> Result<Vec<u8>, String> {
    let fused = pipeline::fuse(graph, &|_| ()).map_err(|error| error.to_string())?;
    let options = CompileOptions {
        targets: vec![targets::find("host").unwrap().clone()],
        states: states.iter().map(|(output, input)| (output.to_string(), input.to_string())).collect(),
        ..CompileOptions::default()
    };
    let plan = pipeline::compile_fused(&fused, &options, &|_| ()).map_err(|error| error.to_string())?;
    Ok(plan.bytes)
}

/// Replays a plan on one piece of `x` after another; gives what it says of y, and a state in the end.
fn replay(plan: &[u8], x: &[f32], piece: usize, state: &str, resets: bool) -> (Vec<f32>, Vec<f32>) {
    let mut file = vec![host::Block::ZERO; plan.len().div_ceil(host::ALIGNMENT)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    bytes[..plan.len()].copy_from_slice(plan);
    let plan = Plan::parse(&bytes[..plan.len()]).unwrap();
    let variant = plan.variants().next().unwrap();
    let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
    let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
    let mut all = Vec::new();
    for piece in x.chunks(piece * FEATURES) {
        session.write("x", bytemuck::cast_slice(piece)).unwrap();
        session.replay().unwrap();
        let mut y = vec![0f32; piece.len() / FEATURES * UNITS];
        session.read("y", bytemuck::cast_slice_mut(&mut y)).unwrap();
        all.extend(y);
        if resets {
            session.reset();
        }
    }
    let mut last = vec![0f32; UNITS];
    session.read(state, bytemuck::cast_slice_mut(&mut last)).unwrap();
    (all, last)
}

#[test]
fn streaming_equals_the_whole_sequence() {
    let x = numbers(3, 10 * FEATURES);
    // Inputs that nobody writes are zero, as states are at first.
    let (whole, last) = replay(&compile(network(10), &[]).unwrap(), &x, 10, "cn", false);
    let states = [("hn", "h"), ("cn", "c")];
    for piece in [1, 2, 5] {
        let streaming = compile(network(piece), &states).unwrap();
        let (streamed, state) = replay(&streaming, &x, piece, "c", false);
        // The projection of one step is another kind of product than that of many, so sums are rounded in another order.
        let close = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close(&streamed, &whole), "{piece} steps at a time");
        assert!(close(&state, &last));
        assert!(!close(&replay(&streaming, &x, piece, "c", true).0, &whole), "a reset forgets");
    }
}

#[test]
fn states_that_change_places_are_read_before_they_are_written() {
    let mut graph = network(1);
    // The two states of the next replay are this one's, exchanged.
    for (output, input) in [("swapped h", 2), ("swapped c", 1)] {
        let id = graph.add_value(output, graph.fact(graph.inputs[input]).clone());
        let node = Node {
            name: output.into(),
            op: Op::Identity,
            inputs: vec![graph.inputs[input]],
            outputs: vec![id],
            sources: vec![],
        };
        graph.nodes.push(node);
        graph.outputs.push(id);
    }
    let plan = compile(graph, &[("swapped h", "h"), ("swapped c", "c")]).unwrap();
    let mut file = vec![host::Block::ZERO; plan.len().div_ceil(host::ALIGNMENT)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    bytes[..plan.len()].copy_from_slice(&plan);
    let plan = Plan::parse(&bytes[..plan.len()]).unwrap();
    let variant = plan.variants().next().unwrap();
    let mut memory = vec![host::Block::ZERO; host::blocks(&variant)];
    let mut session = host::Session::init(variant, bytemuck::cast_slice_mut(&mut memory)).unwrap();
    let (h, c) = (numbers(5, UNITS), numbers(6, UNITS));
    session.write("h", bytemuck::cast_slice(&h)).unwrap();
    session.write("c", bytemuck::cast_slice(&c)).unwrap();
    session.replay().unwrap();
    let mut found = vec![0f32; UNITS];
    session.read("h", bytemuck::cast_slice_mut(&mut found)).unwrap();
    assert_eq!(found, c);
    session.read("c", bytemuck::cast_slice_mut(&mut found)).unwrap();
    assert_eq!(found, h);
}

#[test]
fn what_cannot_be_a_state_is_refused() {
    let message = |states: &[(&str, &str)]| compile(network(1), states).unwrap_err();
    assert_eq!(message(&[("z", "h")]), "--state z=h: the model has no output 'z', only y, hn, cn");
    assert_eq!(message(&[("hn", "z")]), "--state hn=z: the model has no input 'z', only x, h, c");
    assert_eq!(message(&[("y", "x")]), "--state y=x: the output is F32 [1, 1, 1, 12], the input F32 [1, 1, 5]");
    assert_eq!(message(&[("hn", "h"), ("hn", "c")]), "--state hn=c: one of them is part of another state");
}

#[test]
fn recurrent_layers_of_constants_are_folded() {
    let graph = network(2);
    let node = &graph.nodes[0];
    let zeros = |id: &TensorId| {
        let fact = graph.fact(*id);
        graph.constant(*id).cloned().unwrap_or_else(|| Tensor::f32(&fact.shape, &vec![0.0; fact.elements()]))
    };
    let inputs: Vec<Tensor> = node.inputs.iter().map(zeros).collect();
    let outputs: Vec<Fact> = node.outputs.iter().map(|&id| graph.fact(id).clone()).collect();
    let folded = HostEvaluator::default().evaluate(&node.op, &inputs.iter().collect::<Vec<_>>(), &outputs).unwrap();
    // Without input and bias every gate's sum is 0, so the state stays 0.
    assert!(folded.iter().all(|tensor| tensor.to_f64().iter().all(|&value| value == 0.0)));
}
