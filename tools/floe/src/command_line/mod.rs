//! The command line `floe`: one file a command.

mod bench;
mod json;
mod measure;
mod options;
mod profile;
mod progress;
mod run;
mod selftest;
mod shots;

use crate::{usage::is_usage, verbosity::Verbosity};
use clap::{CommandFactory, Parser, Subcommand};
use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

#[derive(Parser)]
#[command(
    version,
    about,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 success; 1 a run, test or comparison that failed; 2 bad usage, or an option or file that you can mend."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Subcommand)]
enum Command {
    /// Replay a plan once and show its outputs.
    #[command(after_help = "Examples:
  floe run resnet50.floe --input image=cat.npy --output-dir out
  floe run resnet50.floe --random 7 --device host
  floe run detector.floe --shape images=1x3x640x640 --random 7       of a plan with several shapes
  floe run faces.floe --input image=group.jpg --draw found.png
  floe run detect.floe --input image=pictures/ --labels coco.txt --draw drawn/ --json -
  floe run resnet50.floe --input image=cat.npy --compare expected.npz
  floe run resnet50.floe --random 7 --public-key plans.key.pub
  floe run resnet50.floe --random 7 --public-key plans.key.pub --model-name resnet50 --least-version 3")]
    Run(Box<run::Run>),
    /// Measure latency: host round trip (write, replay, read) and device time.
    #[command(after_help = "Examples:
  floe bench resnet50.floe
  floe bench resnet50.floe --sms 16 --iterations 5000 --json times.json
  floe bench resnet50.floe --wait all --memory mapped
  floe bench detect.floe recognise.floe                       in turn, sharing memory")]
    Bench(Box<bench::Bench>),
    /// Time each step of a plan, on a GPU from graphs beside the product's: which steps take the time, and how near they come to
    /// what arithmetic and memory of the target allow.
    #[command(after_help = "Examples:
  floe profile resnet50.floe
  floe profile resnet50.floe --sms 16 --json profile.json
  floe profile resnet50.floe --device host

The columns: microseconds that a step adds to a graph of all steps before it, or that it takes on the host; its floor (operations over peak rate, or
bytes over bandwidth, whichever is longer; a step whose operands are still in the cache can beat it); the share of the
floor that it reaches; what the plan says, by (m)easured times or as the cost model's (e)xpectation.")]
    Profile(profile::Profile),
    /// Time every candidate of a candidates plan, for `floec compile --timings`.
    #[command(after_help = "Examples:
  floec compile resnet50.onnx --target h200 --candidates -o candidates.floe       on the workstation
  floe measure candidates.floe -o h200.timings                                    on the device
  floec compile resnet50.onnx --target h200 --timings h200.timings -o r50.floe    on the workstation
  floe measure candidates.floe -o slice.timings --sms 16 --json report.json

An existing table is kept: new times are added to it, or replace its own.")]
    Measure(measure::Measure),
    /// Test this device with a bundle of kernels and networks, and write a record of what is right on it.
    #[command(
        name = "selftest",
        after_help = "Examples:
  floec selftest-bundle --target jetson-orin-nano -o orin-nano.selftest           on the workstation
  floe selftest orin-nano.selftest                                                on the device
  floe selftest orin-nano.selftest --record orin-nano.json --json

Results are held to references that the workstation computed. Each family of kernels gets a line, each failure too. The cases run
in processes of their own: one that spoils the GPU for its process, or takes longer than --deadline, is a failure, and the test
goes on after it.

A bundle holds code that runs on the GPU, as a plan does: run one of somebody you trust."
    )]
    SelfTest(selftest::SelfTest),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // Without it a signal leaves a file with a strange name, and nothing worse.
    let _ = floe_files::remove_unfinished_when_interrupted();
    main_with(std::env::args_os())
}

/// Runs a command line, its program's name first: prints what `floe` would print, and returns what it would exit with. Asked for
/// help, or given no command line that it understands, it ends the process, as clap does.
#[must_use]
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let CommandLine { command, verbosity } = CommandLine::parse_from(arguments);
    verbosity.begin();
    let result = match &command {
        Command::Run(arguments) => arguments.run(),
        Command::Bench(arguments) => arguments.run(),
        Command::Profile(arguments) => arguments.run(),
        Command::Measure(arguments) => arguments.run(),
        Command::SelfTest(arguments) => arguments.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever closed the pipe has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

/// The command line's description, for what is generated from it.
#[must_use]
pub fn command() -> clap::Command {
    CommandLine::command()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(feature = "emulator")]
fn print_counts(counted: &crate::emulated::Counted, steps: bool, json: json::Json) -> anyhow::Result<()> {
    counted.print(steps, json.text())?;
    json.write(&counted.json())
}
