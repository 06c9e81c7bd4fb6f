//! What a plan's steps hand to each other, and for how long it lies in memory, found from their operands.
//!
//! A plan says which bytes a step touches, not which value they hold. A value begins with the step that writes a range and ends
//! with its last reader. Slices of one tensor reach across each other: of a tensor whose channels lie last, both halves of the
//! channels span nearly all bytes. So a write ends an earlier value where one of the ranges contains the other, or where the
//! smaller of them shares less than half of its bytes.

use floe_engine::plan::{
    Variant,
    format::{Direction, Operand, Purpose, Region},
};
use std::ops::Range;

/// A range of bytes that holds one result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Where it lies: the arena or a binding.
    pub region: Region,
    /// Its bytes there.
    pub bytes: Range<u64>,
    /// The step that writes it; `None` for what is there before a replay.
    pub writer: Option<usize>,
    /// The steps that read it, ascending; none for workspace.
    pub readers: Vec<usize>,
}

/// The values of a variant's network, by writer; those of inputs and states come first.
pub fn of(variant: &Variant<'_>) -> Vec<Value> {
    let bindings = variant.bindings().enumerate().filter(|(_, binding)| binding.direction != Direction::Output);
    let inputs = bindings.filter_map(|(number, binding)| {
        let region = Region::Binding(u16::try_from(number).ok()?);
        Some(Value { region, bytes: 0..binding.bytes()?, writer: None, readers: Vec::new() })
    });
    let steps = variant.steps().take_while(|step| step.purpose() == Purpose::Network);
    trace(inputs.collect(), steps.map(|step| step.operands.to_vec()))
}

/// Follows the values through the operands of one step after the other.
fn trace(inputs: Vec<Value>, steps: impl Iterator<Item = Vec<Operand>>) -> Vec<Value> {
    let mut live: Vec<usize> = (0..inputs.len()).collect();
    let mut values = inputs;
    for (step, operands) in steps.enumerate() {
        for operand in operands.iter().filter(|operand| !operand.written) {
            let range = operand.offset..operand.offset.saturating_add(operand.bytes);
            let met: Vec<usize> = live
                .iter()
                .copied()
                .filter(|&value| values[value].region == operand.region && shared(&values[value].bytes, &range) > 0)
                .collect();
            // The neighbours of a slice reach into its range without being read.
            let whole = met.iter().any(|&value| nested(&values[value].bytes, &range));
            for value in met {
                let value = &mut values[value];
                if (!whole || nested(&value.bytes, &range)) && value.readers.last() != Some(&step) {
                    value.readers.push(step);
                }
            }
        }
        for operand in operands.iter().filter(|operand| operand.written) {
            let bytes = operand.offset..operand.offset.saturating_add(operand.bytes);
            live.retain(|&value| values[value].region != operand.region || !replaces(&bytes, &values[value].bytes));
            live.push(values.len());
            values.push(Value { region: operand.region, bytes, writer: Some(step), readers: Vec::new() });
        }
    }
    values
}

/// Bytes that two ranges share.
fn shared(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

/// Whether one of two ranges contains the other.
fn nested(a: &Range<u64>, b: &Range<u64>) -> bool {
    let contains = |a: &Range<u64>, b: &Range<u64>| a.start <= b.start && b.end <= a.end;
    contains(a, b) || contains(b, a)
}

/// Whether a write ends the value that lay at `old`.
fn replaces(new: &Range<u64>, old: &Range<u64>) -> bool {
    let shared = shared(new, old);
    let smaller = (new.end - new.start).min(old.end - old.start);
    shared > 0 && (nested(new, old) || shared < smaller.div_ceil(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(offset: u64, bytes: u64) -> Operand {
        Operand { region: Region::Arena, offset, bytes, written: false }
    }

    fn write(offset: u64, bytes: u64) -> Operand {
        Operand { written: true, ..read(offset, bytes) }
    }

    /// Writer, first byte and readers of each value of steps with these operands.
    fn traced<const STEPS: usize>(steps: [&[Operand]; STEPS]) -> Vec<(usize, u64, Vec<usize>)> {
        let values = trace(Vec::new(), steps.iter().map(|operands| operands.to_vec()));
        values.into_iter().map(|value| (value.writer.unwrap(), value.bytes.start, value.readers)).collect()
    }

    #[test]
    fn a_value_ends_where_another_takes_its_bytes() {
        let values = traced([
            &[write(0, 64)],
            &[read(0, 64), write(64, 32)],
            &[read(64, 32), write(0, 32)],
            &[read(0, 32), write(128, 32)],
        ]);
        assert_eq!(values, [(0, 0, vec![1]), (1, 64, vec![2]), (2, 0, vec![3]), (3, 128, vec![])]);
    }

    #[test]
    fn a_write_that_meets_the_edge_of_a_value_ends_it() {
        let values = traced([&[write(16, 64)], &[read(16, 64), write(64, 64)], &[write(0, 64)], &[read(0, 128)]]);
        assert_eq!(values, [(0, 16, vec![1]), (1, 64, vec![3]), (2, 0, vec![3])]);
    }

    #[test]
    fn slices_of_one_tensor_reach_across_each_other() {
        // Ten rows of 16 bytes: the first 8 of each row from one step, the other 8 from the next.
        let values = traced([
            &[write(0, 152)],
            &[write(8, 152)],
            &[read(0, 160), write(200, 8)],
            &[read(8, 152), write(208, 8)],
        ]);
        assert_eq!(values[..2], [(0, 0, vec![2]), (1, 8, vec![2, 3])]);
    }

    #[test]
    fn a_result_in_place_is_a_new_value() {
        let values = traced([&[write(0, 64)], &[read(0, 64), write(0, 64)], &[read(0, 64), write(64, 64)]]);
        assert_eq!(values[..2], [(0, 0, vec![1]), (1, 0, vec![2])]);
    }
}
