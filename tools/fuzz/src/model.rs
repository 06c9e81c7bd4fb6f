//! Any bytes as a model, up to the fused graph; and mutations of models.

use crate::{mutate, random::Random, replay::WORK};
use floe_compiler::{
    evaluate::{HostEvaluator, Work},
    fused::FusedGraph,
    pipeline,
};
use floe_models::{ImportOptions, Limits, from_bytes, onnx::proto::ModelProto};
use libfuzzer_sys::fuzzer_mutate;
use prost::Message;

/// Nodes beyond which a model is not compiled.
const NODES: usize = 64;

/// The network, where there is one that is small enough.
pub fn fused(bytes: &[u8]) -> Option<FusedGraph> {
    let limits = Limits {
        value_bytes: 16 * WORK,
        weight_bytes: 32 * WORK,
        constant_bytes: 32 * WORK,
        fold_bytes: 32 * WORK,
        fold_operations: 16 * WORK,
        nodes: 4096,
    };
    let options = ImportOptions { limits, ..ImportOptions::default() };
    let evaluator = HostEvaluator::new(Work { bytes: limits.fold_bytes, operations: limits.fold_operations });
    let graph = from_bytes(bytes, None, &options, &evaluator).ok()?;
    let elements = graph.values.iter().map(|value| value.fact.elements() as u64).fold(0, u64::saturating_add);
    if graph.nodes.len() > NODES || elements > WORK {
        return None;
    }
    pipeline::fuse(graph, &|_| {}).ok()
}

/// Changes a model in place, as libFuzzer asks: its new size.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random::new(seed);
    decoded(data, size, max_size, &mut random).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
}

fn decoded(data: &mut [u8], size: usize, max_size: usize, random: &mut Random) -> Option<usize> {
    if random.below(8) == 0 {
        return None;
    }
    let mut model = ModelProto::decode(&data[..size]).ok()?;
    for _ in 0..=random.below(3) {
        mutate::model(&mut model, random);
    }
    let encoded = model.encode_to_vec();
    data.get_mut(..encoded.len())?.copy_from_slice(&encoded);
    (encoded.len() <= max_size).then_some(encoded.len())
}
