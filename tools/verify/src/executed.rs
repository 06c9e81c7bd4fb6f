//! `floe-verify executed`: every kernel that plans choose, executed on a GPU in software with every access watched.

use anyhow::{Context, Result, bail};
use floe::{
    emulated::Emulated,
    inputs,
    plan_file::PlanFile,
    session::{DeviceKind, Request},
};
use floe_conformance::sources::COMMIT;
use floe_emulator::driver::Mode;
use floe_engine::plan::{
    Plan, Variant,
    format::{Action, Purpose},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// What to execute.
#[derive(clap::Args)]
pub struct Arguments {
    /// Plans with PTX. Without any: only the sums of the state.
    plans: Vec<PathBuf>,
    /// What has been executed, a JSON line a variant: of each the last. A variant whose kernels all have been is not run,
    /// whatever the commit they were of.
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// Print the names of the plans that this build has executed, and do nothing else.
    #[arg(long, conflicts_with = "plans")]
    list: bool,
    /// Seed of the random inputs.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
}

/// One variant of a plan.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    plan: String,
    /// Commit of the program that executed it.
    commit: String,
    target: String,
    /// Kernels that its steps launch.
    kernels: Vec<String>,
    /// Why they were not executed without a finding; empty where they were, here or by a variant before.
    failures: Vec<String>,
}

/// Runs `floe-verify executed`; an error names kernels that were not executed.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut rows = read(&arguments.state)?;
    if arguments.list {
        let plans: BTreeSet<&String> = rows.iter().filter(|row| row.commit == COMMIT).map(|row| &row.plan).collect();
        plans.iter().for_each(|plan| println!("{plan}"));
        return Ok(());
    }
    let mut executed: BTreeSet<String> =
        rows.iter().filter(|row| row.failures.is_empty()).flat_map(|row| row.kernels.clone()).collect();
    for path in &arguments.plans {
        let file = PlanFile::open(path)?;
        let plan = file.plan()?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for variant in plan.variants().filter(|variant| !variant.is_host()) {
            let target = variant.header().target.to_owned();
            let kernels = kernels(&variant)?;
            let new = kernels.difference(&executed).count();
            let failures = if new == 0 { Vec::new() } else { execute(&plan, &target, arguments.seed)? };
            println!("{name} {target}: {} kernels, {new} of them new, {} findings", kernels.len(), failures.len());
            failures.iter().for_each(|failure| println!("      {failure}"));
            if failures.is_empty() {
                executed.extend(kernels.iter().cloned());
            }
            let row = Row {
                plan: name.clone(),
                commit: COMMIT.into(),
                target,
                kernels: kernels.into_iter().collect(),
                failures,
            };
            rows.retain(|other| (&other.plan, &other.target) != (&row.plan, &row.target));
            rows.push(row);
            write(&arguments.state, &rows)?;
        }
    }
    summary(&rows)
}

/// The digests of the kernels that a variant's network launches: PTX and name.
fn kernels(variant: &Variant<'_>) -> Result<BTreeSet<String>> {
    let images: Vec<_> = variant.images().map(|image| image.to_vec().unwrap_or_default()).collect();
    let entries: Vec<_> = variant.kernels().collect();
    let mut kernels = BTreeSet::new();
    for step in variant.steps() {
        let (Purpose::Network, Action::Launch { kernel, .. }) = (step.purpose(), &step.action) else { continue };
        let entry = entries.get(*kernel as usize).context("a step launches a kernel that the plan lacks")?;
        let image = images.get(entry.image as usize).context("a kernel's image is missing")?;
        let digest = Sha256::new_with_prefix(image).chain_update(entry.name).finalize();
        kernels.insert(digest[..8].iter().map(|byte| format!("{byte:02x}")).collect());
    }
    Ok(kernels)
}

/// Replays a variant once, watched; returns what was found.
fn execute(plan: &Plan<'_>, target: &str, seed: u64) -> Result<Vec<String>> {
    let request = Request { device: DeviceKind::Emulated, variant: Some(target.to_owned()), ..Request::default() };
    let (mut emulated, variant) = Emulated::choose(plan, &request)?;
    emulated.set_mode(Mode::Watch);
    let mut session = emulated.session(variant)?;
    let given = inputs::gather(&session, &[], Some(seed))?;
    let replayed =
        given.iter().try_for_each(|input| session.write(input.binding, &input.bytes)).and_then(|()| session.replay());
    drop(session);
    let mut failures: Vec<String> = emulated.emulator().findings().iter().map(ToString::to_string).collect();
    failures.extend(replayed.err().map(|error| format!("{error:#}")));
    Ok(failures)
}

fn read(state: &Path) -> Result<Vec<Row>> {
    let Ok(text) = fs::read_to_string(state) else { return Ok(Vec::new()) };
    let rows = text.lines().map(serde_json::from_str).collect::<Result<_, _>>();
    rows.with_context(|| format!("'{}'", state.display()))
}

/// Writes all rows beside the state and moves them there: an interrupted run loses nothing.
fn write(state: &Path, rows: &[Row]) -> Result<()> {
    let lines = rows.iter().map(|row| Ok(serde_json::to_string(row)? + "\n"));
    let beside = state.with_extension("new");
    fs::write(&beside, lines.collect::<Result<String>>()?)
        .and_then(|()| fs::rename(&beside, state))
        .with_context(|| format!("'{}'", state.display()))
}

/// Prints for each target how many of the kernels that this build chooses were executed, and fails if some were not.
fn summary(rows: &[Row]) -> Result<()> {
    let executed: BTreeSet<&String> =
        rows.iter().filter(|row| row.failures.is_empty()).flat_map(|row| &row.kernels).collect();
    let mut targets: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&String>)> = BTreeMap::new();
    let rows = || rows.iter().filter(|row| row.commit == COMMIT);
    for row in rows() {
        let (plans, kernels) = targets.entry(&row.target).or_default();
        plans.insert(&row.plan);
        kernels.extend(&row.kernels);
    }
    let mut left = 0;
    for (target, (plans, kernels)) in &targets {
        let done = kernels.iter().filter(|kernel| executed.contains(**kernel)).count();
        left += kernels.len() - done;
        println!("{target}: {done} of {} chosen kernels of {} networks executed", kernels.len(), plans.len());
    }
    let findings: usize = rows().map(|row| row.failures.len()).sum();
    if targets.is_empty() {
        bail!("nothing was executed");
    }
    if left > 0 || findings > 0 {
        bail!("{left} kernels not executed, {findings} findings");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, kernels: &[&str], failures: &[&str]) -> Row {
        let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Row {
            plan: "net".into(),
            commit: COMMIT.into(),
            target: target.into(),
            kernels: strings(kernels),
            failures: strings(failures),
        }
    }

    #[test]
    fn the_state_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("executed.jsonl");
        assert!(read(&state).unwrap().is_empty());
        for failures in [&["strayed"][..], &[]] {
            write(&state, &[row("nano", &["a"], failures)]).unwrap();
            let rows = read(&state).unwrap();
            assert_eq!((rows.len(), rows[0].failures.len()), (1, failures.len()));
        }
        fs::write(&state, "{").unwrap();
        assert!(format!("{:#}", read(&state).unwrap_err()).contains("executed.jsonl"));
    }

    #[test]
    fn a_kernel_that_only_failed_counts_as_not_executed() {
        assert!(summary(&[row("nano", &["a", "b"], &[]), row("nx", &["b"], &[])]).is_ok());
        assert!(summary(&[row("nano", &["a"], &[]), row("nx", &["b"], &["strayed"])]).is_err());
        assert!(summary(&[]).is_err());
        let old = Row { commit: "another".into(), ..row("nano", &["a"], &[]) };
        assert!(summary(&[old, row("nano", &["a"], &["strayed"])]).is_err());
    }
}
