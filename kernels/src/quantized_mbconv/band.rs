//! What kernels share that compute a depthwise convolution of bytes over a band of rows in shared memory (`band.cu`): configurations,
//! constants, requantisations, packed filters and costs.

use crate::codegen::{PRELUDE, Packing, Source, Tables, Target, Unsupported, whole_functions};
use crate::mbconv::geometry::Geometry;
use crate::pointwise::{Instruction, Unary};
use crate::quantized_average::cuda::Blocks;
use crate::quantized_conv::QuantizedConv;
use crate::view::Strides;
use crate::{DType, View};

/// Threads of a block.
pub(crate) const THREADS: [u32; 2] = [128, 256];
/// Neighbouring outputs of a thread.
pub(crate) const RUN: u32 = 4;
/// Most taps of a row: moved by three columns they fit into two words.
const MOST_TAPS: u32 = 5;

/// A configuration.
pub(crate) struct Tile {
    /// Channels of a block.
    pub channels: u32,
    /// Words from one word of a channel to the next.
    pub pitch: u32,
    /// Rows of outputs of a block.
    pub rows: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// The geometry of a depthwise convolution, if these kernels take it; they read `image`, of which an expansion makes what it reads if
/// it `expands`.
///
/// # Errors
/// Where they do not.
pub(crate) fn geometry(
    image: &View,
    expands: bool,
    depthwise: &QuantizedConv,
    target: &Target,
) -> Result<Geometry, Unsupported> {
    let conv = &depthwise.geometry;
    let is_byte = |view: &View| view.dtype.is_byte();
    if !target.has_async_copy() || ![image, &conv.input, &conv.output].into_iter().all(is_byte) {
        return Err(refused("before sm_80, or with another result"));
    }
    let shape = Geometry::of(image, expands, conv, 16).map_err(|what| refused(&what))?;
    if shape.taps[1] > MOST_TAPS || shape.taps[0] > 8 || shape.dilations[1] != 1 {
        return Err(refused("with long or spread rows of taps"));
    }
    functions("f", depthwise, Tables::Shared)?;
    Ok(shape)
}

/// Why kernels do not take a depthwise convolution.
pub(crate) fn refused(what: &str) -> Unsupported {
    Unsupported(format!("a depthwise convolution of bytes {what}"))
}

/// Refuses views that an `offset_t` does not reach.
///
/// # Errors
/// Where one of them has 2 GiB or more.
pub(crate) fn check_reach<'a>(views: impl IntoIterator<Item = &'a View>) -> Result<(), Unsupported> {
    let reaches = |view: &View| view.bytes().is_ok_and(|bytes| bytes <= i32::MAX as u64);
    if views.into_iter().all(reaches) { Ok(()) } else { Err(refused("of 2 GiB or more")) }
}

impl Tile {
    /// Rows of a band, and words of four columns of each.
    pub(crate) fn band(&self, shape: &Geometry) -> [u32; 2] {
        let rows = (self.rows - 1) * shape.steps[0] + (shape.taps[0] - 1) * shape.dilations[0] + 1;
        let columns = (shape.output[1].next_multiple_of(RUN) - 1) * shape.steps[1] + shape.taps[1];
        [rows, columns.div_ceil(4)]
    }

    /// Bytes of a band.
    pub(crate) fn shared(&self, shape: &Geometry) -> u64 {
        let [rows, words] = self.band(shape).map(u64::from);
        rows * words * u64::from(self.pitch) * 4
    }

    /// The blocks.
    pub(crate) fn blocks(&self, shape: &Geometry) -> Blocks {
        Blocks { vectors: self.channels / 16, parts: shape.output[0].div_ceil(self.rows), threads: self.threads }
    }

    /// Cycles of a multiprocessor in which a block copies its band, and those that its turns take one after the other.
    pub(crate) fn copy_cycles(&self, shape: &Geometry) -> [f64; 2] {
        let [rows, words] = self.band(shape);
        let turns = (rows * words * (self.channels / 16)).div_ceil(self.threads);
        [f64::from(rows * words * 4 * self.channels.div_ceil(32)) * 1.4, f64::from(turns) * 290.0]
    }
}

/// `DEVICE u32 NAME_byte(f32 sum, f32 factor)`, whose last byte is what is stored; `DEVICE u32 NAME_part(f32 sum, f32 factor)`, of four of
/// which `DEVICE u32 NAME_word(const u32* parts)` makes a word to store.
///
/// # Errors
/// Where a convolution does not requantise its sums, with one factor of channels or none.
pub(crate) fn functions(name: &str, conv: &QuantizedConv, tables: Tables) -> Result<String, Unsupported> {
    let factors = conv.epilogue.extras.len();
    let sources = [Source::Integer(DType::I32), Source::Channel];
    let output = conv.geometry.output.dtype;
    let program = conv.epilogue.program.as_ref().filter(|_| factors <= 1 && output.is_byte());
    let inner = program.and_then(|program| {
        whole_functions(&format!("{name}_program"), program, &sources[..1 + factors], output, tables)
    });
    let inner = inner.ok_or_else(|| refused("without requantisation"))?;
    let argument = if factors == 1 { ", factor" } else { "" };
    Ok(format!(
        "{inner}DEVICE u32 {name}_byte(f32 sum, f32 factor) {{ return {name}_program_byte(sum{argument}); }}\n\
         DEVICE u32 {name}_part(f32 sum, f32 factor) {{ return {name}_program_part(sum{argument}); }}\n\
         DEVICE u32 {name}_word(const u32* parts) {{ return {name}_program_word(parts); }}\n"
    ))
}

/// Issue slots that a requantisation takes beside its multiplication and its rounding: those of a table, or of two special functions and
/// a conversion, of eight each.
pub(crate) fn slots(conv: &QuantizedConv) -> f64 {
    let Some(program) = &conv.epilogue.program else { return 0.0 };
    let rounds = |instruction: &Instruction| matches!(instruction, Instruction::Unary(Unary::Round, _));
    let is_function = |instruction: &Instruction| match instruction {
        Instruction::Unary(op, _) => !matches!(op, Unary::Relu | Unary::Abs | Unary::Neg | Unary::Round),
        _ => false,
    };
    // What follows the first bytes has a table.
    let ahead = program.instructions.split(rounds).next().unwrap_or_default();
    if ahead.iter().any(is_function) {
        20.0
    } else if program.instructions.iter().any(is_function) {
        2.4
    } else {
        0.0
    }
}

/// The letter of a type of bytes in the names of instructions.
pub(crate) fn letter(dtype: DType) -> &'static str {
    if dtype == DType::I8 { "s" } else { "u" }
}

/// What stands in front of `band.cu`: types, constants and the depthwise convolution's requantisation. `parameters` are the inputs of the
/// kernel, as bits, that weights, biases and factors are.
///
/// # Errors
/// Where the depthwise convolution has no requantisation.
pub(crate) fn constants(
    shape: &Geometry,
    tile: &Tile,
    depthwise: &QuantizedConv,
    [image, output]: [&View; 2],
    parameters: u32,
) -> Result<String, Unsupported> {
    let mut source = String::from(PRELUDE);
    let mut line = |text: String| {
        source += &text;
        source.push('\n');
    };
    line("typedef i32 offset_t;".into());
    line(format!("#define WIDE_LETTER \"{}\"", letter(depthwise.geometry.input.dtype)));
    line(format!("#define FILTER_LETTER \"{}\"", letter(depthwise.geometry.weights.dtype)));
    line(format!("constexpr u32 PARAMETER_INPUTS = {parameters}u;"));
    let others = [
        ("ROWS", i64::from(tile.rows)),
        ("PITCH", tile.pitch.into()),
        ("OUTSIDE", depthwise.padding_value.into()),
        ("CHANNELS", depthwise.geometry.output.shape[1].into()),
        ("LANES", shape.padded_channels.into()),
    ];
    let of_blocks = tile.blocks(shape).constants(shape.padded_channels);
    let places = shape.places(image, output);
    for (name, value) in of_blocks.into_iter().chain(others).chain(shape.window()).chain(places) {
        line(format!("constexpr int {name} = {value};"));
    }
    line(format!("constexpr bool FILTER_BIAS = {};", depthwise.bias.is_some()));
    line(format!("constexpr bool FILTER_FACTOR = {};", !depthwise.epilogue.extras.is_empty()));
    line(functions("depthwise", depthwise, Tables::Shared)?);
    Ok(source)
}

/// `all_tables`, which copies the tables of programs of these names.
pub(crate) fn all_tables(names: &[&str]) -> String {
    let calls: String = names.iter().map(|name| format!(" {name}_program_tables(copy);")).collect();
    format!("template <typename Copy> DEVICE void all_tables(Copy copy) {{{calls} }}\n")
}

/// Weights of a pointwise convolution, packed `[channel of the result][channel]` in so many of both.
pub(crate) fn packed_weights(conv: &QuantizedConv, [rows, depth]: [u32; 2]) -> Packing {
    let mut view = View { padded_channels: 0, offset: 0, ..conv.geometry.weights.clone() };
    (view.shape[0], view.shape[1]) = (rows, depth);
    view.strides = (0..view.rank()).map(|d| if d == 0 { depth as i32 } else { 1 }).collect::<Strides>();
    Packing::View(view)
}

/// Filters of the depthwise convolution, packed `[row of taps][lane][8]`.
pub(crate) fn packed_filters(shape: &Geometry, depthwise: &QuantizedConv) -> Packing {
    let mut view = View { padded_channels: 0, offset: 0, ..depthwise.geometry.weights.clone() };
    let last = view.rank() - 1;
    (view.shape[0], view.shape[last]) = (shape.padded_channels, 8);
    view.strides = (0..=last)
        .map(|d| match d {
            0 => 8,
            d if d == last || d == 1 => 1,
            _ => 8 * shape.padded_channels as i32,
        })
        .collect::<Strides>();
    Packing::View(view)
}
