//! `floe-verify networks`: whole plans on the GPU against their host variants.

use crate::{
    allocations,
    bounds::{self, Bound},
    compare::Agreement,
};
use anyhow::{Context, Result, bail};
use floe::{
    bench::{self, Latency},
    inputs::{Input, Source, gather},
    outputs::{self, Output},
    plan_file::PlanFile,
    session::{DeviceKind, Place, Request, Session, wait_name},
    tensor::numbers,
};
use floe_engine::{
    cuda::{DriverApi, InitOptions, Phase, Wait, recording},
    plan::{
        Plan, Variant,
        format::{Binding, Direction},
    },
};
use serde::Serialize;
use std::{
    collections::BTreeSet,
    io::{self, Write},
    path::PathBuf,
};

/// What to verify.
#[derive(clap::Args)]
pub struct Arguments {
    /// Plans that hold a `host` variant and one for this GPU.
    #[arg(required = true)]
    plans: Vec<PathBuf>,
    /// Use the GPU variant of this target instead of the most suitable one.
    #[arg(long, value_name = "TARGET")]
    variant: Option<String>,
    /// Replays that must be bit-identical.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    replays: usize,
    /// Folder of real inputs: MODEL/inputs/NAME.npy, where MODEL is a plan's file name up to its last `-` and `/` and `:`
    /// in names of inputs are `_`. Inputs without a file are random.
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,
    /// Seed of the random inputs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// What was found about one plan.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Name of the plan's file, without its ending.
    pub plan: String,
    /// Target of the GPU variant.
    pub target: String,
    /// Its precision.
    pub precision: String,
    /// What its floating-point outputs are held to.
    pub bound: Bound,
    /// Why, where that is not what other models are held to.
    pub reason: Option<&'static str>,
    /// Each output against the host.
    pub outputs: Vec<(String, Agreement)>,
    /// Replays made.
    pub replays: usize,
    /// Rust allocations while they ran.
    pub allocations: u64,
    /// Device memory that was free before and after them, in bytes.
    pub free: (u64, u64),
    /// Driver functions that they called.
    pub calls: BTreeSet<&'static str>,
    /// Times in microseconds.
    pub latency: Latency,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Runs the subcommand.
///
/// # Errors
/// Where a plan cannot be run at all. Wrong results are in the reports.
pub fn run(arguments: &Arguments) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for path in &arguments.plans {
        let file = PlanFile::open(path)?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let report = verify(&stem, &file.plan()?, arguments).with_context(|| file.name().to_owned())?;
        let mut out = io::stdout().lock();
        let device = report.latency.device.map_or(f64::NAN, |times| times.median);
        let cosine = report.outputs.iter().map(|(_, agreement)| agreement.cosine).fold(f64::INFINITY, f64::min);
        let verdict = if report.failures.is_empty() { "pass" } else { "FAIL" };
        writeln!(
            out,
            "{verdict}  {} {} {}: cosine {cosine:.7}, {} replays, device {device:.1} us, round trip {:.1} us",
            report.plan, report.target, report.precision, report.replays, report.latency.host.median
        )?;
        for failure in &report.failures {
            writeln!(out, "      {failure}")?;
        }
        reports.push(report);
    }
    Ok(reports)
}

fn verify(stem: &str, plan: &Plan<'_>, arguments: &Arguments) -> Result<Report> {
    let request = |device, variant: Option<String>| Request { device, variant, ..Request::default() };
    let (mut host_place, host_variant) = Place::choose(plan, &request(DeviceKind::Host, None))?;
    let mut host = host_place.session(host_variant)?;
    let inputs = contents(&host, stem, arguments)?;
    replay(&mut host, &inputs)?;
    let expected = outputs::read(&mut host)?;

    let (mut place, variant) = Place::choose(plan, &request(DeviceKind::Cuda, arguments.variant.clone()))?;
    let header = variant.header().clone();
    // Times first, through the driver's own functions.
    let mut session = place.session(variant.clone())?;
    let latency = bench::measure(&mut session, &inputs, 100, 1000, |_| {})?;
    drop(session);

    let bindings = variant.bindings().count();
    let calls_of_init = 64 + 4 * (header.steps + header.kernels + header.images) as usize;
    let Place::Cuda { api, .. } = &mut place else { bail!("a GPU was asked for") };
    let driver = *api;
    *api = recording::wrap(driver, calls_of_init + (arguments.replays + 1) * (2 * bindings + 8));
    let again = variant.clone();
    let mut session = place.session(variant)?;
    replay(&mut session, &inputs)?;
    let first = outputs::read(&mut session)?;

    let (bound, reason) = bounds::of(model_of(stem), header.precision);
    let mut failures = Vec::new();
    let mut agreements = Vec::new();
    for (expected, found) in expected.iter().zip(&first) {
        let dtype = expected.binding.dtype;
        let (expected_numbers, found_numbers) = (numbers(dtype, &expected.bytes), numbers(dtype, &found.bytes));
        let agreement = Agreement::of(&expected_numbers, &found_numbers);
        let shape = expected.binding.shape.as_slice();
        let vector = shape.iter().copied().max().is_some_and(|longest| longest as usize == expected_numbers.len());
        let name = expected.binding.name;
        // Numbers that are no floats agree or do not.
        let bound = if dtype.is_float() { bound } else { Bound::Absolute(0.0) };
        if let Some(violation) = bound.violation(&agreement, vector) {
            failures.push(format!("output {name}: {violation}"));
        }
        agreements.push((name.to_owned(), agreement));
    }

    // RUN: nothing below may allocate, neither here nor in the engine, until the numbers are taken.
    let mut found = first.clone();
    let places: Vec<usize> = session.bindings(Direction::Output).into_iter().map(|(number, _)| number).collect();
    let memory = || -> Result<u64> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are valid for the write; the device's context is current on this thread.
        let result = unsafe { (driver.mem_get_info)(&mut free, &mut total) };
        if result == 0 { Ok(free as u64) } else { bail!("cuMemGetInfo failed ({result})") }
    };
    let free_before = memory()?;
    drop(recording::take());
    let allocations_before = allocations::count();
    let mut different = 0usize;
    for _ in 0..arguments.replays {
        session.reset()?;
        for input in &inputs {
            session.write(input.binding, &input.bytes)?;
        }
        session.replay()?;
        for (&number, output) in places.iter().zip(&mut found) {
            session.read(number, &mut output.bytes)?;
        }
        different += usize::from(found.iter().zip(&first).any(|(found, first)| found.bytes != first.bytes));
    }
    let allocations = allocations::count() - allocations_before;
    let calls = recording::take();
    let free = (free_before, memory()?);
    drop(session);
    failures.extend(other_ways(&mut place, driver, &again, &inputs, &first)?);

    if different > 0 {
        failures.push(format!("{different} of {} replays differ", arguments.replays));
    }
    if allocations > 0 {
        failures.push(format!("{allocations} Rust allocations in RUN"));
    }
    if free.0 != free.1 {
        failures.push(format!("free device memory was {} bytes before and {} after", free.0, free.1));
    }
    let forbidden: BTreeSet<&str> =
        calls.iter().filter(|call| call.phase() != Phase::Run).map(|call| call.name()).collect();
    if !forbidden.is_empty() {
        failures.push(format!("RUN called {forbidden:?}"));
    }
    Ok(Report {
        plan: stem.to_owned(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        bound,
        reason,
        outputs: agreements,
        replays: arguments.replays,
        allocations,
        free,
        calls: calls.iter().map(|call| call.name()).collect(),
        latency,
        failures,
    })
}

/// What is wrong where bindings lie in mapped memory, guards watch, and the host waits in each of its ways: bits that differ
/// from those of the `expected` outputs, guards that see something else than there is.
fn other_ways(
    place: &mut Place,
    driver: DriverApi,
    variant: &Variant<'_>,
    inputs: &[Input],
    expected: &[Output<'_>],
) -> Result<Vec<String>> {
    let mut failures = Vec::new();
    for wait in Wait::ALL {
        let Place::Cuda { api, options, .. } = place else { bail!("a GPU was asked for") };
        *api = driver;
        *options = InitOptions { mapped: true, guard: true, wait, ..*options };
        let mut session = place.session(variant.clone())?;
        replay(&mut session, inputs)?;
        let watched = session.guard()?.unwrap_or_default();
        let found = outputs::read(&mut session)?;
        if found.iter().zip(expected).any(|(found, expected)| found.bytes != expected.bytes) {
            failures.push(format!("other outputs from mapped memory, waiting by {}", wait_name(wait)));
        }
        for output in &found {
            let Binding { name, dtype, .. } = output.binding;
            let finite = !dtype.is_float() || numbers(dtype, &output.bytes).iter().all(|number| number.is_finite());
            if finite == watched.contains(&name) {
                failures.push(format!("output {name} is finite: {finite}; guards saw {watched:?}"));
            }
        }
    }
    Ok(failures)
}

/// The model's name in a plan's file name: what precedes the last `-`.
fn model_of(stem: &str) -> &str {
    stem.rsplit_once('-').map_or(stem, |(model, _)| model)
}

/// Real inputs where there are files, random ones elsewhere.
fn contents(session: &Session<'_, '_>, stem: &str, arguments: &Arguments) -> Result<Vec<Input>> {
    let mut sources = Vec::new();
    if let Some(folder) = &arguments.inputs {
        for (_, binding) in session.bindings(Direction::Input) {
            let file = folder.join(model_of(stem)).join("inputs").join(binding.name.replace(['/', ':'], "_") + ".npy");
            if file.exists() {
                sources.push(Source { name: binding.name.to_owned(), file });
            }
        }
    }
    gather(session, &sources, Some(arguments.seed))
}

fn replay(session: &mut Session<'_, '_>, inputs: &[Input]) -> Result<()> {
    for input in inputs {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()
}
