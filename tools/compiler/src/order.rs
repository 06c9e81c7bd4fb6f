//! Dependencies between steps, from the bytes that they touch.
//!
//! Computed after placement, so that a buffer reused by a later step waits for the readers of the earlier one. The
//! result is the transitive reduction: a replay may run everything concurrently that it does not order.

/// A range of memory that a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory: equal numbers may overlap, different ones never do.
    pub space: usize,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Whether it is written.
    pub written: bool,
}

impl Access {
    fn conflicts(&self, other: &Self) -> bool {
        (self.written || other.written) && self.space == other.space && self.start < other.end && other.start < self.end
    }
}

/// For every step the earlier steps it must wait for, ascending, none implied by another.
pub fn dependencies(accesses: &[Vec<Access>]) -> Vec<Vec<u32>> {
    let words = accesses.len().div_ceil(64);
    let mut ancestors: Vec<Vec<u64>> = Vec::with_capacity(accesses.len());
    let mut result = Vec::with_capacity(accesses.len());
    for (step, own) in accesses.iter().enumerate() {
        let mut reached = vec![0u64; words];
        let mut after = Vec::new();
        for earlier in (0..step).rev() {
            let known = reached[earlier / 64] >> (earlier % 64) & 1 == 1;
            if !known && own.iter().any(|a| accesses[earlier].iter().any(|b| a.conflicts(b))) {
                after.push(earlier as u32);
                for (word, theirs) in reached.iter_mut().zip(&ancestors[earlier]) {
                    *word |= theirs;
                }
                reached[earlier / 64] |= 1 << (earlier % 64);
            }
        }
        after.reverse();
        ancestors.push(reached);
        result.push(after);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(start: u64, end: u64, written: bool) -> Access {
        Access { space: 0, start, end, written }
    }

    #[test]
    fn a_diamond_keeps_its_branches_apart() {
        let steps = vec![
            vec![access(0, 8, true)],
            vec![access(0, 8, false), access(8, 16, true)],
            vec![access(0, 8, false), access(16, 24, true)],
            vec![access(8, 16, false), access(16, 24, false), access(24, 32, true)],
        ];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn reuse_of_memory_waits_for_its_readers() {
        let steps =
            vec![vec![access(0, 8, true)], vec![access(0, 8, false), access(8, 16, true)], vec![access(0, 8, true)]];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![1]]);
    }
}
