//! `floe measure`.

use super::{options::OnGpu, progress::Progress};
use crate::{
    measure,
    session::Place,
    usage::{keep_inputs, usage, written},
};
use anyhow::{Context, Result};
use clap::Args;
use floe_timings::Timings;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

#[derive(Args)]
pub(super) struct Measure {
    #[command(flatten)]
    pub(super) common: OnGpu,
    /// The timing table to write, or to add to.
    #[arg(short, long, value_name = "TIMINGS")]
    pub(super) output: PathBuf,
    /// Leave out the candidates of an algorithm, or the one with a key; repeatable.
    #[arg(long = "skip", value_name = "NAME")]
    pub(super) skipped: Vec<String>,
}

impl Measure {
    pub(super) fn run(&self) -> Result<()> {
        let file = self.common.plan.open()?;
        let plan = file.plan()?;
        let output = &self.output;
        keep_inputs(output, self.common.plan.reads())?;
        let json = self.common.json()?;
        // Before anything is measured: a file that is no table must not be lost, nor the measurement because of it.
        let mut timings = usage(table(output))?;
        let (place, variant) = Place::choose(&plan, &self.common.request())?;
        let info = place.device().context("candidates are measured on a GPU")?.info().clone();
        let start = std::time::Instant::now();
        let progress = Progress::new(0);
        let mut measured = Vec::new();
        let result = measure::measure(&place, &variant, &self.skipped, &mut measured, |done, total| {
            progress.show_of(done, total)
        });
        progress.clear();
        // What was measured before a kernel failed is worth keeping.
        if measured.iter().all(|candidate| candidate.time.is_none()) {
            result?;
            return Ok(());
        }

        let device = floe_timings::Device { gpu: info.name.clone(), multiprocessors: info.multiprocessors };
        timings.merge(measure::table(&measured, &device, info.clock));
        // A family that is no more has nothing to choose.
        let dropped = timings.retain_families(|family| floe_kernels::FAMILIES.contains(&family));
        written(output.display(), floe_files::write(output, timings.to_string()))?;
        let mut out = json.text();
        let times = measured.iter().filter(|candidate| candidate.time.is_some()).count();
        let seconds = start.elapsed().as_secs_f64();
        writeln!(out, "{} on {}: {times} candidates timed in {seconds:.1} s", plan.model(), place.describe())?;
        write!(out, "{}", measure::report::text(&measured))?;
        let note =
            if dropped == 0 { String::new() } else { format!(", without {dropped} of families that are no more") };
        writeln!(out, "wrote {}: {} entries{note}", output.display(), timings.len())?;
        let record = serde_json::json!({
            "plan": file.name(),
            "model": plan.model(),
            "device": info.name,
            "multiprocessors": info.multiprocessors,
            "clock": info.clock,
            "driver": info.driver,
            "seconds": seconds,
            "unit": "microseconds",
            "problems": measure::report::json(&measured),
        });
        json.write(&record)?;
        result
    }
}

/// The table that is there already, or an empty one.
fn table(path: &Path) -> Result<Timings> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.parse().with_context(|| format!("{} is there already", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Timings::default()),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}
