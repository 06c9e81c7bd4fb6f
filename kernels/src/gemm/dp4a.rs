//! Products of 8-bit integers on CUDA cores, for GPUs whose tensor cores are out of reach (sm_72).

use super::cost::{OVERLAPPED, Tiled};
use super::problem::{Operand, Problem};
use super::source::{Constants, Geometry, launch};
use super::tensor_core::{integer_names, packing, word};
use crate::codegen::{Candidate, Rate, Target};
use std::borrow::Cow;

/// Tile rows, columns, depth, and rows and columns of a thread.
const TILES: [(u32, u32, u32, u32, u32); 5] =
    [(32, 32, 64, 4, 4), (32, 64, 64, 4, 4), (64, 32, 64, 4, 4), (64, 64, 64, 4, 4), (128, 64, 64, 8, 4)];
const SPLITS: [u32; 5] = [1, 2, 4, 8, 16];

/// Candidates of a product of integers whose elements lie side by side along K.
pub(super) fn candidates(problem: &Problem, target: &Target) -> Vec<Candidate> {
    let Some(names) = integer_names(problem).filter(|_| problem.groups() == 1) else { return Vec::new() };
    let readable = |elements: u32| {
        let aligned = |b: &&Operand| b.is_aligned_along_depth(problem, elements);
        problem.b.iter().find(aligned).filter(|_| problem.a_is_aligned(elements)).map(|b| (b, elements / 4))
    };
    let Some((b, vector)) = readable(16).or_else(|| readable(4)) else { return Vec::new() };
    let mut all = Vec::new();
    for tile in TILES {
        let (rows, columns, depth, ..) = tile;
        let oversize = |tile: u32, extent: u32| tile > 32 && tile >= 2 * extent;
        if oversize(rows, problem.m()) || oversize(columns, problem.columns) {
            continue;
        }
        let grids = problem.m().div_ceil(rows) * problem.columns.div_ceil(columns) * problem.batches();
        for split in SPLITS {
            let turns = problem.k().div_ceil(depth) / split;
            if split == 1 || (turns >= 2 && grids * split <= 2 * target.multiprocessors.max(8)) {
                all.push(candidate(problem, b, vector, &names, tile, split, target));
            }
        }
    }
    all
}

fn candidate(
    problem: &Problem,
    b: &Operand,
    vector: u32,
    names: &str,
    (rows, columns, depth, of_thread, of_thread_columns): (u32, u32, u32, u32, u32),
    split: u32,
    target: &Target,
) -> Candidate {
    let threads = rows / of_thread * (columns / of_thread_columns);
    let (m_tiles, n_tiles) = (problem.m().div_ceil(rows), problem.stored_columns.div_ceil(columns));
    let tiles = m_tiles * n_tiles * problem.batches();
    let padding_value = problem.integers.map_or(0, |integers| word(integers.padding_value));
    let constants = Constants::default()
        .define("SPLIT_IN_CLUSTER", 0)
        .define("PATCH", 0)
        .define("TURNED", 0)
        .define("OUTSIDE_WORD", padding_value)
        .text(names)
        .int("BM", rows)
        .int("BN", columns)
        .int("BK", depth)
        .int("TM", of_thread)
        .int("TN", of_thread_columns)
        .int("WK", 1)
        .int("SPLIT", split)
        .int("M_TILES", m_tiles)
        .int("N_TILES", n_tiles)
        .int("B_N", b.column)
        .int("VECTOR", vector);
    // Words of four elements, and the staged sums in their place.
    let shared = (2 * depth / 4 * (rows + columns + 8) * 4).max(rows * (columns + 8) * 4);
    let launch = launch(
        problem,
        b,
        constants,
        Geometry {
            entry: "dp4a_gemm",
            tile: "dp4a_tile",
            parts: [include_str!("finish.cu"), super::WORDS, include_str!("dp4a.cu")].map(Cow::from).into(),
            blocks: tiles * split,
            threads,
            shared,
            cluster: 1,
            architecture_specific: false,
            scratch: split > 1,
            check_w: false,
        },
    );
    let registers = 56 + of_thread * of_thread_columns + 3 * (of_thread + of_thread_columns);
    let occupancy =
        (65536 / (registers * threads)).min(target.shared_per_multiprocessor / (shared + 1024)).min(1536 / threads);
    // Four products take as long as one of floats.
    let rate = 4.0 * target.multiply_adds_per_cycle(Rate::F32);
    let [fr, fc, fd] = [rows, columns, depth].map(f64::from);
    let per_word = f64::from(of_thread * of_thread_columns) + f64::from(of_thread + of_thread_columns) / 4.0;
    let cost = Tiled {
        pace: OVERLAPPED,
        residuals: 0.0,
        blocks: f64::from(tiles) * f64::from(split),
        occupancy: f64::from(occupancy.max(1)),
        turns: f64::from(problem.k().div_ceil(depth).div_ceil(split)),
        arithmetic: fr * fc * fd / (rate * f64::from(threads.min(256)) / 256.0),
        shared: f64::from(threads) * f64::from(of_thread + of_thread_columns) * fd / 2.0,
        copied: (fr + fc) * fd,
        chain: (fd / 4.0 * per_word * f64::from(threads) / 128.0
            + 40.0 * (f64::from(rows * depth) / f64::from(threads * vector * 4)))
        .max(450.0),
        issue: 0.0,
        turn: 100.0,
        tile: fr * fc * 4.0,
        staged: fr * fc * 4.0,
        split: f64::from(split),
        cluster: false,
        device: f64::from(problem.columns) * f64::from(problem.k()),
    }
    .time(target);
    Candidate {
        workspace: if split > 1 { u64::from(tiles * split) * u64::from(rows * columns) * 4 } else { 0 },
        counters: if split > 1 { u64::from(tiles) * 4 } else { 0 },
        packing: packing(problem, b),
        ..Candidate::new(
            "dp4a_gemm",
            format!("{rows}x{columns}x{depth} thread {of_thread}x{of_thread_columns} split {split}"),
            vec![launch],
            cost,
        )
    }
}
