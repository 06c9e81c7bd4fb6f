//! Which steps wait for others because of what they read and write, and not of where that lies.

use crate::{
    kernel_graph::Storage,
    order::{Access, dependencies},
    schedule::{Schedule, StepOperand},
};

/// A set of steps.
#[derive(Clone)]
struct Steps(Vec<u64>);

impl Steps {
    fn none(steps: usize) -> Self {
        Self(vec![0; steps.div_ceil(64)])
    }

    fn all(steps: usize) -> Self {
        Self(vec![u64::MAX; steps.div_ceil(64)])
    }

    fn add(&mut self, step: usize) {
        self.0[step / 64] |= 1 << (step % 64);
    }

    fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }

    fn keep(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    fn is_within(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own & !other == 0)
    }
}

/// Which buffers are used one after the other, wherever they lie.
pub struct Waits {
    /// For each buffer the steps that use it.
    users: Vec<Steps>,
    /// For each buffer the steps that all of its users wait for.
    before: Vec<Steps>,
}

impl Waits {
    /// Those of a schedule, by what its steps read and write.
    pub fn of(schedule: &Schedule) -> Self {
        let (count, buffers) = (schedule.steps.len(), schedule.graph.buffers.len());
        let accesses =
            schedule.steps.iter().map(|step| step.operands.iter().map(|own| access(schedule, own)).collect());
        let mut waits: Vec<Steps> = Vec::with_capacity(count);
        for after in dependencies(&accesses.collect::<Vec<_>>()) {
            let mut own = Steps::none(count);
            for earlier in after {
                own.add(earlier as usize);
                own.unite(&waits[earlier as usize]);
            }
            waits.push(own);
        }
        let (mut users, mut before) = (vec![Steps::none(count); buffers], vec![Steps::all(count); buffers]);
        for (number, step) in schedule.steps.iter().enumerate() {
            for operand in &step.operands {
                let buffer = operand.range.buffer.0;
                users[buffer].add(number);
                before[buffer].keep(&waits[number]);
            }
        }
        Self { users, before }
    }

    /// Whether all users of one of two buffers wait for all users of the other.
    pub fn are_ordered(&self, a: usize, b: usize) -> bool {
        self.users[a].is_within(&self.before[b]) || self.users[b].is_within(&self.before[a])
    }
}

/// What an operand touches, of memory where each buffer lies by itself.
fn access(schedule: &Schedule, operand: &StepOperand) -> Access {
    let buffers = &schedule.graph.buffers;
    let number = operand.range.buffer.0;
    let space = match &buffers[number].storage {
        // Several buffers may be one binding.
        Storage::Binding(binding) => buffers.len() + binding,
        _ => number,
    };
    operand.access(space, operand.range.offset)
}
