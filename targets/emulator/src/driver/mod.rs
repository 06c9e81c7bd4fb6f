//! The driver: everything that the engine reaches through its table, in software.
//!
//! An [`Emulator`] belongs to a thread, as a CUDA context is current on one: the table's functions ([`API`]) work on that of
//! the calling thread. Work is done as it is enqueued, so streams never hold anything back, events have always passed, and the
//! time between two events is the number of instructions that warps executed between them, a million for a millisecond.

pub mod describe;
mod graph;
mod handles;
mod table;

pub use describe::{Argument, Step};
pub use table::API;

use crate::{
    machine::{Limits, Program},
    memory::Allocations,
    ptx,
    watch::{
        Label,
        counts::Tally,
        coverage::{Coverage, Uncovered},
        findings::{Finding, Findings, OfLaunch},
    },
};
use floe_engine::cuda::{CUDA_SUCCESS, CUresult};
use graph::Node;
use handles::Handles;
use std::{
    cell::RefCell, collections::BTreeMap, hash::BuildHasher, hash::BuildHasherDefault, hash::DefaultHasher,
    marker::PhantomData, sync::Arc,
};

/// How much is done when a graph is launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: for INIT's warm-up where its results are not wanted.
    Dry,
    /// Kernels run, and nobody watches.
    Run,
    /// Kernels run; instructions, bytes and bank conflicts are counted.
    Count,
    /// Kernels run, with all watches.
    #[default]
    Watch,
}

/// How an emulator works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is done.
    pub mode: Mode,
    /// Device memory in bytes.
    pub memory: u64,
    /// What one launch may take.
    pub limits: Limits,
    /// Compute capability, such as 87, which decides how tensor cores add; that of a kernel's PTX if none is given.
    pub capability: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self { mode: Mode::default(), memory: 1 << 36, limits: Limits::default(), capability: None }
    }
}

/// A kernel of the report.
#[derive(Debug)]
struct Kernel {
    program: Arc<Program>,
    coverage: Coverage,
}

/// What one step did in all replays so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepCount {
    /// Number of the step.
    pub step: u32,
    /// Nodes of the model.
    pub nodes: String,
    /// Kernel.
    pub kernel: String,
    /// Counts.
    pub tally: Tally,
}

/// What one kernel executed in all replays so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelCoverage {
    /// Kernel.
    pub kernel: String,
    /// What was left out.
    pub uncovered: Uncovered,
}

/// Everything of a thread's emulator.
#[derive(Debug)]
struct State {
    options: Options,
    memory: Allocations,
    handles: Handles,
    /// What the launches of graphs mean: of the next graphs in turn, and of all after them as of the last.
    described: Vec<Vec<Step>>,
    /// Graphs that were made since.
    graphs: usize,
    kernels: Vec<Kernel>,
    numbers: BTreeMap<(u64, String), usize>,
    findings: Findings,
    counts: BTreeMap<(u32, usize), StepCount>,
    /// Instructions executed so far.
    clock: u64,
    /// The error after which nothing works any more.
    spoiled: Option<CUresult>,
    /// What was wrong at the last call that failed.
    message: String,
}

thread_local! {
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// A GPU in software, current on the thread that made it.
#[derive(Debug)]
pub struct Emulator {
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Emulator {
    /// A fresh one, which replaces what this thread had.
    pub fn new(options: Options) -> Self {
        let state = State {
            options,
            memory: Allocations::default(),
            handles: Handles::default(),
            described: Vec::new(),
            graphs: 0,
            kernels: Vec::new(),
            numbers: BTreeMap::new(),
            findings: Findings::default(),
            counts: BTreeMap::new(),
            clock: 0,
            spoiled: None,
            message: String::new(),
        };
        STATE.set(Some(state));
        Self { thread: PhantomData }
    }

    fn with<R: Default>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        STATE.with_borrow_mut(|state| state.as_mut().map(body)).unwrap_or_default()
    }

    /// What is done at launches from now on.
    pub fn set_mode(&self, mode: Mode) {
        self.with(|state| state.options.mode = mode);
    }

    /// What the launches of graphs mean that are built from now on, in order: of one graph after another, and of all further
    /// ones as of the last. Arguments of launches without a description are held to their allocations.
    pub fn describe(&self, graphs: Vec<Vec<Step>>) {
        self.with(|state| (state.described, state.graphs) = (graphs, 0));
    }

    /// What was found so far.
    pub fn findings(&self) -> Vec<Finding> {
        self.with(|state| state.findings.all().to_vec())
    }

    /// What each step did so far, in order.
    pub fn counts(&self) -> Vec<StepCount> {
        self.with(|state| state.counts.values().cloned().collect())
    }

    /// What each kernel executed so far, in the order in which they were found.
    pub fn coverage(&self) -> Vec<KernelCoverage> {
        let coverage = |kernel: &Kernel| KernelCoverage {
            kernel: kernel.program.name().to_owned(),
            uncovered: kernel.coverage.uncovered(&kernel.program),
        };
        self.with(|state| state.kernels.iter().map(coverage).collect())
    }

    /// What was wrong at the last call that failed; empty where none did.
    pub fn message(&self) -> String {
        self.with(|state| state.message.clone())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

/// Why a call fails: the driver's number, and what is wrong in words.
struct Refusal(CUresult, String);

impl State {
    /// Adds what a launch found and counted.
    fn note(&mut self, node: &Node, found: OfLaunch, tally: Tally) {
        let (kernel, Label { step, nodes }) = (node.function.kernel, &node.label);
        self.findings.add(kernel, found);
        self.clock += tally.instructions;
        let count = self.counts.entry((*step, kernel)).or_insert_with(|| StepCount {
            step: *step,
            nodes: nodes.clone(),
            kernel: node.function.program.name().to_owned(),
            tally: Tally::default(),
        });
        count.tally.add(&tally);
    }

    /// The kernel of a module, decoded once for equal texts.
    fn kernel(&mut self, module: &ptx::Module, digest: u64, name: &str) -> Result<usize, String> {
        let key = (digest, name.to_owned());
        if let Some(&number) = self.numbers.get(&key) {
            return Ok(number);
        }
        let capability = self.options.capability.unwrap_or(module.capability());
        let program =
            Program::decode_on(module, name, capability).map_err(|error| format!("kernel {name}: {error}"))?;
        self.kernels.push(Kernel { program: Arc::new(program), coverage: Coverage::default() });
        self.numbers.insert(key, self.kernels.len() - 1);
        Ok(self.kernels.len() - 1)
    }

    fn fail(&mut self, Refusal(result, message): Refusal) -> CUresult {
        log::debug!("{message}");
        self.message = message;
        result
    }
}

/// A number that tells texts apart, the same in every run.
fn digest(text: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(text)
}

/// `CUDA_ERROR_INVALID_CONTEXT`: there is no emulator on this thread.
const NO_CONTEXT: CUresult = 201;

/// Runs the body of a call unless the context is spoiled.
fn call(body: impl FnOnce(&mut State) -> Result<(), Refusal>) -> CUresult {
    with_state(|state| match state.spoiled {
        Some(error) => error,
        None => match body(state) {
            Ok(()) => CUDA_SUCCESS,
            Err(refusal) => state.fail(refusal),
        },
    })
}

/// As [`call`], for what frees: that is done even in a spoiled context, whose error is returned then.
fn free(body: impl FnOnce(&mut State) -> Result<(), Refusal>) -> CUresult {
    with_state(|state| match (body(state), state.spoiled) {
        (Ok(()), None) => CUDA_SUCCESS,
        (_, Some(error)) => error,
        (Err(refusal), None) => state.fail(refusal),
    })
}

fn with_state(body: impl FnOnce(&mut State) -> CUresult) -> CUresult {
    STATE.with_borrow_mut(|state| state.as_mut().map_or(NO_CONTEXT, body))
}
