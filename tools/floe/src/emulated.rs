//! A GPU in software: plans with PTX run without any GPU. Slow, and it has no times, but counts of what kernels do.

use crate::{
    inputs::{self, Input},
    session::{MemoryKind, Place, Request, Session},
    usage::Usage,
};
use anyhow::{Result, anyhow};
use floe_emulator::{
    driver::{API, Emulator, Mode, Options, StepCount, describe},
    watch::counts::Tally,
};
use floe_engine::{
    cuda::{self, DriverApi, InitError, InitOptions},
    plan::{Plan, Variant, format::ImageKind},
};
use std::io::{self, Write};

static TABLE: DriverApi = API;

/// The plan holds machine code, which only a GPU can run.
#[derive(Debug, thiserror::Error)]
#[error("the variant for {0} holds machine code, which only a GPU runs: compile it with --ptx")]
pub struct MachineCode(String);

/// A GPU in software on this thread, and how sessions are made on it.
#[derive(Debug)]
pub struct Emulated {
    emulator: Emulator,
    /// How sessions are made.
    pub options: InitOptions,
    mode: Mode,
}

impl Emulated {
    /// Chooses a variant of the plan: the one that is asked for, else the first that has PTX.
    ///
    /// # Errors
    /// Where there is none, or it holds machine code ([`MachineCode`]).
    pub fn choose<'p>(plan: &Plan<'p>, request: &Request) -> Result<(Self, Variant<'p>)> {
        Self::choose_as(plan, request, None)
    }

    /// As [`choose`](Self::choose), with the arithmetic of a compute capability, such as 90, in place of the PTX's own.
    ///
    /// # Errors
    /// As [`choose`](Self::choose).
    pub fn choose_as<'p>(plan: &Plan<'p>, request: &Request, capability: Option<u32>) -> Result<(Self, Variant<'p>)> {
        let wanted = |variant: &Variant<'_>| {
            let target = variant.header().target;
            !variant.is_host() && request.variant.as_deref().is_none_or(|wanted| wanted == target)
        };
        let has_ptx = |variant: &Variant<'_>| variant.header().image_kind == ImageKind::Ptx;
        let mut variants = plan.variants().filter(wanted);
        let first = variants
            .next()
            .ok_or_else(|| Usage::new("the plan has no such GPU variant; compile it with --target and --ptx"))?;
        let variant = if has_ptx(&first) { Some(first.clone()) } else { variants.find(has_ptx) };
        let variant = variant.ok_or_else(|| MachineCode(first.header().target.to_owned()))?;
        let options = InitOptions {
            mapped: request.memory == Some(MemoryKind::Mapped),
            wait: request.wait,
            guard: request.guard,
            observe: request.observe,
            ..InitOptions::default()
        };
        Ok((
            Self { emulator: Emulator::new(Options { capability, ..Options::default() }), options, mode: Mode::Run },
            variant,
        ))
    }

    /// What sessions do from now on when they replay. INIT's own replay is left out except where it is [`Mode::Run`].
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The emulator.
    pub fn emulator(&self) -> &Emulator {
        &self.emulator
    }

    /// INIT: makes a ready session.
    ///
    /// # Errors
    /// What the engine says, and why.
    pub fn session<'p, 'm>(&'m self, variant: Variant<'p>) -> Result<Session<'p, 'm>> {
        self.emulator.describe(describe::of_plan(&variant));
        self.emulator.set_mode(if self.mode == Mode::Run { Mode::Run } else { Mode::Dry });
        // SAFETY: the emulator keeps the driver's contract; it is this thread's as long as it is borrowed, and the session
        // cannot leave the thread.
        let session = unsafe { cuda::Session::init(variant, &TABLE, self.options) };
        self.emulator.set_mode(self.mode);
        let session = session.map_err(|error| self.explain(&error))?;
        Ok(Session::Cuda(Box::new(session)))
    }

    /// An error of INIT, with what the emulator says about it.
    fn explain(&self, error: &InitError) -> anyhow::Error {
        match self.emulator.message() {
            message if message.is_empty() => anyhow!("{error}"),
            message => anyhow!("{error}: {message}"),
        }
    }
}

/// Counts of one replay.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Each step.
    pub steps: Vec<StepCount>,
    /// All of them.
    pub total: Tally,
}

/// Replays once and counts.
///
/// # Errors
/// What the engine says.
pub fn count(place: &mut Place, variant: Variant<'_>, sources: &[inputs::Source]) -> Result<Counted> {
    let Place::Emulated(emulated) = place else { anyhow::bail!("only an emulated GPU counts") };
    emulated.set_mode(Mode::Count);
    let mut session = emulated.session(variant)?;
    let inputs: Vec<Input> = inputs::gather(&session, sources, Some(0))?;
    for input in &inputs {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()?;
    drop(session);
    let steps = emulated.emulator().counts();
    let mut total = Tally::default();
    steps.iter().for_each(|step| total.add(&step.tally));
    Ok(Counted { steps, total })
}

impl Counted {
    /// The sums, and with `steps` a line for each step.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn print(&self, steps: bool, mut out: impl Write) -> io::Result<()> {
        let columns = ["instructions", "loaded", "stored", "shared", "conflicts"];
        let [a, b, c, d, e] = columns;
        writeln!(out, "{:>5} {a:>14} {b:>14} {c:>14} {d:>14} {e:>12}  kernel <- nodes", "step")?;
        let mut line = |name: &str, tally: &Tally, what: &str| {
            let Tally { instructions, loaded, stored, shared, bank_conflicts, .. } = tally;
            writeln!(
                out,
                "{name:>5} {instructions:>14} {loaded:>14} {stored:>14} {shared:>14} {bank_conflicts:>12}  {what}"
            )
        };
        for step in self.steps.iter().filter(|_| steps) {
            line(&step.step.to_string(), &step.tally, &format!("{} <- {}", step.kernel, step.nodes))?;
        }
        line("all", &self.total, &format!("{} launches", self.total.launches))?;
        writeln!(out, "instructions of warps; bytes; passes over shared memory that bank conflicts cost; no times")
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        let tally = |tally: &Tally| {
            serde_json::json!({
                "launches": tally.launches,
                "instructions": tally.instructions,
                "loaded_bytes": tally.loaded,
                "stored_bytes": tally.stored,
                "shared_bytes": tally.shared,
                "shared_accesses": tally.shared_accesses,
                "bank_conflicts": tally.bank_conflicts,
            })
        };
        let steps = self.steps.iter().map(|step| {
            serde_json::json!({
                "step": step.step, "kernel": step.kernel, "nodes": step.nodes, "counts": tally(&step.tally),
            })
        });
        serde_json::json!({ "total": tally(&self.total), "steps": steps.collect::<Vec<_>>() })
    }
}
