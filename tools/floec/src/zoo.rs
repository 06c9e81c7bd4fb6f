//! `floec zoo`: the trained models that Floe is tested with.

use clap::{Args, Subcommand};

/// The trained models in the manifest.
#[derive(Args)]
#[command(after_help = "Examples:
  floec zoo list
  floec zoo fetch blazeface-front --output-dir zoo")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {}

/// Runs `floec zoo`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match arguments.command {}
}
