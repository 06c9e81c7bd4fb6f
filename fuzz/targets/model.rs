//! Any bytes as a model: imported, and compiled for the host and replayed where it is small. A refusal is fine; a panic, a
//! plan that the engine refuses, and gigabytes of memory are not.
#![no_main]

use floe_compiler::{
    evaluate::{HostEvaluator, Work},
    pipeline::{self, CompileError, CompileOptions},
    targets,
};
use floe_fuzz::{
    mutate,
    random::Random,
    replay::{self, File, WORK},
};
use floe_models::{ImportOptions, Limits, from_bytes, onnx::proto::ModelProto};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use prost::Message;

/// Nodes beyond which a model is not compiled.
const NODES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { value_bytes: 16 * WORK, constant_bytes: 32 * WORK, nodes: 4096 };
    let options = ImportOptions { limits, ..ImportOptions::default() };
    let evaluator = HostEvaluator::new(Work { bytes: 32 * WORK, operations: 16 * WORK });
    let Ok(graph) = from_bytes(bytes, None, &options, &evaluator) else { return };
    let elements = graph.values.iter().map(|value| value.fact.elements() as u64).fold(0, u64::saturating_add);
    if graph.nodes.len() > NODES || elements > WORK {
        return;
    }
    let Ok(fused) = pipeline::fuse(graph, &|_| {}) else { return };
    let host = targets::find("host").expect("a target").clone();
    let options = CompileOptions { targets: vec![host], ..CompileOptions::default() };
    match pipeline::compile_fused(&fused, &options, &|_| {}) {
        Ok(plan) => assert!(replay::plan(&File::new(&plan.bytes)), "the engine refuses a compiled plan"),
        Err(error @ CompileError::Check(_)) => panic!("{error}"),
        Err(_) => {}
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Random::new(seed);
    mutate_model(data, size, max_size, &mut random).unwrap_or_else(|| fuzzer_mutate(data, size, max_size))
});

fn mutate_model(data: &mut [u8], size: usize, max_size: usize, random: &mut Random) -> Option<usize> {
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
