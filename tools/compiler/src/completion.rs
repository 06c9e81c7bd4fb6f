//! The steps behind a network on a GPU: guards and the signal. Every plan holds them; a session leaves them out unless it
//! polls or watches its results.

use crate::{
    kernel_graph::{BufferRange, Storage},
    schedule::{Note, Schedule, ScheduledStep, StepAction, StepOperand},
};
use floe_engine::plan::format::{COUNTER_BYTES, Direction, MAX_OPERANDS, REPORT_BYTES, REPORT_GUARD};
use floe_kernels::codegen::{
    Launch,
    completion::{Watched, guard, signal},
};

/// Tensors that one guard watches: its operands are the counter and the report besides.
const WATCHED: usize = MAX_OPERANDS - 2;

/// Appends the guards of all float outputs and states, and the signal.
pub fn append(schedule: &mut Schedule) {
    let graph = &mut schedule.graph;
    let counter = graph.add_buffer("replays", COUNTER_BYTES, Storage::ReplayCounter);
    let report = graph.add_buffer("report", REPORT_BYTES, Storage::Report);
    let operand =
        |buffer, bytes, written| StepOperand { range: BufferRange { buffer, offset: 0, bytes }, written, rows: None };
    let counts = |written| operand(counter, COUNTER_BYTES, written);
    let report = operand(report, REPORT_BYTES, true);

    let results = graph.bindings.iter().enumerate().filter(|(_, binding)| {
        binding.direction != Direction::Input && binding.dtype.is_float() && binding.bytes() > 0
    });
    let watched: Vec<Watched> = results
        .map(|(number, binding)| Watched {
            binding: number,
            dtype: binding.dtype,
            elements: binding.bytes() / binding.dtype.size() as u64,
        })
        .collect();
    let mut steps = Vec::new();
    for watched in watched.chunks(WATCHED) {
        let mut operands = vec![counts(false), report];
        for one in watched {
            let bytes = one.elements * one.dtype.size() as u64;
            // Lowering made a buffer for every binding that a kernel touches; another one for the same bytes does no harm.
            let buffer = graph.add_buffer("watched", bytes, Storage::Binding(one.binding));
            operands.push(operand(buffer, bytes, false));
        }
        let bytes = operands.iter().map(|operand| operand.range.bytes).sum();
        steps.push(step("guard", guard(watched, REPORT_GUARD / 4), operands, bytes));
    }
    steps.push(step("signal", signal(), vec![counts(true), report], COUNTER_BYTES));
    schedule.steps.extend(steps);
}

fn step(family: &str, launch: Launch, operands: Vec<StepOperand>, bytes: u64) -> ScheduledStep {
    let note = Note {
        node: family.to_owned(),
        family: family.to_owned(),
        algorithm: "when asked for".to_owned(),
        bytes,
        ..Note::default()
    };
    ScheduledStep { action: StepAction::Launch(launch), operands, note }
}
