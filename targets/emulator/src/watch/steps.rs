//! Steps that the graph leaves unordered: which bytes each of them really touched.

use crate::memory::Written;
use std::{
    ops::Range,
    sync::atomic::{AtomicU32, Ordering},
};

/// What a launch touched of a range.
#[derive(Debug)]
pub struct Touched {
    range: Range<u64>,
    read: Written,
    written: Written,
    /// For each 16 bytes the last of the kernel's instructions that touched them, plus one.
    by: Vec<AtomicU32>,
}

/// Bytes that two launches touched, at least one of them writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The first of them.
    pub address: u64,
    /// Instruction of the one launch and of the other.
    pub instructions: [u32; 2],
}

impl Touched {
    /// Nothing of a range.
    pub fn new(range: Range<u64>) -> Self {
        let (start, bytes) = (range.start / 16 * 16, range.end.next_multiple_of(16) - range.start / 16 * 16);
        let by = (0..bytes / 16).map(|_| AtomicU32::new(0)).collect();
        Self { range, read: Written::new(start, bytes), written: Written::new(start, bytes), by }
    }

    /// Notes an access, as far as it is inside the range.
    pub fn note(&self, address: u64, bytes: u64, reads: bool, writes: bool, instruction: u32) {
        let (from, to) = (address.max(self.range.start), (address + bytes).min(self.range.end));
        if from >= to {
            return;
        }
        if reads {
            self.read.mark(from, to - from);
        }
        if writes {
            self.written.mark(from, to - from);
        }
        for number in self.number(from)..=self.number(to - 1) {
            self.by[number].fetch_max(instruction + 1, Ordering::Relaxed);
        }
    }

    fn number(&self, address: u64) -> usize {
        (address / 16 - self.range.start / 16) as usize
    }

    /// The first byte that both touched and one wrote.
    pub fn overlap(&self, other: &Self) -> Option<Overlap> {
        let range = self.range.start.max(other.range.start)..self.range.end.min(other.range.end);
        let conflicts = |address: u64| {
            let touched =
                |a: &Self, b: &Self| a.written.any(address, 1) && (b.written.any(address, 1) || b.read.any(address, 1));
            touched(self, other) || touched(other, self)
        };
        let by =
            |touched: &Self, address| touched.by[touched.number(address)].load(Ordering::Relaxed).saturating_sub(1);
        range
            .clone()
            .find(|&address| conflicts(address))
            .map(|address| Overlap { address, instructions: [by(self, address), by(other, address)] })
    }
}

/// For each node of a graph those that are done before it starts, a bit each; edges go from earlier nodes to later ones.
#[derive(Clone, Debug, Default)]
pub struct Ancestors(Vec<Vec<u64>>);

impl Ancestors {
    /// Adds a node that waits for earlier ones.
    pub fn push(&mut self, after: &[usize]) {
        let mut all = vec![0u64; self.0.len() / 64 + 1];
        for &earlier in after {
            all[earlier / 64] |= 1 << (earlier % 64);
            for (all, &theirs) in all.iter_mut().zip(self.0.get(earlier).into_iter().flatten()) {
                *all |= theirs;
            }
        }
        self.0.push(all);
    }

    /// Whether `earlier` is done before `later` starts.
    pub fn ordered(&self, earlier: usize, later: usize) -> bool {
        self.0.get(later).and_then(|all| all.get(earlier / 64)).is_some_and(|word| word >> (earlier % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_are_transitive() {
        let mut ancestors = Ancestors::default();
        for after in [&[][..], &[0], &[], &[1, 2]] {
            ancestors.push(after);
        }
        (4..200).for_each(|node| ancestors.push(&[node - 1]));
        assert!(ancestors.ordered(0, 3) && ancestors.ordered(2, 3) && !ancestors.ordered(0, 2));
        assert!(ancestors.ordered(0, 199) && ancestors.ordered(130, 199) && !ancestors.ordered(199, 130));
    }

    #[test]
    fn only_bytes_that_one_writes_count() {
        let (a, b) = (Touched::new(100..200), Touched::new(150..300));
        a.note(90, 80, true, false, 3);
        b.note(160, 8, true, false, 4);
        assert_eq!(a.overlap(&b), None);
        b.note(168, 40, false, true, 5);
        assert_eq!(a.overlap(&b), Some(Overlap { address: 168, instructions: [3, 5] }));
        assert_eq!(b.overlap(&a).unwrap().instructions, [5, 3]);
    }
}
