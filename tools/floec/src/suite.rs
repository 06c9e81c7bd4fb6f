//! `floec suite`: runs ONNX test folders.

use crate::{output, support};
use anyhow::bail;
use clap::Args;
use floe_compiler::suite::{self, Outcome, Tolerance};
use std::path::PathBuf;

/// Run ONNX test folders (model.onnx with test_data_set_*/), a line a case.
#[derive(Args)]
#[command(after_help = "Example:
  floec suite onnx/backend/test/data/node --json results.json

An output whose extent depends on data passes when its count (NAME.count of the plan) is the extent that is expected and
the elements before the count are those that are expected.")]
pub struct Arguments {
    /// Cases, or folders of cases.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where to run; `floe-verify suite` runs the same folders on a GPU.
    #[arg(long, default_value = "host")]
    target: String,
    /// Absolute tolerance, scaled by the largest reference value where that exceeds 1.
    #[arg(long, default_value_t = Tolerance::default().absolute)]
    atol: f64,
    /// Relative tolerance.
    #[arg(long, default_value_t = Tolerance::default().relative)]
    rtol: f64,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what is supported as Markdown, operator by operator.
    #[arg(long, value_name = "FILE")]
    support: Option<PathBuf>,
}

/// Runs `floec suite`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.target != "host" {
        bail!("--target {}: here test folders run on `host`; `floe-verify suite` runs them on a GPU", arguments.target);
    }
    let tolerance = Tolerance { absolute: arguments.atol, relative: arguments.rtol, scaled: true };
    let mut all = Vec::new();
    for folder in &arguments.folders {
        all.extend(suite::cases(folder).map_err(anyhow::Error::msg)?);
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut results = Vec::new();
    let mut outcomes = Vec::new();
    for case in &all {
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let outcome = suite::run_on_host(case, tolerance);
        outcomes.push((case.clone(), outcome.clone()));
        let (verdict, detail) = match outcome {
            Outcome::Passed { worst } => {
                passed += 1;
                ("passed", format!("{worst:.3}"))
            }
            Outcome::Failed(reason) => {
                failed += 1;
                ("failed", reason)
            }
            Outcome::Skipped(reason) => {
                skipped += 1;
                ("skipped", reason)
            }
        };
        output::print(&format!("{verdict:7} {name}: {detail}\n"))?;
        results.push(serde_json::json!({"case": name, "outcome": verdict, "detail": detail}));
    }
    if let Some(path) = &arguments.json {
        output::write_file(path, format!("{:#}\n", serde_json::Value::from(results)).as_bytes())?;
    }
    if let Some(path) = &arguments.support {
        output::write_file(path, support::table(&outcomes).as_bytes())?;
    }
    output::print(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"))?;
    if failed + skipped != 0 {
        bail!("{failed} failed and {skipped} skipped of {} cases", all.len());
    }
    Ok(())
}
