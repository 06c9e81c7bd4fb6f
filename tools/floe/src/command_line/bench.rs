//! `floe bench`: one plan, or several in turn.

use super::{
    json::Json,
    options::{Common, DeviceArgument},
    progress::Progress,
};
use crate::{
    bench::{self, Latency, Times},
    inputs,
    plan_file::PlanFile,
    power::{Power, Rail},
    session::{DeviceKind, MemoryKind, Place, Request, wait_name},
    shapes, turns,
    usage::Usage,
};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use floe_engine::{
    cuda::{SetMemory, Wait},
    plan::Plan,
};
use std::{io::Write, path::PathBuf};

#[derive(Args)]
pub(super) struct Bench {
    #[command(flatten)]
    pub(super) common: Common,
    /// Further plans: all of them replay in turn on one stream of the GPU, over one scratch memory, and with equal weights
    /// there once.
    #[arg(conflicts_with_all = ["inputs", "wait", "guard"])]
    pub(super) more: Vec<PathBuf>,
    /// Replays to measure; 1000 on a GPU, 50 on the host.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) iterations: Option<u32>,
    /// Replays before that; a tenth of the iterations by default.
    #[arg(long, value_name = "N")]
    pub(super) warmup: Option<u32>,
    /// How to wait for the GPU, or all ways one after another: as the driver chooses, asleep, asking the driver again and
    /// again, or looking at host memory that the plan's last step writes.
    #[arg(long, value_enum, default_value = "driver")]
    pub(super) wait: WaitArgument,
    /// Use only N multiprocessors of the GPU (a green context).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sms: Option<u32>,
    /// Also write the numbers to a file.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Where the board's sensors are found.
    #[arg(long, value_name = "DIR", default_value = "/sys", hide = true)]
    pub(super) sysfs: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum WaitArgument {
    Driver,
    Block,
    Spin,
    Poll,
    All,
}

impl WaitArgument {
    pub(super) fn ways(self) -> &'static [Wait] {
        match self {
            Self::Driver => &[Wait::Driver],
            Self::Block => &[Wait::Block],
            Self::Spin => &[Wait::Spin],
            Self::Poll => &[Wait::Poll],
            Self::All => &Wait::ALL,
        }
    }
}

/// What each rail took, and of that a round trip's share.
fn powers(latency: &Latency, power: &[Power]) -> Vec<serde_json::Value> {
    let rail = |power: &Power| {
        let Power { rail, watts, samples } = power;
        let joules = power.joules(latency.host.mean);
        serde_json::json!({"rail": rail, "watts": watts, "joules_per_replay": joules, "samples": samples})
    };
    power.iter().map(rail).collect()
}

impl Bench {
    pub(super) fn run(&self) -> Result<()> {
        if self.more.is_empty() {
            return self.one();
        }
        if matches!(self.common.device, Some(DeviceArgument::Host)) {
            return Err(Usage::new("several plans take turns on a GPU; --device host takes one plan").into());
        }
        self.in_turn()
    }

    fn one(&self) -> Result<()> {
        let json = Json::open(self.json.as_deref(), self.common.reads())?;
        let file = self.common.plan.open()?;
        let request = self.common.request(self.sms)?;
        let (plan, (mut place, variant)) = file.plan_and(|plan| Place::choose(plan, &request))?;
        let variant = self.common.shape(&variant)?;
        #[cfg(feature = "emulator")]
        if let Place::Emulated(_) = place {
            let counted = crate::emulated::count(&mut place, variant, &self.common.inputs)?;
            return super::print_counts(&counted, false, json);
        }
        let device = place.describe();
        let default = if place.device().is_some() { 1000 } else { 50 };
        let info = place.device().map(|device| device.info().clone());
        let memory = place.memory();
        let iterations = self.iterations.map_or(default, |iterations| iterations as usize);
        let warm_up = self.warmup.map_or(iterations.div_ceil(10), |warm_up| warm_up as usize);
        let progress = Progress::new(warm_up + iterations);
        let header = variant.header().clone();
        let ways = if memory.is_some() { self.wait.ways() } else { &[Wait::Driver] };
        let mut latencies = Vec::new();
        let (mut guarded, mut choices) = (None, None);
        let watch = self.common.watch()?;
        let rails = Rail::find(&self.sysfs);
        let mut power = Vec::new();
        for &wait in ways {
            place.set_wait(wait);
            let working = watch.work("INIT");
            let mut session = place.session(variant.clone())?;
            drop(working);
            let inputs = inputs::gather(&session, &self.common.inputs, Some(0))?;
            let show = |done| progress.show(done);
            let (latency, taken) =
                bench::measure_with_power(&mut session, &inputs, warm_up, iterations, &watch, &rails, show)?;
            latencies.push((wait, latency));
            power.push(taken);
            guarded = self.common.guarded(&mut session)?;
            choices = bench::choices(&mut session, iterations)?;
        }
        progress.clear();
        let [(_, latency), ..] = latencies[..] else { bail!("no way to wait") };

        let mut out = json.text();
        writeln!(
            out,
            "{} for {} ({}) on {device}, {iterations} replays",
            plan.model(),
            header.target,
            header.precision
        )?;
        writeln!(
            out,
            "{:<12} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "us", "min", "median", "mean", "p99", "max", "a second"
        )?;
        let mut line = |name: &str, times: Times| {
            let Times { min, median, mean, p99, max, .. } = times;
            let rate = 1e6 / mean;
            writeln!(out, "{name:<12} {min:>10.1} {median:>10.1} {mean:>10.1} {p99:>10.1} {max:>10.1} {rate:>10.1}")
        };
        match &latencies[..] {
            [(_, latency)] => line("round trip", latency.host)?,
            all => all.iter().try_for_each(|(wait, latency)| line(wait_name(*wait), latency.host))?,
        }
        if let Some(times) = latency.device {
            line("device", times)?;
        }
        if let Some(times) = choices {
            line("choose", times)?;
            let shapes = variant.shapes().len();
            writeln!(out, "{shapes} shapes, of which {} was replayed", shapes::describe(&variant))?;
        }
        for ((wait, latency), rails) in latencies.iter().zip(&power) {
            let way = if latencies.len() > 1 { format!(", waiting by {}", wait_name(*wait)) } else { String::new() };
            for power in rails {
                let Power { rail, watts, samples } = power;
                let millijoules = 1e3 * power.joules(latency.host.mean);
                writeln!(out, "{rail}: {watts:.2} W, {millijoules:.3} mJ a replay ({samples} samples{way})")?;
            }
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
            "shape": shapes::describe(&variant),
            "choose": choices,
            "replays_per_second": 1e6 / latency.host.mean,
            "power": powers(&latency, &power[0]),
            "waits": latencies.iter().zip(&power).map(|((wait, latency), power)| serde_json::json!({
                "wait": wait_name(*wait),
                "round_trip": latency.host,
                "device_time": latency.device,
                "power": powers(latency, power),
            })).collect::<Vec<_>>(),
            "guard": guarded,
        });
        json.write(&record)
    }

    fn in_turn(&self) -> Result<()> {
        let reads = self.common.reads().chain(self.more.iter().map(PathBuf::as_path));
        let json = Json::open(self.json.as_deref(), reads)?;
        let mut files = vec![self.common.plan.open()?];
        for plan in &self.more {
            files.push(self.common.plan.open_other(plan)?);
        }
        let plans: Vec<Plan<'_>> = files.iter().map(PlanFile::plan).collect::<Result<_>>()?;
        let request = Request { device: DeviceKind::Cuda, ..self.common.request(self.sms)? };
        let (place, first) = Place::choose(&plans[0], &request)?;
        let first = self.common.shape(&first)?;
        let mut variants = vec![first];
        for (plan, file) in plans.iter().zip(&files).skip(1) {
            let variant = place.variant_of(plan, request.variant.as_deref());
            variants.push(variant.with_context(|| file.name().to_owned())?);
        }
        let iterations = self.iterations.map_or(1000, |iterations| iterations as usize);
        let warm_up = self.warmup.map_or(iterations.div_ceil(10), |warm_up| warm_up as usize);
        let progress = Progress::new(warm_up + iterations);
        let watch = self.common.watch()?;
        let (latencies, memory) =
            turns::measure(&place, &variants, warm_up, iterations, &watch, |done| progress.show(done))?;
        progress.clear();

        let kind = place.memory().map_or("", MemoryKind::name);
        let mut out = json.text();
        writeln!(out, "{} plans in turn on {}, {iterations} replays each", plans.len(), place.describe())?;
        writeln!(
            out,
            "{:<24} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "round trip, us", "min", "median", "mean", "p99", "max"
        )?;
        for (plan, latency) in plans.iter().zip(&latencies) {
            let Times { min, median, mean, p99, max, .. } = latency.host;
            writeln!(out, "{:<24} {min:>10.1} {median:>10.1} {mean:>10.1} {p99:>10.1} {max:>10.1}", plan.model())?;
        }
        let SetMemory { weights, scratch, own, total, apart } = memory;
        writeln!(
            out,
            "device memory: weights {weights} + scratch {scratch} + each session's own {own} = {total} bytes; sharing nothing, \
             {apart}"
        )?;
        writeln!(out, "inputs and outputs in {kind} memory")?;
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
        json.write(&record)
    }
}
