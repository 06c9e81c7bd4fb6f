//! What a launch costs, as far as a count tells: instructions, bytes, bank conflicts.

use crate::machine::{Access, Kind, Space};

/// Counts of a launch, a replay or a whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Launches.
    pub launches: u64,
    /// Instructions, each once for a warp.
    pub instructions: u64,
    /// Bytes that threads read from device memory, asynchronous copies included.
    pub loaded: u64,
    /// Bytes that threads wrote to device memory.
    pub stored: u64,
    /// Bytes that threads read from and wrote to shared memory.
    pub shared: u64,
    /// Accesses of shared memory by a warp, and how many passes more they took than if no two lanes had met in a bank.
    pub shared_accesses: u64,
    /// See [`Self::shared_accesses`].
    pub bank_conflicts: u64,
}

impl Tally {
    /// Adds an access.
    pub fn access(&mut self, access: &Access<'_>) {
        let bytes = u64::from(access.bytes) * u64::from(access.lanes.count_ones());
        match (access.space, access.kind) {
            (Space::Shared, _) => {
                self.shared += bytes;
                self.shared_accesses += 1;
                self.bank_conflicts += bank_conflicts(access);
            }
            (Space::Global, Kind::Load | Kind::AsyncLoad) => self.loaded += bytes,
            (Space::Global, Kind::Store | Kind::AsyncStore) => self.stored += bytes,
            (Space::Global, Kind::Prefetch) => {}
            (Space::Global, Kind::Atomic) => {
                self.loaded += bytes;
                self.stored += bytes;
            }
        }
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.instructions += other.instructions;
        self.loaded += other.loaded;
        self.stored += other.stored;
        self.shared += other.shared;
        self.shared_accesses += other.shared_accesses;
        self.bank_conflicts += other.bank_conflicts;
    }
}

/// Passes more than needed: 32 banks of four bytes; 8 bytes a lane go by half warps, 16 by quarters.
fn bank_conflicts(access: &Access<'_>) -> u64 {
    let words = (access.bytes / 4).max(1) as usize;
    let together = 32 / words.clamp(1, 4);
    let mut passes = 0;
    for first in (0..32).step_by(together) {
        let (mut seen, mut depth) = ([[u64::MAX; 32]; 32], [0usize; 32]);
        for lane in (first..first + together).filter(|lane| access.lanes >> lane & 1 != 0) {
            for word in access.addresses[lane] / 4..access.addresses[lane] / 4 + words as u64 {
                let bank = (word % 32) as usize;
                if depth[bank] < 32 && !seen[bank][..depth[bank]].contains(&word) {
                    seen[bank][depth[bank]] = word;
                    depth[bank] += 1;
                }
            }
        }
        passes += depth.into_iter().max().unwrap_or(0).saturating_sub(1) as u64;
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Order;

    fn conflicts(bytes: u32, address: impl Fn(u64) -> u64) -> u64 {
        let addresses: [u64; 32] = std::array::from_fn(|lane| address(lane as u64));
        let (space, kind, order) = (Space::Shared, Kind::Load, Order::Weak);
        bank_conflicts(&Access { instruction: 0, warp: 0, lanes: !0, space, kind, order, bytes, addresses: &addresses })
    }

    #[test]
    fn lanes_meet_in_banks() {
        assert_eq!(conflicts(4, |lane| lane * 4), 0);
        assert_eq!(conflicts(4, |_| 64), 0);
        assert_eq!(conflicts(4, |lane| lane * 8), 1);
        assert_eq!(conflicts(4, |lane| lane * 128), 31);
        assert_eq!(conflicts(16, |lane| lane * 16), 0);
        assert_eq!(conflicts(16, |lane| lane * 128), 28);
        assert_eq!(conflicts(2, |lane| lane * 2), 0);
    }
}
