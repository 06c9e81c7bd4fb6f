//! Graphs of kernel launches, and replays of them.

use super::{
    Mode, State,
    describe::{Argument, Step},
    handles::Function,
};
use crate::{
    machine::{self, Counts, Fault, Launch, Unwatched},
    memory::{Allocation, Allocations, Written},
    watch::{
        Counter, Label, Watcher,
        counts::Tally,
        findings::{Defect, Finding, OfLaunch, Place},
        operands::{Operand, Operands, Watched},
        steps::{Ancestors, Touched},
    },
};
use std::ops::Range;

/// A kernel launch.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kernel.
    pub function: Function,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// The block of parameters.
    pub parameters: Vec<u8>,
    /// What its pointers stand for.
    pub operands: Vec<Operand>,
    /// Which of them hold nothing that a replay may read before it has written it.
    pub transient: Vec<bool>,
    /// Which step it is.
    pub label: Label,
    /// Nodes that must have finished.
    pub after: Vec<usize>,
}

/// A graph that is being built.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Its launches; each waits for earlier ones only.
    pub nodes: Vec<Node>,
    /// Which description is its own.
    description: usize,
    /// How many of the description's steps the nodes so far stand for or leave out.
    described: usize,
}

impl Graph {
    /// An empty one, which has description `description`.
    pub fn new(description: usize) -> Self {
        Self { description, ..Self::default() }
    }

    /// The description of the next node: that of the next step with its kernel, where only such steps lie between as a graph
    /// may be without.
    pub fn describe<'d>(&mut self, graphs: &'d [Vec<Step>], kernel: &str, arguments: usize) -> Option<&'d Step> {
        let steps = graphs.get(self.description)?;
        let fits = |step: &Step| step.kernel == kernel && step.arguments.len() == arguments;
        let rest = steps.get(self.described..)?;
        let skipped = rest.iter().position(|step| fits(step) || !step.optional)?;
        let step = rest.get(skipped).filter(|step| fits(step))?;
        self.described += skipped + 1;
        Some(step)
    }
}

/// What an argument points to: as described, else the rest of its allocation.
pub fn operand(memory: &Allocations, address: u64, argument: Option<&Argument>) -> (Operand, bool) {
    if let Some(Argument { name, offset, bytes, written, transient }) = argument {
        let range = address..address.saturating_add(*bytes);
        return (Operand { name: name.clone(), offset: *offset, range, written: *written }, *transient);
    }
    let range = memory.find(address, 1).map_or(address..address, |allocation| allocation.addresses());
    let offset = address - range.start;
    (Operand { name: "an allocation".to_owned(), offset, range: address..range.end, written: true }, false)
}

/// Two nodes that nothing orders and that share bytes, of which one may write them: node and operand of each.
#[derive(Clone, Debug)]
struct Pair {
    parties: [(usize, usize); 2],
}

/// A graph ready for launch.
#[derive(Clone, Debug)]
pub struct Exec {
    nodes: Vec<Node>,
    pairs: Vec<Pair>,
}

impl Exec {
    /// Of a graph.
    pub fn new(graph: &Graph) -> Self {
        let mut ancestors = Ancestors::default();
        let mut pairs = Vec::new();
        for (later, node) in graph.nodes.iter().enumerate() {
            ancestors.push(&node.after);
            for (earlier, other) in graph.nodes[..later].iter().enumerate() {
                if ancestors.ordered(earlier, later) {
                    continue;
                }
                for (a, x) in other.operands.iter().enumerate() {
                    for (b, y) in node.operands.iter().enumerate() {
                        if (x.written || y.written) && meet(&x.range, &y.range) {
                            pairs.push(Pair { parties: [(earlier, a), (later, b)] });
                        }
                    }
                }
            }
        }
        Self { nodes: graph.nodes.clone(), pairs }
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Runs every node of a graph.
///
/// # Errors
/// The fault of the launch that could not go on.
pub fn replay(state: &mut State, exec: &Exec) -> Result<(), Fault> {
    let watched = state.options.mode == Mode::Watch;
    if state.options.mode == Mode::Dry {
        return Ok(());
    }
    if watched {
        for node in &exec.nodes {
            for (operand, _) in node.operands.iter().zip(&node.transient).filter(|(_, transient)| **transient) {
                state.memory.poison(operand.range.start, operand.range.end - operand.range.start);
            }
        }
    }
    // What is touched by each operand of a pair.
    let mut touched: Vec<((usize, usize), Touched)> = Vec::new();
    if watched {
        let mut parties: Vec<(usize, usize)> = exec.pairs.iter().flat_map(|pair| pair.parties).collect();
        parties.sort_unstable();
        parties.dedup();
        let range = |&(node, operand): &(usize, usize)| exec.nodes[node].operands[operand].range.clone();
        touched.extend(parties.iter().map(|party| (*party, Touched::new(range(party)))));
    }
    let of = |party: (usize, usize)| {
        touched.binary_search_by_key(&party, |(party, _)| *party).ok().map(|number| &touched[number].1)
    };
    for (number, node) in exec.nodes.iter().enumerate() {
        let (counts, found, mut tally) = if watched {
            let touched = (0..node.operands.len()).map(|operand| of((number, operand))).collect();
            watch(state, node, touched)
        } else {
            let (counts, tally) = count(state, node);
            (counts, OfLaunch::default(), tally)
        };
        tally.launches = 1;
        if let Ok(counts) = &counts {
            tally.instructions = counts.executed.iter().sum();
            state.kernels[node.function.kernel].coverage.add(&node.function.program, counts);
        }
        state.note(node, found, tally);
        counts?;
    }
    for pair in &exec.pairs {
        let [a, b] = pair.parties;
        if let (Some(x), Some(y)) = (of(a), of(b))
            && let Some(overlap) = x.overlap(y)
        {
            let [earlier, node] = [a, b].map(|(node, _)| &exec.nodes[node]);
            let operand = &node.operands[b.1];
            let [before, instruction] = overlap.instructions;
            let mut found = OfLaunch::default();
            found.note((Some(instruction), Defect::RaceOfSteps), 0, 1, || Finding {
                defect: Defect::RaceOfSteps,
                kernel: node.function.program.name().to_owned(),
                step: node.label.step,
                nodes: node.label.nodes.clone(),
                place: Some(Place::of(&node.function.program, instruction)),
                block: [0; 3],
                thread: [0; 3],
                operand: format!("byte {} of {}", overlap.address - operand.range.start + operand.offset, operand.name),
                detail: format!(
                    "with {}, step {} ({}), at {}",
                    earlier.function.program.name(),
                    earlier.label.step,
                    earlier.label.nodes,
                    Place::of(&earlier.function.program, before)
                ),
                count: 0,
            });
            state.findings.add(node.function.kernel, found);
        }
    }
    Ok(())
}

fn launch_of(node: &Node) -> Launch<'_> {
    Launch { grid: node.grid, block: node.block, dynamic_shared: node.shared, parameters: &node.parameters }
}

/// Runs a node without looking for defects.
fn count(state: &State, node: &Node) -> (Result<Counts, Fault>, Tally) {
    let (program, limits) = (&*node.function.program, &state.options.limits);
    if state.options.mode == Mode::Count {
        let counter = Counter::default();
        let counts = machine::launch(program, &launch_of(node), &state.memory, &counter, limits);
        (counts, counter.finish())
    } else {
        (machine::launch(program, &launch_of(node), &state.memory, &Unwatched, limits), Tally::default())
    }
}

/// Runs a node with all watches.
fn watch(state: &mut State, node: &Node, touched: Vec<Option<&Touched>>) -> (Result<Counts, Fault>, OfLaunch, Tally) {
    let program = &*node.function.program;
    let saved = (!program.communicates()).then(|| {
        let written = node.operands.iter().filter(|operand| operand.written);
        state.memory.save(written.map(|operand| operand.range.clone()))
    });
    // An operand without bytes may lie behind its allocation.
    let nowhere = Written::new(0, 0);
    let run = |memory: &Allocations, tells_races: bool| {
        let operands = node.operands.iter().zip(&touched).map(|(operand, touched)| {
            let allocation = memory.find(operand.range.start, 1);
            Watched::new(operand, allocation.map_or(&nowhere, Allocation::written), *touched)
        });
        let launch = launch_of(node);
        let watcher =
            Watcher::new(program, &launch, &node.label, Operands::new(program, operands.collect()), tells_races);
        let counts = machine::launch(program, &launch, memory, &watcher, &state.options.limits);
        let raced = watcher.raced();
        let (found, tally) = watcher.finish(counts.as_ref().err());
        (raced, counts, found, tally)
    };
    let (raced, counts, found, tally) = run(&state.memory, false);
    if let (true, Some(saved)) = (raced, saved) {
        state.memory.restore(&saved);
        // One block after another, so that which thread of a race comes second does not depend on chance.
        match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
            Ok(pool) => {
                let memory = &state.memory;
                let (_, counts, found, tally) = pool.install(|| run(memory, true));
                return (counts, found, tally);
            }
            Err(error) => log::warn!("a race is told without its place: {error}"),
        }
    }
    (counts, found, tally)
}
