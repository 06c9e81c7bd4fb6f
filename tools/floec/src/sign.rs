//! `floec sign`.

use crate::{
    inspect, keys,
    output::{self, usage},
};
use anyhow::Context;
use clap::Args;
use std::path::PathBuf;

/// Sign a plan, so that devices which hold the public key can tell who made it.
#[derive(Args)]
#[command(after_help = "Example:
  floec sign resnet50.floe --key plans.key -o resnet50.floe

The signature covers every byte of the plan, weights and kernel images included; it replaces one that is there.")]
pub struct Arguments {
    /// The plan.
    plan: PathBuf,
    /// Private key: PEM, as `floec keygen` and OpenSSL write it.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The signed plan to write; may be the plan itself. `-` is standard output.
    #[arg(short, long, value_name = "PLAN.floe")]
    output: PathBuf,
}

/// Runs `floec sign`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    output::keep_inputs(&arguments.output, [arguments.key.as_path()])?;
    let key = usage(keys::private(&arguments.key))?;
    let bytes = inspect::map(&arguments.plan)?;
    let plan = usage(inspect::parse(&bytes, &arguments.plan))?;
    let signed = keys::sign(&plan, &key).with_context(|| format!("cannot sign '{}'", arguments.plan.display()));
    let signed = usage(signed)?;
    output::write_file(&arguments.output, &signed)?;
    if output::is_stdout(&arguments.output) {
        return Ok(());
    }
    output::print(&format!("{}: signed\n", arguments.output.display()))
}
