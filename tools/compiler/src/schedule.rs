//! Scheduling: every kernel becomes one or more steps with operands.
//!
//! For the host a step is the kernel itself. For a GPU the steps are the launches of the candidate that the
//! [selection](crate::selection) chooses, and constants are repacked into the form that it wants.

use crate::{
    candidates::Problems,
    forms::Forms,
    kernel_graph::{BufferId, BufferRange, KernelGraph, KernelNode, Storage},
    layout::Written,
    lower::{aligned, repack},
    order::{Access, Rows},
    precision::Reason,
    selection::{Choice, ScheduleError, Selection},
};
use bytes::Bytes;
use floe_kernels::{
    DType, Kernel, KernelError, View,
    codegen::{Argument, Candidate, Launch, Packing, Rate},
    copy::Copy,
};
use rayon::prelude::*;
use std::collections::HashMap;

/// What a step does.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)]
pub enum StepAction {
    /// Runs a reference kernel.
    Host(Kernel),
    /// Launches a CUDA kernel.
    Launch(Launch),
}

/// An operand of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOperand {
    /// The bytes.
    pub range: BufferRange,
    /// Whether the step writes them.
    pub written: bool,
    /// Which of them it touches, where not all.
    pub rows: Option<Rows>,
}

impl StepOperand {
    /// What it touches, where its bytes start there in a memory.
    pub fn access(&self, space: usize, start: u64) -> Access {
        Access { space, start, end: start + self.range.bytes, written: self.written, rows: self.rows }
    }
}

/// One step before placement.
#[derive(Clone, Debug)]
pub struct ScheduledStep {
    /// What is done.
    pub action: StepAction,
    /// On what.
    pub operands: Vec<StepOperand>,
    /// Why.
    pub note: Note,
}

/// What a report says of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Note {
    /// Name of the node that `--algorithm` refers to.
    pub node: String,
    /// Names of the model's nodes.
    pub sources: Vec<String>,
    /// Why it stores f32 in an f16 variant, if it does.
    pub reasons: Vec<Reason>,
    /// How it writes its result, where that does not go without saying.
    pub layout: Option<Written>,
    /// Kernel family.
    pub family: String,
    /// Algorithm within the family.
    pub algorithm: String,
    /// Configuration of the algorithm.
    pub configuration: String,
    /// Bytes read and written.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Expected microseconds.
    pub expected: f64,
    /// Whether they come from a timing table.
    pub measured: bool,
    /// Microseconds that the target allows at best.
    pub floor: f64,
    /// Second-best candidate and its expected microseconds.
    pub runner_up: Option<(String, f64)>,
}

/// Steps in order, with the buffers that they work on.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<ScheduledStep>,
    /// The graph whose buffers the steps refer to; buffers for workspaces and repacked constants are added to it.
    pub graph: KernelGraph,
    /// What there is to measure; nothing unless it was asked for.
    pub problems: Problems,
    /// Kernels chosen by measured times, and all kernels.
    pub measured: (usize, usize),
}

/// The peak rate that bounds a kernel, by the element types of its first operands.
fn rate(kernel: &Kernel) -> Rate {
    let family = kernel.family();
    let dtype = |number| family.input(number).map(|view| view.dtype);
    match (dtype(0), dtype(1)) {
        // It multiplies what it makes of its input.
        _ if matches!(kernel, Kernel::QuantizingConv(_)) => Rate::Int8,
        // Floats of 8 bits are multiplied as f16.
        (Some(DType::F16 | DType::Bf16 | DType::F8E4M3 | DType::F8E5M2), _) => Rate::F16,
        (Some(DType::I8 | DType::U8), Some(DType::I8 | DType::U8)) => Rate::Int8,
        _ => Rate::F32,
    }
}

fn read(range: BufferRange) -> StepOperand {
    StepOperand { range, written: false, rows: None }
}

fn written(range: BufferRange) -> StepOperand {
    StepOperand { range, written: true, rows: None }
}

fn note(node: &KernelNode, algorithm: &str, configuration: &str, expected: f64) -> Note {
    Note {
        node: node.name.clone(),
        sources: node.sources.clone(),
        reasons: node.reasons.clone(),
        layout: node.layout,
        family: node.kernel.family().name().to_owned(),
        algorithm: algorithm.to_owned(),
        configuration: configuration.to_owned(),
        bytes: node.inputs.iter().chain(&node.outputs).map(|range| range.bytes).sum(),
        flops: node.kernel.family().flops(),
        expected,
        measured: false,
        floor: 0.0,
        runner_up: None,
    }
}

/// Schedules for the host: one step a kernel.
///
/// # Errors
/// Where a kernel refuses its parameters.
pub fn for_host(mut graph: KernelGraph) -> Result<Schedule, ScheduleError> {
    let nodes = std::mem::take(&mut graph.nodes);
    let mut steps = Vec::with_capacity(nodes.len());
    for node in nodes {
        let family = node.kernel.family();
        family.check().map_err(ScheduleError::of_kernel(&node))?;
        let mut operands: Vec<_> = node.inputs.iter().copied().map(read).collect();
        operands.extend(node.outputs.iter().copied().map(written));
        let bytes = family.host_workspace();
        if bytes != 0 {
            let buffer = graph.add_buffer(&format!("{} workspace", node.name), bytes, Storage::Arena);
            operands.push(written(BufferRange { buffer, offset: 0, bytes }));
        }
        let note = note(&node, "host", "", 0.0);
        steps.push(ScheduledStep { action: StepAction::Host(node.kernel), operands, note });
    }
    Ok(Schedule { steps, graph, ..Schedule::default() })
}

/// Schedules for a GPU. Where `forms` are given, those of the shapes before, constants keep their forms wherever that costs little.
///
/// # Errors
/// Where a kernel has no candidate, or not the forced one.
pub fn for_gpu(
    mut graph: KernelGraph,
    selection: Selection<'_>,
    forms: Option<&mut Forms>,
) -> Result<Schedule, ScheduleError> {
    let nodes = std::mem::take(&mut graph.nodes);
    if let Some(unknown) = selection.forced.keys().filter(|name| !nodes.iter().any(|node| node.is_named(name))).min() {
        return Err(ScheduleError::NoSuchNode(unknown.clone()));
    }
    let mut scheduler = Scheduler {
        graph,
        selection,
        forms,
        packed: HashMap::new(),
        grid_barrier: None,
        steps: Vec::new(),
        measured: (0, 0),
    };
    for nodes in nodes.chunks(AT_ONCE) {
        let ranked: Vec<_> = nodes.par_iter().map(|node| scheduler.selection.ranked(&scheduler.graph, node)).collect();
        for (node, ranked) in nodes.iter().zip(ranked) {
            scheduler.node(node, ranked?)?;
        }
    }
    let Scheduler { steps, mut graph, selection, measured, .. } = scheduler;
    graph.drop_unread(steps.iter().flat_map(|step| &step.operands).map(|operand| operand.range.buffer));
    Ok(Schedule { steps, graph, problems: selection.problems.unwrap_or_default(), measured })
}

/// Nodes whose candidates are generated at the same time: enough for all cores, few enough for their sources to fit in memory.
const AT_ONCE: usize = 64;

struct Scheduler<'a> {
    graph: KernelGraph,
    selection: Selection<'a>,
    /// The forms of constants in other shapes, if there are any.
    forms: Option<&'a mut Forms>,
    /// Repacked operands: (buffer, offset, wanted form) → where.
    packed: HashMap<(BufferId, u64, Packing), BufferRange>,
    /// Counters of all launches whose blocks wait for each other: one buffer, so that no two of them run at the same time.
    grid_barrier: Option<BufferId>,
    steps: Vec<ScheduledStep>,
    /// Kernels chosen by measured times, and all kernels.
    measured: (usize, usize),
}

impl Scheduler<'_> {
    fn node(&mut self, node: &KernelNode, ranked: Vec<Candidate>) -> Result<(), ScheduleError> {
        self.selection.collect(&self.graph, node, &ranked);
        let Choice { best, expected, measured, runner_up } =
            self.choose(node, ranked).ok_or_else(|| self.selection.unsupported(node, "no candidate".into()))?;
        self.measured.0 += usize::from(measured);
        self.measured.1 += 1;
        let mut inputs = node.inputs.clone();
        for (number, packing) in best.packing.iter().enumerate() {
            inputs[number] = self.pack(node, number, packing)?;
        }
        let mut buffer = |what: &str, bytes: u64, storage: Storage| {
            (bytes != 0).then(|| self.graph.add_buffer(&format!("{} {what}", node.name), bytes, storage))
        };
        let workspace = buffer("workspace", best.workspace, Storage::Arena);
        let has_grid_barrier = best.launches.iter().any(|launch| launch.needs_all_blocks);
        let counters = match self.grid_barrier.filter(|_| has_grid_barrier) {
            None => buffer("counters", best.counters, Storage::Counters),
            shared => shared,
        };
        if has_grid_barrier {
            self.grid_barrier = counters;
        }
        if let Some(BufferId(shared)) = counters {
            let bytes = &mut self.graph.buffers[shared].bytes;
            *bytes = best.counters.max(*bytes);
        }
        let family = node.kernel.family();
        // A packed input has another form than the family's view.
        let kept = |i: usize| best.packing.get(i).is_none_or(|packing| *packing == Packing::Keep);
        let rows = |view: Option<&View>, range: BufferRange| {
            view.filter(|view| view.bytes() == Ok(range.bytes)).and_then(Rows::of)
        };
        let input_rows = |i: usize| rows(family.input(i).filter(|_| kept(i)), node.inputs[i]);
        let output_rows = |i: usize| rows(family.output(i), node.outputs[i]);
        let last = best.launches.len().saturating_sub(1);
        for (number, launch) in best.launches.into_iter().enumerate() {
            let tail = |buffer: Option<BufferId>, from: u64, whole: u64| {
                written(BufferRange { buffer: buffer.unwrap_or(BufferId(0)), offset: from, bytes: whole - from })
            };
            let operands = launch
                .arguments
                .iter()
                .map(|argument| match *argument {
                    Argument::Input(i) => StepOperand { rows: input_rows(i), ..read(inputs[i]) },
                    Argument::Output(i) => StepOperand { rows: output_rows(i), ..written(node.outputs[i]) },
                    Argument::Workspace(from) => tail(workspace, from, best.workspace),
                    Argument::Counters(from) => tail(counters, from, best.counters),
                })
                .collect();
            let mut note = note(node, best.algorithm, &best.configuration, expected);
            note.measured = measured;
            if number == last {
                note.runner_up.clone_from(&runner_up);
                note.floor = self.selection.target.floor(note.flops, note.bytes, rate(&node.kernel));
            } else {
                // Work and time of a candidate of several launches are reported with the last one.
                (note.bytes, note.flops, note.expected) = (0, 0, 0.0);
                note.reasons.clear();
                note.layout = None;
            }
            self.steps.push(ScheduledStep { action: StepAction::Launch(launch), operands, note });
        }
        Ok(())
    }

    /// The fastest of ranked candidates, or the fastest of those that read constants in the forms that other shapes have.
    fn choose(&mut self, node: &KernelNode, candidates: Vec<Candidate>) -> Option<Choice> {
        let Some(forms) = &mut self.forms else { return self.selection.choose(candidates) };
        let graph = &self.graph;
        let mut chosen = self.selection.choose(candidates.clone())?;
        let added = forms.added(graph, node, &chosen.best);
        if added > 0 {
            let adds_none = |candidate: &Candidate| forms.added(graph, node, candidate) == 0;
            let kept: Vec<Candidate> = candidates.into_iter().filter(adds_none).collect();
            if let Some(kept) = self.selection.choose(kept) {
                // What was measured and what was not cannot be compared.
                let comparable = kept.measured == chosen.measured;
                let longer = if comparable { kept.expected / chosen.expected - 1.0 } else { f64::INFINITY };
                if !forms.allows(added, longer) {
                    chosen = kept;
                }
            }
        }
        forms.choose(graph, node, &chosen.best);
        Some(chosen)
    }

    /// Zeroes a range: a copy whose source is one zero, since a copy writes zeros outside its source's extents.
    fn clear(&mut self, node: &KernelNode, range: BufferRange, dtype: DType) -> Result<(), ScheduleError> {
        let elements = u32::try_from(range.bytes / dtype.size() as u64).unwrap_or(u32::MAX);
        let source = View::contiguous(dtype, &[1]).map_err(ScheduleError::of_kernel(node))?;
        let destination = View::contiguous(dtype, &[elements]).map_err(ScheduleError::of_kernel(node))?;
        let zero = Bytes::from(vec![0; dtype.size()]);
        let bytes = zero.len() as u64;
        let buffer = self.graph.add_buffer("zero", bytes, Storage::Constant(zero));
        self.copy(node, Copy { source, destination }, BufferRange { buffer, offset: 0, bytes }, range)
    }

    /// A step that copies for a node.
    fn copy(&mut self, node: &KernelNode, copy: Copy, from: BufferRange, to: BufferRange) -> Result<(), ScheduleError> {
        let copy = KernelNode {
            name: node.name.clone(),
            sources: node.sources.clone(),
            reasons: Vec::new(),
            layout: None,
            code: None,
            kernel: Kernel::Copy(copy),
            inputs: vec![from],
            outputs: vec![to],
        };
        let ranked = self.selection.ranked(&self.graph, &copy)?;
        self.node(&copy, ranked)
    }

    /// An input operand in the wanted form: constants are repacked now, the rest by a copy step.
    fn pack(&mut self, node: &KernelNode, number: usize, packing: &Packing) -> Result<BufferRange, ScheduleError> {
        let from_range = node.inputs[number];
        if *packing == Packing::Keep {
            return Ok(from_range);
        }
        let key = (from_range.buffer, from_range.offset, packing.clone());
        if let Some(&range) = self.packed.get(&key) {
            return Ok(range);
        }
        let fail = ScheduleError::of_kernel(node);
        let from = node.kernel.family().input(number).ok_or_else(|| fail(KernelError::OperandCount))?.clone();
        let name = format!("{} packed", self.graph.buffers[from_range.buffer.0].name);
        let range = if let Some(constant) = self.graph.constant(from_range.buffer) {
            let source = &constant[from_range.offset as usize..];
            let packed = match packing {
                Packing::Keep => return Ok(from_range),
                Packing::View(to) => repack(source, &from, to),
                Packing::Transform(transform) => transform.apply(&aligned(source), &from),
            };
            let packed = packed.map_err(&fail)?;
            let bytes = packed.len() as u64;
            let buffer = self.graph.add_buffer(&name, bytes, Storage::Constant(packed.into()));
            BufferRange { buffer, offset: 0, bytes }
        } else {
            // Candidates with transformed operands are offered for constants only.
            let Packing::View(to) = packing else { return Err(fail(KernelError::OperandCount)) };
            let bytes = to.bytes().map_err(&fail)?;
            let buffer = self.graph.add_buffer(&name, bytes, Storage::Arena);
            let range = BufferRange { buffer, offset: 0, bytes };
            if to.elements() * to.dtype.size() as u64 != bytes {
                self.clear(node, range, to.dtype)?;
            }
            self.copy(node, Copy { source: from, destination: to.clone() }, from_range, range)?;
            range
        };
        self.packed.insert(key, range);
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::codegen::all_cases;

    #[test]
    fn products_are_held_to_the_rate_of_their_element_types() {
        let mut seen = [0; 3];
        for kernel in all_cases() {
            let family = kernel.family();
            let dtypes = [0, 1].map(|number| family.input(number).map(|view| view.dtype));
            let expected = match (&kernel, dtypes) {
                (Kernel::QuantizingConv(_), _) => Rate::Int8,
                (Kernel::QuantizedConv(conv), _) => {
                    if conv.is_float() {
                        Rate::F16
                    } else if dtypes.contains(&Some(DType::I16)) {
                        Rate::F32
                    } else {
                        Rate::Int8
                    }
                }
                (Kernel::Conv(_), [Some(DType::F16 | DType::Bf16), _]) => Rate::F16,
                (Kernel::Conv(_), [Some(DType::F32), _]) => Rate::F32,
                _ => continue,
            };
            assert_eq!(rate(&kernel), expected, "{kernel:?}");
            seen[expected as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}
