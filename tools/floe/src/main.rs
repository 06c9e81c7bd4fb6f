//! Floe's device command line.
#![warn(missing_docs)]

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand, ValueEnum};
use floe::{
    bench::{self, Times},
    cold_start::{self, ColdStart, mark},
    inputs::{self, Source},
    measure, outputs,
    plan_file::{self, PlanFile, Trust},
    profile,
    reference::Reference,
    session::{DeviceKind, MemoryKind, Place, Request, Session, wait_name},
    turns,
    watch::Watch,
};
use floe_engine::{
    cuda::{SetMemory, Stage, Wait},
    plan::Plan,
};
use floe_timings::Timings;
use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Runs and measures plans on the device.
#[derive(Parser)]
#[command(version, arg_required_else_help = true, after_help = "Exit code: 0 success, 1 a failed run, 2 bad usage.")]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a plan once and show its outputs.
    #[command(after_help = "Examples:
  floe run resnet50.floe --input image=cat.npy --output-dir out
  floe run resnet50.floe --random 7 --device host
  floe run resnet50.floe --input image=cat.npy --compare expected.npz
  floe run resnet50.floe --random 7 --public-key plans.key.pub
  floe run resnet50.floe --random 7 --public-key plans.key.pub --model-name resnet50 --least-version 3")]
    Run(Run),
    /// Measure latency: host round trip (write, replay, read) and device time.
    #[command(after_help = "Examples:
  floe bench resnet50.floe
  floe bench resnet50.floe --sms 16 --iterations 5000 --json times.json
  floe bench resnet50.floe --wait all --memory mapped
  floe bench detect.floe recognise.floe                       in turn, sharing memory")]
    Bench(Bench),
    /// Time each step of a plan, on a GPU from graphs beside the product's: which steps take the time, and how near they come to
    /// what arithmetic and memory of the target allow.
    #[command(after_help = "Examples:
  floe profile resnet50.floe
  floe profile resnet50.floe --sms 16 --json profile.json
  floe profile resnet50.floe --device host

The columns: microseconds that a step adds to a graph of all steps before it, or that it takes on the host; its floor (operations over peak rate, or
bytes over bandwidth, whichever is longer; a step whose operands are still in the cache can beat it); the share of the
floor that it reaches; what the plan says, by (m)easured times or as the cost model's (e)xpectation.")]
    Profile(ProfileArguments),
    /// Time every candidate of a candidates plan, for `floec compile --timings`.
    #[command(after_help = "Examples:
  floec compile resnet50.onnx --target h200 --candidates -o candidates.floe       on the workstation
  floe measure candidates.floe -o h200.timings                                    on the device
  floec compile resnet50.onnx --target h200 --timings h200.timings -o r50.floe    on the workstation
  floe measure candidates.floe -o slice.timings --sms 16 --json report.json

An existing table is kept: new times are added to it, or replace its own.")]
    Measure(MeasureArguments),
}

#[derive(Args)]
struct PlanArguments {
    /// The plan.
    plan: PathBuf,
    /// Refuse the plan unless it was signed with the private key of this public key: PEM, as `floec keygen` and OpenSSL
    /// write it.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Refuse a plan whose version is below this one; `floec compile --plan-version` gives plans their versions.
    #[arg(long, value_name = "N", requires = "public_key")]
    least_version: Option<u32>,
    /// Refuse a plan of another model than the one with this name: that of the model's file, without its ending.
    #[arg(long, value_name = "NAME", requires = "public_key")]
    model_name: Option<String>,
}

impl PlanArguments {
    fn open(&self) -> Result<PlanFile> {
        self.open_other(&self.plan)
    }

    /// Opens a plan of which the same is asked.
    fn open_other(&self, plan: &Path) -> Result<PlanFile> {
        let Some(key) = &self.public_key else { return PlanFile::open(plan) };
        let trust = Trust {
            key: plan_file::public_key(key)?,
            model: self.model_name.clone(),
            least_version: self.least_version.unwrap_or(0),
        };
        PlanFile::open_signed(plan, trust)
    }
}

#[derive(Args)]
struct Common {
    #[command(flatten)]
    plan: PlanArguments,
    /// Contents of an input; repeatable.
    #[arg(long = "input", value_name = "NAME=FILE.npy")]
    inputs: Vec<Source>,
    /// Where to run; by default on the GPU where the plan suits one, else on the host.
    #[arg(long, value_enum)]
    device: Option<DeviceArgument>,
    /// Use the variant of this target instead of the most suitable one.
    #[arg(long, value_name = "TARGET")]
    variant: Option<String>,
    /// Where inputs and outputs live on a GPU; by default in mapped host memory where the GPU shares the CPU's memory.
    #[arg(long, value_enum)]
    memory: Option<MemoryArgument>,
    /// Watch float outputs and states for NaN and infinity.
    #[arg(long)]
    guard: bool,
    /// Give up, with exit code 1, where INIT, or a replay with its inputs and outputs, takes longer than this: for a GPU that
    /// never finishes, or a plan that computes for hours.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline: Option<u64>,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    common: Common,
    /// Write every output to a .npy file in this folder.
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Compare the outputs with a .npz file that holds them by name, and fail where one is not finite that should be.
    #[arg(long, value_name = "FILE.npz")]
    compare: Option<PathBuf>,
    /// Make up inputs that are not given, reproducibly: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED")]
    random: Option<u64>,
    /// Tell where the time went from the start of the process to the first result.
    #[arg(long)]
    timings: bool,
    /// Also write those times to a file.
    #[arg(long, value_name = "FILE", requires = "timings")]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct Bench {
    #[command(flatten)]
    common: Common,
    /// Further plans: all of them replay in turn on one stream of the GPU, over one scratch memory, and with equal weights
    /// there once.
    #[arg(conflicts_with_all = ["inputs", "wait", "guard"])]
    more: Vec<PathBuf>,
    /// Replays to measure; 1000 on a GPU, 50 on the host.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Replays before that; a tenth of the iterations by default.
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// How to wait for the GPU, or all ways one after another: as the driver chooses, asleep, asking the driver again and
    /// again, or looking at host memory that the plan's last step writes.
    #[arg(long, value_enum, default_value = "driver")]
    wait: WaitArgument,
    /// Use only N multiprocessors of the GPU (a green context).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sms: Option<u32>,
    /// Also write the numbers to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Args)]
struct OnGpu {
    #[command(flatten)]
    plan: PlanArguments,
    /// Use the variant of this target instead of the most suitable one.
    #[arg(long, value_name = "TARGET")]
    variant: Option<String>,
    /// Use only N multiprocessors of the GPU (a green context).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    sms: Option<u32>,
    /// Also write the numbers to a file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl OnGpu {
    fn request(&self) -> Request {
        Request {
            device: DeviceKind::Cuda,
            multiprocessors: self.sms,
            variant: self.variant.clone(),
            ..Request::default()
        }
    }
}

#[derive(Args)]
struct ProfileArguments {
    #[command(flatten)]
    common: OnGpu,
    /// Where to run.
    #[arg(long, value_enum)]
    device: Option<ProfiledDevice>,
}

#[derive(Args)]
struct MeasureArguments {
    #[command(flatten)]
    common: OnGpu,
    /// The timing table to write, or to add to.
    #[arg(short, long, value_name = "TIMINGS")]
    output: PathBuf,
    /// Leave out the candidates of an algorithm, or the one with a key; repeatable.
    #[arg(long = "skip", value_name = "NAME")]
    skipped: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum DeviceArgument {
    Host,
    Cuda,
    /// A GPU in software, for plans with PTX: counts in place of times.
    #[cfg(feature = "emulator")]
    Emulated,
}

/// Devices that can be profiled.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfiledDevice {
    /// The CPU: steps run one after another, so their times are those of a replay.
    Host,
    Cuda,
    /// A GPU in software, for plans with PTX: counts in place of times.
    #[cfg(feature = "emulator")]
    Emulated,
}

#[derive(Clone, Copy, ValueEnum)]
enum MemoryArgument {
    Mapped,
    Device,
}

#[derive(Clone, Copy, ValueEnum)]
enum WaitArgument {
    Driver,
    Block,
    Spin,
    Poll,
    All,
}

impl WaitArgument {
    fn ways(self) -> &'static [Wait] {
        match self {
            Self::Driver => &[Wait::Driver],
            Self::Block => &[Wait::Block],
            Self::Spin => &[Wait::Spin],
            Self::Poll => &[Wait::Poll],
            Self::All => &Wait::ALL,
        }
    }
}

impl Common {
    /// What ends the process where something takes too long.
    fn watch(&self) -> Result<Watch> {
        match self.deadline {
            None => Ok(Watch::default()),
            Some(deadline) => Watch::deadline(Duration::from_millis(deadline), self.plan.plan.display().to_string()),
        }
    }

    /// What the guard has seen, where it was asked for.
    fn guarded<'p>(&self, session: &mut Session<'p, '_>) -> Result<Option<Vec<&'p str>>> {
        if self.guard { session.guard() } else { Ok(None) }
    }

    fn request(&self, multiprocessors: Option<u32>) -> Request {
        let device = match self.device {
            None => DeviceKind::Auto,
            Some(DeviceArgument::Host) => DeviceKind::Host,
            Some(DeviceArgument::Cuda) => DeviceKind::Cuda,
            #[cfg(feature = "emulator")]
            Some(DeviceArgument::Emulated) => DeviceKind::Emulated,
        };
        let memory = self.memory.map(|memory| match memory {
            MemoryArgument::Mapped => MemoryKind::Mapped,
            MemoryArgument::Device => MemoryKind::Device,
        });
        let variant = self.variant.clone();
        let observe = Some(cold_start::mark_stage as fn(Stage));
        Request { device, multiprocessors, variant, memory, wait: Wait::default(), guard: self.guard, observe }
    }
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).format_timestamp(None).init();
    let command = CommandLine::parse().command;
    let result = match &command {
        Command::Run(arguments) => run(arguments),
        Command::Bench(arguments) if !arguments.more.is_empty() => {
            if matches!(arguments.common.device, Some(DeviceArgument::Host)) {
                let _ =
                    writeln!(io::stderr(), "error: several plans take turns on a GPU; --device host takes one plan");
                return ExitCode::from(2);
            }
            bench_in_turn(arguments)
        }
        Command::Bench(arguments) => bench(arguments),
        #[cfg(feature = "emulator")]
        Command::Profile(ProfileArguments { common, device: Some(ProfiledDevice::Emulated) }) => count_steps(common),
        Command::Profile(ProfileArguments { common, device }) => profile_steps(common, *device),
        Command::Measure(arguments) => measure_candidates(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever closed the pipe has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            #[cfg(feature = "emulator")]
            if error.is::<floe::emulated::MachineCode>() {
                return ExitCode::from(2);
            }
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(arguments: &Run) -> Result<()> {
    let before_main = cold_start::time_since_process_start();
    let reference = arguments.compare.as_deref().map(Reference::read).transpose()?;
    mark("read and check");
    let file = arguments.common.plan.open()?;
    let (plan, (mut place, variant)) = file.plan_and(|plan| {
        mark(cold_start::DRIVER);
        Place::choose(plan, &arguments.common.request(None))
    })?;
    let device = place.describe();
    let watch = arguments.common.watch()?;
    let mut session = {
        let _working = watch.work("INIT");
        place.session(variant)?
    };
    let inputs = inputs::gather(&session, &arguments.common.inputs, arguments.random)?;
    mark("first result");
    let working = watch.work("the replay");
    for input in &inputs {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()?;
    let outputs = outputs::read(&mut session)?;
    drop(working);
    let cold = ColdStart::until_now(before_main);
    let header = session.variant().header();
    let mut out = io::stdout().lock();
    let signature = file.signature(&plan);
    writeln!(out, "{} for {} ({}) on {device}; {signature}", plan.model(), header.target, header.precision)?;
    outputs::print(&outputs, &mut out)?;
    if let Some(folder) = &arguments.output_dir {
        for path in outputs::save(&outputs, folder)? {
            writeln!(out, "wrote {}", path.display())?;
        }
    }
    let mut finite = true;
    if let Some(reference) = &reference {
        let (text, is_finite) = reference.compare(&outputs)?;
        write!(out, "{text}")?;
        finite = is_finite;
    }
    if arguments.timings {
        write!(out, "{}", cold.text())?;
    }
    if let Some(path) = &arguments.json {
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "target": header.target,
            "precision": header.precision,
            "device": device,
            "cold_start": cold.json(),
        });
        write_json(path, &record)?;
    }
    match arguments.common.guarded(&mut session)? {
        Some(hit) if !hit.is_empty() => bail!("NaN or infinity in {}", hit.join(", ")),
        Some(_) => writeln!(out, "guard: no NaN and no infinity")?,
        None => {}
    }
    if !finite {
        bail!("an output holds NaN or infinities where --compare does not, or the other way");
    }
    Ok(())
}

fn bench(arguments: &Bench) -> Result<()> {
    let file = arguments.common.plan.open()?;
    let request = arguments.common.request(arguments.sms);
    let (plan, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
    #[cfg(feature = "emulator")]
    if let Place::Emulated(_) = place {
        let counted = floe::emulated::count(&mut place, variant, &arguments.common.inputs)?;
        return print_counts(&counted, false, arguments.json.as_deref());
    }
    let device = place.describe();
    let default = if place.device().is_some() { 1000 } else { 50 };
    let info = place.device().map(|device| device.info().clone());
    let memory = place.memory();
    let iterations = arguments.iterations.map_or(default, |iterations| iterations as usize);
    let warm_up = arguments.warmup.map_or(iterations.div_ceil(10), |warm_up| warm_up as usize);
    let progress = Progress::new(warm_up + iterations);
    let header = variant.header().clone();
    let ways = if memory.is_some() { arguments.wait.ways() } else { &[Wait::Driver] };
    let mut latencies = Vec::new();
    let mut guarded = None;
    let watch = arguments.common.watch()?;
    for &wait in ways {
        place.set_wait(wait);
        let working = watch.work("INIT");
        let mut session = place.session(variant.clone())?;
        drop(working);
        let inputs = inputs::gather(&session, &arguments.common.inputs, Some(0))?;
        let latency = bench::measure(&mut session, &inputs, warm_up, iterations, &watch, |done| progress.show(done))?;
        latencies.push((wait, latency));
        guarded = arguments.common.guarded(&mut session)?;
    }
    progress.clear();
    let [(_, latency), ..] = latencies[..] else { bail!("no way to wait") };

    let mut out = io::stdout().lock();
    writeln!(out, "{} for {} ({}) on {device}, {iterations} replays", plan.model(), header.target, header.precision)?;
    writeln!(out, "{:<12} {:>10} {:>10} {:>10} {:>10}", "us", "min", "median", "p99", "max")?;
    let mut line = |name: &str, times: Times| {
        let Times { min, median, p99, max, .. } = times;
        writeln!(out, "{name:<12} {min:>10.1} {median:>10.1} {p99:>10.1} {max:>10.1}")
    };
    match &latencies[..] {
        [(_, latency)] => line("round trip", latency.host)?,
        all => all.iter().try_for_each(|(wait, latency)| line(wait_name(*wait), latency.host))?,
    }
    if let Some(times) = latency.device {
        line("device", times)?;
    }
    if let Some(memory) = memory {
        let waited: Vec<&str> = ways.iter().copied().map(wait_name).collect();
        writeln!(out, "inputs and outputs in {} memory; waited for by {}", memory.name(), waited.join(", "))?;
    }
    match &guarded {
        Some(hit) if hit.is_empty() => writeln!(out, "guard: no NaN and no infinity")?,
        Some(hit) => writeln!(out, "guard: NaN or infinity in {}", hit.join(", "))?,
        None => {}
    }
    if let Some(path) = &arguments.json {
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "target": header.target,
            "precision": header.precision,
            "device": info.as_ref().map_or("host", |info| &info.name),
            "multiprocessors": info.as_ref().map(|info| info.multiprocessors),
            "driver": info.as_ref().map(|info| info.driver),
            "iterations": latency.iterations,
            "unit": "microseconds",
            "memory": memory.map(MemoryKind::name),
            "wait": wait_name(latencies[0].0),
            "round_trip": latency.host,
            "device_time": latency.device,
            "waits": latencies.iter().map(|(wait, latency)| {
                serde_json::json!({"wait": wait_name(*wait), "round_trip": latency.host, "device_time": latency.device})
            }).collect::<Vec<_>>(),
            "guard": guarded,
        });
        write_json(path, &record)?;
    }
    Ok(())
}

fn bench_in_turn(arguments: &Bench) -> Result<()> {
    let mut files = vec![arguments.common.plan.open()?];
    for plan in &arguments.more {
        files.push(arguments.common.plan.open_other(plan)?);
    }
    let plans: Vec<Plan<'_>> = files.iter().map(PlanFile::plan).collect::<Result<_>>()?;
    let request = Request { device: DeviceKind::Cuda, ..arguments.common.request(arguments.sms) };
    let (place, first) = Place::choose(&plans[0], &request)?;
    let mut variants = vec![first];
    for (plan, file) in plans.iter().zip(&files).skip(1) {
        let variant = place.variant_of(plan, request.variant.as_deref());
        variants.push(variant.with_context(|| file.name().to_owned())?);
    }
    let iterations = arguments.iterations.map_or(1000, |iterations| iterations as usize);
    let warm_up = arguments.warmup.map_or(iterations.div_ceil(10), |warm_up| warm_up as usize);
    let progress = Progress::new(warm_up + iterations);
    let watch = arguments.common.watch()?;
    let (latencies, memory) =
        turns::measure(&place, &variants, warm_up, iterations, &watch, |done| progress.show(done))?;
    progress.clear();

    let kind = place.memory().map_or("", MemoryKind::name);
    let mut out = io::stdout().lock();
    writeln!(out, "{} plans in turn on {}, {iterations} replays each", plans.len(), place.describe())?;
    writeln!(out, "{:<24} {:>10} {:>10} {:>10} {:>10}", "round trip, us", "min", "median", "p99", "max")?;
    for (plan, latency) in plans.iter().zip(&latencies) {
        let Times { min, median, p99, max, .. } = latency.host;
        writeln!(out, "{:<24} {min:>10.1} {median:>10.1} {p99:>10.1} {max:>10.1}", plan.model())?;
    }
    let SetMemory { weights, scratch, own, total, apart } = memory;
    writeln!(
        out,
        "device memory: weights {weights} + scratch {scratch} + each session's own {own} = {total} bytes; sharing nothing, \
         {apart}"
    )?;
    writeln!(out, "inputs and outputs in {kind} memory")?;
    if let Some(path) = &arguments.json {
        let sessions =
            files.iter().zip(&plans).zip(&variants).zip(&latencies).map(|(((file, plan), variant), latency)| {
                let header = variant.header();
                serde_json::json!({
                    "plan": file.name(),
                    "model": plan.model(),
                    "target": header.target,
                    "precision": header.precision,
                    "round_trip": latency.host,
                })
            });
        let record = serde_json::json!({
            "device": place.describe(),
            "iterations": iterations,
            "unit": "microseconds",
            "memory": kind,
            "device_bytes": {
                "weights": weights, "scratch": scratch, "own": own, "total": total, "sharing_nothing": apart,
            },
            "sessions": sessions.collect::<Vec<_>>(),
        });
        write_json(path, &record)?;
    }
    Ok(())
}

fn profile_steps(arguments: &OnGpu, device: Option<ProfiledDevice>) -> Result<()> {
    let file = arguments.plan.open()?;
    let plan = file.plan()?;
    let mut request = arguments.request();
    if device == Some(ProfiledDevice::Host) {
        request.device = DeviceKind::Host;
    }
    let (mut place, variant) = Place::choose(&plan, &request)?;
    let device = place.describe();
    let info = place.device().map(|device| device.info().clone());
    let mut session = place.session(variant)?;
    for input in inputs::gather(&session, &[], Some(0))? {
        session.write(input.binding, &input.bytes)?;
    }
    let profile = match &mut session {
        Session::Host(session) => profile::on_host(session)?,
        Session::Cuda(session) => profile::on_gpu(session)?,
    };
    let header = session.variant().header();
    let mut out = io::stdout().lock();
    writeln!(out, "{} for {} ({}) on {device}", plan.model(), header.target, header.precision)?;
    write!(out, "{}", profile.text())?;
    if let Some(path) = &arguments.json {
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "target": header.target,
            "precision": header.precision,
            "device": info.as_ref().map(|info| &info.name),
            "multiprocessors": info.as_ref().map(|info| info.multiprocessors),
            "profile": profile,
        });
        write_json(path, &record)?;
    }
    Ok(())
}

#[cfg(feature = "emulator")]
fn count_steps(arguments: &OnGpu) -> Result<()> {
    let file = arguments.plan.open()?;
    let request = Request { device: DeviceKind::Emulated, ..arguments.request() };
    let (_, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
    let counted = floe::emulated::count(&mut place, variant, &[])?;
    print_counts(&counted, true, arguments.json.as_deref())
}

#[cfg(feature = "emulator")]
fn print_counts(counted: &floe::emulated::Counted, steps: bool, json: Option<&Path>) -> Result<()> {
    counted.print(steps, io::stdout().lock())?;
    match json {
        Some(path) => write_json(path, &counted.json()),
        None => Ok(()),
    }
}

fn measure_candidates(arguments: &MeasureArguments) -> Result<()> {
    let file = arguments.common.plan.open()?;
    let plan = file.plan()?;
    let output = &arguments.output;
    // Before anything is measured: a file that is no table must not be lost, nor the measurement because of it.
    let mut timings = match std::fs::read_to_string(output) {
        Ok(text) => text.parse::<Timings>().with_context(|| format!("{} is there already", output.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Timings::default(),
        Err(error) => return Err(error).with_context(|| output.display().to_string()),
    };
    let (place, variant) = Place::choose(&plan, &arguments.common.request())?;
    let info = place.device().context("candidates are measured on a GPU")?.info().clone();
    let start = std::time::Instant::now();
    let progress = Progress::new(0);
    let mut measured = Vec::new();
    let result = measure::measure(&place, &variant, &arguments.skipped, &mut measured, |done, total| {
        progress.show_of(done, total)
    });
    progress.clear();
    // What was measured before a kernel failed is worth keeping.
    if measured.iter().all(|candidate| candidate.time.is_none()) {
        result?;
        return Ok(());
    }

    let device = floe_timings::Device { gpu: info.name.clone(), multiprocessors: info.multiprocessors };
    timings.merge(measure::table(&measured, &device, info.clock));
    // A family that is no more has nothing to choose.
    let dropped = timings.retain_families(|family| floe_kernels::FAMILIES.contains(&family));
    floe_files::write(output, timings.to_string()).with_context(|| output.display().to_string())?;
    let mut out = io::stdout().lock();
    let times = measured.iter().filter(|candidate| candidate.time.is_some()).count();
    let seconds = start.elapsed().as_secs_f64();
    writeln!(out, "{} on {}: {times} candidates timed in {seconds:.1} s", plan.model(), place.describe())?;
    write!(out, "{}", measure::report::text(&measured))?;
    let note = if dropped == 0 { String::new() } else { format!(", without {dropped} of families that are no more") };
    writeln!(out, "wrote {}: {} entries{note}", output.display(), timings.len())?;
    if let Some(path) = &arguments.common.json {
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "device": info.name,
            "multiprocessors": info.multiprocessors,
            "clock": info.clock,
            "driver": info.driver,
            "seconds": seconds,
            "unit": "microseconds",
            "problems": measure::report::json(&measured),
        });
        write_json(path, &record)?;
    }
    result
}

/// Writes a record as JSON.
fn write_json(path: &Path, record: &serde_json::Value) -> Result<()> {
    floe_files::write(path, format!("{record:#}\n")).with_context(|| path.display().to_string())
}

/// A count on a terminal, nothing in a pipe.
struct Progress {
    total: usize,
    shown: bool,
}

impl Progress {
    fn new(total: usize) -> Self {
        Self { total, shown: io::stderr().is_terminal() }
    }

    fn show(&self, done: usize) {
        // About a hundred times in all: writing must not disturb what is measured.
        if self.shown && done.is_multiple_of(self.total.div_ceil(100)) {
            let _ = write!(io::stderr(), "\r{done}/{}", self.total);
        }
    }

    fn show_of(&self, done: usize, total: usize) {
        if self.shown {
            let _ = write!(io::stderr(), "\r{done}/{total} ");
        }
    }

    fn clear(&self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
