//! Which parameters an address derives from: a fixed point over the registers of 64 bits.

use super::access;
use super::program::{Effects, Op, Step, is_long};
use crate::ptx::Type;
use std::collections::BTreeSet;

/// Result for all instructions.
#[derive(Debug, Default)]
pub(super) struct Analysis {
    /// Distinct sets.
    sets: Vec<Vec<u32>>,
    /// Set of each instruction that accesses global memory.
    of: Vec<Option<u32>>,
}

impl Analysis {
    pub fn new(code: &[Step], effects: &[Effects], types: &[Type]) -> Self {
        let mut roots: Vec<BTreeSet<u32>> = vec![BTreeSet::new(); types.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (step, effect) in code.iter().zip(effects) {
                let mut found = BTreeSet::new();
                match &step.op {
                    Op::Access(access::Op::Parameter { offset, element, .. }) if element.bytes == 8 => {
                        for (i, register) in effect.definitions.iter().enumerate() {
                            changed |= roots[*register as usize].insert(offset + 8 * i as u32);
                        }
                        continue;
                    }
                    // What memory holds is another matter.
                    Op::Access(_) | Op::LoadMatrix(_) => continue,
                    _ => {}
                }
                for register in effect.uses.iter().filter(|register| is_long(types[**register as usize])) {
                    found.extend(&roots[*register as usize]);
                }
                for register in effect.definitions.iter().filter(|register| is_long(types[**register as usize])) {
                    let known = &mut roots[*register as usize];
                    let before = known.len();
                    known.extend(&found);
                    changed |= known.len() != before;
                }
            }
        }
        let mut analysis = Self::default();
        for (step, effect) in code.iter().zip(effects) {
            let accesses = match &step.op {
                Op::Access(access::Op::Load(transfer) | access::Op::Store(transfer)) => {
                    matches!(transfer.to, access::To::Global | access::To::Generic)
                }
                Op::Access(access::Op::Atomic { to, .. }) => matches!(to, access::To::Global | access::To::Generic),
                Op::Access(access::Op::Copy { .. } | access::Op::Prefetch { .. }) => true,
                _ => false,
            };
            analysis.of.push(accesses.then(|| {
                // The address comes first among what is read; of a copy, the global one second. A destination in shared
                // memory has no roots.
                let addresses = if matches!(step.op, Op::Access(access::Op::Copy { .. })) { 2 } else { 1 };
                let mut set = BTreeSet::new();
                for register in effect.uses.iter().take(addresses) {
                    set.extend(&roots[*register as usize]);
                }
                let set: Vec<u32> = set.into_iter().collect();
                let known = analysis.sets.iter().position(|other| *other == set);
                known.unwrap_or_else(|| {
                    analysis.sets.push(set);
                    analysis.sets.len() - 1
                }) as u32
            }));
        }
        analysis
    }

    /// Offsets of the parameters, if the instruction accesses global memory.
    pub fn of(&self, instruction: u32) -> Option<&[u32]> {
        let set = (*self.of.get(instruction as usize)?)?;
        Some(&self.sets[set as usize])
    }
}
