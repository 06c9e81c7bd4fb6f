//! Faults planted in a network: `compare` names the layer that overflows, and a budget keeps the sensitive one in f32.

use floe::host_functions::HostFunctions;
use floe_accuracy::{
    budget::{self, Budget, Decision, Search},
    compare::{self, Comparison, Options, Subject},
    samples::Samples,
};
use floe_compiler::{fused::FusedGraph, pipeline};
use floe_models::{DType, Fact, Graph, Node, Op, Tensor, TensorId, op::Unary};
use std::collections::HashMap;

const WIDTH: usize = 16;

/// A number of [-0.5, 0.5) that looks random.
fn number(seed: usize) -> f32 {
    let hash = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash >> 40) as f32) / (1u64 << 24) as f32 - 0.5
}

fn weights(layer: usize, scale: f32) -> Vec<f32> {
    (0..WIDTH * WIDTH).map(|n| scale * number(layer * 1000 + n)).collect()
}

/// Products with these weights, `Relu` behind each.
fn network(layers: &[(&str, Vec<f32>)]) -> FusedGraph {
    let mut graph = Graph { name: "planted".into(), ..Graph::default() };
    let mut value = graph.add_value("x", Fact::new(DType::F32, &[4, WIDTH]));
    graph.inputs.push(value);
    let add = |graph: &mut Graph, name: String, op: Op, inputs: Vec<TensorId>| {
        let output = graph.add_value(format!("{name} out"), Fact::new(DType::F32, &[4, WIDTH]));
        graph.nodes.push(Node { sources: vec![name.as_str().into()], name, op, inputs, outputs: vec![output] });
        output
    };
    for (name, weights) in layers {
        let weights = graph.add_constant(format!("{name} weights"), Tensor::f32(&[WIDTH, WIDTH], weights));
        let product = add(&mut graph, (*name).to_owned(), Op::MatMul, vec![value, weights]);
        value = add(&mut graph, format!("{name} relu"), Op::Unary(Unary::Relu), vec![product]);
    }
    graph.outputs.push(value);
    pipeline::fuse(graph, &|_| ()).unwrap()
}

fn samples(fused: &FusedGraph) -> Samples {
    let inputs: Vec<_> =
        fused.inputs.iter().map(|id| (fused.values[id.0].name.clone(), fused.values[id.0].fact.clone())).collect();
    Samples::random(&inputs, 3, 1)
}

fn simulated(fused: &FusedGraph) -> Comparison {
    let subject = Subject::Simulated { keep_f32: &[] };
    let samples = samples(fused);
    compare::compare(fused, subject, &samples, None, Options::default(), &|_, _| false, &mut |_, _| Ok(()), &|_| ())
        .unwrap()
}

fn six_layers(third: f32, fourth: f32) -> FusedGraph {
    let names = ["first", "second", "third", "fourth", "fifth", "sixth"];
    let scales = [1.5, 1.5, third, fourth, 1.0, 1.0];
    let layers = names.iter().zip(scales).enumerate().map(|(n, (name, scale))| (*name, weights(n, scale)));
    network(&layers.collect::<Vec<_>>())
}

#[test]
fn a_planted_overflow_is_found_where_it_is() {
    // The weights of the third layer are 10⁴ times as large, and the next ones make up for it.
    let comparison = simulated(&six_layers(5e4, 1e-4));
    let first = comparison.first().expect("a layer");
    assert_eq!((first.node.as_str(), first.value.as_str()), ("third", "third relu out"));
    assert!(first.error.unwrap().unfinite > 0 && first.relative() == Some(f64::INFINITY));
    assert!(!comparison.is_finite());
    let troubles = comparison.troubles();
    assert_eq!(troubles.iter().map(|(layer, _)| layer.node.as_str()).collect::<Vec<_>>(), ["third"]);
    assert!(troubles[0].1.starts_with("overflow"), "{}", troubles[0].1);
    let text = comparison.text();
    assert!(text.contains("the error first exceeds 1e-2 at node 'third'"), "{text}");
    assert_eq!(comparison.json()["first"]["node"], "third");
}

#[test]
fn a_sound_network_has_no_first_layer() {
    let comparison = simulated(&six_layers(1.5, 1.5));
    assert_eq!(comparison.first().map(|layer| &layer.node), None);
    assert!(comparison.is_finite() && comparison.troubles().is_empty());
    assert_eq!(comparison.layers.len(), 6);
    // What f16 rounds shows at all.
    assert!(comparison.layers.iter().all(|layer| layer.relative().is_some_and(|error| error > 1e-5)));
}

/// Each element of the hidden vector stands there twice, and the large parts of the two weights that it meets cancel: what is
/// left of them is beyond the bits that f16 has.
fn sensitive() -> FusedGraph {
    let [doubled, large] = cancelling(1000.3);
    network(&[("doubled", doubled), ("sensitive", large), ("third", weights(2, 1.5)), ("last", weights(3, 1.5))])
}

fn cancelling(large: f32) -> [Vec<f32>; 2] {
    let mut doubled = weights(0, 1.5);
    for row in doubled.chunks_exact_mut(WIDTH) {
        let (first, second) = row.split_at_mut(WIDTH / 2);
        second.copy_from_slice(first);
    }
    let mut cancelling = weights(1, 1.5);
    for (row, weights) in cancelling.chunks_exact_mut(WIDTH).enumerate() {
        let part = if row < WIDTH / 2 { large } else { -large };
        weights.iter_mut().for_each(|weight| *weight += part);
    }
    [doubled, cancelling]
}

fn decide(fused: &FusedGraph, budget: &str) -> anyhow::Result<Decision> {
    let budget: Budget = budget.parse().unwrap();
    let (samples, costs) = (samples(fused), HashMap::new());
    let progress = |_: &str, _, _| ();
    let functions = &HostFunctions::default();
    let (samples, costs, progress) = (&samples, &costs, &progress);
    budget::search(&Search { fused, budget, samples, keep_f32: &[], functions, costs, progress })
}

#[test]
fn a_budget_keeps_exactly_the_sensitive_layer() {
    let fused = sensitive();
    let decision = decide(&fused, "relative 0.005").unwrap();
    assert_eq!(decision.kept.iter().map(|layer| layer.node.as_str()).collect::<Vec<_>>(), ["sensitive"]);
    assert!(decision.before > 0.05 && decision.after < 0.005, "{} {}", decision.before, decision.after);
    assert_eq!((decision.ranked.len(), decision.ranked[0].node.as_str()), (4, "sensitive"));
    assert!(decision.text().contains("--keep-f32 sensitive"), "{}", decision.text());
    let comparison = simulated(&fused);
    assert_eq!(comparison.first().map(|layer| layer.node.as_str()), Some("sensitive"));
    let troubles = comparison.troubles();
    assert!(troubles.len() == 1 && troubles[0].1.contains("terms cancel"), "{troubles:?}");
}

#[test]
fn a_budget_that_f16_holds_keeps_nothing_and_a_perfect_one_everything() {
    let sound = six_layers(1.5, 1.5);
    assert_eq!(decide(&sound, "cosine 0.999").unwrap().kept, []);
    let perfect = decide(&sensitive(), "relative 0").unwrap();
    assert_eq!((perfect.kept.len(), perfect.after), (4, 0.0));
    let error = decide(&sound, "boxes 0.9").unwrap_err().to_string();
    assert!(error.contains("--postprocess"), "{error}");
}

#[test]
fn an_overflow_is_kept_in_f32_with_what_reads_it() {
    let decision = decide(&six_layers(5e4, 1e-4), "relative 0.01").unwrap();
    let mut kept: Vec<&str> = decision.kept.iter().map(|layer| layer.node.as_str()).collect();
    kept.sort_unstable();
    // The fourth layer's product reads its factors in the type of its result.
    assert_eq!(kept, ["fourth", "third"]);
    assert!(decision.before.is_infinite());
}

/// The layer with the largest error on the samples that rank does no harm; what overflows on a later sample does.
#[test]
fn a_layer_that_is_not_needed_goes_back_to_f16() {
    let [doubled, mild] = cancelling(20.3);
    let layers = [("doubled", doubled), ("mild", mild), ("third", weights(2, 30.0)), ("last", weights(3, 0.05))];
    let fused = network(&layers);
    let folder = tempfile::tempdir().unwrap();
    let numbers = |scale: f32| (0..4 * WIDTH).flat_map(move |n| (scale * (number(n) + 0.5)).to_le_bytes());
    let bytes: Vec<u8> = [1.0, 1.1, 4000.0].into_iter().flat_map(numbers).collect();
    let array = floe::npy::Array { dtype: DType::F32, shape: vec![12, WIDTH as u64], bytes: &bytes };
    let path = folder.path().join("x.npz");
    std::fs::write(&path, floe::npz::bytes([("x", array)]).unwrap()).unwrap();
    let facts = [("x".to_owned(), Fact::new(DType::F32, &[4, WIDTH]))];
    let samples = Samples::open(&[path.to_str().unwrap().to_owned()], &facts, &[]).unwrap();
    let budget = "relative 0.05".parse().unwrap();
    let (costs, progress) = (HashMap::new(), |_: &str, _, _| ());
    let functions = &HostFunctions::default();
    let search = Search {
        fused: &fused,
        budget,
        samples: &samples,
        keep_f32: &[],
        functions,
        costs: &costs,
        progress: &progress,
    };
    let decision = budget::search(&search).unwrap();
    assert_eq!(decision.ranked[0].node, "mild");
    let mut kept: Vec<&str> = decision.kept.iter().map(|layer| layer.node.as_str()).collect();
    kept.sort_unstable();
    assert_eq!(kept, ["last", "third"]);
}
