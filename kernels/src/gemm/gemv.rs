//! Products with few rows: fully connected layers and pointwise convolutions of pooled vectors at batch 1.

use super::problem::{Operand, Problem};
use super::source::{Constants, Geometry, launch};
use super::tensor_core::{integer_names, packing};
use crate::DType;
use crate::codegen::{Candidate, Target};

/// Most rows; above it a tensor-core tile wins.
const MOST_ROWS: u32 = 16;
/// Warps of a block.
const WARPS: u32 = 8;

pub(super) fn candidates(problem: &Problem, target: &Target) -> Vec<Candidate> {
    let (element, m) = (problem.a.dtype, problem.m());
    let plain =
        problem.depth.window.as_ref().is_none_or(|w| w.count() == 1 && w.overreaches(&problem.rows) == [false; 3]);
    let bytes = problem.is_of_bytes();
    let known = bytes || matches!(element, DType::F32 | DType::F16 | DType::Bf16);
    let parted = problem.takes_moments() || problem.leaves_moments;
    let fused = problem.scale.is_some() || problem.second.is_some() || problem.pool.is_some() || parted;
    if m > MOST_ROWS || !plain || problem.groups() != 1 || !known || fused {
        return Vec::new();
    }
    let vector = 16 / element.size() as u32;
    let readable = |b: &&Operand| (bytes || b.dtype == element) && b.is_aligned_along_depth(problem, vector);
    let Some(b) = problem.b.iter().find(readable).filter(|_| problem.a_is_aligned(vector)) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for columns_of_warp in [1, 2, 4] {
        for warps_of_column in [1, 2, 4, 8] {
            let useful = warps_of_column == 1 || problem.k() >= 32 * vector * warps_of_column / 2;
            if (columns_of_warp + sums_of_row(problem)) * m <= 32 && useful {
                all.push(candidate(problem, b, columns_of_warp, warps_of_column, target));
            }
        }
    }
    all
}

/// What a warp adds up of each row beside its products: elements and their squares, where rows are normalised.
fn sums_of_row(problem: &Problem) -> u32 {
    if problem.moments.is_some() { 2 } else { 0 }
}

fn candidate(problem: &Problem, b: &Operand, columns_of_warp: u32, warps_of_column: u32, target: &Target) -> Candidate {
    let m = problem.m();
    let vector = 16 / problem.a.dtype.size() as u32;
    let columns_of_block = WARPS / warps_of_column * columns_of_warp;
    let blocks = problem.stored_columns.div_ceil(columns_of_block) * problem.batches();
    let turns = problem.k().div_ceil(32 * vector * warps_of_column);
    // Loads in flight hide latency, as far as registers allow.
    let unroll = (24 / (m + columns_of_warp)).clamp(1, 8).min(turns);
    let constants = Constants::default()
        .int("WARPS", WARPS)
        .int("WK", warps_of_column)
        .int("CPW", columns_of_warp)
        .int("UNROLL", unroll)
        .int("B_N", b.column)
        .int("VECTOR", vector)
        .define("MOMENTS", u32::from(problem.moments.is_some()));
    let mut parts = vec![include_str!("warp_sums.cu").into(), include_str!("gemv.cu").into()];
    let constants = match integer_names(problem) {
        Some(names) => {
            parts.insert(0, super::WORDS.into());
            constants.text(&names)
        }
        None => constants,
    };
    let launch = launch(problem, b, constants, Geometry::new("gemv", "gemv", parts, blocks, 32 * WARPS));
    let of_one = f64::from(blocks.div_ceil(target.multiprocessors));
    let bytes =
        f64::from(problem.columns) * f64::from(problem.k()) * f64::from(problem.batches()) * b.dtype.size() as f64;
    // Instructions of the eight warps of a block on four schedulers, four blocks overlapping at best.
    let products = if problem.integers.is_some() { vector / 4 } else { vector };
    let converted =
        if problem.float8() { vector * (columns_of_warp + m) * super::conversion(b.dtype, target) / 2 } else { 0 };
    // All columns of a warp share what it converts of A.
    let of_turn = products * (columns_of_warp * (m + 1) + m * (1 + sums_of_row(problem))) + converted;
    let work = f64::from(turns * of_turn) * 2.0 * f64::from(WARPS) / 4.0;
    let latency = f64::from(turns.div_ceil(unroll)) * 800.0 + f64::from(columns_of_warp * m) * 40.0 + 600.0;
    let cycles = (of_one * work).max(latency * (of_one / 6.0).ceil()) + if warps_of_column > 1 { 60.0 } else { 0.0 };
    let (arithmetic, memory) = (cycles / target.clock, bytes / (target.bandwidth * 800.0));
    Candidate {
        packing: packing(problem, b),
        ..Candidate::new(
            "gemv",
            format!("columns {columns_of_warp} warps {warps_of_column}"),
            vec![launch],
            // Of two that wait for memory the one with less else to do is the better.
            1.3 + arithmetic.max(memory) + 0.1 * arithmetic.min(memory),
        )
    }
}
