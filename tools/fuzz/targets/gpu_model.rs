//! Any bytes as a model, compiled for a GPU but for the machine code: lowered, scheduled with CUDA sources for every step,
//! placed and written with images that hold nothing. The plan runs on a driver that checks what INIT and RUN ask of it.
#![no_main]

use floe_compiler::{
    completion,
    emit::{self, VariantIdentity},
    nvrtc::Compiled,
    pipeline::{self, CompileOptions, Precision},
    place,
    schedule::StepAction,
    targets,
};
use floe_engine::plan::{
    Plan, PlanWriter,
    format::MAX_BINDINGS,
};
use floe_fuzz::{gpu, model, replay::File, support::cubin};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

/// One with tensor cores of an early kind, and one whose steps overlap.
const TARGETS: [(&str, Precision); 2] = [("jetson-orin-nano", Precision::F16), ("h200", Precision::F32)];

fuzz_target!(|bytes: &[u8]| {
    let Some(fused) = model::fused(bytes) else { return };
    if fused.inputs.len() + fused.outputs.len() > MAX_BINDINGS {
        return;
    }
    let (name, precision) = TARGETS[bytes.len() % TARGETS.len()];
    let target = targets::find(name).expect("a target");
    let options = CompileOptions { targets: vec![target.clone()], precision, ..CompileOptions::default() };
    let Ok(mut schedule) = pipeline::schedule(&fused, target, &options) else { return };
    completion::append(&mut schedule);
    let placement = place::place(&schedule, target);
    let sources = schedule.steps.iter().filter_map(|step| match &step.action {
        StepAction::Launch(launch) => Some(launch),
        StepAction::Host(_) => None,
    });
    let compiled: Vec<Compiled> = sources
        .map(|launch| {
            assert!(launch.source.contains(&launch.entry), "a source without its kernel");
            Compiled { bytes: cubin(launch.entry.as_bytes()), resources: None, log: String::new() }
        })
        .collect();
    let Ok(mut variant) = emit::emit(&mut schedule, &placement, &compiled, VariantIdentity::of(target)) else { return };
    let plan = File::new(&PlanWriter::new("fuzzed", "fuzzed").variant(variant.parts()).finish());
    if let Err(error) = Plan::parse(plan.bytes()) {
        panic!("the engine refuses a compiled plan: {error}");
    }
    gpu::plan(&plan);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { model::mutate(data, size, max_size, seed) });
