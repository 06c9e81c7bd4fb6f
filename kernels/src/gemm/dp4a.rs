//! Products of 8-bit integers on CUDA cores, for GPUs whose tensor cores are out of reach (sm_72).

use super::problem::{Operand, Problem};
use super::tensor_core::{integer_names, word};
use super::threads::{Kernel, Tile, tiles};
use crate::codegen::{Candidate, Rate, Target};

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
    let all = tiles(problem, &TILES, &SPLITS, 2, target);
    all.into_iter().map(|tile| candidate(problem, b, vector, &names, &tile, target)).collect()
}

fn candidate(problem: &Problem, b: &Operand, vector: u32, names: &str, tile: &Tile, target: &Target) -> Candidate {
    let padding_value = problem.integers.map_or(0, |integers| word(integers.padding_value));
    let modes = Tile::modes().define("OUTSIDE_WORD", padding_value).text(names);
    let constants = tile
        .constants(problem, b, modes)
        .int("A_VECTOR", vector)
        .int("B_VECTOR", vector)
        .flag("A_K_FIRST", true)
        .flag("B_K_FIRST", true);
    let kernel = Kernel {
        algorithm: "dp4a_gemm",
        function: "simt_tile",
        parts: vec![
            include_str!("tile.cu").into(),
            include_str!("finish.cu").into(),
            super::WORDS.into(),
            include_str!("simt.cu").into(),
        ],
        constants,
        // Words of four elements.
        steps: tile.depth / 4,
        shared: 1.0,
        device: 1.0,
        of_load: vector * 4,
        // Four products in an instruction, of which no multiprocessor does more than 64 a cycle.
        rate: 4.0 * target.multiply_adds_per_cycle(Rate::F32).min(64.0),
    };
    tile.candidate(problem, b, kernel, target)
}
