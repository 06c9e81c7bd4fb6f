//! `floe-verify networks`: whole plans on the GPU against their host variants.

use crate::{
    allocations,
    expected::{Emulation, Expected, in_parallel, replay},
    memory,
};
use anyhow::{Result, bail};
use floe::{
    bench::{self, Latency},
    inputs::{Input, Source, gather},
    outputs::{self, Output},
    plan_file::PlanFile,
    selftest::agreement::{self, Agreement},
    session::{DeviceKind, Place, Request, Session, wait_name},
    tensor::numbers,
    watch::Watch,
};
use floe_conformance::bounds::Bounds;
use floe_engine::{
    cuda::{Call, DriverApi, InitOptions, Phase, Wait, recording},
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
    /// Steps of the GPU variant.
    pub steps: usize,
    /// Of them, those whose kernel was chosen by a timing table; the cost model chose the others.
    pub timed: usize,
    /// Outputs and states that were compared.
    pub outputs: usize,
    /// The worst agreement of floating-point ones with the host's by each measure; absent where there is none.
    pub worst: Option<Agreement>,
    /// How near a GPU in software comes; absent where the plan holds machine code, which only a GPU runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulated: Option<Emulation>,
    /// Why, where its outputs are not held to what other networks' are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The network that is held to a bound in its stead, where it is not comparable end to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Replays made.
    pub replays: usize,
    /// Rust allocations while they ran.
    pub allocations: u64,
    /// Times in microseconds.
    pub latency: Option<Latency>,
    /// What is wrong; empty when all is well.
    pub failures: Vec<String>,
}

/// Runs the subcommand; each report is given to `done` as soon as there is one. Whether nothing is wrong.
///
/// # Errors
/// Where a plan cannot be run at all, after its report, which says why: an error of the driver may leave this process
/// without a GPU, so that the plans after it need another one. Wrong results are in the reports.
pub fn run(arguments: &Arguments, mut done: impl FnMut(&Report) -> Result<()>) -> Result<bool> {
    let bounds = Bounds::embedded()?;
    let files = arguments.plans.iter().map(|path| PlanFile::open(path)).collect::<Result<Vec<_>>>()?;
    let plans = files.iter().map(|file| file.plan()).collect::<Result<Vec<_>, _>>()?;
    let named: Vec<_> =
        arguments.plans.iter().map(|path| path.file_stem().unwrap_or_default().to_string_lossy()).zip(&plans).collect();
    // Before anything runs on the GPU, so that times are undisturbed and allocations are those of RUN.
    let expected = in_parallel(&named, |(stem, plan)| {
        Expected::of(plan, arguments.variant.as_deref(), |session| contents(session, stem, arguments))
    });
    let mut passed = true;
    for ((file, (stem, plan)), expected) in files.iter().zip(&named).zip(expected) {
        let verified = expected.and_then(|expected| verify(stem, plan, &expected, &bounds, arguments));
        let (report, error) = match verified {
            Ok(report) => (report, None),
            Err(error) => (broken(stem, plan, &error), Some(error)),
        };
        print(&report)?;
        done(&report)?;
        passed &= report.failures.is_empty();
        if let Some(error) = error {
            return Err(error.context(file.name().to_owned()));
        }
    }
    Ok(passed)
}

/// The report of a plan that cannot be run.
fn broken(stem: &str, plan: &Plan<'_>, error: &anyhow::Error) -> Report {
    let header = plan.variants().find(|variant| !variant.is_host()).map(|variant| variant.header().clone());
    let text = |field: Option<&str>| field.unwrap_or_default().to_owned();
    Report {
        plan: stem.to_owned(),
        target: text(header.as_ref().map(|header| header.target)),
        precision: text(header.as_ref().map(|header| header.precision)),
        steps: 0,
        timed: 0,
        outputs: 0,
        worst: None,
        emulated: None,
        reason: None,
        instead: None,
        replays: 0,
        allocations: 0,
        latency: None,
        failures: vec![format!("cannot be run: {error:#}")],
    }
}

fn print(report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    let verdict = match (&report.instead, report.failures.is_empty()) {
        (_, false) => "FAIL",
        (Some(_), true) => "held otherwise",
        (None, true) => "pass",
    };
    let Report { plan, target, precision, .. } = report;
    write!(out, "{verdict}  {plan} {target} {precision}")?;
    if let Some(worst) = report.worst {
        write!(out, ": cosine {:.7}, element {:.1e}", worst.cosine, worst.element)?;
    }
    if let Some(latency) = report.latency {
        let device = latency.device.map_or(f64::NAN, |times| times.median);
        write!(out, ", {} replays, device {device:.1} us, round trip {:.1} us", report.replays, latency.host.median)?;
    }
    writeln!(out)?;
    if let Some(Emulation { same, elements, l2, part }) = report.emulated {
        writeln!(
            out,
            "      emulated: {same} of {elements} elements have the same bits; l2 {l2:.1e}, {part:.3} of f16's"
        )?;
    }
    if let Some(instead) = &report.instead {
        writeln!(out, "      not comparable end to end; {instead} is held to the bound")?;
    }
    report.failures.iter().try_for_each(|failure| writeln!(out, "      {failure}"))?;
    Ok(())
}

fn verify(
    stem: &str,
    plan: &Plan<'_>,
    expected: &Expected<'_>,
    bounds: &Bounds,
    arguments: &Arguments,
) -> Result<Report> {
    let Expected { inputs, host, emulated } = expected;
    let request = Request { device: DeviceKind::Cuda, variant: arguments.variant.clone(), ..Request::default() };
    let (mut place, variant) = Place::choose(plan, &request)?;
    let header = variant.header().clone();
    // Times first, through the driver's own functions.
    let mut session = place.session(variant.clone())?;
    let latency = bench::measure(&mut session, inputs, 100, 1000, &Watch::default(), |_| {})?;
    drop(session);

    let bindings = variant.bindings().count();
    let calls_of_init = 64 + 4 * (header.steps + header.kernels + header.images) as usize;
    let Place::Cuda { api, .. } = &mut place else { bail!("a GPU was asked for") };
    let driver = *api;
    *api = recording::wrap(driver, calls_of_init + (arguments.replays + 1) * (2 * bindings + 8));
    let again = variant;
    let run = replay_and_count(&mut place, &driver, &again, inputs, arguments.replays)?;
    let Run { first, replays, different, allocations, calls, free } = run;

    let held = bounds.of(model_of(stem), header.precision);
    let (worst, mut failures) = agreement::of_outputs(held.comparable(), host, &first);
    let emulated = match emulated {
        Some(Ok(emulated)) => Some(Emulation::of(host, &first, emulated)),
        Some(Err(error)) => {
            failures.push(format!("emulated: {error:#}"));
            None
        }
        None => None,
    };
    // Where the network is not comparable with the host, neither is the emulator by what it costs.
    let comparable = emulated.filter(|_| held.instead.is_none());
    failures.extend(comparable.and_then(|emulation| emulation.violation()));

    failures.extend(other_ways(&mut place, driver, &again, inputs, &first)?);

    if different > 0 {
        failures.push(format!("{different} of {replays} replays differ"));
    }
    if allocations > 0 {
        failures.push(format!("{allocations} Rust allocations in RUN"));
    }
    failures.extend(memory::failure(&free));
    let forbidden: BTreeSet<&str> =
        calls.iter().filter(|call| call.phase() != Phase::Run).map(|call| call.name()).collect();
    if !forbidden.is_empty() {
        failures.push(format!("RUN called {forbidden:?}"));
    }
    Ok(Report {
        plan: stem.to_owned(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        steps: header.steps as usize,
        timed: again.notes().filter(|note| note.measured).count(),
        outputs: host.len(),
        worst,
        emulated,
        reason: held.reason,
        instead: held.instead,
        replays,
        allocations,
        latency: Some(latency),
        failures,
    })
}

/// What the replays of one session gave.
struct Run<'p> {
    first: Vec<Output<'p>>,
    replays: usize,
    /// Of them, those whose outputs are not those of the first.
    different: usize,
    allocations: u64,
    calls: Vec<Call>,
    /// Readings of free device memory, in bytes.
    free: Vec<u64>,
}

/// Replays a session of its own and counts what RUN must not do.
fn replay_and_count<'p>(
    place: &mut Place,
    driver: &DriverApi,
    variant: &Variant<'p>,
    inputs: &[Input],
    replays: usize,
) -> Result<Run<'p>> {
    let mut session = place.session(variant.clone())?;
    replay(&mut session, inputs)?;
    let first = outputs::read(&mut session)?;
    let mut found = first.clone();
    let places: Vec<usize> = session.bindings(Direction::Output).into_iter().map(|(number, _)| number).collect();
    let (mut made, mut different, mut allocations, mut calls) = (0, 0, 0, Vec::new());
    let free = memory::watched(
        || memory::free(driver),
        |_| {
            drop(recording::take());
            // RUN: nothing below may allocate, neither here nor in the engine, until the numbers are taken.
            let allocations_before = allocations::count();
            for _ in 0..replays {
                session.reset()?;
                for input in inputs {
                    session.write(input.binding, &input.bytes)?;
                }
                session.replay()?;
                for (&number, output) in places.iter().zip(&mut found) {
                    session.read(number, &mut output.bytes)?;
                }
                different += usize::from(found.iter().zip(&first).any(|(found, first)| found.bytes != first.bytes));
            }
            allocations += allocations::count() - allocations_before;
            calls.extend(recording::take());
            made += replays;
            Ok(())
        },
    )?;
    Ok(Run { first, replays: made, different, allocations, calls, free })
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

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::{DType, Dims};

    fn output(numbers: &[f32]) -> Output<'static> {
        let shape = Dims::from_slice(&[1, numbers.len() as u32]).unwrap();
        let binding = Binding { name: "y", direction: Direction::Output, dtype: DType::F32, shape, content: "" };
        Output { binding, bytes: numbers.iter().flat_map(|x| x.to_le_bytes()).collect() }
    }

    #[test]
    fn outputs_are_held_to_the_bounds_of_their_network() {
        let bounds = Bounds::embedded().unwrap();
        let (expected, found) = ([output(&[1.0, 2.0])], [output(&[1.0, 2.1])]);
        for precision in ["f16", "f32"] {
            let (worst, failures) =
                agreement::of_outputs(bounds.of("resnet18", precision).comparable(), &expected, &found);
            assert!(failures.len() == 1 && worst.unwrap().absolute > 0.09, "{failures:?}");
            // Not comparable end to end, but recorded.
            let (worst, failures) =
                agreement::of_outputs(bounds.of("smart-turn-v3.2-qdq", precision).comparable(), &expected, &found);
            assert!(failures.is_empty() && worst.unwrap().absolute > 0.09, "{failures:?}");
            let (_, failures) = agreement::of_outputs(
                bounds.of("smart-turn-v3.2-qdq-steps", precision).comparable(),
                &expected,
                &found,
            );
            assert_eq!(failures.len(), 1);
        }
    }
}
