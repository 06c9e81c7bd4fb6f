//! Several plans on one GPU, replayed in turn: one stream, one scratch memory for all arenas, equal constants once.

use crate::{
    bench::{Latency, Times},
    inputs,
    session::{Place, Session, init_error},
    watch::Watch,
};
use anyhow::{Result, bail};
use floe_engine::{
    cuda::{self, Scratch, SetMemory, Shared, Weights},
    plan::{Variant, format::Direction},
};
use std::time::Instant;

/// Measures the round trip of each variant (write all inputs, replay, read all outputs) while they take turns.
///
/// # Errors
/// Where this is the host, or what the engine says.
pub fn measure(
    place: &Place,
    variants: &[Variant<'_>],
    warm_up: usize,
    iterations: usize,
    watch: &Watch,
    mut progress: impl FnMut(usize),
) -> Result<(Vec<Latency>, SetMemory)> {
    let Place::Cuda { device, api, options, .. } = place else { bail!("plans take turns on a GPU only") };
    device.make_current()?;
    let init = watch.work("INIT");
    let memory = SetMemory::of(variants.iter().cloned(), *options);
    // What follows is dropped in the opposite order: sessions, then what they borrow.
    let mut weights: Vec<Weights<'_>> = Vec::new();
    for variant in variants {
        if !weights.iter().any(|weights| weights.are_of(variant)) {
            // SAFETY: the table comes from the driver; the device, borrowed for longer, keeps the context alive, and it was
            // just made current on this thread, which these values do not leave. So too below. The blobs were compared with
            // their digest when the files were opened.
            weights.push(unsafe { Weights::upload(variant, api) }.map_err(init_error)?);
        }
    }
    // SAFETY: as above.
    let scratch = unsafe { Scratch::allocate(memory.scratch, api, None) }.map_err(init_error)?;
    let mut sessions = Vec::new();
    for variant in variants {
        let weights = weights.iter().find(|weights| weights.are_of(variant));
        let shared = Shared { weights, scratch: Some(&scratch) };
        // SAFETY: as above.
        let session = unsafe { cuda::Session::init_shared(variant.clone(), api, *options, shared) };
        let session = Session::Cuda(Box::new(session.map_err(init_error)?));
        let inputs = inputs::gather(&session, &[], Some(0))?;
        let mut outputs = Vec::new();
        for (number, binding) in session.bindings(Direction::Output) {
            outputs.push((number, vec![0; inputs::length(&binding)?]));
        }
        sessions.push((session, inputs, outputs, Vec::with_capacity(iterations)));
    }
    drop(init);
    for iteration in 0..warm_up + iterations {
        for (session, inputs, outputs, times) in &mut sessions {
            let _working = watch.work("a replay");
            let start = Instant::now();
            for input in inputs.iter() {
                session.write(input.binding, &input.bytes)?;
            }
            session.replay()?;
            for (number, bytes) in outputs.iter_mut() {
                session.read(*number, bytes)?;
            }
            if iteration >= warm_up {
                times.push(start.elapsed().as_secs_f64() * 1e6);
            }
        }
        progress(iteration);
    }
    let latency = |times| Latency { iterations, host: Times::of(times), device: None };
    Ok((sessions.into_iter().map(|(.., times)| latency(times)).collect(), memory))
}
