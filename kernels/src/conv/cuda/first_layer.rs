//! Convolutions of one to four channels, read as they lie: the first layer of a network on its input, of floats or of bytes.

use super::packed;
use crate::codegen::{Candidate, Packing, Rate, Target};
use crate::conv::Geometry;
use crate::gemm::{self, Constants, INTEGERS, Problem, WORDS, integer_names, launch, word};
use crate::quantized_conv::is_float_factor;
use crate::{DType, View};

/// Most channels: a pixel is four elements of shared memory.
const MOST_CHANNELS: u32 = 4;
/// Most taps: the loop over them is unrolled.
const MOST_TAPS: u32 = 64;
/// Outputs of a tile along a row of the output.
const TILE_WIDTH: u32 = 16;
/// Most shared memory of a block, so that several fit a multiprocessor.
const MOST_SHARED: u32 = 96 << 10;
/// Shared memory of a block that every target has.
const LEAST_SHARED: u32 = 48 << 10;
/// Rows and columns of a tile, and the warps along each.
const TILES: [(u32, u32, u32, u32); 7] =
    [(8, 64, 4, 2), (4, 64, 2, 4), (4, 64, 2, 2), (8, 32, 4, 2), (4, 32, 4, 1), (8, 16, 8, 1), (4, 16, 4, 1)];
/// The same for integers alone, whose warps find registers for more outputs: floats lose by them (TUNING.md, section 46).
const INTEGER_TILES: [(u32, u32, u32, u32); 3] = [(8, 64, 2, 2), (8, 32, 4, 1), (8, 16, 4, 1)];

/// Whether a convolution without groups of this input and these weights into outputs of type `output` has a tensor-core
/// kernel that reads the input in whatever layout and float type it has, so that no copy is needed before it. Strides and
/// dilations as in [`Geometry`].
pub fn reads_any_layout(input: &View, weights: &View, output: DType, strides: [u32; 3], dilations: [u32; 3]) -> bool {
    let half = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16);
    input.rank() == 4
        && weights.rank() == 4
        && (1..=MOST_CHANNELS).contains(&weights.shape[1])
        && (5..=MOST_TAPS).contains(&weights.shape[2].saturating_mul(weights.shape[3]))
        && half(weights.dtype)
        && output == weights.dtype
        && (half(input.dtype) || input.dtype == DType::F32)
        && TILES.iter().any(|&(rows, columns, ..)| shared(weights, strides, dilations, rows, columns) <= MOST_SHARED)
}

/// The same of a convolution of bytes: of 8-bit integers on any GPU, of floats of 8 bits on those with tensor cores that copy
/// asynchronously.
pub fn reads_bytes_of_any_layout(input: &View, weights: &View, strides: [u32; 3], dilations: [u32; 3]) -> bool {
    let factors = [input.dtype, weights.dtype];
    let most = match factors.map(is_float_factor) {
        [true, true] => MOST_SHARED,
        _ if factors.iter().all(|dtype| dtype.is_byte()) => LEAST_SHARED,
        _ => return false,
    };
    input.rank() == 4
        && weights.rank() == 4
        && (1..=MOST_CHANNELS).contains(&weights.shape[1])
        && (5..=MOST_TAPS).contains(&weights.shape[2].saturating_mul(weights.shape[3]))
        && TILES.iter().any(|&(rows, columns, ..)| shared(weights, strides, dilations, rows, columns) <= most)
}

/// Bytes of shared memory: input and weights, or the staged accumulators where they are larger.
fn shared(weights: &View, strides: [u32; 3], dilations: [u32; 3], rows: u32, columns: u32) -> u32 {
    let integers = weights.dtype.is_byte();
    let pixel = if integers { 4 } else { 8 };
    let span = |outputs: u32, d: usize| {
        u64::from(outputs - 1) * u64::from(strides[d])
            + u64::from(weights.shape[d + 1] - 1) * u64::from(dilations[d])
            + 1
    };
    let pixels = span(rows, 1).saturating_mul(span(TILE_WIDTH, 2)).saturating_mul(pixel).saturating_add(15) / 16 * 16;
    let taps = weights.shape[2] * weights.shape[3];
    let column = if integers { taps.div_ceil(8) * 32 + 16 } else { (taps.div_ceil(4) | 1) * 32 };
    let staged = u64::from(rows * TILE_WIDTH * (columns + 8) * 4);
    let bytes = pixels.saturating_add(u64::from(columns * column)).max(staged);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Candidates, or none where the convolution is not a first layer.
pub(super) fn candidates(conv: &Geometry, whole: &Problem, target: &Target) -> Vec<Candidate> {
    let Geometry { input, weights, output, strides, dilations, .. } = conv;
    let reads = match whole.integers.is_some() || whole.float8() {
        true => reads_bytes_of_any_layout(input, weights, *strides, *dilations),
        false => reads_any_layout(input, weights, output.dtype, *strides, *dilations),
    };
    let multiplies = whole.integers.is_some() || target.has_async_copy();
    if !(reads && multiplies && conv.groups == 1 && whole.stores_vectors()) {
        return Vec::new();
    }
    let narrowest = TILES.map(|tile| tile.1).into_iter().filter(|&columns| columns >= whole.stored_columns).min();
    let of_integers = INTEGER_TILES.into_iter().filter(|_| whole.integers.is_some() && target.has_async_copy());
    TILES
        .into_iter()
        .chain(of_integers)
        .filter(|&(_, columns, ..)| columns <= narrowest.unwrap_or(u32::MAX))
        .filter_map(|(rows, columns, wm, wn)| candidate(conv, whole, [rows, columns, wm, wn], target))
        .collect()
}

fn candidate(conv: &Geometry, whole: &Problem, tile: [u32; 4], target: &Target) -> Option<Candidate> {
    let [rows, columns, wm, wn] = tile;
    let shared = shared(&conv.weights, conv.strides, conv.dilations, rows, columns);
    let window = whole.depth.window.as_ref()?;
    // Floats of 8 bits are exact in f16, in which tensor cores multiply them.
    let b = packed(conv, 4, if whole.float8() { DType::F16 } else { conv.weights.dtype }).ok()?;
    if shared > target.shared_per_block.min(MOST_SHARED) {
        return None;
    }
    let (tiles_h, tiles_w) = (whole.rows[2].div_ceil(rows), whole.rows[3].div_ceil(TILE_WIDTH));
    let n_tiles = whole.stored_columns.div_ceil(columns);
    let blocks = u64::from(whole.rows[0]) * u64::from(tiles_h) * u64::from(tiles_w) * u64::from(n_tiles);
    let blocks = u32::try_from(blocks).ok()?;
    let threads = 32 * wm * wn;
    let constants = Constants::default()
        .flag("HAS_BIAS", whole.bias)
        .int("TILE_H", rows)
        .int("BN", columns)
        .int("WM", wm)
        .int("WN", wn)
        .int("N_TILES", n_tiles)
        .int("TILES_H", tiles_h)
        .int("TILES_W", tiles_w)
        .int("CHANNELS", conv.weights.shape[1])
        .int("TAPS", window.count())
        .int("TAPS_H", window.taps[1])
        .int("TAPS_W", window.taps[2])
        .int("STEP_H", window.steps[1])
        .int("STEP_W", window.steps[2])
        .int("DILATION_H", window.dilations[1])
        .int("DILATION_W", window.dilations[2])
        .int("PAD_H", window.pads[1])
        .int("PAD_W", window.pads[2])
        .int("INPUT_H", window.input[1])
        .int("INPUT_W", window.input[2])
        .int("OUTPUT_H", whole.rows[2])
        .int("OUTPUT_W", whole.rows[3])
        .int("A_OFFSET", whole.a.offset)
        .int("A_N", whole.a.row[0])
        .int("A_CHANNEL", whole.depth.stride)
        .int("A_H", window.strides[1])
        .int("A_W", window.strides[2])
        .int("B_N", b.column);
    let names = integer_names(whole);
    let tensor_cores = target.has_async_copy();
    let constants = match (&names, whole.integers) {
        (Some(names), Some(integers)) => constants
            .text(names)
            .define("OUTSIDE_WORD", word(integers.padding_value))
            .define("TENSOR_CORES", u32::from(tensor_cores)),
        _ => constants,
    };
    let parts = match names {
        Some(_) => [if tensor_cores { INTEGERS } else { WORDS }, include_str!("first_layer_integers.cu")],
        None => [include_str!("../../gemm/intrinsics.cu"), include_str!("first_layer.cu")],
    };
    let parts = parts.map(Into::into).into();
    let geometry =
        gemm::Geometry { shared, ..gemm::Geometry::new("first_layer", "first_layer", parts, blocks, threads) };
    let launch = launch(whole, &b, constants, geometry);
    // Loads of input and weights one after the other, products at half of the rate, the way out.
    let peak = if whole.integers.is_none() {
        Rate::F16
    } else if tensor_cores {
        Rate::Int8
    } else {
        Rate::F32
    };
    let rate = target.multiply_adds_per_cycle(peak);
    let resident = (65536 / (112 * threads)).min(target.shared_per_multiprocessor / (shared + 1024)).max(1);
    let of_one = f64::from(blocks.div_ceil(target.multiprocessors));
    let overlap = of_one.min(f64::from(resident));
    let products = f64::from(rows * TILE_WIDTH * columns) * f64::from(window.count().next_multiple_of(4) * 4);
    let cycles = (of_one / overlap).ceil() * (2400.0 + overlap * (products / (0.5 * rate) + f64::from(shared) / 40.0));
    let mut packing = vec![Packing::Keep; 2 + usize::from(whole.bias) + whole.extras.len()];
    packing[1] = b.packing;
    Some(Candidate {
        packing,
        ..Candidate::new(
            "first_layer",
            format!("{rows}x{TILE_WIDTH}x{columns} warps {wm}x{wn}"),
            vec![launch],
            1.15 + cycles / target.clock,
        )
    })
}
