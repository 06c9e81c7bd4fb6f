//! `floe-verify suite`: ONNX test folders on the GPU.
//!
//! The parent compiles all cases in parallel, which fills the kernel cache; a child process runs them. An illegal access
//! spoils a process' CUDA context for good, so a child that meets an error of the driver, or dies, is followed by one
//! that goes on after that case.

use anyhow::{Context, Result, bail};
use floe::{
    inputs::length,
    session::{DeviceKind, Place, Request, Session},
};
use floe_compiler::{
    suite::{self, Named, Outcome, Prepared, Tolerance, model_dtype},
    targets,
};
use floe_engine::plan::{Plan, format::Direction};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

/// What to run.
#[derive(clap::Args)]
pub struct Arguments {
    /// Cases, or folders of cases.
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// What to compile for.
    #[arg(long, value_name = "TARGET", default_value = "h200")]
    target: String,
    /// Write the results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Only compile, for machines without a GPU.
    #[arg(long)]
    compile_only: bool,
    /// Runs the cases from this number on, as JSON lines. Not for people.
    #[arg(long, hide = true, value_name = "NUMBER")]
    child: Option<usize>,
}

/// What became of a case.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name of its folder.
    case: String,
    /// `passed`, `failed` or `skipped`.
    outcome: String,
    /// The error as a fraction of what is allowed, or the reason.
    detail: String,
}

impl Line {
    fn new(case: &str, outcome: Outcome) -> Self {
        let (outcome, detail) = match outcome {
            Outcome::Passed { worst } => ("passed", format!("{worst:.3}")),
            Outcome::Failed(reason) => ("failed", reason),
            Outcome::Skipped(reason) => ("skipped", reason),
        };
        Self { case: case.to_owned(), outcome: outcome.into(), detail }
    }
}

/// Runs the subcommand; whether no case gave a wrong result.
///
/// # Errors
/// Where nothing can be run at all.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let mut cases = Vec::new();
    for folder in &arguments.folders {
        cases.extend(suite::cases(folder).map_err(anyhow::Error::msg)?);
    }
    if let Some(first) = arguments.child {
        run_cases(arguments, &cases, first)?;
        return Ok(true);
    }
    let target = targets::find(&arguments.target)?;
    let compiled: Vec<Result<Vec<Prepared>, Outcome>> =
        cases.par_iter().map(|case| suite::prepare(case, target)).collect();
    let mut lines: Vec<Line> = Vec::new();
    if arguments.compile_only {
        for (case, compiled) in cases.iter().zip(&compiled) {
            let outcome = compiled.as_ref().map_or_else(Clone::clone, |_| Outcome::Passed { worst: 0.0 });
            lines.push(Line::new(&name(case), outcome));
        }
    }
    drop(compiled);
    while lines.len() < cases.len() {
        let before = lines.len();
        collect(arguments, before, &mut lines)?;
        if lines.len() < cases.len() && lines.len() == before {
            // The child died before it could say anything about the case.
            lines.push(Line::new(&name(&cases[before]), Outcome::Failed("the process that ran it died".into())));
        }
    }
    report(arguments, &lines)
}

fn name(case: &std::path::Path) -> String {
    case.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Starts a child at case `first` and takes its lines.
fn collect(arguments: &Arguments, first: usize, lines: &mut Vec<Line>) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("suite")
        .args(&arguments.folders)
        .args(["--target", &arguments.target, "--child", &first.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a child process")?;
    let output = child.stdout.take().context("the child's output is piped")?;
    for line in BufReader::new(output).lines() {
        let Ok(line) = serde_json::from_str(&line?) else { continue };
        lines.push(line);
    }
    let status = child.wait()?;
    if lines.len() == first && status.code() == Some(1) {
        bail!("the GPU cannot be used; the child process says why above");
    }
    Ok(())
}

/// Counts and, for whatever did not pass, the reasons.
fn report(arguments: &Arguments, lines: &[Line]) -> Result<bool> {
    let mut out = io::stdout().lock();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for line in lines {
        *counts.entry(&line.outcome).or_default() += 1;
        if line.outcome == "failed" {
            writeln!(out, "failed  {}: {}", line.case, line.detail)?;
        }
        if line.outcome == "skipped" {
            // Without the name of the node.
            let reason = line.detail.split_once("' (").map_or(line.detail.as_str(), |(_, reason)| reason);
            reasons.entry(reason.to_owned()).or_default().push(&line.case);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    for (reason, cases) in reasons {
        writeln!(out, "skipped {:>4}  {reason} ({})", cases.len(), cases[0])?;
    }
    let count = |outcome: &str| counts.get(outcome).copied().unwrap_or(0);
    writeln!(out, "{} passed, {} failed, {} skipped", count("passed"), count("failed"), count("skipped"))?;
    if let Some(path) = &arguments.json {
        fs::write(path, format!("{:#}\n", serde_json::to_value(lines)?))
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    Ok(count("failed") == 0)
}

/// The child: cases from `first` on, one after the other; ends after a case that met an error of the driver.
fn run_cases(arguments: &Arguments, cases: &[PathBuf], first: usize) -> Result<()> {
    let target = targets::find(&arguments.target)?;
    let mut place: Option<Place> = None;
    for case in cases.iter().skip(first) {
        let mut spoiled = false;
        let outcome = match suite::prepare(case, target) {
            Ok(sets) => suite::judge(&sets, Tolerance::default(), |plan, inputs| {
                replay(plan, inputs, &arguments.target, &mut place).map_err(|error| {
                    spoiled = true;
                    format!("{error:#}")
                })
            }),
            Err(outcome) => outcome,
        };
        if let (true, None, Outcome::Failed(reason)) = (spoiled, &place, &outcome) {
            bail!("{reason}");
        }
        let line = serde_json::to_string(&Line::new(&name(case), outcome))?;
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
        if spoiled {
            return Ok(());
        }
    }
    Ok(())
}

/// Replays a plan once on the GPU, which is opened for the first plan.
fn replay(plan: &[u8], inputs: &Named, target: &str, place: &mut Option<Place>) -> Result<Named> {
    let mut aligned = crate::operands::Buffer::filled(plan.len(), 0);
    aligned.bytes_mut().copy_from_slice(plan);
    let plan = Plan::parse(aligned.bytes()).map_err(|error| anyhow::anyhow!("{error}"))?;
    let variant = plan.variants().find(|variant| variant.header().target == target).context("the plan's variant")?;
    let place = match place {
        Some(place) => place,
        None => {
            let request = Request { device: DeviceKind::Cuda, variant: Some(target.to_owned()), ..Request::default() };
            place.insert(Place::choose(&plan, &request)?.0)
        }
    };
    let mut session: Session<'_, '_> = place.session(variant)?;
    for (number, binding) in session.bindings(Direction::Input) {
        let (_, tensor) = inputs.iter().find(|(name, _)| name == binding.name).context("an input of the plan")?;
        session.write(number, tensor.bytes())?;
    }
    session.replay()?;
    let mut outputs = Vec::new();
    for (number, binding) in session.bindings(Direction::Output) {
        let mut bytes = vec![0; length(&binding)?];
        session.read(number, &mut bytes)?;
        let shape = binding.shape.iter().map(|&extent| extent as usize).collect();
        outputs.push((binding.name.to_owned(), floe_models::Tensor::new(model_dtype(binding.dtype), shape, bytes)));
    }
    Ok(outputs)
}
