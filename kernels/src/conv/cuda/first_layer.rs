//! Convolutions of one to four channels, read as they lie: the first layer of a network on its input, of floats, of bytes, or of
//! elements that it quantises while it reads them.

use super::packed;
use crate::codegen::elementwise::transfer_time;
use crate::codegen::{Candidate, Packing, Rate, Target};
use crate::conv::Geometry;
use crate::gemm::{self, Constants, INTEGERS, Problem, WORDS, Window, integer_names, launch, word};
use crate::quantized_conv::is_float_factor;
use crate::{DType, View};
use std::borrow::Cow;

/// Most channels: a pixel is four elements of shared memory.
const MOST_CHANNELS: u32 = 4;
/// Fewest taps that are worth it.
const LEAST_TAPS: u32 = 5;
/// Places of a window's row that a step multiplies together; those without a tap have no weights.
const PART: u32 = 4;
/// Most places: the loop over them is unrolled.
const MOST_PLACES: u32 = 96;
/// Pixels that a thread loads at once where they lie side by side.
const VECTOR: u32 = 4;
/// Outputs of a tile along a row of the output.
const TILE_WIDTH: u32 = 16;
/// Bytes of a thread's registers that hold pixels until all of them are under way.
const HELD: u32 = 256;
/// Cycles until what a warp loads is there.
const LATENCY: f64 = 600.0;
/// Most shared memory of a block, so that several fit a multiprocessor.
const MOST_SHARED: u32 = 96 << 10;
/// Shared memory of a block that every target has.
const LEAST_SHARED: u32 = 48 << 10;
/// Rows and columns of a tile, and the warps along each.
const TILES: [(u32, u32, u32, u32); 10] = [
    (8, 64, 4, 2),
    (8, 64, 2, 2),
    (4, 64, 2, 4),
    (4, 64, 2, 2),
    (8, 32, 4, 2),
    (8, 32, 4, 1),
    (4, 32, 4, 1),
    (8, 16, 8, 1),
    (8, 16, 4, 1),
    (4, 16, 4, 1),
];

/// Tiles, the pixels under them, products and the way out.
const TILES_SOURCE: &str = include_str!("first_layer_tiles.cu");
/// Pixels of bytes.
const BYTES_SOURCE: &str = include_str!("first_layer_bytes.cu");

/// What makes integers of 8 bits of an input's elements.
pub(in crate::conv) struct Quantisation {
    /// The text of `Image`, the type of the elements, and of `quantize`, from one to a part of which
    /// `quantized_word` makes four integers.
    pub function: String,
    /// Bytes of an element.
    pub size: u32,
    /// Bytes of the whole input.
    pub bytes: u64,
    /// Instruction slots for an element.
    pub slots: f64,
}

/// Whether a convolution without groups of this input and these weights into outputs of type `output` has a tensor-core
/// kernel that reads the input in whatever layout and float type it has, so that no copy is needed before it. Strides and
/// dilations as in [`Geometry`].
pub fn reads_any_layout(input: &View, weights: &View, output: DType, strides: [u32; 3], dilations: [u32; 3]) -> bool {
    let half = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16);
    input.rank() == 4
        && weights.rank() == 4
        && (1..=MOST_CHANNELS).contains(&weights.shape[1])
        && has_few_places(weights)
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
        && has_few_places(weights)
        && TILES.iter().any(|&(rows, columns, ..)| shared(weights, strides, dilations, rows, columns) <= most)
}

/// Whether the taps of a window are neither too few nor, with their rows filled up to whole parts, too many.
fn has_few_places(weights: &View) -> bool {
    let [rows, columns] = [weights.shape[2], weights.shape[3]];
    rows.saturating_mul(columns) >= LEAST_TAPS && rows.saturating_mul(columns.div_ceil(PART) * PART) <= MOST_PLACES
}

/// Pixels under a tile, with what vectors of them have more than the window: their rows, and their columns.
fn halo(weights: &View, strides: [u32; 3], dilations: [u32; 3], rows: u32) -> [u64; 2] {
    let span = |outputs: u32, d: usize| {
        u64::from(outputs - 1) * u64::from(strides[d])
            + u64::from(weights.shape[d + 1] - 1) * u64::from(dilations[d])
            + 1
    };
    [span(rows, 1), (span(TILE_WIDTH, 2) + u64::from(VECTOR - 1)).next_multiple_of(VECTOR.into())]
}

/// Steps along K: of one part for floats, of two for integers.
fn steps(weights: &View) -> u32 {
    let parts = weights.shape[2] * weights.shape[3].div_ceil(PART);
    if weights.dtype.is_byte() { parts.div_ceil(2) } else { parts }
}

/// Bytes of shared memory: input and weights, or the staged accumulators where they are larger.
fn shared(weights: &View, strides: [u32; 3], dilations: [u32; 3], rows: u32, columns: u32) -> u32 {
    let integers = weights.dtype.is_byte();
    let pixel = if integers { 4 } else { 8 };
    let [height, width] = halo(weights, strides, dilations, rows);
    let pixels = height.saturating_mul(width).saturating_mul(pixel).saturating_add(15) / 16 * 16;
    let staged = u64::from(rows * TILE_WIDTH * (columns + 4) * 4);
    let bytes = pixels.saturating_add(u64::from(columns * steps(weights) * 32)).max(staged);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Pixels that a thread may load at once: four, where vectors of them begin at multiples of four elements.
fn loaded(whole: &Problem, window: &Window) -> u32 {
    let places = [whole.a.offset, whole.a.row[0], whole.depth.stride, window.strides[1]];
    let aligned = places.iter().all(|place| place % i64::from(VECTOR) == 0);
    if aligned && window.strides[2] == 1 && window.input[2].is_multiple_of(VECTOR) { VECTOR } else { 1 }
}

/// Candidates, or none where the convolution is not a first layer. With a quantisation `whole` says where its elements lie.
pub(in crate::conv) fn candidates(
    conv: &Geometry,
    whole: &Problem,
    quantisation: Option<&Quantisation>,
    target: &Target,
) -> Vec<Candidate> {
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
    TILES
        .into_iter()
        .filter(|&(_, columns, ..)| columns <= narrowest.unwrap_or(u32::MAX))
        .filter_map(|(rows, columns, wm, wn)| candidate(conv, whole, quantisation, [rows, columns, wm, wn], target))
        .collect()
}

fn candidate(
    conv: &Geometry,
    whole: &Problem,
    quantisation: Option<&Quantisation>,
    tile: [u32; 4],
    target: &Target,
) -> Option<Candidate> {
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
    let loaded = loaded(whole, window);
    let elements = conv.weights.shape[1] * loaded;
    // Vectors of pixels that a thread loads before it stores the first.
    let size = quantisation.map_or(conv.input.dtype.size() as u32, |quantisation| quantisation.size);
    let held = HELD / (elements * size);
    let constants = Constants::default()
        .flag("HAS_BIAS", whole.bias)
        .define("LOADED", loaded)
        .int("HELD", held)
        .int("PARTS_OF_STEP", if whole.integers.is_some() { 2 } else { 1 })
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
            .define("TENSOR_CORES", u32::from(tensor_cores))
            .define("TURNED", 1),
        _ => constants.define("TENSOR_CORES", 1),
    };
    let products = if tensor_cores { INTEGERS } else { WORDS };
    let integers = include_str!("first_layer_integers.cu");
    let parts: Vec<Cow<'static, str>> = match (names, quantisation) {
        (Some(_), Some(quantisation)) => vec![
            products.into(),
            TILES_SOURCE.into(),
            BYTES_SOURCE.into(),
            quantisation.function.clone().into(),
            include_str!("first_layer_quantizing.cu").into(),
            integers.into(),
        ],
        (Some(_), None) => {
            let pixels = "typedef Bytes Pixels;\n";
            [products, TILES_SOURCE, BYTES_SOURCE, pixels, integers].map(Into::into).into()
        }
        (None, _) => {
            let intrinsics = include_str!("../../gemm/intrinsics.cu");
            [intrinsics, TILES_SOURCE, include_str!("first_layer.cu")].map(Into::into).into()
        }
    };
    let geometry =
        gemm::Geometry { shared, ..gemm::Geometry::new("first_layer", "first_layer", parts, blocks, threads) };
    let launch = launch(whole, &b, constants, geometry);
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
    // Instructions of a warp: loads of pixels and weights, fragments and products of each step, the way out.
    let warps = f64::from(wm * wn);
    let [height, width] = halo(&conv.weights, conv.strides, conv.dilations, rows);
    let vectors = (height * width / u64::from(loaded)).div_ceil(u64::from(threads)) as f64;
    let places =
        f64::from((columns * steps(&conv.weights) * if whole.integers.is_some() { 8 } else { 4 }).div_ceil(threads));
    let (fragments_m, fragments_n) = (f64::from(rows / wm), f64::from(columns / 8 / wn));
    let steps = f64::from(steps(&conv.weights));
    let passes = f64::from((rows * TILE_WIDTH * columns / 8).div_ceil(threads));
    let loads = vectors * if loaded == VECTOR { 45.0 } else { 35.0 } + places * 6.0;
    let products = steps * (fragments_m * 3.0 + fragments_n + fragments_m * fragments_n);
    let instructions = 40.0 + loads + products + fragments_m * fragments_n * 2.0 + passes * 75.0;
    let tensor =
        f64::from(rows * TILE_WIDTH * columns) * steps * if whole.integers.is_some() { 32.0 } else { 16.0 } / rate;
    let waves = (of_one / overlap).ceil();
    let cycles = waves * (1600.0 + overlap * (instructions * warps / 4.0 + 0.5 * tensor));
    let quantised = quantisation.map_or(0.0, |quantisation| {
        // Some blocks convert while others load; what a thread cannot hold at once waits for memory again.
        let vectors_of_warps = (height * width / u64::from(loaded)).div_ceil(32) as f64;
        let conversions = vectors_of_warps * f64::from(elements) * quantisation.slots / 4.0;
        let waits = ((vectors / f64::from(held)).ceil() - 1.0) * LATENCY;
        let cycles = waves * (waits + overlap * conversions);
        transfer_time(target, quantisation.bytes).max(cycles / target.clock)
    });
    let mut packing = vec![Packing::Keep; 2 + usize::from(whole.bias) + whole.extras.len()];
    packing[1] = b.packing;
    Some(Candidate {
        packing,
        ..Candidate::new(
            "first_layer",
            format!("{rows}x{TILE_WIDTH}x{columns} warps {wm}x{wn}"),
            vec![launch],
            1.15 + cycles / target.clock + quantised,
        )
    })
}
