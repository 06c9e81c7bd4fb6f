//! Plans that hand out what they store: the steps, kernels and constants of a usual plan, with one more output that holds
//! everything which a usual plan keeps in its arena. Memory is not used twice there, so that after a replay all of it can be read.

use crate::{
    kernel_graph::{BufferRange, Storage},
    lower::{Located, Places},
    schedule::Schedule,
};
use floe_engine::plan::format::{BLOB_ALIGNMENT, Direction};
use floe_kernels::{DType, Dims};
use floe_models::TensorId;

/// Name of the additional output.
pub const NAME: &str = "floe.values";

/// A value that such a plan hands out.
#[derive(Clone, Debug)]
pub struct ExposedValue {
    /// The value of the fused graph.
    pub id: TensorId,
    /// The binding that holds it.
    pub binding: usize,
    /// Where its operand lies in the binding.
    pub bytes: std::ops::Range<u64>,
    /// How it lies in the operand.
    pub located: Located,
}

/// Moves what a schedule has in its arena into an output of its own, and tells what of the graph's values lies there or in
/// other outputs. Values that no step stores, because a kernel has them in registers only, are not among them. What would make
/// the output longer than a plan can describe stays in the arena.
pub fn expose(schedule: &mut Schedule, places: &Places) -> Vec<ExposedValue> {
    let graph = &mut schedule.graph;
    let written: Vec<BufferRange> = schedule
        .steps
        .iter()
        .flat_map(|step| &step.operands)
        .filter(|operand| operand.written)
        .map(|operand| operand.range)
        .collect();
    let mut starts: Vec<Option<u64>> = vec![None; graph.buffers.len()];
    let mut total = 0u64;
    let number = graph.bindings.len();
    let mut values = Vec::new();
    for (id, located) in places.values.iter().enumerate() {
        let Some(located) = located else { continue };
        let Ok((range, _)) = located.operand(16) else { continue };
        let overlaps = |other: &BufferRange| {
            let apart = other.offset >= range.offset + range.bytes || range.offset >= other.offset + other.bytes;
            other.buffer == range.buffer && !apart
        };
        if range.bytes == 0 || !written.iter().any(overlaps) {
            continue;
        }
        let buffer = &graph.buffers[range.buffer.0];
        let (binding, start) = match buffer.storage {
            Storage::Binding(binding) => (binding, 0),
            Storage::Arena => match starts[range.buffer.0] {
                Some(start) => (number, start),
                None => {
                    let end = total + buffer.bytes.next_multiple_of(BLOB_ALIGNMENT);
                    if end > u64::from(u32::MAX) {
                        continue;
                    }
                    starts[range.buffer.0] = Some(total);
                    (number, std::mem::replace(&mut total, end))
                }
            },
            _ => continue,
        };
        let from = start + range.offset;
        let value =
            ExposedValue { id: TensorId(id), binding, bytes: from..from + range.bytes, located: located.clone() };
        values.push(value);
    }
    if total == 0 {
        return values;
    }
    let mut shape = Dims::new();
    // One extent below what u32 holds: both succeed.
    let _ = shape.push(u32::try_from(total).unwrap_or(u32::MAX));
    graph.bindings.push(crate::kernel_graph::OwnedBinding {
        name: NAME.to_owned(),
        direction: Direction::Output,
        dtype: DType::U8,
        shape,
        content: String::new(),
    });
    let all = graph.add_buffer(NAME, total, Storage::Binding(number));
    for operand in schedule.steps.iter_mut().flat_map(|step| &mut step.operands) {
        if let Some(start) = starts[operand.range.buffer.0] {
            operand.range = BufferRange { buffer: all, offset: start + operand.range.offset, ..operand.range };
        }
    }
    values
}
