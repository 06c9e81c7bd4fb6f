//! `floe run`.

use super::{options::Common, write_json};
use crate::{
    cold_start::{self, ColdStart, mark},
    inputs, outputs,
    reference::Reference,
    session::Place,
};
use anyhow::{Result, bail};
use clap::Args;
use std::{
    io::{self, Write},
    path::PathBuf,
};

#[derive(Args)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) common: Common,
    /// Write every output to a .npy file in this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) output_dir: Option<PathBuf>,
    /// Compare the outputs with a .npz file that holds them by name, and fail where one is not finite that should be.
    #[arg(long, value_name = "FILE.npz")]
    pub(super) compare: Option<PathBuf>,
    /// Make up inputs that are not given, reproducibly: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED")]
    pub(super) random: Option<u64>,
    /// Tell where the time went from the start of the process to the first result.
    #[arg(long)]
    pub(super) timings: bool,
    /// Also write those times to a file.
    #[arg(long, value_name = "FILE", requires = "timings")]
    pub(super) json: Option<PathBuf>,
}

impl Run {
    pub(super) fn run(&self) -> Result<()> {
        let before_main = cold_start::time_since_process_start();
        let reference = self.compare.as_deref().map(Reference::read).transpose()?;
        mark("read and check");
        let file = self.common.plan.open()?;
        let (plan, (mut place, variant)) = file.plan_and(|plan| {
            mark(cold_start::DRIVER);
            Place::choose(plan, &self.common.request(None))
        })?;
        let device = place.describe();
        let watch = self.common.watch()?;
        let mut session = {
            let _working = watch.work("INIT");
            place.session(self.common.shape(&variant)?)?
        };
        let inputs = inputs::gather(&session, &self.common.inputs, self.random)?;
        mark("first result");
        let working = watch.work("the replay");
        for input in &inputs {
            session.write(input.binding, &input.bytes)?;
        }
        session.replay()?;
        let outputs = outputs::read(&mut session)?;
        drop(working);
        let cold = ColdStart::until_now(before_main);
        let header = session.variant().header();
        let mut out = io::stdout().lock();
        let signature = file.signature(&plan);
        writeln!(out, "{} for {} ({}) on {device}; {signature}", plan.model(), header.target, header.precision)?;
        outputs::print(&outputs, &mut out)?;
        if let Some(folder) = &self.output_dir {
            for path in outputs::save(&outputs, folder)? {
                writeln!(out, "wrote {}", path.display())?;
            }
        }
        let mut finite = true;
        if let Some(reference) = &reference {
            let (text, is_finite) = reference.compare(&outputs)?;
            write!(out, "{text}")?;
            finite = is_finite;
        }
        if self.timings {
            write!(out, "{}", cold.text())?;
        }
        if let Some(path) = &self.json {
            let record = serde_json::json!({
                "plan": file.name(),
                "model": plan.model(),
                "target": header.target,
                "precision": header.precision,
                "device": device,
                "cold_start": cold.json(),
            });
            write_json(path, &record)?;
        }
        match self.common.guarded(&mut session)? {
            Some(hit) if !hit.is_empty() => bail!("NaN or infinity in {}", hit.join(", ")),
            Some(_) => writeln!(out, "guard: no NaN and no infinity")?,
            None => {}
        }
        if !finite {
            bail!("an output holds NaN or infinities where --compare does not, or the other way");
        }
        Ok(())
    }
}
