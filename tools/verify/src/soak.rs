//! `floe-verify soak`: very many replays of one plan, whose results and memory must not change. Their times are reported:
//! what one round trip in a thousand takes is also the host's doing, which a busy wait of the same length shows.

use crate::{allocations, memory};
use anyhow::{Context, Result, bail};
use floe::{
    inputs::{self, Input},
    plan_file::PlanFile,
    session::{DeviceKind, MemoryKind, Place, Request, Session, wait_name},
};
use floe_engine::{cuda::Wait, plan::format::Direction};
use serde::Serialize;
use std::{
    fs, hint,
    io::{self, IsTerminal, Write},
    path::PathBuf,
    time::{Duration, Instant},
};

/// Sets of inputs, which take turns.
const SETS: u64 = 4;
/// Change of the process's resident memory that counts as none: what the system's own accounting rounds.
const RESIDENT_SLACK: u64 = 64 << 10;

/// What to replay.
#[derive(clap::Args)]
pub struct Arguments {
    /// A plan with a variant for this GPU.
    plan: PathBuf,
    /// Replays.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    replays: u32,
    /// How to wait for the GPU.
    #[arg(long, value_parser = wait, default_value = "driver")]
    wait: Wait,
    /// Keep inputs and outputs in mapped host memory, whatever the GPU.
    #[arg(long)]
    mapped: bool,
    /// Seed of the random inputs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

fn wait(name: &str) -> Result<Wait, String> {
    let found = Wait::ALL.into_iter().find(|&wait| wait_name(wait) == name);
    found.ok_or_else(|| "expected driver, block, spin or poll".to_owned())
}

/// What was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the plan's file, without its ending.
    pub plan: String,
    /// Target of the variant.
    pub target: String,
    /// Its precision.
    pub precision: String,
    /// How the host waited.
    pub wait: &'static str,
    /// Where inputs and outputs lay.
    pub memory: &'static str,
    /// Replays made.
    pub replays: u32,
    /// Of them, those whose outputs differed from the first round's.
    pub different: u32,
    /// Microseconds of a round trip (write all inputs, replay, read all outputs): half took no longer.
    pub median: f64,
    /// 99 % took no longer.
    pub p99: f64,
    /// 99.9 % took no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
    /// What this machine does to any program: 99.9 % of busy waits that should have taken `median` microseconds, and used
    /// no GPU, took no longer.
    pub busy_wait: f64,
    /// Device memory that was free before and after, in bytes.
    pub free: (u64, u64),
    /// Resident memory of the process before and after, in bytes.
    pub resident: (u64, u64),
    /// Rust allocations meanwhile.
    pub allocations: u64,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// Where the plan cannot be run at all. What is wrong otherwise is in the report.
pub fn run(arguments: &Arguments) -> Result<Report> {
    let file = PlanFile::open(&arguments.plan)?;
    let plan = file.plan()?;
    let memory = arguments.mapped.then_some(MemoryKind::Mapped);
    let request = Request { device: DeviceKind::Cuda, memory, wait: arguments.wait, ..Request::default() };
    let (mut place, variant) = Place::choose(&plan, &request)?;
    let memory = place.memory().context("a GPU was asked for")?;
    let header = variant.header().clone();
    let Place::Cuda { api, .. } = &place else { bail!("a GPU was asked for") };
    let api = *api;
    let mut session = place.session(variant)?;
    let states = session.variant().bindings().any(|binding| binding.direction == Direction::State);
    let mut rounds = Vec::new();
    for set in 0..SETS {
        let inputs = inputs::gather(&session, &[], Some(arguments.seed + set))?;
        let mut outputs = Vec::new();
        for (number, binding) in session.bindings(Direction::Output) {
            outputs.push((number, vec![0; inputs::length(&binding)?]));
        }
        round_trip(&mut session, states, &inputs, &mut outputs)?;
        rounds.push((inputs, outputs));
    }
    let mut found: Vec<(usize, Vec<u8>)> = rounds[0].1.clone();
    // Written once, so that the pages are there before memory is looked at.
    let mut nanoseconds = vec![1u32; arguments.replays as usize];
    for replay in 0..arguments.replays.min(10_000) as usize {
        round_trip(&mut session, states, &rounds[replay % rounds.len()].0, &mut found)?;
    }
    let mut more = vec![1u32; arguments.replays.div_ceil(10) as usize];
    resident()?;
    let mut resident_bytes = (resident()?, 0);
    let (mut different, mut allocations) = (0, 0);
    let shown = io::stderr().is_terminal();
    let readings = memory::watched(
        || memory::free(&api),
        |time| {
            let allocations_before = allocations::count();
            let nanoseconds = if time == 0 { &mut nanoseconds } else { &mut more };
            for (replay, nanoseconds) in nanoseconds.iter_mut().enumerate() {
                let (inputs, expected) = &rounds[replay % rounds.len()];
                let start = Instant::now();
                round_trip(&mut session, states, inputs, &mut found)?;
                *nanoseconds = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
                different += u32::from(found != *expected);
                if shown && replay % 100_000 == 0 {
                    let _ = write!(io::stderr(), "\r{replay}/{}", arguments.replays);
                }
            }
            allocations += allocations::count() - allocations_before;
            resident_bytes.1 = resident()?;
            Ok(())
        },
    )?;
    let (free, resident) = ((readings[0], readings[1]), resident_bytes);
    if shown {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }

    nanoseconds.sort_unstable();
    let [median, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|part| percentile(&nanoseconds, part));
    let busy_wait = busy_wait(median);
    let mut failures = Vec::new();
    if different > 0 {
        failures.push(format!("{different} replays differ from the first of the same inputs"));
    }
    failures.extend(memory::failure(&readings));
    if resident.0.abs_diff(resident.1) > RESIDENT_SLACK {
        failures.push(format!("resident memory was {} bytes before and {} after", resident.0, resident.1));
    }
    if allocations > 0 {
        failures.push(format!("{allocations} Rust allocations"));
    }
    let report = Report {
        plan: arguments.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        wait: wait_name(arguments.wait),
        memory: memory.name(),
        replays: arguments.replays,
        different,
        median,
        p99,
        p999,
        max,
        busy_wait,
        free,
        resident,
        allocations,
        failures,
    };
    print(&report)?;
    Ok(report)
}

/// Resets states if there are any, writes all inputs, replays, reads all outputs.
fn round_trip(
    session: &mut Session<'_, '_>,
    states: bool,
    inputs: &[Input],
    outputs: &mut [(usize, Vec<u8>)],
) -> Result<()> {
    if states {
        session.reset()?;
    }
    for input in inputs {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()?;
    outputs.iter_mut().try_for_each(|(number, bytes)| session.read(*number, bytes))
}

fn print(report: &Report) -> Result<()> {
    let Report { plan, target, precision, wait, memory, replays, different, .. } = report;
    let Report { median, p99, p999, max, busy_wait, free, resident, .. } = report;
    let (tail, alone) = (p999 / median, busy_wait / median);
    let text = format!(
        "{plan} {target} {precision}: {replays} replays, {memory} memory, waiting by {wait}\n      \
         round trip in us: median {median:.1}, p99 {p99:.1}, p99.9 {p999:.1} ({tail:.2} times the median), max {max:.1}\n      \
         the host alone, busy waiting for {median:.1} us: p99.9 {busy_wait:.1} ({alone:.2} times)\n      \
         {different} differ; device memory free {} -> {} bytes, resident {} -> {} bytes",
        free.0, free.1, resident.0, resident.1
    );
    Ok(crate::tell(&text, &report.failures)?)
}

/// Microseconds that a part of sorted `nanoseconds` does not exceed, by nearest rank.
fn percentile(nanoseconds: &[u32], part: f64) -> f64 {
    let rank = (part * nanoseconds.len() as f64).ceil() as usize;
    f64::from(nanoseconds[rank.max(1) - 1]) / 1e3
}

/// 99.9th percentile of how long busy waits of `microseconds` really take, in microseconds.
fn busy_wait(microseconds: f64) -> f64 {
    let length = Duration::from_secs_f64(microseconds / 1e6);
    let mut nanoseconds = vec![1u32; 100_000];
    for nanoseconds in &mut nanoseconds {
        let start = Instant::now();
        while start.elapsed() < length {
            hint::spin_loop();
        }
        *nanoseconds = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
    }
    nanoseconds.sort_unstable();
    percentile(&nanoseconds, 0.999)
}

/// Bytes of this process that are in memory, exactly: `/proc/self/status` lags behind by some pages.
fn resident() -> Result<u64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").context("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).context("a line 'Rss'")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().context("kilobytes")?;
    Ok(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read() {
        assert!(resident().unwrap() > 1 << 16);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let nanoseconds: Vec<u32> = (1..=1000).map(|n| n * 1000).collect();
        assert_eq!([0.0, 0.5, 0.999, 1.0].map(|part| percentile(&nanoseconds, part)), [1.0, 500.0, 999.0, 1000.0]);
    }

    #[test]
    fn busy_waits_take_at_least_their_time() {
        assert!(busy_wait(0.5) >= 0.5);
    }

    #[test]
    fn ways_to_wait_are_known_by_name() {
        assert_eq!(wait("poll"), Ok(Wait::Poll));
        assert!(wait("sleep").is_err());
    }
}
