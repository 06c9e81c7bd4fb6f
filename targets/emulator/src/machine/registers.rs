//! Which register lives in which row: registers whose lives do not meet share, so that a warp's registers stay in the
//! cache.

use super::lanes::Slot;
use super::program::{Effects, is_long};
use crate::ptx::Type;

/// Slots of all registers.
#[derive(Debug, Default)]
pub(super) struct Allocation {
    pub slots: Vec<Slot>,
    /// Rows and predicates that a warp needs.
    pub rows: u32,
    pub predicates: u32,
    /// Rows and predicates of registers that may be read before they are written: they begin as zero.
    pub cleared: (Vec<u32>, Vec<u32>),
}

/// Rows 0 and 1 and predicate 0 are sinks.
const FIRST_ROW: u32 = 2;
const FIRST_PREDICATE: u32 = 1;

/// Gives every register a slot of its own.
pub(super) fn apart(types: &[Type]) -> Allocation {
    let mut allocation = Allocation { rows: FIRST_ROW, predicates: FIRST_PREDICATE, ..Allocation::default() };
    for r#type in types {
        let slot = allocation.extend(*r#type);
        allocation.slots.push(slot);
    }
    allocation
}

impl Allocation {
    fn extend(&mut self, r#type: Type) -> Slot {
        let (end, by) = match r#type {
            Type::Pred => (&mut self.predicates, 1),
            _ => (&mut self.rows, if is_long(r#type) { 2 } else { 1 }),
        };
        *end += by;
        Slot(*end - by)
    }
}

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, register: u32) {
        self.0[register as usize / 64] |= 1 << (register % 64);
    }

    fn remove(&mut self, register: u32) {
        self.0[register as usize / 64] &= !(1 << (register % 64));
    }

    fn each(&self, mut found: impl FnMut(usize)) {
        for (i, word) in self.0.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                found(64 * i + word.trailing_zeros() as usize);
                word &= word - 1;
            }
        }
    }
}

/// Lets registers share slots: by linear scan over their lives from the first place where they are alive to the last.
pub(super) fn allocate(types: &[Type], effects: &[Effects]) -> Allocation {
    let (first, last, entry) = lives(types.len(), effects);
    let mut order: Vec<usize> = (0..types.len()).filter(|register| first[*register] <= last[*register]).collect();
    order.sort_by_key(|register| first[*register]);
    let mut allocation = Allocation { rows: FIRST_ROW, predicates: FIRST_PREDICATE, ..Allocation::default() };
    allocation.slots = vec![Slot::SINK; types.len()];
    let class = |register: usize| match types[register] {
        Type::Pred => 0,
        r#type if is_long(r#type) => 1,
        _ => 2,
    };
    let mut free: [Vec<Slot>; 3] = Default::default();
    // Alive now: last place, register.
    let mut alive = std::collections::BTreeSet::new();
    for register in order {
        while let Some(&(end, other)) = alive.first() {
            if end >= first[register] {
                break;
            }
            alive.pop_first();
            free[class(other)].push(allocation.slots[other]);
        }
        let slot = free[class(register)].pop().unwrap_or_else(|| allocation.extend(types[register]));
        allocation.slots[register] = slot;
        alive.insert((last[register], register));
    }
    entry.each(|register| {
        let slot = allocation.slots[register].0;
        match class(register) {
            0 => allocation.cleared.1.push(slot),
            1 => allocation.cleared.0.extend([slot, slot + 1]),
            _ => allocation.cleared.0.push(slot),
        }
    });
    allocation
}

/// First and last instruction that each register is alive at, and the registers alive at the entry.
fn lives(registers: usize, effects: &[Effects]) -> (Vec<u32>, Vec<u32>, Set) {
    let count = effects.len();
    // Blocks of instructions that are entered at their first only.
    let mut starts = vec![false; count + 1];
    starts[0] = true;
    for (i, effect) in effects.iter().enumerate() {
        if let Some(target) = effect.target {
            starts[target as usize] = true;
        }
        if effect.target.is_some() || !effect.falls {
            starts[i + 1] = true;
        }
    }
    let begins: Vec<usize> = (0..count).filter(|i| starts[*i]).collect();
    let mut block_of = vec![usize::MAX; count + 1];
    for (block, begin) in begins.iter().enumerate() {
        block_of[*begin] = block;
    }
    let end_of = |block: usize| begins.get(block + 1).copied().unwrap_or(count);
    let empty = Set(vec![0; registers.div_ceil(64)]);
    let mut alive_in = vec![empty.clone(); begins.len()];
    let alive_out = |block: usize, alive_in: &[Set]| {
        let mut out = empty.clone();
        let tail = &effects[end_of(block) - 1];
        let next = tail.falls.then(|| end_of(block));
        for successor in next.into_iter().chain(tail.target.map(|target| target as usize)) {
            if let Some(set) = alive_in.get(block_of[successor]) {
                out.0.iter_mut().zip(&set.0).for_each(|(word, other)| *word |= other);
            }
        }
        out
    };
    let mut changed = true;
    while changed {
        changed = false;
        for block in (0..begins.len()).rev() {
            let mut alive = alive_out(block, &alive_in);
            for effect in effects[begins[block]..end_of(block)].iter().rev() {
                // What is written under a predicate keeps its old value in the other lanes.
                if !effect.guarded {
                    effect.definitions.iter().for_each(|register| alive.remove(*register));
                } else {
                    effect.definitions.iter().for_each(|register| alive.insert(*register));
                }
                effect.uses.iter().for_each(|register| alive.insert(*register));
            }
            if alive != alive_in[block] {
                alive_in[block] = alive;
                changed = true;
            }
        }
    }
    let (mut first, mut last) = (vec![u32::MAX; registers], vec![0; registers]);
    let mut touch = |register: usize, at: usize| {
        first[register] = first[register].min(at as u32);
        last[register] = last[register].max(at as u32);
    };
    for block in 0..begins.len() {
        alive_in[block].each(|register| touch(register, begins[block]));
        alive_out(block, &alive_in).each(|register| touch(register, end_of(block) - 1));
    }
    for (i, effect) in effects.iter().enumerate() {
        effect.uses.iter().chain(&effect.definitions).for_each(|register| touch(*register as usize, i));
    }
    let entry = alive_in.first().cloned().unwrap_or(empty);
    (first, last, entry)
}
