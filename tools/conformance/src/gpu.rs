//! `floe-verify suite`: ONNX test folders on the GPU.
//!
//! The parent compiles all cases in parallel, which fills the kernel cache; a child process runs them. An illegal access
//! spoils a process' CUDA context for good, so a child that meets an error of the driver, or dies, is followed by one
//! that goes on after that case.

use crate::{
    f16,
    line::Line,
    replay::replay,
    suite::{self, CASES, Inputs, Kind, Outcome, Tolerance},
};
use anyhow::{Context, Result, bail};
use floe::session::{DeviceKind, Place, Request};
use floe_compiler::{pipeline, targets};
use rayon::prelude::*;
use serde::Serialize;
use std::{
    collections::BTreeMap,
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
    /// Arithmetic and storage of floats between inputs and outputs, whose types are the model's.
    #[arg(long, value_enum, default_value_t = Precision::F32)]
    precision: Precision,
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

/// Precision of the plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Precision {
    /// f32 throughout.
    F32,
    /// f16 storage, f32 accumulation.
    F16,
}

impl Precision {
    const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
        }
    }

    const fn of_plans(self) -> pipeline::Precision {
        match self {
            Self::F32 => pipeline::Precision::F32,
            Self::F16 => pipeline::Precision::F16,
        }
    }

    fn tolerance(self) -> Tolerance {
        match self {
            Self::F32 => Tolerance::default(),
            Self::F16 => f16::TOLERANCE,
        }
    }
}

/// What became of all cases.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Target of the plans.
    pub target: String,
    /// Their precision.
    pub precision: &'static str,
    /// All cases.
    pub cases: usize,
    /// Cases whose outputs are those that are expected.
    pub passed: usize,
    /// Of them: cases whose inputs are all inputs of the plan.
    pub live: usize,
    /// Of them: cases of which some inputs became constants.
    pub baked: usize,
    /// Of them: cases that the compiler computed whole.
    pub folded: usize,
    /// Cases that the compiler refuses.
    pub refused: usize,
    /// Cases with a wrong output or a failed replay.
    pub wrong: usize,
    /// Cases that f16 cannot represent, by reason; they are neither passed nor wrong.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub beyond_f16: BTreeMap<&'static str, Vec<String>>,
    /// Wrong cases, cases that are refused and should not be, and missing cases; empty when all is well.
    pub failures: Vec<String>,
}

impl Report {
    fn of(arguments: &Arguments, lines: &[Line]) -> Self {
        let Arguments { target, precision, .. } = arguments;
        let mut report =
            Self { target: target.clone(), precision: precision.name(), cases: lines.len(), ..Self::default() };
        let may_be_refused = suite::refused();
        for line in lines {
            let Line { case, outcome, detail, .. } = line;
            let beyond = f16::beyond(case).filter(|_| *precision == Precision::F16);
            match (outcome.as_str(), beyond) {
                ("passed", _) => {
                    report.passed += 1;
                    report.live += usize::from(line.passed_as(Kind::Live));
                    report.baked += usize::from(line.passed_as(Kind::Baked));
                    report.folded += usize::from(line.passed_as(Kind::Folded));
                }
                ("skipped", _) => {
                    report.refused += 1;
                    if !may_be_refused.contains(case.as_str()) {
                        report.failures.push(format!("{case} is refused: {detail}"));
                    }
                }
                (_, Some(reason)) => report.beyond_f16.entry(reason).or_default().push(case.clone()),
                (_, None) => {
                    report.wrong += 1;
                    report.failures.push(format!("{case}: {detail}"));
                }
            }
        }
        report
    }
}

/// Runs the subcommand; `None` in a child process. What is recorded must be the whole suite.
///
/// # Errors
/// Returns an error if nothing can be run at all.
pub fn run(arguments: &Arguments, recorded: bool) -> Result<Option<Report>> {
    if recorded && arguments.compile_only {
        bail!("--compile-only replays nothing, so there is nothing to record; leave out --record");
    }
    let mut cases = Vec::new();
    for folder in &arguments.folders {
        cases.extend(suite::cases(folder).map_err(anyhow::Error::msg)?);
    }
    if let Some(first) = arguments.child {
        run_cases(arguments, &cases, first)?;
        return Ok(None);
    }
    let target = targets::find(&arguments.target)?;
    // All cases at once, which fills the kernel cache; a child finds every kernel there.
    let compiled: Vec<Line> = cases
        .par_iter()
        .map(|case| {
            let sets = suite::prepare(case, target, arguments.precision.of_plans(), false);
            let inputs = sets.as_ref().ok().map(|sets| Inputs::of(sets));
            let outcome = sets.map_or_else(|outcome| outcome, |_| Outcome::Passed { worst: 0.0 });
            Line::new(case, &suite::Report { outcome, inputs })
        })
        .collect();
    let mut lines: Vec<Line> = if arguments.compile_only { compiled } else { Vec::new() };
    while lines.len() < cases.len() {
        let before = lines.len();
        collect(arguments, before, &mut lines)?;
        if lines.len() < cases.len() && lines.len() == before {
            // The child died before it could say anything about the case.
            let outcome = Outcome::Failed("the process that ran it died".into());
            lines.push(Line::new(&cases[before], &suite::Report { outcome, inputs: None }));
        }
    }
    let mut report = Report::of(arguments, &lines);
    if recorded && report.cases != CASES {
        report.failures.push(format!("{} cases were run, but the suite has {CASES}", report.cases));
    }
    print(arguments, &lines, &report)?;
    Ok(Some(report))
}

/// Starts a child at case `first` and takes its lines.
fn collect(arguments: &Arguments, first: usize, lines: &mut Vec<Line>) -> Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("suite")
        .args(&arguments.folders)
        .args(["--target", &arguments.target, "--precision", arguments.precision.name()])
        .args(["--child", &first.to_string()])
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

/// Prints the counts and, for whatever did not pass, the reasons.
fn print(arguments: &Arguments, lines: &[Line], report: &Report) -> Result<()> {
    let mut out = io::stdout().lock();
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in lines {
        if line.outcome == "skipped" {
            // Without the name of the node.
            let reason = line.detail.split_once("' (").map_or(line.detail.as_str(), |(_, reason)| reason);
            reasons.entry(reason).or_default().push(&line.case);
        }
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    for (reason, cases) in reasons {
        writeln!(out, "skipped {:>4}  {reason} ({})", cases.len(), cases[0])?;
    }
    for (reason, cases) in &report.beyond_f16 {
        writeln!(out, "beyond f16 {:>4}  {reason}: {}", cases.len(), cases.join(", "))?;
    }
    report.failures.iter().try_for_each(|failure| writeln!(out, "failed  {failure}"))?;
    let Report { passed, live, baked, folded, refused, wrong, .. } = report;
    writeln!(out, "of those that passed: {live} live, {baked} baked, {folded} folded")?;
    let beyond: usize = report.beyond_f16.values().map(Vec::len).sum();
    if beyond != 0 {
        writeln!(out, "{beyond} beyond f16")?;
    }
    writeln!(out, "{passed} passed, {wrong} failed, {refused} skipped")?;
    if let Some(path) = &arguments.json {
        floe_files::write(path, format!("{:#}\n", serde_json::to_value(lines)?))
            .with_context(|| format!("cannot write '{}'", path.display()))?;
    }
    Ok(())
}

/// The child: cases from `first` on, one after the other; ends after a case that met an error of the driver.
fn run_cases(arguments: &Arguments, cases: &[PathBuf], first: usize) -> Result<()> {
    let target = targets::find(&arguments.target)?;
    let request = Request { device: DeviceKind::Cuda, variant: Some(arguments.target.clone()), ..Request::default() };
    let mut place: Option<Place> = None;
    for case in cases.iter().skip(first) {
        let mut spoiled = false;
        let sets = suite::prepare(case, target, arguments.precision.of_plans(), false);
        let report = suite::compare_sets(sets, arguments.precision.tolerance(), |plan, inputs| {
            replay(plan, inputs, &request, &mut place).map_err(|error| {
                spoiled = true;
                format!("{error:#}")
            })
        });
        if let (true, None, Outcome::Failed(reason)) = (spoiled, &place, &report.outcome) {
            bail!("{reason}");
        }
        let line = serde_json::to_string(&Line::new(case, &report))?;
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()?;
        if spoiled {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn report(precision: &str, lines: &[(&str, &str, Option<&str>)]) -> Report {
        let Program { arguments } = Program::parse_from(["suite", "folder", "--precision", precision]);
        let lines = lines.iter().map(|&(case, outcome, inputs)| Line {
            case: case.into(),
            outcome: outcome.into(),
            detail: "because".into(),
            inputs: inputs.map(str::to_owned),
            constant: None,
        });
        Report::of(&arguments, &lines.collect::<Vec<_>>())
    }

    #[test]
    fn a_refused_case_is_on_the_list_or_a_failure() {
        let listed = suite::refused().pop_first().unwrap();
        let found = report("f32", &[(listed, "skipped", None), ("test_relu", "passed", Some("live"))]);
        assert_eq!((found.refused, found.passed, found.live), (1, 1, 1));
        assert!(found.failures.is_empty(), "{:?}", found.failures);
        let found = report("f32", &[("test_relu", "skipped", None)]);
        assert_eq!(found.failures, ["test_relu is refused: because"]);
    }

    #[test]
    fn what_is_wrong_is_named_unless_f16_cannot_represent_it() {
        let beyond = f16::CLASSES[0].1[0];
        let lines = [(beyond, "failed", Some("live")), ("test_relu", "failed", Some("live"))];
        let found = report("f16", &lines);
        assert_eq!((found.wrong, found.beyond_f16.len()), (1, 1));
        assert_eq!(found.failures, ["test_relu: because"]);
        let found = report("f32", &lines);
        assert_eq!((found.wrong, found.beyond_f16.len()), (2, 0));
    }
}
