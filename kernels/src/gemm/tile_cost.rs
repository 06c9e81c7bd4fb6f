//! What a tile of products on tensor cores takes: the terms of `cost.rs`, from a problem and a tile.

use super::cost::{Tiled, WARPGROUPS, WARPS, WARPS_BESIDE_WARPGROUPS, WARPS_OF_INTEGERS};
use super::problem::{Operand, PART, Problem};
use super::tile::{FRAGMENT, Tile, Unit, multiplies_by_warpgroups};
use crate::codegen::{Rate, Target};

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
    /// The same of the scheduler alone where pixels are shared, with sides as they are and exchanged; and exchanged where a warp
    /// has all of K and 64 columns, so that eight products follow each load.
    patched_product: [f64; 2],
    wide_patched_product: f64,
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

/// Where there are no warpgroups, fitted to candidates (`TUNING.md`, section 57; blocks of eight warps: section 61; patches and lanes: section 62; patches of
/// 64 columns a warp: section 65, by hand).
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
    wide_patched_product: 13.2,
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
    wide_patched_product: 24.5,
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

/// Cycles until given moments are there, beside what their bytes take; and of a thread's pass over eight results whose moments it leaves.
/// Set by hand (section 63).
const GIVEN_MOMENTS: f64 = 400.0;
const LEFT_MOMENTS: f64 = 100.0;
/// Cycles of a thread's pass over eight results that a normalised residual adds: 18 instructions and a read of shared memory. By hand.
const NORMALIZED_RESIDUAL: f64 = 40.0;

/// Cycles in which sums of threads become means: a barrier, and a chain of up to 64 sums. By hand.
const MEANS: f64 = 300.0;

/// Expected time of a problem by a tile, in microseconds.
pub(super) fn cost(problem: &Problem, b: &Operand, tile: &Tile, target: &Target) -> f64 {
    let [wm, wn, wk] = tile.units;
    let (threads, layout) = (tile.threads(), tile.layout(problem, tile.stages));
    let (warp_rows, warp_columns) = (tile.rows / wm, tile.columns / wn);
    // What a warp converts in a step: words of four floats of 8 bits.
    let words = if problem.float8() { (warp_rows + warp_columns) / 4 } else { 0 };
    // Two sums for each row whose moments a lane adds up.
    let moments = match problem.adds_moments() {
        true if tile.turned => warp_rows.div_ceil(16).div_ceil(wn) * 4,
        true => warp_rows / 4,
        false => 0,
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
    let of_moments = match problem.adds_moments() {
        true if tile.turned => f64::from(warp_rows / 4) * warps.turned_moments[usize::from(wk > 1)],
        true => f64::from(warp_rows / 4) * warps.moments / f64::from(wn.min(2)),
        false => 0.0,
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
    let passes = f64::from((tile.rows * tile.columns / 8).div_ceil(threads));
    let blocks = f64::from(tile.tiles_of_rows(problem) * problem.columns.div_ceil(tile.columns) * problem.batches())
        * f64::from(tile.split);
    let given = if let Some(normalization) = problem.normalization().filter(|of| of.given.is_some()) {
        // Blocks of a multiprocessor read them at a time.
        let resident = (blocks / f64::from(target.multiprocessors)).ceil().min(f64::from(occupancy));
        f64::from(normalization.columns / PART * tile.rows * 8) * resident / WARPS.l2_bytes + GIVEN_MOMENTS
    } else {
        0.0
    };
    let of_pass = [(problem.leaves_moments, LEFT_MOMENTS), (problem.normalized_extra.is_some(), NORMALIZED_RESIDUAL)];
    let of_pass: f64 = of_pass.into_iter().filter(|(is_there, _)| *is_there).map(|(_, cycles)| cycles).sum();
    let base = Tiled {
        pace: WARPGROUPS,
        blocks,
        occupancy: f64::from(occupancy),
        turns,
        turn: 0.0,
        // The pace of products of warps is part of `issue`.
        arithmetic: 0.0,
        shared: 0.0,
        copied: of_a + columns * bytes,
        chain: 0.0,
        issue: 0.0,
        waits: given + if problem.is_averaged() { MEANS } else { 0.0 },
        passes: passes * of_pass,
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
            let issued = match tile.patch {
                Some(_) if tile.turned && warp_columns == 64 && wk == 1 => warps.wide_patched_product,
                Some(_) => warps.patched_product[usize::from(tile.turned)],
                None => issued,
            };
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
                waits: base.waits + many + (turns - ahead).max(0.0) * wait,
                passes: base.passes + passes * warps.pass(problem, tile),
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
                passes: base.passes + if wk > 1 { 264.0 } else { 0.0 },
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
                let operations = problem.operations() as f64;
                pass + normalised + self.operation[lanes] * operations
            }
        }
    }
}
