//! Rules of the schedule.

use super::{Illegal, memory::Memory};
use crate::{
    kernel_graph::Storage,
    schedule::{Schedule, ScheduledStep, StepAction, StepOperand},
};
use floe_engine::plan::check_launch;
use floe_kernels::codegen::Target;

/// Checks that steps are of the target's kind; that a launch has as many operands as arguments, an entry, and a grid, a block
/// and shared memory that the target can launch; that operands lie inside their buffers, nothing is read before it is
/// written, and inputs and constants are never written; and that every output is written.
///
/// # Errors
/// Returns the first broken rule.
pub fn check(schedule: &Schedule, target: &Target, pass: &'static str) -> Result<(), Illegal> {
    let mut memory = Memory::new(&schedule.graph);
    for (number, step) in schedule.steps.iter().enumerate() {
        let illegal = |rule: String| Illegal::new(pass, format!("step {number} ({})", step.note.node), rule);
        match &step.action {
            StepAction::Host(kernel) if target.is_host() => {
                kernel.family().check().map_err(|error| illegal(error.to_string()))?;
            }
            StepAction::Launch(launch) if !target.is_host() => {
                if launch.pointers() != step.operands.len() && !is_behind_the_network(schedule, step) {
                    let (arguments, operands) = (launch.pointers(), step.operands.len());
                    return Err(illegal(format!("{operands} operands for {arguments} arguments")));
                }
                if !launch.source.contains(&launch.entry) || launch.entry.is_empty() {
                    return Err(illegal(format!("its source has no entry '{}'", launch.entry)));
                }
                let (grid, block, shared) = (launch.grid, launch.block, launch.shared);
                if check_launch(grid, block, shared).is_err() || shared > target.shared_per_block {
                    return Err(illegal(format!("grid {grid:?}, block {block:?}, {shared} bytes of shared memory")));
                }
            }
            StepAction::Host(_) => return Err(illegal("a host step on a GPU".into())),
            StepAction::Launch(_) => return Err(illegal("a launch on the host".into())),
        }
        for operand in step.operands.iter().filter(|operand| !operand.written) {
            memory.read(operand.range).map_err(illegal)?;
        }
        for operand in step.operands.iter().filter(|operand| operand.written) {
            memory.write(operand.range).map_err(illegal)?;
        }
    }
    memory.outputs().map_err(|rule| Illegal::new(pass, "bindings", rule))
}

/// Whether a step is a guard or the signal: no candidate, whose arguments would name its kernel's operands.
fn is_behind_the_network(schedule: &Schedule, step: &ScheduledStep) -> bool {
    let storage = |operand: &StepOperand| &schedule.graph.buffers[operand.range.buffer.0].storage;
    step.operands.iter().any(|operand| matches!(storage(operand), Storage::ReplayCounter | Storage::Report))
}
