//! Estimates of device time, in cycles of one multiprocessor unless said otherwise.
//!
//! At batch 1 a layer lasts a few microseconds, so that latencies count as much as rates: a tile pays for its first
//! load, for a chain of dependent steps along K, and for the way out. The constants of `mma.sync` are fitted to 12,800 configurations of
//! the products of 17 networks, of floats and of bytes, on 8 and 16 multiprocessors (`TUNING.md`, section 57), those of `wgmma`, of
//! `mma.sync` beside it and of clusters to 5,679 of 17 networks on 132 (section 60), those of lanes and patches without warpgroups to 1,925 on 8
//! and 16 and to 780 steps of 12 networks (section 62), those of splits to about 7900 on 8, 16 and 132
//! (section 24). Only the order of candidates depends on them.

use crate::codegen::{Candidate, Target};

/// Partial tiles to memory, fence, atomic and the way back.
const SPLIT: f64 = 3000.0;
/// What a cluster costs by its blocks, and for each byte of a tile.
const CLUSTERS: [(f64, f64); 3] = [(2.0, 905.0), (4.0, 1000.0), (8.0, 1560.0)];
const CLUSTER_BYTE: f64 = 0.05;

/// What depends on how a kernel multiplies.
pub(crate) struct Pace {
    /// Kernel start and end as seen by the next one, microseconds.
    pub kernel: f64,
    /// Cycles before the first turn: first bytes from level 2, index arithmetic included.
    pub fill: f64,
    /// Bytes that one multiprocessor gets from level 2 in a cycle.
    pub l2_bytes: f64,
    /// Bytes of shared memory that one multiprocessor reads or writes in a cycle.
    pub shared_bytes: f64,
    /// Bytes a cycle at which sums go through shared memory.
    pub staged_bytes: f64,
    /// Bytes of sums a cycle that lanes finish which multiplied them. Fitted where there are no warpgroups.
    pub lane_bytes: f64,
    /// Of both the share that reaches memory where each sum is a result, and is read where there are residuals.
    pub stored: f64,
    /// How much of a turn's latencies hides behind its work: the two are added up as powers of this exponent. Where there is none, the
    /// latency of the barrier comes on top, and of the rest the longer counts.
    pub overlap: Option<f64>,
}

/// Warps, which load fragments themselves. What they store waits for their passes, not for memory.
pub(crate) const WARPS: Pace = Pace {
    kernel: 1.48,
    fill: 42.0,
    l2_bytes: 44.5,
    shared_bytes: 100.0,
    staged_bytes: 28.7,
    lane_bytes: 40.0,
    stored: 0.0,
    overlap: Some(1.7),
};
/// The same of products of integers.
pub(crate) const WARPS_OF_INTEGERS: Pace = Pace { l2_bytes: 57.0, ..WARPS };
/// Warps where there are warpgroups.
pub(crate) const WARPS_BESIDE_WARPGROUPS: Pace = Pace {
    kernel: 0.53,
    fill: 730.0,
    l2_bytes: 60.6,
    shared_bytes: 70.3,
    staged_bytes: 23.8,
    lane_bytes: 40.0,
    stored: 1.71,
    overlap: Some(2.0),
};
/// Warpgroups.
pub(crate) const WARPGROUPS: Pace = Pace {
    kernel: 0.53,
    fill: 400.0,
    l2_bytes: 40.8,
    shared_bytes: 79.8,
    staged_bytes: 35.9,
    lane_bytes: 35.9,
    stored: 1.06,
    overlap: Some(1.55),
};
/// CUDA cores.
pub(crate) const THREADS: Pace = Pace {
    kernel: 1.48,
    fill: 435.0,
    l2_bytes: 59.0,
    shared_bytes: 95.0,
    staged_bytes: 64.0,
    lane_bytes: 64.0,
    stored: 0.5,
    overlap: None,
};

/// A tiled kernel as the model sees it.
pub(crate) struct Tiled {
    /// Its pace.
    pub pace: Pace,
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
    /// Cycles that a block waits beside its turns, and for copies of K tiles, all turns together.
    pub waits: f64,
    /// Cycles of the dependent chain of a thread's passes over the sums of a block.
    pub passes: f64,
    /// Bytes of the f32 tile.
    pub tile: f64,
    /// Bytes that go through shared memory at the end: the f32 tile, and more where warps share K.
    pub staged: f64,
    /// Bytes of sums that stay with the lanes that multiplied them.
    pub kept: f64,
    /// Values that the epilogue reads and stores for each sum.
    pub accesses: f64,
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
        let Pace { kernel, fill, l2_bytes: l2, shared_bytes, staged_bytes, lane_bytes, stored, overlap } = self.pace;
        let of_one = (self.blocks / self.room(target)).ceil();
        let resident = of_one.min(self.occupancy);
        let shared_by_all = [self.arithmetic, self.shared / shared_bytes, self.copied / l2, self.issue];
        // Partial tiles of all resident blocks share the way out.
        let cluster = CLUSTERS.iter().find(|(blocks, _)| *blocks >= self.split).map_or(CLUSTERS[2].1, |c| c.1);
        let reduction = match (self.split > 1.0, self.cluster) {
            (false, _) => 0.0,
            (true, true) => cluster + self.tile * CLUSTER_BYTE,
            (true, false) => SPLIT + 1.5 * self.tile * (1.0 + self.split) / l2,
        };
        let round = |resident: f64| {
            let work = shared_by_all.into_iter().fold(0.0, f64::max) * resident;
            let turn = match overlap {
                Some(power) => ((self.turn + self.chain).powf(power) + work.powf(power)).powf(power.recip()),
                None => self.turn + self.chain.max(work),
            };
            let out = (self.staged + self.kept) * stored * self.accesses / l2;
            let drain = resident * (self.staged / staged_bytes + self.kept / lane_bytes + out);
            fill + self.turns * turn + self.waits + self.passes + drain + reduction
        };
        // The last round may have fewer blocks.
        let (full, rest) = ((of_one / resident).floor(), of_one % resident);
        let cycles = full * round(resident) + if rest > 0.0 { round(rest) } else { 0.0 };
        // Tiles keep fewer bytes in flight than a kernel that only streams, which reaches about 80 % of the bandwidth.
        let (arithmetic, memory) = (cycles / target.clock, self.device / (target.bandwidth * 700.0));
        // Of two that wait for memory the one with less else to do is the better.
        kernel + arithmetic.max(memory) + 0.1 * arithmetic.min(memory)
    }
}

/// Candidates by cost, the best `most` of them, `fallback` last.
pub(crate) fn by_cost(mut all: Vec<Candidate>, most: usize, fallback: Candidate) -> Vec<Candidate> {
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all.truncate(most);
    all.push(fallback);
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all
}
