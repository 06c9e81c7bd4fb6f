//! `floec suite`: runs ONNX test folders.

use crate::output::{self, Usage, usage};
use anyhow::bail;
use clap::{Args, ValueEnum};
use floe::session::DeviceKind;
use floe_compiler::{pipeline, targets};
use floe_conformance::{
    f16,
    line::Line,
    suite::{self, Kind, Report, Tolerance},
    support,
};
use rayon::prelude::*;
use std::path::PathBuf;

/// Run ONNX test folders (model.onnx with test_data_set_*/), a line a case.
#[derive(Args)]
#[command(after_help = "Example:
  floec suite onnx/backend/test/data/node --json results.json

An output whose extent depends on data passes when its count (NAME.count of the plan) is the extent that is expected and
the elements before the count are those that are expected.

A case is *live* where every input of its model is an input of the plan. Where a model compiles only if the values of some
inputs are known, as few as possible become constants: it is *baked*, or *folded* where no input is left.")]
pub struct Arguments {
    /// Cases, or folders of cases.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where to run; `floe-verify suite` runs the same folders on a GPU.
    #[arg(long, default_value = "host")]
    target: String,
    /// With `emulated`, a GPU in software runs what is compiled for the target, with every access watched.
    #[arg(long, value_enum, default_value_t = Device::Host)]
    device: Device,
    /// Storage of values between inputs and outputs: f16 rounds them as plans for a GPU do, with the kernels of the host.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
    /// Absolute tolerance, scaled by the largest reference value where that exceeds 1 [default: 1e-4, for f16 5e-3].
    #[arg(long)]
    atol: Option<f64>,
    /// Relative tolerance [default: 1e-3, for f16 5e-3].
    #[arg(long)]
    rtol: Option<f64>,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what is supported as Markdown, operator by operator.
    #[arg(long, value_name = "FILE")]
    support: Option<PathBuf>,
}

/// Storage of values between inputs and outputs.
#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    F32,
    F16,
}

/// Devices of a workstation.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    Host,
    Emulated,
}

/// Runs `floec suite`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = usage(targets::find(&arguments.target).map_err(Into::into))?;
    if arguments.device == Device::Emulated && target.is_host() {
        return Err(Usage::new("--device emulated runs what is compiled for a GPU: name one with --target").into());
    }
    if arguments.device == Device::Host && !target.is_host() {
        let target = &arguments.target;
        let said =
            format!("--target {target}: here test folders run on `host`; `floe-verify suite` runs them on a GPU");
        return Err(Usage::new(said).into());
    }
    let (precision, default) = match arguments.precision {
        Precision::F32 => (pipeline::Precision::F32, Tolerance::default()),
        Precision::F16 => (pipeline::Precision::F16, f16::TOLERANCE),
    };
    let absolute = arguments.atol.unwrap_or(default.absolute);
    let tolerance = Tolerance { absolute, relative: arguments.rtol.unwrap_or(default.relative), scaled: true };
    let mut all = Vec::new();
    for folder in &arguments.folders {
        all.extend(usage(suite::cases(folder).map_err(anyhow::Error::msg))?);
    }
    // Results are printed in order once all are there; cases run in parallel.
    let reports: Vec<Report> = match arguments.device {
        Device::Host => {
            all.par_iter().map(|case| suite::run_on(DeviceKind::Host, case, target, precision, tolerance)).collect()
        }
        // A GPU in software spreads its own blocks over the cores.
        Device::Emulated => {
            all.iter().map(|case| suite::run_on(DeviceKind::Emulated, case, target, precision, tolerance)).collect()
        }
    };
    let results: Vec<Line> = all.iter().zip(&reports).map(|(case, report)| Line::new(case, report)).collect();
    results.iter().try_for_each(|line| output::print(&format!("{line}\n")))?;
    if let Some(path) = &arguments.json {
        output::write_file(path, format!("{:#}\n", serde_json::to_value(&results)?).as_bytes())?;
    }
    if let Some(path) = &arguments.support {
        output::write_file(path, support::table(&all, &reports).as_bytes())?;
    }
    let [live, baked, folded] =
        [Kind::Live, Kind::Baked, Kind::Folded].map(|kind| results.iter().filter(|line| line.passed_as(kind)).count());
    let [passed, failed, skipped] =
        ["passed", "failed", "skipped"].map(|outcome| results.iter().filter(|line| line.outcome == outcome).count());
    output::print(&format!("of those that passed: {live} live, {baked} baked, {folded} folded\n"))?;
    output::print(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"))?;
    if failed + skipped != 0 {
        bail!("{failed} failed and {skipped} skipped of {} cases", all.len());
    }
    Ok(())
}
