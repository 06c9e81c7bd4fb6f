//! Verifies Floe on a GPU: kernels against their reference kernels, networks against their host variants. Needs no Rust where it
//! runs, only a driver and, for `kernels`, NVRTC.
#![warn(missing_docs)]

mod allocations;
mod controls;
mod emulated;
mod executed;
mod expected;
mod guard;
mod heap;
mod instructions;
mod kernels;
mod launch;
mod memory;
mod networks;
mod products;
mod record;
mod sections;
mod soak;
mod stream;

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use floe::bench::Times;
use floe_conformance::{gpu as suite, sources};
use serde_json::{Value, json};
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
    /// Every candidate of every kernel case against its reference kernel.
    #[command(after_help = "Examples:
  floe-verify kernels --arch 90 --record targets/verified/h200.json
  floe-verify kernels --arch 87ptx --family conv --verbose
  floe-verify kernels --arch 87ptx --emulated --smallest               without a GPU
  floe-verify kernels --arch 87ptx --emulated --family conv --matching '[1, 80, 12, 21]' --matching patch")]
    Kernels(kernels::Arguments),
    /// Single instructions with edge values, against what the PTX ISA says, and the GPU against the emulator.
    #[command(after_help = "Examples:
  floe-verify instructions --record targets/verified/h200.json
  floe-verify instructions --emulated                                  without a GPU")]
    Instructions(instructions::Arguments),
    /// Real kernels, each broken by one edit, on a GPU in software: every defect must be found. Needs no GPU.
    Controls,
    /// Every kernel that plans choose, on a GPU in software with every access watched. Needs no GPU.
    #[command(after_help = "Example:
  floe-verify executed plans/*.floe --state executed.jsonl              as tools/verify/executed calls it")]
    Executed(executed::Arguments),
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
  floe-verify suite onnx/backend/test/data/{node,simple,pytorch-converted,pytorch-operator} --target h200 \\
      --precision f16 --record targets/verified/h200.json")]
    Suite(suite::Arguments),
    /// NaN and infinity at many places of outputs of every float type: the guards see them, and nothing else.
    #[command(after_help = "Example:
  floe-verify guard --target h200 --record targets/verified/h200.json")]
    Guard(guard::Arguments),
    /// Very many replays in every memory and way of waiting: calls of malloc and its kin, the driver's too.
    #[command(after_help = "Example:
  floe-verify heap plans/silero-vad-v6-stream-f16.floe --record targets/verified/h200.json")]
    Heap(heap::Arguments),
    /// Print the digests of the sources below a repository's root (of this program's own without one), by group.
    Digest {
        /// The root.
        root: Option<PathBuf>,
    },
    /// Say whether the records of a repository are of its sources, complete and without failures. Fails where one is not.
    Check {
        /// The root of the repository.
        #[arg(default_value = ".")]
        root: PathBuf,
    },
    /// Print the sections that a record in the making still lacks, as PART/KEY; all of them where another build made it.
    Missing {
        /// The record in the making.
        scratch: PathBuf,
        /// A part, or a section of it as PART/KEY, that is not missed; repeatable.
        #[arg(long, value_name = "SECTION")]
        skip: Vec<String>,
    },
    /// Move a record into place if every section is there. Fails where one is missing or holds a failure.
    Finish {
        /// The record in the making.
        scratch: PathBuf,
        /// Where it belongs, for example targets/verified/h200.json.
        place: PathBuf,
        /// A part, or a section of it as PART/KEY, that was left out. The record says so.
        #[arg(long, value_name = "SECTION")]
        skip: Vec<String>,
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

/// Prints what a check found: whether it passed, a line about it, and its failures.
fn tell(text: &str, failures: &[String]) -> io::Result<()> {
    let verdict = if failures.is_empty() { "pass" } else { "FAIL" };
    writeln!(io::stdout(), "{verdict}  {text}")?;
    failures.iter().try_for_each(|failure| writeln!(io::stdout(), "      {failure}"))
}

/// Whether everything passed.
fn run(command_line: &CommandLine) -> Result<bool> {
    // A section of the record, where there is one; whether it holds no failure.
    let keep = |part: &str, key: &str, section: Value, failures: &[String]| -> Result<bool> {
        if let Some(path) = &command_line.record {
            record::update(path, part, key, section)?;
        }
        Ok(failures.is_empty())
    };
    match &command_line.command {
        Command::Kernels(arguments) => {
            if command_line.record.is_some() && arguments.is_partial() {
                bail!("a record's section has every family; leave out --family or --record");
            }
            let tallies = kernels::run(arguments)?;
            for (family, kernels::Tally { passed, failures, unsupported, worst }) in &tallies {
                let (failures, unsupported) = (failures.len(), unsupported.len());
                let counts = format!("{passed:>5} passed, {failures} failures, {unsupported} unsupported cases");
                writeln!(io::stdout(), "{family:<16} {counts}, worst error {worst:.1e}")?;
            }
            if !tallies.is_empty() {
                keep("kernels", &arguments.architecture(), json!(tallies), &[])?;
            }
            Ok(tallies.values().all(|tally| tally.failures.is_empty()))
        }
        Command::Networks(arguments) => networks::run(arguments, |report| {
            let key = format!("{} {} {}", report.plan, report.target, report.precision);
            keep("networks", &key, json!(report), &report.failures).map(|_| ())
        }),
        Command::Instructions(arguments) => {
            let report = instructions::run(arguments)?;
            let mut text = format!("{} instructions in {} threads", report.instructions, report.operands);
            for (instruction, error) in &report.bounds {
                text += &format!("\n      {:.0} % of the bound: {instruction}", 100.0 * error);
            }
            for (instruction, count) in &report.different {
                text += &format!("\n      {count} results have other bits in the emulator: {instruction}");
            }
            tell(&text, &report.failures)?;
            keep("instructions", instructions::TARGET, json!(report), &report.failures)
        }
        Command::Controls => controls::run(),
        Command::Executed(arguments) => executed::run(arguments).map(|()| true),
        Command::Soak(arguments) => {
            let report = soak::run(arguments)?;
            let soak::Report { plan, target, precision, memory, wait, failures, .. } = &report;
            keep("soak", &format!("{plan} {target} {precision} {memory} {wait}"), json!(report), failures)
        }
        Command::Stream(arguments) => {
            let report = stream::run(arguments)?;
            let stream::Report { plan, target, precision, frames, different, largest_difference, failures, .. } =
                &report;
            let (key, Times { min, median, p99, .. }) = (format!("{plan} {target} {precision}"), report.round_trip);
            let text = format!(
                "{key}: {frames} frames, {different} decided differently, largest difference {largest_difference:.1e}, \
                 round trip min {min:.1} median {median:.1} p99 {p99:.1} us"
            );
            tell(&text, failures)?;
            keep("streams", &key, json!(report), failures)
        }
        Command::Suite(arguments) => {
            let Some(report) = suite::run(arguments, command_line.record.is_some())? else { return Ok(true) };
            keep("suite", &format!("{} {}", report.target, report.precision), json!(report), &report.failures)
        }
        Command::Guard(arguments) => {
            let mut passed = true;
            for report in guard::run(arguments)? {
                let guard::Report { target, precision, memory, wait, planted, failures } = &report;
                let key = format!("{target} {precision} {memory} {wait}");
                tell(&format!("{key}: {planted} replays with NaN or infinity, and without"), failures)?;
                passed &= keep("guards", &key, json!(report), failures)?;
            }
            Ok(passed)
        }
        Command::Heap(arguments) => {
            let mut passed = true;
            for report in heap::run(arguments)? {
                let heap::Report { plan, target, precision, memory, wait, replays, heap, growth, failures, .. } =
                    &report;
                let key = format!("{plan} {target} {precision} {memory} {wait}");
                tell(&format!("{key}: {replays} replays, heap {heap:?}, growth {growth:?}"), failures)?;
                passed &= keep("heap", &key, json!(report), failures)?;
            }
            Ok(passed)
        }
        Command::Digest { root } => {
            let digests = match root {
                Some(root) => sources::of_sources(root)?,
                None => sources::digests().map(|(group, digest)| (group, digest.to_owned())).collect(),
            };
            digests.iter().try_for_each(|(group, digest)| writeln!(io::stdout(), "{group:<12} {digest}"))?;
            Ok(true)
        }
        Command::Check { root } => {
            let (lines, sound) = record::check(&root.join("targets/verified"), &sources::of_sources(root)?)?;
            lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
            Ok(sound)
        }
        Command::Missing { scratch, skip } => {
            let missing = record::missing(scratch, skip)?;
            missing.iter().try_for_each(|section| writeln!(io::stdout(), "{section}"))?;
            Ok(true)
        }
        Command::Finish { scratch, place, skip } => {
            let (lines, passed) = record::finish(scratch, place, skip)?;
            lines.iter().try_for_each(|line| writeln!(io::stdout(), "{line}"))?;
            Ok(passed)
        }
    }
}
