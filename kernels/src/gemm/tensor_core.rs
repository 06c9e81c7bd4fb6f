//! Tensor-core configurations (f16, bf16, floats and integers of 8 bits): by warps on sm_80 and later, by warpgroups on sm_90 (not
//! for 8 bits).

use super::cost::{Tiled, WARPGROUPS, WARPS, WARPS_BESIDE_WARPGROUPS, WARPS_OF_INTEGERS};
use super::problem::{Operand, Problem, Windows};
use super::source::{Constants, Geometry, launch};
use crate::DType;
use crate::codegen::{Candidate, Packing, Rate, Tables, Target};
use crate::pointwise::{Instruction, Program};
use std::borrow::Cow;
use std::collections::HashSet;

/// Tile rows, columns and the warps along rows, columns and K.
const WARP_TILES: [(u32, u32, u32, u32, u32); 29] = [
    (16, 32, 1, 1, 4),
    (16, 64, 1, 2, 2),
    (16, 64, 1, 1, 4),
    (16, 128, 1, 4, 1),
    (32, 32, 2, 2, 1),
    (32, 32, 1, 1, 4),
    (32, 64, 1, 2, 2),
    (32, 128, 1, 4, 1),
    (64, 32, 2, 1, 2),
    (64, 64, 2, 2, 1),
    (64, 64, 2, 1, 2),
    (64, 64, 2, 2, 2),
    (64, 80, 4, 1, 1),
    (64, 128, 2, 2, 1),
    (64, 128, 1, 2, 2),
    (64, 128, 2, 4, 1),
    (128, 16, 4, 1, 1),
    (128, 32, 4, 1, 1),
    (128, 64, 2, 2, 1),
    (128, 64, 2, 1, 2),
    (128, 64, 4, 2, 1),
    (128, 80, 4, 1, 1),
    (128, 128, 2, 2, 1),
    (128, 128, 2, 4, 1),
    (256, 16, 4, 1, 1),
    (256, 32, 4, 1, 1),
    (256, 64, 4, 1, 1),
    (128, 256, 2, 4, 1),
    (256, 128, 4, 2, 1),
];
/// The same where columns of C are the rows of an instruction: rows are multiples of eight for each warp. 56 and 104 rows fit the tokens
/// and pixels of images of 224² (49, 196, 197), and multiples of 48 columns fit widths of 96, 192, 384 and 768. Detectors often have 80
/// classes.
const TURNED_TILES: [(u32, u32, u32, u32, u32); 50] = [
    (56, 32, 1, 1, 4),
    (56, 32, 1, 2, 2),
    (56, 48, 1, 1, 4),
    (56, 64, 1, 1, 4),
    (56, 64, 1, 2, 2),
    (56, 64, 1, 2, 4),
    (56, 80, 1, 1, 4),
    (56, 96, 1, 2, 2),
    (56, 96, 1, 2, 4),
    (56, 128, 1, 2, 2),
    (56, 128, 1, 4, 1),
    (56, 192, 1, 4, 1),
    (56, 192, 1, 4, 2),
    (64, 48, 1, 1, 4),
    (64, 64, 1, 2, 2),
    (64, 96, 1, 2, 2),
    (64, 96, 1, 2, 4),
    (64, 128, 1, 4, 1),
    (64, 192, 1, 4, 1),
    (104, 48, 1, 1, 4),
    (104, 64, 1, 2, 2),
    (104, 64, 1, 2, 4),
    (104, 64, 1, 4, 1),
    (104, 96, 1, 2, 2),
    (104, 96, 1, 2, 4),
    (104, 128, 1, 4, 1),
    (104, 192, 1, 4, 1),
    (104, 192, 1, 4, 2),
    (112, 64, 1, 2, 2),
    (112, 64, 2, 2, 1),
    (112, 64, 2, 2, 2),
    (112, 80, 2, 1, 2),
    (112, 96, 1, 2, 2),
    (112, 128, 1, 4, 1),
    (112, 128, 2, 4, 1),
    (112, 192, 1, 4, 1),
    (128, 48, 2, 1, 2),
    (128, 96, 2, 2, 1),
    (128, 96, 2, 2, 2),
    (128, 192, 2, 4, 1),
    (208, 32, 2, 2, 1),
    (208, 64, 2, 2, 1),
    (208, 96, 2, 2, 2),
    (208, 128, 2, 4, 1),
    (208, 192, 2, 4, 1),
    (224, 32, 2, 2, 1),
    (224, 64, 2, 2, 1),
    (224, 64, 4, 2, 1),
    (224, 80, 4, 1, 1),
    (224, 144, 4, 3, 1),
];
/// The same for warpgroups, each of which has 64 rows.
const WARPGROUP_TILES: [(u32, u32, u32, u32, u32); 12] = [
    (64, 32, 1, 1, 1),
    (64, 32, 1, 1, 2),
    (64, 64, 1, 1, 1),
    (64, 64, 1, 1, 2),
    (64, 128, 1, 1, 1),
    (64, 128, 1, 2, 1),
    (64, 128, 1, 1, 2),
    (128, 32, 2, 1, 1),
    (128, 64, 2, 1, 1),
    (128, 128, 2, 1, 1),
    (64, 256, 1, 2, 1),
    (128, 256, 2, 1, 1),
];

/// Bytes of a row of a tile. Rows of one fragment are for patches of pixels that have no more.
const DEPTHS: [u32; 4] = [FRAGMENT, 64, 128, 256];
/// Bytes of a row of a fragment.
const FRAGMENT: u32 = 32;
/// Stages of the ring where warps multiply; two or three leave room for a second block.
const STAGES: [u32; 4] = [2, 3, 4, 6];
/// A block whose ring has more bytes is alone on a multiprocessor, whatever the GPU.
const ALONE: u32 = 113 << 10;
/// Bytes that a block may have at least, on every GPU on which it may have more than `ALONE`.
const MOST_OF_BLOCK: u32 = 163 << 10;
const SPLITS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// Cycles that products of warps take.
struct Warps {
    /// A copy of 16 bytes, where rows of a tile are whole lines and where they are half of one.
    copy: [f64; 2],
    /// How many times that it is where addresses are read from a table.
    table: f64,
    /// Until a copy is there, if nothing else waits; and of each turn whose copy is not under way from the start.
    latency: f64,
    late: f64,
    /// A turn around its work: gathered, gathered with exchanged sides, patches, patches with exchanged sides. And more where warps share K.
    turn: [f64; 4],
    shared_depth: f64,
    /// What a block of eight warps takes longer that gathers rows.
    eight_warps: f64,
    /// A step of a warp beside its products, unless sides are exchanged.
    step: f64,
    /// A product of 16×16 results: for the warp, and of its scheduler. And with exchanged sides.
    product: [f64; 2],
    turned_product: [f64; 2],
    /// The same of the scheduler alone where pixels are shared, with sides as they are and exchanged.
    patched_product: [f64; 2],
    /// A thread's pass over eight sums that come from shared memory; what residuals add there, where lanes finish their sums, and more
    /// beside integers.
    pass: f64,
    residual_pass: f64,
    /// Of vectors of four and of eight columns.
    residual_of_lane: [f64; 2],
    integer_residual_pass: f64,
    /// The same of normalised rows, and of each operation of an epilogue of floats beside its first: of sums that come from shared memory,
    /// and of those that lanes finish.
    normalised_pass: [f64; 2],
    operation: [f64; 2],
    /// Instruction slots that adding a word of A to its row's moments takes. Machine code has 6, which warps with the same rows share: two of
    /// them do with a gain, more with none (section 41).
    moments: f64,
    /// The same with exchanged sides, whether warps share rows or not; and where they share K.
    turned_moments: [f64; 2],
}

/// Where there are no warpgroups, fitted to candidates (`TUNING.md`, section 57; blocks of eight warps: section 61; patches and lanes: section 62).
const WITHOUT_WARPGROUPS: Warps = Warps {
    copy: [5.5, 11.0],
    table: 1.0,
    latency: 790.0,
    late: 33.0,
    turn: [101.0, 71.0, 10.0, 65.0],
    shared_depth: 87.0,
    eight_warps: 900.0,
    step: 40.0,
    product: [2.9, 12.4],
    turned_product: [8.6, 15.9],
    patched_product: [10.0, 15.0],
    pass: 80.0,
    residual_pass: 57.0,
    residual_of_lane: [130.0, 30.0],
    integer_residual_pass: 72.0,
    normalised_pass: [20.0, 48.0],
    operation: [20.0, 36.0],
    moments: 8.0,
    turned_moments: [4.4, 7.0],
};
/// Beside warpgroups, likewise (section 60), but for lanes, which are taken for as fast as elsewhere. Patches are no candidates there.
const BESIDE_WARPGROUPS: Warps = Warps {
    copy: [5.0, 11.1],
    table: 3.2,
    latency: 807.0,
    late: 0.0,
    turn: [208.0, 28.8, 269.0, 359.0],
    shared_depth: 30.8,
    eight_warps: 0.0,
    step: 0.0,
    product: [0.0, 23.6],
    turned_product: [0.0, 24.5],
    patched_product: [23.6, 24.5],
    pass: 0.0,
    residual_pass: 7.0,
    residual_of_lane: [7.0, 7.0],
    integer_residual_pass: 0.0,
    normalised_pass: [12.0, 48.0],
    operation: [9.6, 36.0],
    moments: 6.2,
    turned_moments: [6.5, 10.3],
};

/// What patches take longer whose lines are no multiples of eight wide, which meet bank conflicts: reads of bytes, unless sides are exchanged;
/// else all of it.
const CONFLICTS_OF_BYTES: f64 = 1.4;
const CONFLICTS: f64 = 1.15;

/// Cycles of a scheduler that scale four integers of A, of which half of the instructions take two: counted in machine code of sm_87.
const SCALED_WORD: f64 = 18.0;
/// The same that a step's factors take.
const FACTORS: f64 = 8.0;

/// Threads that multiply together.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Unit {
    /// 32 threads, `mma.sync`.
    Warp,
    /// 128 threads, `wgmma`.
    Warpgroup,
}

/// A patch of pixels, of one K tile's channels, in shared memory.
struct Pixels {
    height: u32,
    width: u32,
    /// From one pixel to the next: 16 more than the channels have, against bank conflicts.
    bytes: u32,
    /// Patches at a time.
    patches: u32,
}

impl Pixels {
    /// Bytes of a patch.
    fn size(&self) -> u32 {
        self.height * self.width * self.bytes
    }
}

struct Tile {
    unit: Unit,
    rows: u32,
    columns: u32,
    depth: u32,
    /// Warps or warpgroups along rows, columns and K.
    units: [u32; 3],
    stages: u32,
    split: u32,
    cluster: bool,
    /// Height and width of the outputs of a tile, where windows share one copy of the pixels that they see.
    patch: Option<[u32; 2]>,
    /// Whether columns of C are the rows of an instruction.
    turned: bool,
    /// Columns that a lane has side by side where it finishes the results that it multiplied; else those go through shared memory.
    vector: Option<u32>,
}

pub(super) fn candidates(problem: &Problem, target: &Target) -> Vec<Candidate> {
    let (element, chunk) = (problem.a.dtype, problem.chunk());
    let bytes = problem.is_of_bytes();
    let fits = target.has_async_copy()
        && (bytes || matches!(element, DType::F16 | DType::Bf16))
        && problem.groups() == 1
        && problem.a_is_aligned(chunk);
    let readable = |b: &&Operand| {
        let transposable = !bytes && b.is_aligned_along_columns(problem);
        (bytes || b.dtype == element) && (b.is_aligned_along_depth(problem, chunk) || transposable)
    };
    let Some(b) = problem.b.iter().find(readable).filter(|_| fits) else {
        return Vec::new();
    };
    let ranked = tiles(problem, b, target).map(|tile| (cost(problem, b, &tile, target), tile)).collect();
    diverse(ranked).into_iter().map(|(cost, tile)| candidate(problem, b, &tile, cost)).collect()
}

/// The expected best, by at most two thirds of one kind of tile each: where the estimate is wrong, it is so for all
/// depths, warps and stages of a tile alike, so that a measurement must see different tiles and splits. Of equals the deepest ring is the
/// first: weights that it holds are there when the step before ends.
fn diverse(mut ranked: Vec<(f64, Tile)>) -> Vec<(f64, Tile)> {
    ranked.sort_by(|x, y| x.0.total_cmp(&y.0).then(y.1.stages.cmp(&x.1.stages)));
    let mut seen = HashSet::new();
    let (firsts, others): (Vec<_>, Vec<_>) = ranked
        .into_iter()
        .partition(|(_, t)| seen.insert((t.unit, t.rows, t.columns, t.split, t.cluster, t.patch.is_some(), t.turned)));
    let firsts = firsts.into_iter().take(super::MOST_CANDIDATES * 2 / 3).collect::<Vec<_>>();
    let rest = super::MOST_CANDIDATES - firsts.len();
    let mut all: Vec<_> = firsts.into_iter().chain(others.into_iter().take(rest)).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    all
}

/// Whether the target has warpgroups for these element types: they win what patches would.
fn multiplies_by_warpgroups(problem: &Problem, target: &Target) -> bool {
    target.architecture == 90 && problem.a.dtype.size() == 2
}

/// Configurations that fit the target and do not waste most of a tile.
fn tiles<'a>(problem: &'a Problem, b: &Operand, target: &'a Target) -> impl Iterator<Item = Tile> + 'a {
    let shares = shares_pixels(problem, b, target);
    gathered(problem, b, target).flat_map(move |tile| {
        let patched = shares.then(|| tile.with_patch(problem)).flatten();
        let patched = patched.filter(|tile| tile.fits(problem, tile.stages, target));
        let depth = tile.depth * problem.a.dtype.size() as u32;
        let gathered = Some(tile).filter(|_| depth > FRAGMENT && DEPTHS.contains(&depth));
        [gathered, patched].into_iter().flatten()
    })
}

/// Whether tiles may copy the pixels that windows share once.
fn shares_pixels(problem: &Problem, b: &Operand, target: &Target) -> bool {
    !multiplies_by_warpgroups(problem, target)
        && has_patches(problem)
        && b.is_aligned_along_depth(problem, problem.chunk())
}

/// Bytes of a row of a tile that has all channels of a pixel, in whole fragments: of patches, where no usual depth divides the channels.
/// Steps along rows of other numbers of chunks would leave the swizzle.
fn depth_of_pixel(problem: &Problem) -> Option<u32> {
    let bytes = problem.depth.channels * problem.a.dtype.size() as u32;
    let depth = bytes.next_multiple_of(FRAGMENT);
    let chunks = depth / 16;
    let known = DEPTHS.iter().any(|&depth| bytes.is_multiple_of(depth) && (depth > FRAGMENT || bytes == FRAGMENT));
    (!known && depth <= 256 && (chunks.is_power_of_two() || chunks % 4 == 2)).then_some(depth)
}

/// Whether neighbouring windows share pixels that a tile could copy once: steps of one, several taps of one plane.
fn has_patches(problem: &Problem) -> bool {
    let whole = problem.scale.is_none() && !problem.float8() && problem.crop.is_none() && problem.batches() == 1;
    whole
        && problem.rows.get(1) == Some(&1)
        && problem.depth.window.as_ref().is_some_and(|w| {
            w.count() > 2 && w.taps[0] == 1 && w.input[0] == 1 && w.steps == [1; 3] && w.dilations == [1; 3]
        })
}

/// Whether the sums of a warp's rows and columns leave few registers for anything else.
fn has_many_sums(warp_rows: u32, warp_columns: u32) -> bool {
    warp_rows * warp_columns >= 64 * 64
}

/// Columns side by side that the lanes of a warp get if B's columns are in another order in shared memory. Two are too few: each store then
/// is of a single word.
fn vector_of_lane(warp_columns: u32, turned: bool) -> Option<u32> {
    let lanes = if turned { 8 } else { 4 };
    [8, 4].into_iter().find(|vector| warp_columns.is_multiple_of(lanes * vector))
}

/// Configurations that gather A, each row for itself.
fn gathered<'a>(problem: &'a Problem, b: &Operand, target: &'a Target) -> impl Iterator<Item = Tile> + 'a {
    // Warpgroups read A from shared memory, where nobody could scale it on the way, or see it.
    let has_warpgroups = multiplies_by_warpgroups(problem, target)
        && b.is_aligned_along_depth(problem, 8)
        && problem.a_stays_in_memory();
    let size = problem.a.dtype.size() as u32;
    let shares = shares_pixels(problem, b, target);
    let turns_sides = !problem.float8();
    // With residuals, results that are converted to floats of 8 bits keep the compiler from unrolling: sums would lie in local memory.
    let unrolls = !problem.float8() || problem.extras.is_empty();
    let lanes_finish = unrolls && problem.pool.is_none() && b.is_aligned_along_depth(problem, problem.chunk());
    let warps = WARP_TILES.map(|tile| (Unit::Warp, false, tile)).into_iter();
    let turned = TURNED_TILES.into_iter().filter(move |_| turns_sides).map(|tile| (Unit::Warp, true, tile));
    let warpgroups = WARPGROUP_TILES.into_iter().filter(move |_| has_warpgroups);
    let all = warps.chain(turned).chain(warpgroups.map(|tile| (Unit::Warpgroup, false, tile)));
    let sized = all.filter(|&(_, turned, (rows, columns, wm, wn, _))| {
        let oversize = |tile: u32, extent: u32, least: u32| tile > least && tile >= 2 * extent;
        // Sums of the largest warp tiles leave no registers for what is converted, or for moments that a warp adds up alone: 16 bytes
        // spilled on sm_87.
        let takes_registers = problem.float8() || (problem.moments.is_some() && (!turned || wn == 1));
        let crowded = takes_registers && has_many_sums(rows / wm, columns / wn);
        let whole = rows.is_multiple_of(problem.pooled());
        !oversize(rows, problem.m(), 16) && !oversize(columns, problem.columns, 32) && !crowded && whole
    });
    sized.flat_map(move |(unit, turned, (rows, columns, wm, wn, wk))| {
        let of_pixel = depth_of_pixel(problem).filter(|_| shares);
        let others = of_pixel.filter(|depth| !DEPTHS.contains(depth));
        let depths = DEPTHS.into_iter().chain(others).filter(move |&depth| {
            let k = (problem.k() * size).next_multiple_of(2 * FRAGMENT);
            let suits = match unit {
                Unit::Warp if Some(depth) == of_pixel => depth < 256 || wk > 1,
                Unit::Warp if depth == FRAGMENT => problem.depth.channels * size == FRAGMENT,
                Unit::Warp => (depth <= k || depth == FRAGMENT * wk.max(2)) && (depth < 256 || wk > 1),
                Unit::Warpgroup => depth == 128,
            };
            // Sums of the largest warp tiles leave four warps no registers for so many copies: 144 bytes spilled on sm_87.
            let spills = turned && depth == 256 && wm * wn * wk == 4 && has_many_sums(rows / wm, columns / wn);
            suits && !spills && (depth / FRAGMENT).is_multiple_of(wk)
        });
        depths.flat_map(move |depth| {
            let depth = depth / size;
            let turns = problem.k().div_ceil(depth);
            let grids = problem.m().div_ceil(rows) * problem.columns.div_ceil(columns) * problem.batches();
            let splits = SPLITS.into_iter().filter(move |&split| {
                let parts = turns / split >= 2 && grids * split <= 2 * target.multiprocessors.max(8);
                split == 1 || (parts && problem.moments.is_none() && problem.pool.is_none())
            });
            splits.flat_map(move |split| {
                let cluster = [false, true].into_iter().filter(move |&cluster| {
                    !cluster || (!turned && matches!(split, 2 | 4 | 8) && (90..120).contains(&target.architecture))
                });
                cluster.flat_map(move |cluster| {
                    let whole = turns.div_ceil(split);
                    let stages: Vec<u32> = match unit {
                        Unit::Warp => STAGES.into_iter().filter(|&s| s == STAGES[0] || s <= whole + 1).collect(),
                        // Enough to cover the latency of level 2, no more than there are K tiles; and more.
                        Unit::Warpgroup => {
                            let most = (whole + 2).min(8);
                            [most.min(4), most].into_iter().skip(usize::from(most <= 4)).collect()
                        }
                    };
                    stages.into_iter().filter_map(move |most| {
                        let units = [wm, wn, wk];
                        let patch = None;
                        let finishes = unit == Unit::Warp && wk == 1 && !cluster && lanes_finish;
                        let vector = vector_of_lane(columns / wn, turned).filter(|_| finishes);
                        let stages = most;
                        let mut tile =
                            Tile { unit, rows, columns, depth, units, stages, split, cluster, patch, turned, vector };
                        let fits = |&stages: &u32| tile.fits(problem, stages, target);
                        // Warpgroups take as many as fit.
                        let least = if unit == Unit::Warp { most } else { 3 };
                        tile.stages = (least..=most).rev().find(fits)?;
                        (most <= 4 || unit == Unit::Warp || tile.stages > 4).then_some(tile)
                    })
                })
            })
        })
    })
}

/// Where things lie in shared memory, in bytes.
struct Layout {
    /// Tiles of sums on their way out.
    staged: u32,
    /// Addresses of the rows of A, after the ring of tiles and the staged accumulators, which share one place.
    table: u32,
    /// What the other blocks of the cluster send.
    received: u32,
    /// Factors of A.
    scales: u32,
    /// Moments of the rows of A.
    moments: u32,
    /// Bytes in all.
    bytes: u32,
}

impl Tile {
    /// The same tile as a rectangle of outputs, of the shape that needs the fewest tiles and then the fewest pixels.
    fn with_patch(&self, problem: &Problem) -> Option<Self> {
        let window = problem.depth.window.as_ref()?;
        let (pieces, depth) = (self.pieces(problem), self.depth * problem.a.dtype.size() as u32);
        let whole = problem.depth.channels.is_multiple_of(self.depth) || depth_of_pixel(problem) == Some(depth);
        // With exchanged sides, long rows of many pixels leave no registers.
        let fits = self.unit == Unit::Warp
            && !self.cluster
            && !(self.turned && depth > 128)
            && whole
            && pieces.is_multiple_of(self.split)
            && self.stages <= window.count() + 1
            && self.rows >= 32;
        let [height, width] = [problem.rows[2], problem.rows[3]];
        // Whole windows of what is pooled.
        let [window_h, window_w] = problem.pool.map_or([1; 2], |windows| windows.extents);
        let widths = (1..=width.min(self.rows)).filter(|w| w.is_multiple_of(window_w));
        let shapes = widths.map(|w| [(self.rows / w).min(height) / window_h * window_h, w]).filter(|&[h, _]| h > 0);
        let effort = |&[h, w]: &[u32; 2]| {
            let pixels = (h + window.taps[1] - 1) * (w + window.taps[2] - 1);
            // Rows of eight pixels are read without bank conflicts.
            (height.div_ceil(h) * width.div_ceil(w), if w.is_multiple_of(8) { pixels * 7 / 8 } else { pixels })
        };
        let shape = shapes.min_by_key(effort).filter(|_| fits)?;
        Some(Self { patch: Some(shape), ..*self })
    }

    /// Parts of a pixel's channels that are K tiles of a patch.
    fn pieces(&self, problem: &Problem) -> u32 {
        problem.depth.channels.div_ceil(self.depth)
    }

    /// K tiles of all parts of K.
    fn turns(&self, problem: &Problem) -> u32 {
        match self.patch {
            Some(_) => problem.taps() * self.pieces(problem),
            None => problem.k().div_ceil(self.depth),
        }
    }

    /// Tiles along M.
    fn tiles_of_rows(&self, problem: &Problem) -> u32 {
        match self.patch {
            Some([h, w]) => problem.rows[0] * problem.rows[2].div_ceil(h) * problem.rows[3].div_ceil(w),
            None => problem.m().div_ceil(self.rows),
        }
    }

    /// The pixels that a tile's windows see.
    fn pixels(&self, problem: &Problem) -> Option<Pixels> {
        let (window, [h, w]) = (problem.depth.window.as_ref()?, self.patch?);
        let pieces = self.pieces(problem) / self.split;
        let [height, width] = [h + window.taps[1] - 1, w + window.taps[2] - 1];
        let bytes = self.depth * problem.a.dtype.size() as u32 + 16;
        Some(Pixels { height, width, bytes, patches: pieces.min(2) })
    }

    /// Whether reads of a patch with lines of other widths than multiples of eight meet bank conflicts.
    fn has_conflicts(&self) -> bool {
        self.patch.is_some_and(|[_, width]| !width.is_multiple_of(8))
    }

    fn threads(&self) -> u32 {
        let of_unit = if self.unit == Unit::Warp { 32 } else { 128 };
        of_unit * self.units.iter().product::<u32>()
    }

    /// Rows of A that a thread copies in one K tile.
    fn copies_of_a(&self, problem: &Problem) -> u32 {
        self.rows * (self.depth / problem.chunk()) / self.threads()
    }

    /// The distance between rows of A where copies need know nothing else of them.
    fn even_rows(&self, problem: &Problem) -> Option<i64> {
        problem.even_rows().filter(|_| self.patch.is_none())
    }

    /// Whether the addresses of A's rows, which take divisions, are computed once and shared.
    fn has_row_table(&self, problem: &Problem) -> bool {
        let divides = problem.depth.window.as_ref().is_some_and(|w| w.count() > 1 || w.steps != [1; 3]);
        let shares = divides && problem.taps() <= 32 && self.copies_of_a(problem) > 2;
        self.patch.is_none() && self.even_rows(problem).is_none() && (shares || self.reads_row_table(problem))
    }

    /// Whether addresses of rows are read from the table for each copy: sums and fragments of the largest warp tiles leave no
    /// registers for them.
    fn reads_row_table(&self, problem: &Problem) -> bool {
        let [wm, wn, _] = self.units;
        let large = self.rows >= 256 || has_many_sums(self.rows / wm, self.columns / wn);
        self.patch.is_none()
            && self.even_rows(problem).is_none()
            && self.unit == Unit::Warp
            && large
            && problem.taps() <= 32
            && self.copies_of_a(problem) >= if self.turned { 4 } else { 8 }
    }

    /// Tiles of sums on their way out, and the bytes of all of them, which lie where the ring of `ring` bytes was; the block has `beside`
    /// bytes more. Lanes that finish what they multiplied leave none. With exchanged sides each part of K has a tile of its own where that
    /// takes no room from other blocks; else two share one, in turns.
    fn staged(&self, ring: u32, beside: u32) -> (u32, u32) {
        let parts = self.units[2];
        if self.vector.is_some() {
            return (0, 0);
        }
        let bytes = |parts: u32| parts * self.rows * (self.columns + if self.turned { 4 } else { 8 }) * 4;
        let room = if ring > ALONE { MOST_OF_BLOCK.saturating_sub(beside) } else { 0 };
        let shared = self.turned && bytes(parts) > ring.max(room);
        let parts = if shared { parts.div_ceil(2) } else { parts };
        (parts, bytes(parts))
    }

    /// Parts of a row's moments: of warps that share K, and of those that take turns with the row's steps.
    fn moment_parts(&self) -> u32 {
        let [_, wn, wk] = self.units;
        if self.turned { wk } else { wk * wn }
    }

    /// Whether it finds room in shared memory beside the epilogue's tables.
    fn fits(&self, problem: &Problem, stages: u32, target: &Target) -> bool {
        self.layout(problem, stages).bytes + problem.bytes_of_tables() <= target.shared_per_block
    }

    fn layout(&self, problem: &Problem, stages: u32) -> Layout {
        let patches = self.pixels(problem).map(|pixels| pixels.patches * pixels.size());
        let rows = if patches.is_some() { self.columns } else { self.rows + self.columns };
        let ring = stages * rows * (self.depth / problem.chunk()) * 16 + patches.unwrap_or(0);
        let of_table = if self.has_row_table(problem) { self.rows * 8 } else { 0 };
        let of_cluster = if self.cluster { 16 + self.rows * self.columns * 4 } else { 0 };
        let factors = if problem.scale.is_some() { problem.k().next_multiple_of(self.depth) } else { 0 };
        // Floats of bytes.
        let of_factors = factors * if problem.is_of_bytes() { 4 } else { problem.a.dtype.size() as u32 };
        let of_moments = if problem.moments.is_some() { self.moment_parts() * self.rows * 8 } else { 0 };
        let (staged, of_staged) = self.staged(ring, of_table + of_cluster + of_factors + of_moments);
        let table = ring.max(of_staged);
        let received = table + of_table;
        let scales = received + of_cluster;
        let moments = scales + of_factors;
        Layout { staged, table, received, scales, moments, bytes: moments + of_moments }
    }
}

fn cost(problem: &Problem, b: &Operand, tile: &Tile, target: &Target) -> f64 {
    let [wm, wn, wk] = tile.units;
    let (threads, layout) = (tile.threads(), tile.layout(problem, tile.stages));
    let (warp_rows, warp_columns) = (tile.rows / wm, tile.columns / wn);
    // What a warp converts in a step: words of four floats of 8 bits.
    let words = if problem.float8() { (warp_rows + warp_columns) / 4 } else { 0 };
    // Two sums for each row whose moments a lane adds up.
    let moments = match problem.moments {
        Some(_) if tile.turned => warp_rows.div_ceil(16).div_ceil(wn) * 4,
        Some(_) => warp_rows / 4,
        None => 0,
    };
    let registers = match tile.unit {
        // Sums, the fragments of columns for two steps, those of rows for two loads.
        Unit::Warp if tile.turned => (68 + warp_rows * warp_columns / 32 + warp_columns / 2 + moments).min(255),
        // Sums, and fragments of two steps.
        Unit::Warp => {
            (72 + warp_rows * warp_columns / 32 + (warp_rows + warp_columns) / 2 + 2 * words + moments).min(255)
        }
        Unit::Warpgroup => 64 + warp_columns / 2,
    };
    let occupancy = (65536 / (registers.next_multiple_of(8) * threads))
        .min(target.shared_per_multiprocessor / (layout.bytes + 1024))
        .min(1536 / threads)
        .max(1);
    let size = problem.a.dtype.size() as f64;
    let peak = if problem.a.dtype.size() == 1 { Rate::Int8 } else { Rate::F16 };
    let rate = target.multiply_adds_per_cycle(peak);
    let [rows, columns, depth] = [tile.rows, tile.columns, tile.depth].map(f64::from);
    let bytes = depth * size;
    // Bytes of A that are copied in one K tile.
    let of_a = match tile.pixels(problem) {
        Some(pixels) => f64::from(pixels.height * pixels.width) * bytes / f64::from(problem.taps()),
        None => rows * bytes,
    };
    let steps = bytes / f64::from(FRAGMENT * wk);
    // Floats of 8 bits are two products of f16, and are converted before.
    let products_of_step = if problem.float8() { 2.0 } else { 1.0 };
    let conversion = f64::from(words / 4 * super::conversion(problem.a.dtype, target));
    // Words of four integers that a lane scales in a step.
    let scales = problem.scale.is_some() && problem.is_of_bytes();
    let conversion = conversion + if scales { f64::from(warp_rows / 4) * SCALED_WORD + FACTORS } else { 0.0 };
    let beside = multiplies_by_warpgroups(problem, target);
    let warps = if beside { &BESIDE_WARPGROUPS } else { &WITHOUT_WARPGROUPS };
    // Words of A are as many as sums of its rows: two for every eight.
    let of_moments = match problem.moments {
        Some(_) if tile.turned => f64::from(warp_rows / 4) * warps.turned_moments[usize::from(wk > 1)],
        Some(_) => f64::from(warp_rows / 4) * warps.moments / f64::from(wn.min(2)),
        None => 0.0,
    };
    let conversion = conversion + of_moments;
    let fragments = products_of_step * f64::from(warp_rows * warp_columns) / 256.0;
    let copies = (of_a + columns * bytes) / 16.0 / f64::from(threads);
    // Fragments are read by each warp, a warpgroup's operands once.
    let read = f64::from(wm * wn) * f64::from(warp_rows + warp_columns);
    let of_block = f64::from(threads) / 128.0;
    let turns = f64::from(tile.turns(problem).div_ceil(tile.split));
    let weights =
        problem.columns as f64 * f64::from(problem.k()) * b.batch.iter().filter(|&&s| s != 0).count().max(1) as f64;
    let extras = problem.extras.len() + usize::from(problem.second.is_some());
    let base = Tiled {
        pace: WARPGROUPS,
        blocks: f64::from(tile.tiles_of_rows(problem) * problem.columns.div_ceil(tile.columns) * problem.batches())
            * f64::from(tile.split),
        occupancy: f64::from(occupancy),
        turns,
        turn: 0.0,
        // The pace of products of warps is part of `issue`.
        arithmetic: 0.0,
        shared: 0.0,
        copied: of_a + columns * bytes,
        chain: 0.0,
        issue: 0.0,
        waits: 0.0,
        passes: 0.0,
        tile: rows * columns * 4.0,
        staged: rows
            * columns
            * match tile.unit {
                Unit::Warp if tile.vector.is_some() => 0.0,
                // Where two warps share a place, one leaves its sums and the other reads them before it stores its own.
                Unit::Warp if tile.turned && layout.staged < wk => f64::from(1 + 3 * wk),
                Unit::Warp | Unit::Warpgroup => f64::from(2 + 2 * wk),
            },
        kept: if tile.vector.is_some() { rows * columns * 4.0 } else { 0.0 },
        accesses: extras as f64 + 1.0 / f64::from(problem.pooled()),
        split: f64::from(tile.split),
        cluster: tile.cluster,
        device: weights * b.dtype.size() as f64,
    };
    let integers = problem.is_of_bytes() && !problem.float8();
    let of_bytes = integers && !tile.turned && tile.has_conflicts();
    let tiled = match tile.unit {
        Unit::Warp => {
            let conflicts = if of_bytes { CONFLICTS_OF_BYTES } else { 1.0 };
            let of_table = if tile.reads_row_table(problem) { warps.table } else { 1.0 };
            let copies = copies * warps.copy[usize::from(bytes < 128.0)] * of_table;
            let [chained, issued] = if tile.turned { warps.turned_product } else { warps.product };
            let issued = if tile.patch.is_some() { warps.patched_product[usize::from(tile.turned)] } else { issued };
            let step = conversion + if tile.turned { 0.0 } else { warps.step };
            let chain = copies + steps * (chained * fragments + step);
            let turn = warps.turn[2 * usize::from(tile.patch.is_some()) + usize::from(tile.turned)]
                + if wk > 1 { warps.shared_depth } else { 0.0 };
            let many = if threads >= 256 && tile.patch.is_none() { warps.eight_warps } else { 0.0 };
            // With few tiles ahead the latency of level 2 shows.
            let ahead = f64::from(tile.stages - 1);
            let wait = warps.late + (warps.latency / ahead - turn - chain).max(0.0);
            let pace = match (integers, beside) {
                (true, _) => WARPS_OF_INTEGERS,
                (false, true) => WARPS_BESIDE_WARPGROUPS,
                (false, false) => WARPS,
            };
            Tiled {
                pace,
                turn,
                shared: read * bytes * conflicts + 0.29 * (of_a + columns * bytes),
                chain,
                issue: (copies + steps * (issued * fragments + step)) * of_block,
                waits: many + (turns - ahead).max(0.0) * wait,
                passes: f64::from((tile.rows * tile.columns / 8).div_ceil(threads)) * warps.pass(problem, tile),
                ..base
            }
        }
        Unit::Warpgroup => {
            // A warpgroup starts its products and waits for them.
            let copies = copies * 2.3;
            let latency = 558.0 / f64::from(tile.stages - 2);
            Tiled {
                turn: 122.0,
                arithmetic: rows * columns * depth / rate,
                shared: (read + rows + columns) * bytes,
                // Level 1 serves most of what neighbouring taps share.
                copied: (rows / f64::from(problem.taps()).min(1.7) + columns) * bytes,
                chain: (copies + 40.6).max(latency),
                issue: (copies + steps * 8.0) * of_block * 1.4,
                passes: if wk > 1 { 264.0 } else { 0.0 },
                ..base
            }
        }
    };
    let time = tiled.time(target);
    if tile.has_conflicts() && !of_bytes { time * CONFLICTS } else { time }
}

impl Warps {
    /// Cycles of a thread's pass over eight sums.
    fn pass(&self, problem: &Problem, tile: &Tile) -> f64 {
        let residual = problem.extras.iter().any(|map| map.row.iter().any(|&stride| stride != 0));
        let of_residual = |cycles: f64| if residual { cycles } else { 0.0 };
        let lanes = usize::from(tile.vector.is_some());
        let pass = match tile.vector {
            Some(vector) => of_residual(self.residual_of_lane[usize::from(vector == 8)]),
            None => self.pass + of_residual(self.residual_pass),
        };
        match problem.integers {
            Some(_) => pass + of_residual(self.integer_residual_pass),
            None => {
                let normalised = if problem.moments.is_some() { self.normalised_pass[lanes] } else { 0.0 };
                let operations = problem.program.as_ref().map_or(0, operations) as f64;
                pass + normalised + self.operation[lanes] * operations
            }
        }
    }
}

/// Operations of an epilogue beside its first, which adds a residual or clips.
fn operations(program: &Program) -> usize {
    let is_operation = |instruction: &&Instruction| {
        !matches!(instruction, Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_))
    };
    program.instructions.iter().filter(is_operation).count().saturating_sub(1)
}

fn candidate(problem: &Problem, b: &Operand, tile: &Tile, cost: f64) -> Candidate {
    let [wm, wn, wk] = tile.units;
    let Tile { rows, columns, depth, stages, split, cluster, .. } = *tile;
    let (m_tiles, n_tiles) = (tile.tiles_of_rows(problem), problem.stored_columns.div_ceil(columns));
    let tiles = m_tiles * n_tiles * problem.batches();
    let along_depth = b.is_aligned_along_depth(problem, problem.chunk());
    let layout = tile.layout(problem, stages);
    let overreaches = problem.depth.window.as_ref().is_some_and(|w| w.overreaches(&problem.rows) != [false; 3]);
    let even_rows = tile.even_rows(problem);
    let whole_tiles = problem.m().is_multiple_of(rows) && problem.k().is_multiple_of(depth);
    let constants = Constants::default()
        .define("SPLIT_IN_CLUSTER", u32::from(cluster))
        .define("OUTSIDE_WORD", problem.integers.map_or(0, |integers| word(integers.padding_value)))
        .define("B_COLUMNS_CONTIGUOUS", u32::from(!along_depth))
        .int("BM", rows)
        .int("BN", columns)
        .int("BK", depth)
        .int("WM", wm)
        .int("WN", wn)
        .int("WK", wk)
        .int("STAGES", stages)
        .int("STAGED", layout.staged)
        .int("SPLIT", split)
        .int("M_TILES", m_tiles)
        .int("N_TILES", n_tiles)
        .int("B_N", b.column)
        .int("B_K", b.depth)
        .flag("HAS_BIAS", problem.bias)
        .int("TAPS", problem.taps())
        .int("CHANNELS", problem.depth.channels)
        .int("TABLE_AT", layout.table)
        .int("RECEIVED_AT", layout.received)
        .define("SCALED", u32::from(problem.scale.is_some()))
        .int("SCALE_OFFSET", problem.scale.as_ref().map_or(0, |scale| scale.offset))
        .int("SCALES_AT", layout.scales)
        .define("MOMENTS", u32::from(problem.moments.is_some()))
        .define("EVEN_ROWS", u32::from(even_rows.is_some()))
        .int("A_ROW", even_rows.unwrap_or(0))
        .flag("ROW_TABLE", tile.has_row_table(problem))
        .flag("ROWS_IN_TABLE", tile.reads_row_table(problem))
        .flag("ALWAYS_INSIDE", whole_tiles && !overreaches)
        // Code is read anew by each replay. Warpgroups gain 1.4 % of resnet50 by loops, warps lose 0.3 % (section 38).
        .flag("COMPACT", tile.unit == Unit::Warpgroup)
        // Warps lose by it, at 4.5 % of a product's time: a line that level 1 takes is written twice.
        .flag("A_CACHED", problem.taps() > 1 && tile.unit == Unit::Warpgroup)
        .define("TURNED", u32::from(tile.turned))
        .define("LANES", u32::from(tile.vector.is_some()))
        .define("POOLED", problem.pool.map_or(0, |_| problem.pooled()))
        .flag("UNIFORM_TAPS", tile.patch.is_some() || problem.depth.channels.is_multiple_of(depth));
    let constants = match problem.pool {
        Some(Windows { extents: [height, width], .. }) => constants.int("POOL_H", height).int("POOL_W", width),
        None => constants,
    };
    let constants = with_patch(constants, problem, tile);
    let constants = match problem.moments {
        Some(_) => constants.int("MOMENTS_AT", layout.moments).int("MOMENT_PARTS", tile.moment_parts()),
        None => constants,
    };
    let mut parts: Vec<Cow<'static, str>> = vec![include_str!("intrinsics.cu").into()];
    if let Some(names) = integer_names(problem) {
        parts.extend([names.into(), super::INTEGERS.into()]);
    }
    if problem.float8() {
        parts.push(super::FLOAT8_PRODUCTS.into());
    }
    parts.extend(problem.scale.as_ref().map(|scale| scale.function.clone().into()));
    parts.extend(problem.moments.map(|_| include_str!("moments.cu").into()));
    if cluster {
        parts.push(include_str!("cluster.cu").into());
    }
    let multiply = match tile.unit {
        Unit::Warp => String::new(),
        Unit::Warpgroup => warpgroup_multiply(problem.a.dtype, columns / wn),
    };
    let (algorithm, function, text) = match tile.unit {
        Unit::Warp if tile.turned => ("tensor_core_gemm", "turned_tile", include_str!("turned.cu")),
        Unit::Warp => ("tensor_core_gemm", "tensor_core_tile", include_str!("tensor_core.cu")),
        Unit::Warpgroup => ("warpgroup_gemm", "warpgroup_tile", include_str!("warpgroup.cu")),
    };
    parts.push(include_str!("tile.cu").into());
    parts.push(if tile.vector.is_some() { include_str!("finish_lanes.cu") } else { include_str!("finish.cu") }.into());
    if let Some(windows) = &problem.pool {
        parts.extend([windows.packed.largest().into(), include_str!("finish_pooled.cu").into()]);
    }
    parts.extend([include_str!("copies.cu").into(), multiply.into(), text.into()]);
    let scratch = split > 1 && !cluster;
    // Another name, so that verification takes it for another kernel.
    let entry = match tile {
        Tile { patch: Some(_), turned: true, .. } => "tensor_core_turned_patch",
        Tile { patch: Some(_), .. } => "tensor_core_patch",
        Tile { turned: true, .. } => "tensor_core_turned",
        _ => algorithm,
    };
    let launch = launch(
        problem,
        b,
        constants,
        Geometry {
            shared: layout.bytes,
            cluster: if cluster { split } else { 1 },
            architecture_specific: tile.unit == Unit::Warpgroup,
            scratch,
            vector: tile.vector.unwrap_or(8),
            tables: Tables::Shared,
            ..Geometry::new(entry, function, parts, tiles * split, tile.threads())
        },
    );
    let units = if tile.unit == Unit::Warp { "warps" } else { "warpgroups" };
    let split_name = if cluster { "cluster" } else { "split" };
    let mut form = tile.patch.map(|[h, w]| format!(" patch {h}x{w}")).unwrap_or_default();
    if tile.turned {
        form += " turned";
    }
    Candidate {
        workspace: if scratch { u64::from(tiles * split) * u64::from(rows * columns) * 4 } else { 0 },
        counters: if scratch { u64::from(tiles) * 4 } else { 0 },
        packing: packing(problem, b),
        ..Candidate::new(
            algorithm,
            format!("{rows}x{columns}x{depth} {units} {wm}x{wn}x{wk} stages {stages} {split_name} {split}{form}"),
            vec![launch],
            cost,
        )
    }
}

/// What the copies and the epilogue must know of a patch.
fn with_patch(constants: Constants, problem: &Problem, tile: &Tile) -> Constants {
    let constants = constants.define("PATCH", u32::from(tile.patch.is_some()));
    let (Some(window), Some([h, w]), Some(pixels)) = (&problem.depth.window, tile.patch, tile.pixels(problem)) else {
        return constants;
    };
    let ring = tile.stages * tile.columns * (tile.depth / problem.chunk()) * 16;
    let [_, _, height, width] = *problem.rows else { return constants };
    constants
        .int("TILE_H", h)
        .int("TILE_W", w)
        .int("TILES_H", height.div_ceil(h))
        .int("TILES_W", width.div_ceil(w))
        .int("OUT_H", height)
        .int("OUT_W", width)
        .int("IN_H", window.input[1])
        .int("IN_W", window.input[2])
        .int("PAD_H", window.pads[1])
        .int("PAD_W", window.pads[2])
        .int("TAPS_W", window.taps[2])
        .int("A_OFFSET", problem.a.offset)
        .int("A_IMAGE", problem.a.row[0])
        .int("A_H", window.strides[1])
        .int("A_W", window.strides[2])
        .int("PATCH_AT", ring)
        .int("PATCH_W", pixels.width)
        .int("PATCH_PIXELS", pixels.height * pixels.width)
        .int("PATCHES", pixels.patches)
        .int("PIXEL_BYTES", pixels.bytes)
        .int("PATCH_BYTES", pixels.size())
}

/// Four bytes of the padding value of an input.
pub(crate) fn word(padding_value: i32) -> u32 {
    u32::from_le_bytes([padding_value.to_le_bytes()[0]; 4])
}

/// Whether integer factors are signed, as instructions say it: `s` or `u`; none for products of floats.
pub(crate) fn integer_names(problem: &Problem) -> Option<String> {
    problem.integers.filter(|_| problem.is_of_bytes())?;
    let b = problem.b.first()?;
    let letter = |dtype: DType| if dtype == DType::U8 { 'u' } else { 's' };
    let (a, b) = (letter(problem.a.dtype), letter(b.dtype));
    Some(format!("#define A_LETTER \"{a}\"\n#define B_LETTER \"{b}\"\n"))
}

/// The function that multiplies 64 rows by `columns` columns, 16 elements deep: its operands are the accumulators.
fn warpgroup_multiply(element: DType, columns: u32) -> String {
    let accumulators = columns / 2;
    let list = |item: &dyn Fn(u32) -> String| (0..accumulators).map(item).collect::<Vec<_>>().join(", ");
    let element = element.name();
    format!(
        "DEVICE void multiply_add(f32 (&c)[{accumulators}], u64 a, u64 b) {{\n    asm volatile(\"{{\\n.reg .pred add;\\n\
         setp.eq.u32 add, 0, 0;\\n\"\n        \"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{element}.{element} \
         {{{}}}, %{accumulators}, %{}, add, 1, 1, 0, 0;\\n}}\"\n        : {}\n        : \"l\"(a), \"l\"(b));\n}}\n",
        list(&|i| format!("%{i}")),
        accumulators + 1,
        list(&|i| format!("\"+f\"(c[{i}])")),
    )
}

/// Packing of all operands where B is packed, else none.
pub(super) fn packing(problem: &Problem, b: &Operand) -> Vec<Packing> {
    if b.packing == Packing::Keep {
        return Vec::new();
    }
    let mut all = vec![Packing::Keep; 2 + usize::from(problem.bias) + problem.extras.len()];
    all[1] = b.packing.clone();
    all
}
