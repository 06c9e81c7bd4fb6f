//! `floec suite`: runs ONNX test folders.

use crate::output;
use anyhow::{Context, bail};
use clap::Args;
use floe_compiler::suite::{self, Outcome, Tolerance};
use std::path::{Path, PathBuf};

/// Run ONNX test folders (model.onnx with test_data_set_*/), a line a case.
#[derive(Args)]
#[command(after_help = "Example:
  floec suite onnx/backend/test/data/node --json results.json")]
pub struct Arguments {
    /// Cases, or folders of cases.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Where to run; only `host` so far.
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
}

/// The folder itself where it is a case, else the cases in it.
fn cases(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if folder.join("model.onnx").is_file() {
        return Ok(vec![folder.to_owned()]);
    }
    let mut cases = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read folder '{}'", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.join("model.onnx").is_file() {
            cases.push(path);
        }
    }
    if cases.is_empty() {
        bail!("'{}' holds no test case (a folder with model.onnx)", folder.display());
    }
    cases.sort();
    Ok(cases)
}

/// Runs `floec suite`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.target != "host" {
        bail!("--target {}: test folders run on `host` only so far", arguments.target);
    }
    let tolerance = Tolerance { absolute: arguments.atol, relative: arguments.rtol, scaled: true };
    let mut all = Vec::new();
    for folder in &arguments.folders {
        all.extend(cases(folder)?);
    }
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let mut results = Vec::new();
    for case in &all {
        let name = case.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (verdict, detail) = match suite::run_on_host(case, tolerance) {
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
    output::print(&format!("{passed} passed, {failed} failed, {skipped} skipped\n"))?;
    if failed + skipped != 0 {
        bail!("{failed} failed and {skipped} skipped of {} cases", all.len());
    }
    Ok(())
}
