//! Verifies Floe on a GPU: kernels against their host twins, networks against their host variants. Needs no Rust where it
//! runs, only a driver and, for `kernels`, NVRTC.
#![warn(missing_docs)]

mod allocations;
mod bounds;
mod compare;
mod digest;
mod guard;
mod kernels;
mod launch;
mod networks;
mod operands;
mod record;
mod soak;
mod stream;
mod suite;

use anyhow::Result;
use clap::{Parser, Subcommand};
use serde_json::json;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Verifies kernels and networks on a GPU.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    /// Put the results into this record, for example targets/verified/h200.json.
    #[arg(long, global = true, value_name = "FILE")]
    record: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Every candidate of every kernel case against its host twin.
    #[command(after_help = "Examples:
  floe-verify kernels --arch 90 --record targets/verified/h200.json
  floe-verify kernels --arch 87ptx --family conv --verbose")]
    Kernels(kernels::Arguments),
    /// Plans on the GPU against their host variants; replays, allocations, memory, driver calls.
    #[command(after_help = "Example:
  floe-verify networks plans/*.floe --record targets/verified/h200.json")]
    Networks(networks::Arguments),
    /// Very many replays of one plan: bit-identical results, a bounded tail of times, unchanged memory.
    #[command(after_help = "Example:
  floe-verify soak plans/relu.floe --record targets/verified/h200.json")]
    Soak(soak::Arguments),
    /// A plan with state, frame by frame: decisions as the reference's, and the time of a frame's round trip.
    #[command(after_help = "Example:
  floec compile silero-vad-v6.onnx --target h200 --shape input=1x576 --shape state=2x1x128 --constant sr=16000 \\
      --state stateN=state -o silero-vad-v6-f16.floe
  floe-verify stream silero-vad-v6-f16.floe --audio frames.npy --expected probabilities.npy --limit 60")]
    Stream(stream::Arguments),
    /// ONNX test folders on the GPU; counts, and what did not pass with the reasons.
    #[command(after_help = "Example:
  floe-verify suite onnx/backend/test/data/node --target h200 --json results.json")]
    Suite(suite::Arguments),
    /// NaN and infinity at many places of outputs of every float type: the guards see them, and nothing else.
    #[command(after_help = "Example:
  floe-verify guard --target h200 --record targets/verified/h200.json")]
    Guard(guard::Arguments),
    /// Print the digest of the sources below a repository's root (of this program's own without one).
    Digest {
        /// The root.
        root: Option<PathBuf>,
    },
    /// Say whether the records in a folder are of the sources below a repository's root.
    Check {
        /// The root.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).format_timestamp(None).init();
    match run(&CommandLine::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether everything passed.
fn run(command_line: &CommandLine) -> Result<bool> {
    match &command_line.command {
        Command::Kernels(arguments) => {
            let tallies = kernels::run(arguments)?;
            for (family, tally) in &tallies {
                writeln!(
                    io::stdout(),
                    "{family:<16} {:>5} passed, {} failed, {} unsupported cases, worst error {:.1e}",
                    tally.passed,
                    tally.failed,
                    tally.unsupported,
                    tally.worst
                )?;
            }
            if let (Some(path), false) = (&command_line.record, tallies.is_empty()) {
                record::update(path, "kernels", &arguments.architecture(), json!(tallies))?;
            }
            Ok(tallies.values().all(|tally| tally.failed == 0))
        }
        Command::Networks(arguments) => {
            let reports = networks::run(arguments)?;
            if let Some(path) = &command_line.record {
                for report in &reports {
                    let key = format!("{} {} {}", report.plan, report.target, report.precision);
                    record::update(path, "networks", &key, json!(report))?;
                }
            }
            Ok(reports.iter().all(|report| report.failures.is_empty()))
        }
        Command::Soak(arguments) => {
            let report = soak::run(arguments)?;
            if let Some(path) = &command_line.record {
                let key =
                    format!("{} {} {} {} {}", report.plan, report.target, report.precision, report.memory, report.wait);
                record::update(path, "soak", &key, json!(report))?;
            }
            Ok(report.failures.is_empty())
        }
        Command::Stream(arguments) => {
            let report = stream::run(arguments)?;
            let verdict = if report.failures.is_empty() { "pass" } else { "FAIL" };
            let times = report.round_trip;
            writeln!(
                io::stdout(),
                "{verdict}  {} {} {}: {} frames, {} decided differently, largest difference {:.1e}, round trip min {:.1} \
                 median {:.1} p99 {:.1} us",
                report.plan,
                report.target,
                report.precision,
                report.frames,
                report.different,
                report.largest_difference,
                times.min,
                times.median,
                times.p99
            )?;
            report.failures.iter().try_for_each(|failure| writeln!(io::stdout(), "      {failure}"))?;
            if let Some(path) = &command_line.record {
                let key = format!("{} {} {}", report.plan, report.target, report.precision);
                record::update(path, "streams", &key, json!(report))?;
            }
            Ok(report.failures.is_empty())
        }
        Command::Suite(arguments) => suite::run(arguments),
        Command::Guard(arguments) => {
            let reports = guard::run(arguments)?;
            for report in &reports {
                let guard::Report { target, precision, memory, wait, planted, failures } = report;
                let verdict = if failures.is_empty() { "pass" } else { "FAIL" };
                let kinds = format!("{target} {precision} {memory} {wait}");
                writeln!(io::stdout(), "{verdict}  {kinds}: {planted} replays with NaN or infinity, and without")?;
                failures.iter().try_for_each(|failure| writeln!(io::stdout(), "      {failure}"))?;
                if let Some(path) = &command_line.record {
                    record::update(path, "guards", &kinds, json!(report))?;
                }
            }
            Ok(reports.iter().all(|report| report.failures.is_empty()))
        }
        Command::Digest { root } => {
            let digest = root.as_deref().map(digest::of_sources).transpose()?;
            writeln!(io::stdout(), "{}", digest.as_deref().unwrap_or(record::DIGEST))?;
            Ok(true)
        }
        Command::Check { root } => {
            let (lines, current) = record::check(&root.join("targets/verified"), &digest::of_sources(root)?)?;
            lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
            Ok(current)
        }
    }
}
