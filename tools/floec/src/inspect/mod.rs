//! `floec inspect` and `floec check`.

pub mod graph;
mod layered;
pub mod page;
mod plan;
mod prediction;
mod profile;
mod text;
mod values;

pub use plan::report;

use crate::{
    keys, model,
    output::{self, usage},
};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use floe_engine::plan::{Plan, format::MAGIC};
use floe_models::onnx;
use memmap2::Mmap;
use serde_json::Value;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// Show what is inside a plan, and why; or what a model holds, and whether Floe runs it.
#[derive(Args)]
#[command(after_help = "Examples:
  floec inspect resnet50.floe
  floec inspect resnet50.floe --json | jq '.variants[0].memory'
  floec inspect resnet50.floe --html resnet50.html
  floe profile resnet50.floe --json times.json && floec inspect resnet50.floe --profile times.json --html resnet50.html
  floec inspect detector.onnx --shape images=1x3x640x640 --target jetson-orin-nano

Exit codes: 1 where a model holds what is not supported, and all such nodes are listed; 2 where the file is neither a model nor a sound plan.")]
pub struct Arguments {
    /// A plan, or an ONNX model.
    file: PathBuf,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML page: steps or nodes as a graph, over time, in memory and beside the target's ceilings.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Of a plan: times that `floe profile --json` measured, which JSON and the page show beside the expected ones.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    model: model::Options,
}

/// Run the engine's own check on a plan, and compare its blobs with their digest; needs no GPU.
#[derive(Args)]
#[command(after_help = "Examples:
  floec check resnet50.floe && scp resnet50.floe jetson:
  floec check resnet50.floe --public-key plans.key.pub
  floec check resnet50.floe --public-key plans.key.pub --model-name resnet50 --least-version 3

Exit codes: 0 a sound plan; 1 one that is damaged, or not what is asked for; 2 a file that cannot be read.")]
pub struct CheckArguments {
    /// The plan.
    plan: PathBuf,
    /// Also check that the plan was signed with the private key of this public key: PEM, as `floec keygen` and OpenSSL
    /// write it.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Also check that the plan's version is not below this one.
    #[arg(long, value_name = "N", requires = "public_key")]
    least_version: Option<u32>,
    /// Also check that the plan is of the model with this name: that of the model's file, without its ending.
    #[arg(long, value_name = "NAME", requires = "public_key")]
    model_name: Option<String>,
}

/// Maps a file into memory; empty files fail in the check like any other.
pub fn map(path: &Path) -> anyhow::Result<Mmap> {
    usage(mapped(path))
}

fn mapped(path: &Path) -> anyhow::Result<Mmap> {
    let file = File::open(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        bail!("cannot read '{}': it is a folder", path.display());
    }
    // SAFETY: plans are read-only here; a file that somebody truncates meanwhile is outside of what we promise.
    unsafe { Mmap::map(&file) }.with_context(|| format!("cannot map '{}'", path.display()))
}

/// The checked plan in `bytes`. For `floec check` one that is none is a failed check, for others bad input.
pub fn parse<'a>(bytes: &'a [u8], path: &Path) -> anyhow::Result<Plan<'a>> {
    Plan::parse(bytes).map_err(|error| anyhow!("'{}' is not a sound plan: {error}", path.display()))
}

/// Runs `floec check`.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<()> {
    let bytes = map(&arguments.plan)?;
    let plan = parse(&bytes, &arguments.plan)?;
    let name = arguments.plan.display();
    let sound = match &arguments.public_key {
        Some(file) => {
            plan.verify_signature(&usage(keys::public(file))?).map_err(|error| anyhow!("'{name}': {error}"))?;
            "signed with this key and sound"
        }
        None => {
            plan.verify_blobs().map_err(|error| anyhow!("'{name}' is damaged: {error}"))?;
            if plan.is_signed() { "sound, signed (--public-key checks by whom)" } else { "sound, not signed" }
        }
    };
    plan.verify_release(arguments.model_name.as_deref(), arguments.least_version.unwrap_or(0))
        .map_err(|error| anyhow!("'{name}', of model '{}': {error}", plan.model()))?;
    let mut targets: Vec<_> = plan.variants().map(|variant| variant.header().target).collect();
    targets.dedup();
    output::print(&format!("{name}: {sound}, for {}\n", targets.join(", ")))
}

/// Runs `floec inspect`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let bytes = map(&arguments.file)?;
    if let Some(html) = &arguments.html {
        let read = [Some(&arguments.file), arguments.profile.as_ref()];
        output::keep_inputs(html, read.into_iter().flatten().map(PathBuf::as_path))?;
    }
    if let Some(model) = (!bytes.starts_with(&MAGIC)).then(|| onnx::decode(&bytes).ok()).flatten() {
        if arguments.profile.is_some() {
            return usage(Err(anyhow!("--profile is for plans, and the file is a model")));
        }
        let inspected = model::inspect(&arguments.file, &model, bytes.len(), &arguments.model)?;
        deliver(arguments, &inspected.report, || inspected.page(&model), &|| inspected.text())?;
        return inspected.verdict(&arguments.file);
    }
    arguments.model.none()?;
    let plan = usage(match bytes.starts_with(&MAGIC) {
        true => parse(&bytes, &arguments.file),
        false => parse(&bytes, &arguments.file).context("no ONNX model, and no plan either"),
    })?;
    let mut report = report(&plan);
    if let Some(path) = &arguments.profile {
        profile::add(&mut report, path)?;
    }
    deliver(arguments, &report, || page::plan(&report), &|| text::plan(&report))
}

/// Writes the page where one is asked for, then prints JSON or text; beside a page only what was asked for.
fn deliver(
    arguments: &Arguments,
    report: &Value,
    page: impl FnOnce() -> String,
    text: &dyn Fn() -> String,
) -> anyhow::Result<()> {
    if let Some(path) = &arguments.html {
        output::write_file(path, page().as_bytes())?;
        if output::is_stdout(path) {
            return Ok(());
        }
        if !arguments.json {
            return output::print(&format!("{}: written\n", path.display()));
        }
    }
    output::print(&if arguments.json { format!("{report:#}\n") } else { text() })
}
