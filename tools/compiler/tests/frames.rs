//! Frames on the host against Pillow and NumPy. `tools/test` makes the cases and runs this test.

use floe_compiler::{evaluate::run_fused, pipeline, preprocess::Preprocess};
use floe_models::{DType, Fact, Graph, Node, Op, Tensor};
use std::path::{Path, PathBuf};

/// Fewer cases than this are not what the script writes.
const CASES: usize = 142;

/// A network that does nothing.
fn network(shape: &[usize]) -> Graph {
    let mut graph = Graph::default();
    let fact = Fact::new(DType::F32, shape);
    let (input, output) = (graph.add_value("image", fact.clone()), graph.add_value("tensor", fact));
    graph.nodes.push(Node {
        name: "identity".into(),
        op: Op::Identity,
        inputs: vec![input],
        outputs: vec![output],
        sources: Vec::new(),
    });
    graph.inputs.push(input);
    graph.outputs.push(output);
    graph
}

fn check(case: &Path) {
    let read = |name: &str| std::fs::read(case.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let text = |name: &str| String::from_utf8(read(name)).expect("text");
    let shape: Vec<usize> = text("shape").split('x').map(|extent| extent.parse().expect("an extent")).collect();
    let tolerance: f32 = text("tolerance").parse().expect("a tolerance");
    let mut graph = network(&shape);
    let preprocess = Preprocess::parse(&text("option")).expect("an option");
    preprocess.apply(&mut graph).expect("it fits");
    let fused = pipeline::fuse(graph, &|_| ()).expect("a sound graph");
    let binding = fused.values[fused.inputs[0].0].fact.clone();
    let frame = Tensor::new(DType::U8, binding.shape, read("frame.bin"));
    let found: Vec<f32> = run_fused(&fused, &[&frame]).expect("it runs")[0].to_vec().expect("floats");
    let expected: Vec<f32> = read("tensor.bin").chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
    assert_eq!(found.len(), expected.len(), "{}", case.display());
    let worst = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "{}: {worst} from the reference: {}", case.display(), text("option"));
}

#[test]
#[ignore = "needs references: run tools/test"]
fn frames_agree_with_pillow_and_numpy() {
    let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
    let folder = PathBuf::from(folder).join("frames");
    let cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("tools/test makes the cases")
        .map(|entry| entry.expect("a case").path())
        .collect();
    assert!(cases.len() >= CASES, "only {} cases", cases.len());
    cases.iter().for_each(|case| check(case));
}
