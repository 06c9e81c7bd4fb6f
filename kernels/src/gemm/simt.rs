//! CUDA-core configurations: f32 everywhere, f16, bf16 and floats of 8 bits where tensor cores cannot read the operands.

use super::problem::{Operand, Problem};
use super::threads::{Kernel, Tile, tiles};
use crate::DType;
use crate::codegen::{Candidate, Rate, Target};
use crate::quantized_conv::is_float_factor;

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
    let all = tiles(problem, &TILES, &SPLITS, 4, target);
    all.into_iter().map(|tile| candidate(problem, b, &tile, target)).collect()
}

fn candidate(problem: &Problem, b: &Operand, tile: &Tile, target: &Target) -> Candidate {
    let vector = |aligned: bool| if aligned { 4u32 } else { 1 };
    let (a_vector, b_vector) = (vector(problem.a_is_aligned(4)), vector(b.is_aligned_along_depth(problem, 4)));
    let constants = tile
        .constants(problem, b, Tile::modes())
        .int("B_K", b.depth)
        .int("A_VECTOR", a_vector)
        .int("B_VECTOR", b_vector)
        .flag("A_K_FIRST", problem.depth.stride == 1)
        .flag("B_K_FIRST", b.depth == 1);
    let kernel = Kernel {
        algorithm: "simt_gemm",
        function: "simt_tile",
        parts: vec![include_str!("tile.cu").into(), include_str!("finish.cu").into(), include_str!("simt.cu").into()],
        constants,
        steps: tile.depth,
        shared: 4.0,
        device: problem.a.dtype.size() as f64,
        of_load: a_vector,
        rate: target.multiply_adds_per_cycle(Rate::F32),
    };
    tile.candidate(problem, b, kernel, target)
}
