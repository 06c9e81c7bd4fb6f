//! Convolutions of one to four channels, read as they lie: the first layer of a network on its input, of floats, of bytes, or of
//! elements that it quantises while it reads them.

mod cost;

use super::packed;
use crate::codegen::{Candidate, Packing, Target};
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
/// Registers of a thread that hold pixels on their way, for the next tile too.
const HELD: u32 = 32;
/// Most shared memory of a block, so that several fit a multiprocessor.
const MOST_SHARED: u32 = 96 << 10;
/// Shared memory that each block takes beside its own.
const RESERVED: u32 = 1024;
/// Shared memory of a block that every target has.
const LEAST_SHARED: u32 = 48 << 10;
/// Registers of a thread beside sums and pixels, and of a multiprocessor.
const REGISTERS: u32 = 60;
const REGISTERS_OF_MULTIPROCESSOR: u32 = 65536;
/// Rows and columns of a tile, and the warps along each.
const TILES: [(u32, u32, u32, u32); 17] = [
    (8, 64, 2, 2),
    (8, 64, 4, 1),
    (8, 64, 4, 2),
    (8, 64, 8, 1),
    (4, 64, 2, 1),
    (4, 64, 2, 2),
    (8, 32, 2, 1),
    (8, 32, 4, 1),
    (8, 32, 8, 1),
    (4, 32, 2, 1),
    (4, 32, 4, 1),
    (16, 16, 4, 1),
    (8, 16, 2, 1),
    (8, 16, 4, 1),
    (8, 16, 8, 1),
    (4, 16, 2, 1),
    (4, 16, 4, 1),
];

/// Tiles, the pixels under them, products and the way out.
const TILES_SOURCE: &str = include_str!("tiles.cu");
/// Pixels of bytes.
const BYTES_SOURCE: &str = include_str!("bytes.cu");

/// What makes integers of 8 bits of an input's elements.
pub(in crate::conv) struct Quantisation {
    /// The text of `Image`, the type of the elements, and of `quantize`, from one to a part of which
    /// `quantized_word` makes four integers.
    pub function: String,
    /// Bytes of an element.
    pub size: u32,
    /// Bytes of the whole input.
    pub bytes: u64,
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
        && TILES
            .iter()
            .any(|&(rows, columns, ..)| shared(weights, strides, dilations, [rows, columns], 1) <= MOST_SHARED)
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
        && TILES.iter().any(|&(rows, columns, ..)| shared(weights, strides, dilations, [rows, columns], 1) <= most)
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

/// Bytes of shared memory: weights, and the pixels of so many tiles.
fn shared(weights: &View, strides: [u32; 3], dilations: [u32; 3], [rows, columns]: [u32; 2], tiles: u64) -> u32 {
    let pixel = if weights.dtype.is_byte() { 4 } else { 8 };
    let [height, width] = halo(weights, strides, dilations, rows);
    let pixels = height.saturating_mul(width).saturating_mul(pixel).saturating_add(15) / 16 * 16;
    let bytes = pixels.saturating_mul(tiles).saturating_add(u64::from(columns * steps(weights) * 32));
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
        .filter_map(|tile| candidate(conv, whole, quantisation, tile, target))
        .collect()
}

/// A tile, and how the blocks of its kernel walk over the output.
struct Walk {
    /// Rows of outputs, each of [`TILE_WIDTH`] pixels, and channels.
    rows: u32,
    columns: u32,
    /// Warps along rows and along channels.
    warps: [u32; 2],
    /// Pixels that a thread loads at once, and vectors of them that it loads before it stores the first.
    loaded: u32,
    held: u32,
    /// Tiles along the rows and along the columns of an image.
    tiles: [u32; 2],
    /// Tiles side by side that the output's channels take.
    n_tiles: u32,
    /// Tiles of all images, and blocks that share them.
    all: u32,
    walkers: u32,
    /// Blocks of a multiprocessor.
    resident: u32,
    /// Bytes of shared memory.
    shared: u32,
}

impl Walk {
    /// `None` where there are no outputs and where shared memory is too small. `size` is that of an element of the input, in bytes.
    fn new(conv: &Geometry, whole: &Problem, size: u32, tile: (u32, u32, u32, u32), target: &Target) -> Option<Self> {
        let (rows, columns, wm, wn) = tile;
        let (threads, weights) = (32 * wm * wn, &conv.weights);
        let loaded = loaded(whole, whole.depth.window.as_ref()?);
        // A single element of a channel takes a register, however small.
        let words = weights.shape[1] * (loaded * size).div_ceil(4);
        let held = (HELD / words).max(1);
        let tiles = [whole.rows[2].div_ceil(rows), whole.rows[3].div_ceil(TILE_WIDTH)];
        let n_tiles = whole.stored_columns.div_ceil(columns);
        let all =
            u32::try_from(tiles.iter().fold(u64::from(whole.rows[0]), |all, &tiles| all * u64::from(tiles))).ok()?;
        if all == 0 || n_tiles == 0 {
            return None;
        }

        // Weights are on their way before there are sums.
        let [height, width] = halo(weights, conv.strides, conv.dilations, rows);
        let loads = (height * width).div_ceil(u64::from(loaded * threads)).min(u64::from(held)) as u32;
        let fragments = (steps(weights) * (columns / 16)).div_ceil(wm * wn);
        let registers =
            (REGISTERS + loads * words).saturating_add((rows * TILE_WIDTH * columns / threads).max(fragments * 4));
        let by_registers = REGISTERS_OF_MULTIPROCESSOR / (registers * threads);
        let shared = |tiles: u64| shared(weights, conv.strides, conv.dilations, [rows, columns], tiles);
        let resident = |tiles: u64| {
            by_registers.min(target.shared_per_multiprocessor / shared(tiles).saturating_add(RESERVED)).max(1)
        };
        let fit = |tiles: u64| target.multiprocessors * resident(tiles);
        // A tile each, or the blocks that fit at once, which load the pixels of one tile while they multiply another.
        let walkers = if all <= fit(1) / n_tiles { all } else { fit(2).div_ceil(n_tiles).min(all) };
        let buffers = if walkers < all { 2 } else { 1 };
        let shared = shared(buffers);
        if shared > target.shared_per_block.min(MOST_SHARED) {
            return None;
        }
        let resident = resident(buffers).min((walkers * n_tiles).div_ceil(target.multiprocessors));
        Some(Self { rows, columns, warps: [wm, wn], loaded, held, tiles, n_tiles, all, walkers, resident, shared })
    }

    fn blocks(&self) -> u32 {
        self.walkers * self.n_tiles
    }

    fn threads(&self) -> u32 {
        32 * self.warps[0] * self.warps[1]
    }
}

fn candidate(
    conv: &Geometry,
    whole: &Problem,
    quantisation: Option<&Quantisation>,
    tile: (u32, u32, u32, u32),
    target: &Target,
) -> Option<Candidate> {
    let window = whole.depth.window.as_ref()?;
    // Floats of 8 bits are exact in f16, in which tensor cores multiply them.
    let b = packed(conv, 4, if whole.float8() { DType::F16 } else { conv.weights.dtype }).ok()?;
    let size = quantisation.map_or(conv.input.dtype.size() as u32, |quantisation| quantisation.size);
    let walk = Walk::new(conv, whole, size, tile, target)?;
    let Walk { rows, columns, warps: [wm, wn], .. } = walk;
    let constants = Constants::default()
        .flag("HAS_BIAS", whole.bias)
        .define("LOADED", walk.loaded)
        .int("HELD", walk.held)
        .int("PARTS_OF_STEP", if whole.integers.is_some() { 2 } else { 1 })
        .int("TILE_H", rows)
        .int("BN", columns)
        .int("WM", wm)
        .int("WN", wn)
        .int("N_TILES", walk.n_tiles)
        .int("TILES", walk.all)
        .int("WALKERS", walk.walkers)
        .int("TILES_H", walk.tiles[0])
        .int("TILES_W", walk.tiles[1])
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
    let (names, tensor_cores) = (integer_names(whole), target.has_async_copy());
    let constants = match (&names, whole.integers) {
        (Some(names), Some(integers)) => constants
            .text(names)
            .define("OUTSIDE_WORD", word(integers.padding_value))
            .define("TENSOR_CORES", u32::from(tensor_cores))
            .define("TURNED", 0),
        _ => constants.define("TENSOR_CORES", 1),
    };
    let products = if tensor_cores { INTEGERS } else { WORDS };
    let integers = include_str!("integers.cu");
    let parts: Vec<Cow<'static, str>> = match (names, quantisation) {
        (Some(_), Some(quantisation)) => vec![
            products.into(),
            TILES_SOURCE.into(),
            BYTES_SOURCE.into(),
            quantisation.function.clone().into(),
            include_str!("quantizing.cu").into(),
            integers.into(),
        ],
        (Some(_), None) => {
            let pixels = "typedef Bytes Pixels;\n";
            [products, TILES_SOURCE, BYTES_SOURCE, pixels, integers].map(Into::into).into()
        }
        (None, _) => {
            let intrinsics = include_str!("../../../gemm/intrinsics.cu");
            [intrinsics, TILES_SOURCE, include_str!("floats.cu")].map(Into::into).into()
        }
    };
    // Lanes have four columns of each fragment.
    let vector = if tensor_cores && (columns / 16 / wn) % 2 == 1 { 4 } else { 8 };
    let geometry = gemm::Geometry {
        shared: walk.shared,
        resident: walk.resident,
        vector,
        ..gemm::Geometry::new("first_layer", "first_layer", parts, walk.blocks(), walk.threads())
    };
    let launch = launch(whole, &b, constants, geometry);
    let mut packing = vec![Packing::Keep; 2 + usize::from(whole.bias) + whole.extras.len()];
    packing[1] = b.packing;
    Some(Candidate {
        packing,
        ..Candidate::new(
            "first_layer",
            format!("{rows}x{TILE_WIDTH}x{columns} warps {wm}x{wn}"),
            vec![launch],
            walk.cost(conv, whole, size, quantisation, target),
        )
    })
}
