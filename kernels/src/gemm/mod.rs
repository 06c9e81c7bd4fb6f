//! The matrix product behind convolutions and matrix products: what it computes, how it is printed, its algorithms.
//!
//! Everything here is `C[z, m, n] = Σₖ A[z, m, k]·B[z, n, k]`, where rows of A may be gathered from under a window
//! (implicit GEMM). Each algorithm is a tile function in a `.cu` file that reads constants and small index functions
//! printed by [`source`]; its `.rs` file lists configurations and estimates their time.

mod cost;
mod direct;
mod dp4a;
mod gemv;
mod problem;
mod simt;
mod source;
mod tensor_core;
#[cfg(test)]
pub(crate) mod tests;
mod threads;
mod tile;
mod tile_cost;

pub(crate) use cost::by_cost;
pub(crate) use problem::{
    Crop, Depth, Integers, Map, Moments, NormalizedExtra, Operand, Pool, Problem, Scale, Second, Window, Windows,
    map_of_view, spatial,
};
pub(crate) use source::{Constants, Geometry, launch};
pub(crate) use tensor_core::{integer_names, word};

use crate::DType;
use crate::codegen::{Candidate, Target, Unsupported};

/// Instructions that CUDA C++ without headers has no function for.
pub(crate) const INTRINSICS: &str = include_str!("intrinsics.cu");

/// `mma.sync` of 8-bit integers.
pub(crate) const INTEGERS: &str = include_str!("integers.cu");
/// Four products of 8-bit integers an instruction.
pub(crate) const WORDS: &str = include_str!("words.cu");

/// What floats of 8 bits are converted by, behind the types that they lie in memory as.
const FLOAT8: &str = include_str!("float8.cu");
/// Products of them by those of f16.
const FLOAT8_PRODUCTS: &str = include_str!("float8_products.cu");

/// Instructions that convert a float of 8 bits to f32, roughly.
fn conversion(dtype: DType, target: &Target) -> u32 {
    match dtype {
        DType::F8E4M3 if target.architecture >= 89 => 4,
        DType::F8E4M3 => 8,
        _ => 3,
    }
}

/// Most candidates that one problem returns.
const MOST_CANDIDATES: usize = 24;

/// All candidates of a problem, the expected best first.
///
/// # Errors
/// Where an offset does not fit 32 bits or an element type has no arithmetic here.
pub(crate) fn candidates(problem: &Problem, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
    problem.check()?;
    let mut all = tensor_core::candidates(problem, target);
    all.extend(gemv::candidates(problem, target));
    all.extend(simt::candidates(problem, target));
    let mut words = dp4a::candidates(problem, target);
    if !all.is_empty() {
        // Tensor cores win by far; one candidate is enough to compare.
        words.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        words.truncate(1);
    }
    all.extend(words);
    Ok(by_cost(all, MOST_CANDIDATES, direct::candidate(problem, target)))
}

/// The candidates of a product with which something else is fused: that scale A, add up or take its moments, normalise an extra, leave moments
/// of C, store C twice, pool or average it. Those on tensor cores do all of it, those for few rows add up moments.
///
/// # Errors
/// As [`candidates`], and where none of them can run it.
pub(crate) fn fused_candidates(problem: &Problem, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
    problem.check()?;
    let mut all = tensor_core::candidates(problem, target);
    all.extend(gemv::candidates(problem, target));
    if all.is_empty() {
        return Err(Unsupported("a product that tensor cores cannot run".into()));
    }
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all.truncate(MOST_CANDIDATES);
    Ok(all)
}

/// The candidate that serves any problem, groups included.
///
/// # Errors
/// As [`candidates`].
pub(crate) fn direct(problem: &Problem, target: &Target) -> Result<Candidate, Unsupported> {
    problem.check()?;
    Ok(direct::candidate(problem, target))
}
