//! `floec`, Floe's command line of the workstation: compiles ONNX models into plans and shows what is inside them. The program
//! `floec` is this library's [`main`].
#![warn(missing_docs)]

mod compare;
mod compile;
mod deploy;
mod error_page;
mod frames;
mod import;
mod inspect;
mod keys;
mod model;
mod output;
mod prove;
mod quantize;
mod selftest;
mod shapes;
mod sign;
mod suite;
mod zoo;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use floe::verbosity::Verbosity;
pub use shapes::Shape;
use std::{ffi::OsString, num::NonZeroUsize, process::ExitCode};

/// Compiles ONNX models into plans that `floe` replays.
#[derive(Parser)]
#[command(
    version,
    about,
    max_term_width = 110,
    after_help = "\
Exit codes: 0 success; 1 a compilation, check or comparison that failed; 2 bad usage, or an option or file that you can mend.

Environment:
  FLOE_NVRTC      NVRTC library, or the folder that holds it, as --nvrtc of `floec compile`
  FLOE_CACHE_DIR  folder of compiled kernels; by default $XDG_CACHE_HOME/floe/kernels or ~/.cache/floe/kernels
  RUST_LOG        messages on standard error where neither -v nor -q is given: error, warn (default), info, debug"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Work on this many threads; by default on one a core
    #[arg(long, global = true, value_name = "N", display_order = 1000)]
    threads: Option<NonZeroUsize>,

    #[command(flatten)]
    verbosity: Verbosity,
}

/// Works on as many threads, or on one a core. What is printed is captured inside, on the thread that prints.
fn on_threads<T: Send>(threads: Option<NonZeroUsize>, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    let Some(threads) = threads else { return Ok(work()) };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.get()).build();
    Ok(output::usage(pool.with_context(|| format!("cannot start {threads} threads")))?.install(work))
}

#[derive(Subcommand)]
enum Command {
    Compile(Box<compile::Arguments>),
    Compare(Box<compare::Arguments>),
    Inspect(inspect::Arguments),
    Check(inspect::CheckArguments),
    Keygen(keys::Arguments),
    Sign(sign::Arguments),
    #[command(
        mut_arg("model", |argument| argument.index(1).value_name("MODEL|PLAN").help("An ONNX model, with a --target, or a plan")),
        mut_arg("targets", |argument| argument.required(false)),
        mut_arg("output", |argument| argument.required(false).default_value("-").hide_default_value(true).help("Also keep the plan that is compiled, here")),
    )]
    Deploy(Box<deploy::Arguments>),
    Targets(compile::TargetArguments),
    Prove(prove::Arguments),
    Quantize(Box<quantize::Arguments>),
    SelftestBundle(selftest::Arguments),
    Suite(suite::Arguments),
    Zoo(zoo::Arguments),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    // Without it a signal leaves a file with a strange name, and nothing worse.
    let _ = floe_files::remove_unfinished_when_interrupted();
    main_with(std::env::args_os())
}

/// The command line's description, for what is generated from it.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs a command line, its program's name first: prints what `floec` would print, and returns what it would exit with. Asked for
/// help, or given no command line that it understands, it ends the process, as clap does.
#[must_use]
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Arguments { command, threads, verbosity } = Arguments::parse_from(arguments);
    verbosity.begin();
    match on_threads(threads, || run(command)).flatten() {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe (`floec inspect … | head`) is no failure.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let failure = Failure::of(&error);
            eprintln!("error: {}", output::harmless(&failure.message));
            ExitCode::from(if failure.is_usage { 2 } else { 1 })
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Compile(arguments) => compile::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Check(arguments) => inspect::check(&arguments),
        Command::Keygen(arguments) => keys::generate(&arguments),
        Command::Sign(arguments) => sign::run(&arguments),
        Command::Deploy(mut arguments) => deploy::run(&mut arguments),
        Command::Targets(arguments) => compile::targets(&arguments),
        Command::Prove(arguments) => prove::run(&arguments),
        Command::Quantize(arguments) => quantize::run(&arguments),
        Command::SelftestBundle(arguments) => selftest::run(&arguments),
        Command::Suite(arguments) => suite::run(&arguments),
        Command::Zoo(arguments) => zoo::run(&arguments),
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What `floec` would print behind `error: `.
    pub message: String,
    /// Whether another option or file would mend it: exit code 2 and not 1.
    pub is_usage: bool,
}

impl Failure {
    fn of(error: &anyhow::Error) -> Self {
        Self { message: message(error), is_usage: floe::usage::is_usage(error) }
    }
}

/// Runs a command line that prints JSON, without its program's name, and returns the JSON in place of printing it. Beside it
/// stands why the command failed all the same, as `compare` does where a budget is not held.
///
/// # Errors
/// Returns an error if clap does not understand the command line, or the command failed before it knew what to print.
pub fn report(arguments: impl IntoIterator<Item = OsString>) -> Result<(serde_json::Value, Option<Failure>), Failure> {
    let program = OsString::from("floec");
    let parsed = Arguments::try_parse_from([program].into_iter().chain(arguments));
    let Arguments { command, threads, .. } =
        parsed.map_err(|error| Failure { message: error.to_string(), is_usage: true })?;
    let (printed, result) =
        on_threads(threads, || output::captured(|| run(command))).map_err(|error| Failure::of(&error))?;
    let failure = result.err().as_ref().map(Failure::of);
    match (serde_json::from_str(&printed), failure) {
        (Ok(report), failure) => Ok((report, failure)),
        (Err(_), Some(failure)) => Err(failure),
        (Err(error), None) => Err(Failure { message: format!("the command printed no JSON: {error}"), is_usage: true }),
    }
}

/// The shapes that `--shape` options give, at least one.
///
/// # Errors
/// Returns an error if one cannot be read, or they do not belong together.
pub fn shapes(options: &[String]) -> anyhow::Result<Vec<Shape>> {
    shapes::parse(options)
}

/// What `floec inspect --json` prints of a plan.
#[must_use]
pub fn inspect(plan: &floe_engine::plan::Plan<'_>) -> serde_json::Value {
    inspect::report(plan)
}

/// An error with its causes, each once: many errors of the crates below already say their cause.
#[must_use]
pub fn message(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |message, cause| match message.as_str() {
        "" => cause,
        said if said.ends_with(&cause) => message,
        said => format!("{said}: {cause}"),
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    #[test]
    fn a_command_hands_over_its_json() {
        let words = |words: &str| words.split(' ').map(Into::into).collect::<Vec<std::ffi::OsString>>();
        let (targets, failure) = super::report(words("targets --json")).unwrap();
        assert!(targets.as_array().unwrap().iter().any(|target| target["name"] == "host"));
        assert_eq!(failure, None);
        // On another thread it is the same.
        assert_eq!(super::report(words("targets --json --threads 1")).unwrap(), (targets, None));
        assert!(super::report(words("targets --json --threads 0")).unwrap_err().message.contains("--threads"));
        // Without JSON, with an option that there is not, and with a file that there is not.
        assert!(super::report(words("targets")).unwrap_err().is_usage);
        assert!(super::report(words("targets --no-such-option")).unwrap_err().message.contains("--no-such-option"));
        let missing = super::report(words("inspect no-such-file --json")).unwrap_err();
        assert!(missing.is_usage && missing.message.contains("no-such-file"), "{missing:?}");
    }

    #[test]
    fn a_cause_is_said_once() {
        let error = std::io::Error::other("disk is full");
        let said = anyhow::Error::new(error).context("cannot write 'a': disk is full").context("cannot compile");
        assert_eq!(super::message(&said), "cannot compile: cannot write 'a': disk is full");
        let unsaid: anyhow::Result<()> = Err(std::io::Error::other("disk is full")).context("cannot write 'a'");
        assert_eq!(super::message(&unsaid.unwrap_err()), "cannot write 'a': disk is full");
    }
}
