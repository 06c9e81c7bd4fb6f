//! One case on a device: its plan, replayed twice, and what came of it.

use super::{
    agreement,
    bundle::{Case, Check, KernelOutput, Parts},
    operand::{self, Allowance, OTHER_POISON, POISON, difference},
};
use crate::{
    inputs::length,
    outputs::{self, Output},
    plan_file::PlanFile,
    session::{Place, Request, Session},
};
use anyhow::{Context, Result, ensure};
use floe_engine::plan::{
    Plan, Variant,
    format::{Binding, Direction},
};

/// Largest error by the measure of its type, or what is wrong with the results.
pub type Verdict = Result<f64, String>;

/// Replays cases, on one device.
pub struct Replayer {
    request: Request,
    place: Option<Place>,
}

impl Replayer {
    /// Replays on what `request` asks for.
    pub fn new(request: Request) -> Self {
        Self { request, place: None }
    }

    /// Replays a case and compares its results.
    ///
    /// # Errors
    /// Returns an error if the files do not fit the case, or the device fails, after which this process should not use it again.
    pub fn run(&mut self, case: &Case, parts: &Parts) -> Result<Verdict> {
        let file = PlanFile::from_bytes(&parts.plan, case.name.clone());
        let plan = file.plan()?;
        let (place, variant) = self.place(&plan, matches!(case.check, Check::Kernel { .. }))?;
        let verdict = place.session(variant).and_then(|mut session| match &case.check {
            Check::Kernel { outputs, workspace, workspace_bytes, allowance } => {
                kernel(&mut session, parts, outputs, (*workspace, *workspace_bytes), *allowance)
            }
            Check::Network { bound, shape } => {
                let shapes = session.variant().shapes();
                let shape =
                    shapes.map(|shape| shape.number()).nth(*shape as usize).context("the plan lacks the shape")?;
                session.choose(shape)?;
                network(&mut session, parts, *bound)
            }
        });
        #[cfg(feature = "emulator")]
        if let Place::Emulated(emulated) = place
            && let Some(finding) = emulated.emulator().findings().first()
        {
            return Ok(Err(finding.to_string()));
        }
        // An overflow in the comparison; no such error passes.
        Ok(verdict?.and_then(|error| if error.is_finite() { Ok(error) } else { Err(format!("its error is {error}")) }))
    }

    /// The device, and the plan's variant for it.
    fn place<'p>(&mut self, plan: &Plan<'p>, is_kernel: bool) -> Result<(&mut Place, Variant<'p>)> {
        // Only a GPU is kept: it takes long to open. There is one emulator at a time.
        let opened = self.place.take().filter(|place| place.device().is_some());
        let (mut place, variant) = match opened {
            Some(place) => {
                let variant = place.variant_of(plan, self.request.variant.as_deref())?;
                (place, variant)
            }
            None => Place::choose(plan, &self.request)?,
        };
        match &mut place {
            // A network's bindings lie where programs have them, and a kernel's operands in device memory, as an arena does.
            Place::Cuda { device, options, .. } => {
                options.mapped = !is_kernel && device.info().prefers_mapped_bindings();
            }
            #[cfg(feature = "emulator")]
            Place::Emulated(emulated) => emulated.set_mode(floe_emulator::driver::Mode::Watch),
            Place::Host { .. } => {}
        }
        Ok((self.place.insert(place), variant))
    }
}

/// A kernel twice, with different contents of its workspace.
fn kernel(
    session: &mut Session<'_, '_>,
    parts: &Parts,
    outputs: &[KernelOutput],
    (workspace, workspace_bytes): (u64, u64),
    allowance: Allowance,
) -> Result<Verdict> {
    let Parts { before, after, .. } = parts;
    let ranges = outputs.iter().map(|output| output.range(before.len())).collect::<Result<Vec<_>>>()?;
    let end = workspace.checked_add(workspace_bytes).filter(|&end| end <= before.len() as u64);
    let workspace = workspace as usize..end.context("the workspace lies outside of the memory")? as usize;
    let mut variable = ranges.clone();
    variable.push(workspace.clone());
    ensure!(variable.is_sorted_by(|a, b| a.end <= b.start), "outputs and workspace overlap");
    ensure!(after.len() == ranges.iter().map(ExactSizeIterator::len).sum::<usize>(), "references of other sizes");
    let memory = session.bindings(Direction::State);
    let [(number, binding)] = memory.as_slice() else { anyhow::bail!("a kernel's plan has one state") };
    ensure!(length(binding)? == before.len(), "its memory has another size");
    let mut replay = |bytes: &[u8]| -> Result<Vec<u8>> {
        session.write(*number, bytes)?;
        session.replay()?;
        let mut found = vec![0; bytes.len()];
        session.read(*number, &mut found)?;
        Ok(found)
    };

    let first = replay(before)?;
    let mut again = first.clone();
    ranges.iter().for_each(|range| again[range.clone()].fill(POISON));
    again[workspace.clone()].fill(OTHER_POISON);
    let second = replay(&again)?;
    if let Some(byte) = difference(before, &first, &variable) {
        return Ok(Err(format!("byte {byte} of the memory, in no output, was written")));
    }
    if let Some(byte) = difference(&first, &second, &[workspace]) {
        return Ok(Err(format!("two replays differ at byte {byte} of the memory")));
    }
    let (mut worst, mut rest) = (0.0f64, after.as_slice());
    for (index, (output, range)) in outputs.iter().zip(ranges).enumerate() {
        let (expected, others) = rest.split_at(range.len());
        rest = others;
        match operand::output(&output.view, expected, &first[range], allowance) {
            Ok(error) => worst = worst.max(error),
            Err(why) => return Ok(Err(format!("output {index}: {why}"))),
        }
    }
    Ok(Ok(worst))
}

/// A network twice, from the same states.
fn network(session: &mut Session<'_, '_>, parts: &Parts, bound: agreement::Bound) -> Result<Verdict> {
    let inputs = session.bindings(Direction::Input);
    let inputs = split(inputs, &parts.before).context("inputs")?;
    let mut replay = || -> Result<Vec<Output<'_>>> {
        session.reset()?;
        for (number, Output { bytes, .. }) in &inputs {
            session.write(*number, bytes)?;
        }
        session.replay()?;
        outputs::read(session)
    };
    let found = replay()?;
    if replay()?.iter().zip(&found).any(|(second, first)| second.bytes != first.bytes) {
        return Ok(Err("two replays differ".to_owned()));
    }
    let results = found.iter().map(|output| output.binding.clone()).enumerate().collect();
    let expected: Vec<Output<'_>> =
        split(results, &parts.after).context("references")?.into_iter().map(|(_, output)| output).collect();
    let (worst, failures) = agreement::of_outputs(Some(bound), &expected, &found);
    Ok(if failures.is_empty() { Ok(worst.map_or(0.0, |worst| worst.l2)) } else { Err(failures.join("; ")) })
}

/// Contents of bindings that lie one after the other.
fn split<'p>(bindings: Vec<(usize, Binding<'p>)>, mut bytes: &[u8]) -> Result<Vec<(usize, Output<'p>)>> {
    let mut contents = Vec::new();
    for (number, binding) in bindings {
        let (own, rest) = bytes.split_at_checked(length(&binding)?).context("are too short")?;
        bytes = rest;
        contents.push((number, Output { binding, bytes: own.to_vec() }));
    }
    ensure!(bytes.is_empty(), "are too long");
    Ok(contents)
}
