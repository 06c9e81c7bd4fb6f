//! Timing the candidates of a candidates plan on the device.
//!
//! A candidate is timed as a graph of [`COPIES`] copies of it, each waiting for the one before it, between two events. So
//! the cost of a launch inside a graph counts as it does in a replay, and the cost of launching the graph, which is timed
//! with an empty graph, does not. Operands are random numbers; the file holds no weights.
//!
//! Caches are made to look as in a replay. Activations are read where the copy before has just left them, in the level-2
//! cache. Where the plan's weights and arena fit in that cache they stay there from replay to replay, so every copy reads
//! the same constants; where they do not, the copies take turns with different constants, and the cache is overwritten
//! before every run. Before a graph is timed the device is kept at work, so that no time passes while it is submitted.

mod contest;
mod layout;
pub mod report;

pub use contest::{Robust, contest};
pub use layout::{Layout, Region};

use crate::{random::Generator, session::Place, usage::Usage};
use anyhow::{Context, Result, bail};
use floe_engine::{
    cuda::{InitError, Pool, Trial},
    plan::{Variant, format::Candidate},
};
use floe_timings::{Device, Timing, Timings};
use std::time::{Duration, Instant};

/// Copies of a candidate in its graph.
pub const COPIES: u32 = 20;
/// Overwriting so many bytes takes a GPU longer than the host takes to submit a graph.
const BUSY: u64 = 32 << 20;
/// Random numbers are made once for so many bytes and repeated.
const BLOCK: usize = 8 << 20;
/// The clocks count as settled when the medians of two windows of so many runs differ by less than a hundredth.
const WINDOW: usize = 20;
/// How long to wait for that, at least and at most.
const SETTLING: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(3)];

/// What became of one candidate.
#[derive(Clone, Debug)]
pub struct Measured<'p> {
    /// The candidate.
    pub candidate: Candidate<'p>,
    /// Its time in microseconds; `None` where the driver refused it.
    pub time: Option<Robust>,
}

/// Times the candidates of a variant, except those whose key or algorithm is among `skipped`, and adds them to `all` as
/// they are done. `progress` hears how many of how many problems are done.
///
/// # Errors
/// Where there are no candidates, the place is no GPU, the memory does not suffice, or a kernel fails: the context is lost
/// then, and `all` holds the problems before.
pub fn measure<'p>(
    place: &Place,
    variant: &Variant<'p>,
    skipped: &[String],
    all: &mut Vec<Measured<'p>>,
    mut progress: impl FnMut(usize, usize),
) -> Result<()> {
    let Some(device) = place.device() else { bail!("candidates can be measured on a GPU only") };
    if variant.candidates().next().is_none() {
        return Err(Usage::new("the plan holds no candidates: compile it with --candidates").into());
    }
    let (memory, cache) = (variant.memory(), device.info().l2_bytes);
    let cold = memory.weights + memory.arena > cache;
    let (rotation, overwritten) = if cold { (2 * cache, cache) } else { (0, 0) };
    let layout = Layout::new(variant.candidates(), COPIES, rotation, BUSY.max(overwritten));
    let free = device.free_memory()?;
    if layout.bytes() > free {
        bail!("measuring needs {} bytes of device memory, but only {free} are free", layout.bytes());
    }
    let pool = place.pool(layout.bytes())?;
    fill(&pool, &layout)?;

    let overhead = overhead(&pool, variant, BUSY.min(layout.regions()[0].bytes));
    let time = |trial: &Trial<'_, '_>| -> Result<f64> {
        pool.zero(0, overwritten)?;
        Ok((f64::from(trial.run(!cold)?) * 1e3 - overhead).max(0.0) / f64::from(COPIES))
    };
    let problems = variant.candidates().last().map_or(0, |last| last.problem as usize + 1);
    let is_skipped = |c: &Candidate<'_>| skipped.iter().any(|name| name == c.key || name == c.algorithm);
    let mut candidates = variant.candidates().filter(|candidate| !is_skipped(candidate)).peekable();
    let mut settled = false;
    while let Some(problem) = candidates.peek().map(|candidate| candidate.problem) {
        progress(problem as usize, problems);
        let (mut trials, mut members) = (Vec::new(), Vec::new());
        while let Some(candidate) = candidates.next_if(|candidate| candidate.problem == problem) {
            let built =
                Trial::new(&pool, variant, &candidate, COPIES, |copy, operand| layout.place(&candidate, copy, operand));
            // Some launches are refused only when they are made: clusters that do not fit into 16 multiprocessors.
            match built.map_err(anyhow::Error::from).and_then(runs_once) {
                Ok(trial) => {
                    trials.push(trial);
                    members.push(all.len());
                }
                Err(error) => {
                    restore(&pool, &layout).with_context(|| failure(&candidate))?;
                    log::warn!("{} is left out: {error:#}", title(&candidate));
                }
            }
            all.push(Measured { candidate, time: None });
        }
        if let (false, Some(first)) = (settled, trials.first()) {
            settle(|| time(first))?;
            settled = true;
        }
        let results = contest(trials.len(), |number| {
            let candidate = &all[members[number]].candidate;
            time(&trials[number]).with_context(|| failure(candidate))
        })?;
        for (&member, result) in members.iter().zip(results) {
            all[member].time = Some(result);
        }
    }
    Ok(())
}

/// A candidate in words, for messages.
fn title(candidate: &Candidate<'_>) -> String {
    format!("candidate {} {} of {}", candidate.algorithm, candidate.configuration, candidate.description)
}

/// The trial, if it runs.
fn runs_once<'p, 'd>(trial: Trial<'p, 'd>) -> Result<Trial<'p, 'd>> {
    trial.run(false)?;
    Ok(trial)
}

/// What to do about a candidate that fails.
fn failure(candidate: &Candidate<'_>) -> String {
    format!("{} fails; leave it out with --skip {}", title(candidate), candidate.key)
}

/// After a launch that was refused: zeroes the counters again. Fails where the context is lost.
fn restore(pool: &Pool<'_>, layout: &Layout) -> Result<(), InitError> {
    let counters = layout.counters();
    pool.zero(counters.offset, counters.bytes)?;
    // Waits.
    pool.write(counters.offset, &[])
}

/// Random numbers into what is read, zeros into the counters.
fn fill(pool: &Pool<'_>, layout: &Layout) -> Result<(), InitError> {
    for region in layout.regions() {
        let Some(dtype) = region.read else { continue };
        let mut block = vec![0; BLOCK.min(region.bytes as usize)];
        Generator::new(0, dtype.name()).fill(dtype, &mut block);
        let mut done = 0;
        while done < region.bytes {
            let bytes = block.len().min((region.bytes - done) as usize);
            pool.write(region.offset + done, &block[..bytes])?;
            done += bytes as u64;
        }
    }
    let counters = layout.counters();
    pool.zero(counters.offset, counters.bytes)
}

/// Microseconds between the events around an empty graph; 0 where the driver refuses one. Overwrites the pool's first `busy`
/// bytes so that the device is at work when the graph is submitted.
fn overhead(pool: &Pool<'_>, variant: &Variant<'_>, busy: u64) -> f64 {
    let measured = || -> Result<f64> {
        let Some(candidate) = variant.candidates().next() else { return Ok(0.0) };
        let empty = Trial::new(pool, variant, &candidate, 0, |_, _| 0)?;
        let sample = |_| -> Result<f64> {
            pool.zero(0, busy)?;
            Ok(f64::from(empty.run(false)?) * 1e3)
        };
        let samples: Result<Vec<f64>> = (0..50).map(sample).collect();
        Ok(Robust::of(&samples?).time)
    };
    measured().unwrap_or_else(|error| {
        log::warn!("the launch of an empty graph cannot be timed and counts as part of the kernels: {error:#}");
        0.0
    })
}

/// Runs until times no longer change with the clocks.
fn settle(mut run: impl FnMut() -> Result<f64>) -> Result<()> {
    let start = Instant::now();
    let mut last = f64::INFINITY;
    loop {
        let window: Result<Vec<f64>> = (0..WINDOW).map(|_| run()).collect();
        let time = Robust::of(&window?).time;
        let steady = (time - last).abs() <= 0.01 * time;
        last = time;
        if start.elapsed() >= SETTLING[1] || steady && start.elapsed() >= SETTLING[0] {
            return Ok(());
        }
    }
}

/// The timing table of a measurement.
pub fn table(measured: &[Measured<'_>], device: &Device, clock: u32) -> Timings {
    let mut timings = Timings::default();
    for Measured { candidate, time } in measured {
        let Some(Robust { time, deviation }) = *time else { continue };
        let timing = Timing {
            time,
            deviation,
            clock,
            problem: candidate.description.to_owned(),
            algorithm: candidate.algorithm.to_owned(),
            configuration: candidate.configuration.to_owned(),
        };
        timings.insert(device, candidate.key, timing);
    }
    timings
}
