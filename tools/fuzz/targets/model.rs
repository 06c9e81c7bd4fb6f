//! Any bytes as a model: imported, and compiled for the host and replayed where it is small. A refusal is fine; a panic, a
//! plan that the engine refuses, and gigabytes of memory are not.
#![no_main]

use floe_compiler::{
    pipeline::{self, CompileError, CompileOptions},
    targets,
};
use floe_fuzz::{
    model,
    replay::{self, File},
};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};

fuzz_target!(|bytes: &[u8]| {
    let Some(fused) = model::fused(bytes) else { return };
    let host = targets::find("host").expect("a target").clone();
    let options = CompileOptions { targets: vec![host], ..CompileOptions::default() };
    match pipeline::compile_fused(&fused, &options, &|_| {}) {
        Ok(plan) => assert!(replay::plan(&File::new(&plan.bytes)), "the engine refuses a compiled plan"),
        Err(error @ CompileError::Check(_)) => panic!("{error}"),
        Err(_) => {}
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| { model::mutate(data, size, max_size, seed) });
