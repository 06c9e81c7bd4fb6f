//! CUDA-core configurations: f32 everywhere, f16, bf16 and floats of 8 bits where tensor cores cannot read the operands.

use super::cost::{OVERLAPPED, Tiled};
use super::problem::{Operand, Problem};
use super::source::{Constants, Geometry, launch};
use super::tensor_core::packing;
use crate::DType;
use crate::codegen::{Candidate, Rate, Target};
use crate::quantized_conv::is_float_factor;
use std::borrow::Cow;

/// Tile rows, columns, depth, and rows and columns of a thread.
const TILES: [(u32, u32, u32, u32, u32); 6] = [
    (32, 32, 32, 4, 4),
    (32, 64, 16, 4, 4),
    (64, 32, 16, 4, 4),
    (64, 64, 16, 4, 4),
    (128, 64, 16, 8, 4),
    (128, 128, 8, 8, 8),
];
const SPLITS: [u32; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

pub(super) fn candidates(problem: &Problem, target: &Target) -> Vec<Candidate> {
    let single = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) || is_float_factor(dtype);
    if problem.groups() != 1 || !single(problem.a.dtype) {
        return Vec::new();
    }
    let Some(b) =
        problem.b.iter().find(|b| single(b.dtype) && b.is_aligned_along_depth(problem, 4)).or(problem.b.first())
    else {
        return Vec::new();
    };
    if !single(b.dtype) {
        return Vec::new();
    }
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
            if split == 1 || (turns >= 4 && grids * split <= 2 * target.multiprocessors.max(8)) {
                all.push(candidate(problem, b, tile, split, target));
            }
        }
    }
    all
}

fn candidate(
    problem: &Problem,
    b: &Operand,
    (rows, columns, depth, of_thread, of_thread_columns): (u32, u32, u32, u32, u32),
    split: u32,
    target: &Target,
) -> Candidate {
    let threads = rows / of_thread * (columns / of_thread_columns);
    let (m_tiles, n_tiles) = (problem.m().div_ceil(rows), problem.stored_columns.div_ceil(columns));
    let tiles = m_tiles * n_tiles * problem.batches();
    let vector = |aligned: bool| if aligned { 4u32 } else { 1 };
    let (a_vector, b_vector) = (vector(problem.a_is_aligned(4)), vector(b.is_aligned_along_depth(problem, 4)));
    let constants = Constants::default()
        .define("SPLIT_IN_CLUSTER", 0)
        .define("PATCH", 0)
        .define("TURNED", 0)
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
        .int("B_K", b.depth)
        .int("A_VECTOR", a_vector)
        .int("B_VECTOR", b_vector)
        .flag("A_K_FIRST", problem.depth.stride == 1)
        .flag("B_K_FIRST", b.depth == 1);
    let shared = (2 * depth * (rows + columns + 8) * 4).max(rows * (columns + 8) * 4);
    let launch = launch(
        problem,
        b,
        constants,
        Geometry {
            entry: "simt_gemm",
            tile: "simt_tile",
            parts: [include_str!("finish.cu"), include_str!("simt.cu")].map(Cow::from).into(),
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
    let rate = target.multiply_adds_per_cycle(Rate::F32);
    let [fr, fc, fd] = [rows, columns, depth].map(f64::from);
    let bytes = problem.a.dtype.size() as f64;
    let per_k = f64::from(of_thread * of_thread_columns) + f64::from(of_thread + of_thread_columns) / 4.0;
    let cost = Tiled {
        pace: OVERLAPPED,
        residuals: 0.0,
        blocks: f64::from(tiles) * f64::from(split),
        occupancy: f64::from(occupancy.max(1)),
        turns: f64::from(problem.k().div_ceil(depth).div_ceil(split)),
        arithmetic: fr * fc * fd / (rate * f64::from(threads.min(256)) / 256.0),
        shared: f64::from(threads) * f64::from(of_thread + of_thread_columns) * 4.0 * fd / 2.0,
        copied: (fr + fc) * fd * bytes,
        // A scheduler issues one instruction a cycle; address arithmetic comes with every load.
        chain: (fd * per_k * f64::from(threads) / 128.0
            + 40.0 * (f64::from(rows * depth) / f64::from(threads * a_vector)))
        .max(450.0),
        issue: 0.0,
        turn: 100.0,
        tile: fr * fc * 4.0,
        staged: fr * fc * 4.0,
        split: f64::from(split),
        cluster: false,
        device: f64::from(problem.columns) * f64::from(problem.k()) * bytes,
    }
    .time(target);
    Candidate {
        workspace: if split > 1 { u64::from(tiles * split) * u64::from(rows * columns) * 4 } else { 0 },
        counters: if split > 1 { u64::from(tiles) * 4 } else { 0 },
        packing: packing(problem, b),
        ..Candidate::new(
            "simt_gemm",
            format!("{rows}x{columns}x{depth} thread {of_thread}x{of_thread_columns} split {split}"),
            vec![launch],
            cost,
        )
    }
}
