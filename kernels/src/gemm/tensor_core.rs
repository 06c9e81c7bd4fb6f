//! Tensor-core configurations (f16, bf16, floats and integers of 8 bits): by warps on sm_80 and later, by warpgroups on sm_90 (not
//! for 8 bits).

use super::problem::{Operand, PART, Pool, Problem, Windows};
use super::source::{Constants, Geometry, launch};
use super::tile::{DEPTHS, FRAGMENT, Tile, Unit, depth_of_pixel, has_many_sums, multiplies_by_warpgroups};
use super::tile_cost::cost;
use crate::DType;
use crate::codegen::{Candidate, Packing, Tables, Target};
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
/// The same for patches of pixels of two bytes alone: gathered rows gain nothing by them (`TUNING.md`, section 65).
const TURNED_PATCHES: [(u32, u32, u32, u32, u32); 2] = [(112, 128, 2, 2, 1), (224, 128, 4, 2, 1)];
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

/// Stages of the ring where warps multiply; two or three leave room for a second block.
const STAGES: [u32; 4] = [2, 3, 4, 6];
const SPLITS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

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

/// Configurations that fit the target and do not waste most of a tile.
fn tiles<'a>(problem: &'a Problem, b: &Operand, target: &'a Target) -> impl Iterator<Item = Tile> + 'a {
    let shares = shares_pixels(problem, b, target);
    gathered(problem, b, target).flat_map(move |tile| {
        let patched = shares.then(|| tile.with_patch(problem)).flatten();
        let patched = patched.filter(|tile| tile.fits(problem, tile.stages, target));
        let depth = tile.depth * problem.a.dtype.size() as u32;
        let of_patches = tile.turned && TURNED_PATCHES.contains(&tile.shape());
        let gathered = Some(tile).filter(|_| depth > FRAGMENT && DEPTHS.contains(&depth) && !of_patches);
        [gathered, patched].into_iter().flatten()
    })
}

/// Whether tiles may copy the pixels that windows share once.
fn shares_pixels(problem: &Problem, b: &Operand, target: &Target) -> bool {
    !multiplies_by_warpgroups(problem, target)
        && has_patches(problem)
        && b.is_aligned_along_depth(problem, problem.chunk())
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

/// Columns side by side that the lanes of a warp get if B's columns are in another order in shared memory. Two are too few: each store then
/// is of a single word.
fn vector_of_lane(problem: &Problem, warp_columns: u32, turned: bool) -> Option<u32> {
    let lanes = if turned { 8 } else { 4 };
    let vector = [8, 4].into_iter().find(|vector| warp_columns.is_multiple_of(lanes * vector))?;
    // Lanes of a row join a whole part of its moments.
    Some(vector).filter(|vector| !problem.leaves_moments || (lanes * vector).is_multiple_of(PART))
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
    let turned = TURNED_TILES.into_iter().chain(TURNED_PATCHES.into_iter().filter(move |_| shares && size == 2));
    let turned = turned.filter(move |_| turns_sides).map(|tile| (Unit::Warp, true, tile));
    let warpgroups = WARPGROUP_TILES.into_iter().filter(move |_| has_warpgroups);
    let all = warps.chain(turned).chain(warpgroups.map(|tile| (Unit::Warpgroup, false, tile)));
    let sized = all.filter(|&(_, turned, (rows, columns, wm, wn, _))| {
        let oversize = |tile: u32, extent: u32, least: u32| tile > least && tile >= 2 * extent;
        // Sums of the largest warp tiles leave no registers for what is converted, or for moments that a warp adds up alone: 16 bytes
        // spilled on sm_87.
        let takes_registers = problem.float8() || (problem.adds_moments() && (!turned || wn == 1));
        let crowded = takes_registers && has_many_sums(rows / wm, columns / wn);
        let parted = !problem.leaves_moments || columns.is_multiple_of(PART);
        // Of windows, or of what is averaged.
        let whole = if problem.is_averaged() { rows >= problem.m() } else { rows.is_multiple_of(problem.pooled()) };
        !oversize(rows, problem.m(), 16) && !oversize(columns, problem.columns, 32) && !crowded && whole && parted
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
                split == 1 || (parts && !problem.adds_moments() && problem.windows().is_none())
            });
            splits.flat_map(move |split| {
                let cluster = [false, true].into_iter().filter(move |&cluster| {
                    let meets = !turned && !problem.is_averaged() && (90..120).contains(&target.architecture);
                    !cluster || (meets && matches!(split, 2 | 4 | 8))
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
                        let vector = vector_of_lane(problem, columns / wn, turned).filter(|_| finishes);
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
        .define("MOMENTS", u32::from(problem.adds_moments()))
        .define("NORMALIZED", u32::from(problem.moments.is_some()))
        .define("GIVEN_MOMENTS", u32::from(problem.takes_moments()))
        .define("NORMALIZED_EXTRA", u32::from(problem.normalized_extra.is_some()))
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
        .define("POOLED", problem.windows().map_or(0, |_| problem.pooled()))
        .define("AVERAGED", u32::from(problem.is_averaged()))
        .flag("UNIFORM_TAPS", tile.patch.is_some() || problem.depth.channels.is_multiple_of(depth));
    let constants = match problem.windows() {
        Some(Windows { extents: [height, width], .. }) => constants.int("POOL_H", height).int("POOL_W", width),
        None => constants,
    };
    let constants = with_patch(constants, problem, tile);
    let constants = match problem.normalization() {
        Some(_) => constants.int("MOMENTS_AT", layout.moments).int("MOMENT_PARTS", tile.moment_parts(problem)),
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
    if problem.normalization().is_some() {
        parts.push(include_str!("moments_of_rows.cu").into());
    }
    if problem.moments.is_some() {
        parts.push(include_str!("normalized_rows.cu").into());
    }
    if problem.adds_moments() {
        parts.extend([include_str!("moments.cu").into(), include_str!("added_moments.cu").into()]);
    }
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
    match &problem.pool {
        Some(Pool::Largest(windows)) => {
            parts.extend([windows.packed.largest().into(), include_str!("finish_pooled.cu").into()]);
        }
        Some(Pool::Mean(function)) => {
            parts.extend([function.clone().into(), include_str!("finish_averaged.cu").into()])
        }
        None => {}
    }
    if problem.takes_moments() {
        parts.push(include_str!("given_moments.cu").into());
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
