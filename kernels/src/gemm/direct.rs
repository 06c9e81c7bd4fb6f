//! One output a thread.

use super::cost::streaming;
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
        .int("BATCHES", problem.batches())
        .int("CHANNELS", channels)
        .int("A_CHANNEL", problem.depth.stride)
        .int("B_N", b.column)
        .int("B_K", b.depth)
        .int("B_GROUP", b.group)
        .int("COLUMNS_OF_GROUP", problem.columns_of_group)
        .int("GROUP_STEP", problem.depth.stride * i64::from(channels));
    let launch = launch(
        problem,
        b,
        constants,
        &Geometry {
            entry: "direct",
            tile: "direct",
            parts: &[include_str!("direct.cu")],
            blocks: u32::try_from(outputs.div_ceil(u64::from(THREADS))).unwrap_or(u32::MAX),
            threads: THREADS,
            shared: 0,
            cluster: 1,
            scratch: false,
            check_w: false,
        },
    );
    let k = f64::from(problem.k());
    Candidate {
        algorithm: "direct",
        configuration: format!("{THREADS} threads"),
        launches: vec![launch],
        workspace: 0,
        counters: 0,
        packing: packing(problem, b),
        // Two loads for each multiply-add, about half of them served by level 1.
        cost: streaming(target, outputs as f64, k * 4.0, k * b.dtype.size() as f64),
    }
}
