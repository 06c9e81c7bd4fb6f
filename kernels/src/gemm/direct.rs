//! One output a thread.

use super::problem::Problem;
use super::source::{Constants, Geometry, launch};
use super::tensor_core::packing;
use crate::codegen::{Candidate, Target};

const THREADS: u32 = 128;

pub(super) fn candidate(problem: &Problem, target: &Target) -> Candidate {
    let b = &problem.b[0];
    let outputs = u64::from(problem.m()) * u64::from(problem.stored_columns) * u64::from(problem.batches());
    let channels = problem.depth.channels;
    let constants = Constants::default()
        .text(&format!("#define OUTSIDE {}", problem.integers.map_or(0, |integers| integers.padding_value)))
        .int("BATCHES", problem.batches())
        .int("CHANNELS", channels)
        .int("A_CHANNEL", problem.depth.stride)
        .int("B_N", b.column)
        .int("B_K", b.depth)
        .int("B_GROUP", b.group)
        .int("COLUMNS_OF_GROUP", problem.columns_of_group)
        .int("GROUP_STEP", problem.depth.stride * i64::from(channels));
    let blocks = u32::try_from(outputs.div_ceil(u64::from(THREADS))).unwrap_or(u32::MAX);
    let parts = vec![include_str!("direct.cu").into()];
    let launch = launch(problem, b, constants, Geometry::new("direct", "direct", parts, blocks, THREADS));
    // Each multiply-add waits for its two loads; where neighbouring threads read different rows of B, each load of a
    // warp takes as many turns as there are lanes.
    let of_one = outputs as f64 / f64::from(target.multiprocessors);
    let turn = if problem.output.column == 1 && problem.columns > 1 { of_one * 1.1 } else { of_one * 0.1 };
    let cycles = 900.0 + f64::from(problem.k()) * turn.max(14.0);
    // Scattered reads use about half of the bandwidth that a streaming kernel gets.
    let weights = f64::from(problem.columns_of_group) * f64::from(problem.k()) * b.dtype.size() as f64;
    Candidate {
        packing: packing(problem, b),
        ..Candidate::new(
            "direct",
            format!("{THREADS} threads"),
            vec![launch],
            1.3 + (cycles / target.clock).max(weights / (target.bandwidth * 400.0)),
        )
    }
}
