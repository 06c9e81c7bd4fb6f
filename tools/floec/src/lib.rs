//! `floec`, Floe's command line of the workstation: compiles ONNX models into plans and shows what is inside them. The program
//! `floec` is this library's [`main`].
#![warn(missing_docs)]

mod compare;
mod compile;
mod deploy;
mod error_page;
mod inspect;
mod keys;
mod model;
mod operators;
mod output;
mod prove;
mod quantize;
mod shapes;
mod sign;
mod suite;
mod zoo;

use clap::{CommandFactory, Parser, Subcommand};
use output::Usage;
use std::{ffi::OsString, process::ExitCode};

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
  RUST_LOG        messages on standard error: error, warn (default), info, debug"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
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
    Suite(suite::Arguments),
    Zoo(zoo::Arguments),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
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
    // Whoever calls this a second time in one process keeps the first logger.
    let _ = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn"))
        .format_timestamp(None)
        .try_init();
    let result = match Arguments::parse_from(arguments).command {
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
        Command::Suite(arguments) => suite::run(&arguments),
        Command::Zoo(arguments) => zoo::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // A closed pipe (`floec inspect … | head`) is no failure.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let (error, code) = error.downcast::<Usage>().map_or_else(|error| (error, 1), |usage| (usage.0, 2));
            let code = if error.is::<floe::emulated::MachineCode>() { 2 } else { code };
            eprintln!("error: {}", output::harmless(&message(&error)));
            ExitCode::from(code)
        }
    }
}

/// An error with its causes, each once: many errors of the crates below already say their cause.
fn message(error: &anyhow::Error) -> String {
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
    fn a_cause_is_said_once() {
        let error = std::io::Error::other("disk is full");
        let said = anyhow::Error::new(error).context("cannot write 'a': disk is full").context("cannot compile");
        assert_eq!(super::message(&said), "cannot compile: cannot write 'a': disk is full");
        let unsaid: anyhow::Result<()> = Err(std::io::Error::other("disk is full")).context("cannot write 'a'");
        assert_eq!(super::message(&unsaid.unwrap_err()), "cannot write 'a': disk is full");
    }
}
