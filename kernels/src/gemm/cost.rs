//! Estimates of device time, in cycles of one multiprocessor unless said otherwise.
//!
//! At batch 1 a layer lasts a few microseconds, so that latencies count as much as rates: a tile pays for its first
//! load, for a chain of dependent steps along K, and for the way out. The constants are fitted to 1270 configurations of
//! products that were timed on an H200, on all multiprocessors and on 16 (`TUNING.md`, section 9), those of `mma.sync` to
//! 1369 more (section 22); only the order of candidates depends on them.

use crate::codegen::{Candidate, Rate, Target};

/// Kernel start and end as seen by the next one, microseconds.
const KERNEL: f64 = 1.48;
/// First bytes from level 2 after start, index arithmetic included.
const FILL: f64 = 435.0;
/// Bytes that one multiprocessor gets from level 2 in a cycle, and all of them together.
const L2_BYTES: (f64, f64) = (59.0, 6150.0);
/// Bytes of shared memory a multiprocessor reads or writes in a cycle.
const SHARED_BYTES: f64 = 95.0;
/// Partial tiles to memory, fence, atomic and the way back.
const SPLIT: f64 = 3800.0;
/// What a cluster costs by its blocks.
const CLUSTERS: [(f64, f64); 3] = [(2.0, 660.0), (4.0, 1140.0), (8.0, 2020.0)];

/// A tiled kernel as the model sees it.
pub(crate) struct Tiled {
    /// Blocks of the grid.
    pub blocks: f64,
    /// Most blocks that fit a multiprocessor.
    pub occupancy: f64,
    /// K tiles that a block goes through.
    pub turns: f64,
    /// Cycles of the barrier and of the wait for a copy, once a K tile.
    pub turn: f64,
    /// Cycles of arithmetic for one K tile.
    pub arithmetic: f64,
    /// Bytes that the warps read from shared memory in one K tile.
    pub shared: f64,
    /// Bytes that come from level 2 in one K tile.
    pub copied: f64,
    /// Cycles of the dependent chain of one K tile, barrier excluded.
    pub chain: f64,
    /// Cycles in which one K tile of a block keeps the schedulers busy.
    pub issue: f64,
    /// Bytes of the f32 tile.
    pub tile: f64,
    /// Bytes that go through shared memory at the end: the f32 tile, and more where warps share K.
    pub staged: f64,
    /// Parts of K.
    pub split: f64,
    /// Whether the parts meet in a cluster.
    pub cluster: bool,
    /// Bytes that must come from device memory at least.
    pub device: f64,
}

impl Tiled {
    /// Multiprocessors that blocks find room on. A cluster lies within one of the groups that a large GPU's
    /// multiprocessors form, whose sizes are no multiples of four: 128 blocks in clusters of four do not fit an H200's
    /// 132 at once, 112 do.
    fn room(&self, target: &Target) -> f64 {
        let all = f64::from(target.multiprocessors);
        if self.cluster && self.split > 2.0 && all > 18.0 { (all * 7.0 / 8.0).floor() } else { all }
    }

    /// Expected time in microseconds.
    pub fn time(&self, target: &Target) -> f64 {
        let l2 = L2_BYTES.0.min(L2_BYTES.1 / f64::from(target.multiprocessors));
        let of_one = (self.blocks / self.room(target)).ceil();
        let resident = of_one.min(self.occupancy);
        let shared_by_all = [self.arithmetic, self.shared / SHARED_BYTES, self.copied / l2, self.issue];
        // Partial tiles of all resident blocks share the way out.
        let cluster = CLUSTERS.iter().find(|(blocks, _)| *blocks >= self.split).map_or(CLUSTERS[2].1, |c| c.1);
        let reduction = match (self.split > 1.0, self.cluster) {
            (false, _) => 0.0,
            (true, true) => cluster + self.tile * 0.1,
            (true, false) => SPLIT + self.tile * (1.0 + self.split) / l2,
        };
        let round = |resident: f64| {
            let turn = shared_by_all.into_iter().map(|cycles| cycles * resident).fold(self.chain, f64::max) + self.turn;
            let drain = self.staged * resident / 64.0 + self.staged / 2.0 * resident / l2;
            FILL + self.turns * turn + drain + reduction
        };
        // The last round may have fewer blocks.
        let (full, rest) = ((of_one / resident).floor(), of_one % resident);
        let cycles = full * round(resident) + if rest > 0.0 { round(rest) } else { 0.0 };
        // Tiles keep fewer bytes in flight than a kernel that only streams, which reaches about 80 % of the bandwidth.
        let (arithmetic, memory) = (cycles / target.clock, self.device / (target.bandwidth * 700.0));
        // Of two that wait for memory the one with less else to do is the better.
        KERNEL + arithmetic.max(memory) + 0.1 * arithmetic.min(memory)
    }
}

/// Expected time in microseconds of a kernel of independent threads, each doing `operations` dependent-free
/// multiply-adds and reading `bytes` that no other thread shares through registers.
pub(crate) fn streaming(target: &Target, threads: f64, operations: f64, bytes: f64) -> f64 {
    // A multiprocessor keeps about 1024 such threads busy; each load is waited for once every eight.
    let rounds = (threads / (f64::from(target.multiprocessors) * 1024.0)).ceil();
    let chain = FILL + operations * 6.0;
    let rate = threads * operations * 2.0 / (target.peak(Rate::F32) * 0.5);
    let memory = threads * bytes / (f64::from(target.multiprocessors) * 32.0 * target.clock);
    KERNEL + (rounds * chain / target.clock).max(rate).max(memory)
}

/// Candidates by cost, the best `most` of them, `fallback` last.
pub(crate) fn by_cost(mut all: Vec<Candidate>, most: usize, fallback: Candidate) -> Vec<Candidate> {
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all.truncate(most);
    all.push(fallback);
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all
}
