//! Depthwise configurations: channels last, one output channel for each input channel.

use crate::codegen::{Candidate, Packing, Target};
use crate::conv;
use crate::gemm::{Constants, Geometry, Map, Operand, Problem, launch};
use crate::view::Strides;
use crate::{DType, View};

/// The algorithm's name.
pub(super) const ALGORITHM: &str = "depthwise";
/// Most taps of a row: they are unrolled, and at 255 the code takes sixty times as long as its arithmetic.
const LONGEST_ROW: u32 = 64;
/// Most inputs of a row that a thread holds of 8-bit elements.
const LONGEST_SPAN_OF_BYTES: u32 = 6;
/// Output positions of a thread.
const RUNS: [u32; 4] = [1, 2, 4, 7];
/// Threads of a block.
const THREADS: [u32; 2] = [64, 128];

/// Candidates, or none where the convolution is not depthwise or its operands do not lie right.
pub(super) fn candidates(conv: &conv::Geometry, whole: &Problem, target: &Target) -> Vec<Candidate> {
    let padded_channels = whole.stored_columns;
    let Some(window) = whole.depth.window.as_ref().filter(|window| window.taps[2] <= LONGEST_ROW) else {
        return Vec::new();
    };
    let bytes = whole.is_of_bytes();
    let known = |dtype: DType| bytes || matches!(dtype, DType::F16 | DType::Bf16 | DType::F32);
    // The input's rows must start at multiples of eight channels, and its lanes cover the output's.
    let input = Map { column: 1, ..whole.a.clone() };
    let depthwise = conv.groups == whole.columns && conv.input.shape[1] == conv.groups && conv.weights.shape[1] == 1;
    let readable = conv.input.strides[1] == 1
        && conv.input.padded_channels.max(conv.input.shape[1]) >= padded_channels
        && input.is_vector(whole)
        && window.strides.iter().zip(window.input).all(|(s, extent)| extent == 1 || s % 8 == 0)
        && known(conv.input.dtype)
        && known(conv.weights.dtype);
    if !(depthwise && readable && padded_channels.is_multiple_of(8) && whole.stores_vectors()) {
        return Vec::new();
    }
    let Some(weights) = packed(conv, padded_channels) else { return Vec::new() };
    let b = Operand {
        dtype: conv.weights.dtype,
        offset: 0,
        batch: vec![],
        column: 1,
        depth: i64::from(padded_channels),
        taps: None,
        group: 0,
        packing: Packing::Keep,
    };
    let mut all = Vec::new();
    // K counts taps here.
    let mut problem = whole.clone();
    problem.depth.channels = 1;
    // Bytes take a register each once they are loaded: longer spans of them spill.
    let span = |run: u32| (run - 1) * window.steps[2] + (window.taps[2] - 1) * window.dilations[2] + 1;
    let fits = |run: u32| run < 2 * whole.rows[3] && (!bytes || run == 1 || span(run) <= LONGEST_SPAN_OF_BYTES);
    for run in RUNS.into_iter().filter(|&run| fits(run)) {
        for threads in THREADS {
            all.push(candidate(&problem, &b, &weights, run, threads, target));
        }
    }
    all
}

/// Weights packed `[tap][lane]`.
fn packed(conv: &conv::Geometry, padded_channels: u32) -> Option<Packing> {
    let mut view = View { padded_channels: 0, offset: 0, ..conv.weights.clone() };
    view.shape[0] = padded_channels;
    view.strides = Strides::from_slice(&[1, 1]).ok()?;
    let mut step = i64::from(padded_channels);
    let mut taps = Vec::new();
    for &extent in conv.weights.shape[2..].iter().rev() {
        taps.insert(0, i32::try_from(step).ok()?);
        step *= i64::from(extent);
    }
    view.strides.extend_from_slice(&taps).ok()?;
    Some(Packing::View(view))
}

fn candidate(problem: &Problem, b: &Operand, weights: &Packing, run: u32, threads: u32, target: &Target) -> Candidate {
    let window = problem.depth.window.as_ref().expect("a depthwise convolution has a window");
    let row = problem.rows[3];
    let vectors = problem.stored_columns / 8;
    let total = problem.m() / row * row.div_ceil(run) * vectors;
    // Loading residuals early costs registers: four for each position in f16.
    let prefetch = !problem.extras.is_empty() && run <= 2;
    let lines = window.taps[0] * window.taps[1];
    let unrolled = window.count() <= 9;
    let constants = Constants::default()
        .int("ROW_LENGTH", row)
        .int("RUN", run)
        .int("STEP", window.steps[2])
        .int("DILATION", window.dilations[2])
        .int("TAPS", window.count())
        .int("TAPS_W", window.taps[2])
        .int("PIXEL", window.strides[2])
        .int("UNROLL", if unrolled { lines } else { 1 })
        .flag("PREFETCH", prefetch);
    let parts = vec![include_str!("../depthwise.cu").into()];
    let plain = Geometry::new("depthwise", "depthwise", parts, total.div_ceil(threads), threads);
    // The last run of a row may reach past it.
    let launch = launch(problem, b, constants, Geometry { check_w: true, ..plain });
    // Cycles: instructions of the warps on four schedulers, what waits for each other, and bytes from level 2. The constants are
    // fitted (TUNING.md, section 35). Lines of taps that are not unrolled wait for their loads one after the other.
    let [taps, all, outputs, threads_of_block] = [window.count(), total, run, threads].map(f64::from);
    let span = f64::from((run - 1) * window.steps[2] + (window.taps[2] - 1) * window.dilations[2] + 1);
    let loads = f64::from(lines) * span;
    let instructions = 7.0 * loads + 2.0 * taps + (8.0 * taps + 32.0) * outputs + 40.0;
    let resident = (f64::from(total.div_ceil(threads)) / f64::from(target.multiprocessors)).ceil() * threads_of_block;
    let work = resident / 32.0 * instructions / 2.0;
    let lines_waited_for = if unrolled { 0.0 } else { f64::from(lines - 1) };
    let chain = (resident / 645.0).ceil() * (293.0 + instructions + lines_waited_for * 540.0);
    let memory = all * loads * 8.0 * problem.a.dtype.size() as f64 / (f64::from(target.multiprocessors) * 37.9);
    let streamed = 1.3 + (work.max(chain).max(memory) + 0.26 * work.min(chain)) / target.clock;
    // Bytes are unpacked and multiplied at half the rate of floats; a requantisation takes about 14 issue slots. Measured were
    // three times as many cycles.
    let unpacked = if problem.a.dtype.size() == 1 {
        let of_thread = 8.0 * (loads * 1.5 + taps * (1.5 + 2.0 * outputs) + 14.0 * outputs);
        let rounds = (all / 32.0 / 4.0 / f64::from(target.multiprocessors)).ceil();
        1.3 + (700.0 + rounds * of_thread * 3.0) / target.clock
    } else {
        0.0
    };
    let mut packing = vec![Packing::Keep; 2 + usize::from(problem.bias) + problem.extras.len()];
    packing[1] = weights.clone();
    Candidate {
        packing,
        ..Candidate::new(ALGORITHM, format!("run {run} threads {threads}"), vec![launch], streamed.max(unpacked))
    }
}
