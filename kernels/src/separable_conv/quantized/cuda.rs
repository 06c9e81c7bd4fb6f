//! CUDA candidates: a block computes all channels over a band of rows (sm_80 and later).

use super::QuantizedSeparableConv;
use crate::codegen::{
    Argument, Candidate, Generate, Launch, Packing, SHARED_TABLES, Signature, Source, Tables, Target, Unsupported,
    element_type, whole_functions,
};
use crate::gemm::INTRINSICS;
use crate::mbconv::geometry::{Geometry, waves};
use crate::quantized_mbconv::band::{self, RUN, THREADS, Tile, slots};
use crate::quantized_mbconv::is_factor;
use crate::separable_conv::cuda::{column_tiles, constants, is_of_fours, load_extras};
use crate::{DType, View};
use std::fmt::Write;

/// Most tiles of 16 channels of the result whose sums registers hold.
const MOST_COLUMNS: u32 = 4;
/// Most candidates.
const MOST: usize = 10;

impl Generate for QuantizedSeparableConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let shape = self.shape(target)?;
        // Whole steps of K.
        let channels = shape.padded_channels.next_multiple_of(32);
        let tile = |rows: u32, threads: u32| Tile { channels, pitch: channels + 4, rows, threads };
        let tiles = shape.heights().into_iter().flat_map(|rows| THREADS.map(|threads| tile(rows, threads)));
        let fits = |tile: &Tile| {
            // One warp of eight may have nothing to do.
            let idle = tile.threads > 128 && runs_by_16(&shape, tile.rows) < tile.threads / 32 * 7 / 8;
            let room = self.shared(&shape, tile) + u64::from(2 * SHARED_TABLES) <= u64::from(target.shared_per_block);
            room && !idle
        };
        let tiles = tiles.filter(fits);
        let mut ranked: Vec<(f64, Tile)> = tiles.map(|tile| (self.cost(&shape, &tile, target), tile)).collect();
        if ranked.is_empty() {
            return Err(Unsupported("a separable convolution of bytes of which no band fits into a block".into()));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(MOST);
        ranked.into_iter().map(|(cost, tile)| self.candidate(&shape, &tile, cost)).collect()
    }
}

/// Tiles of 16 runs of so many rows.
fn runs_by_16(shape: &Geometry, rows: u32) -> u32 {
    (rows * shape.output[1].div_ceil(RUN)).div_ceil(16)
}

impl QuantizedSeparableConv {
    /// The geometry, if these kernels take it.
    fn shape(&self, target: &Target) -> Result<Geometry, Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a separable convolution of bytes {what}"));
        let Self { depthwise, pointwise } = self;
        let (output, image) = (&pointwise.geometry.output, &depthwise.geometry.input);
        let shape = band::geometry(image, false, depthwise, target)?;
        if !pointwise.geometry.weights.dtype.is_byte() || !output.dtype.is_byte() {
            return Err(refuse("with other weights, or with another result"));
        }
        if ![output].into_iter().chain(self.images()).all(|view| is_of_fours(view, output)) {
            return Err(refuse("whose result or what is added to it is not channels-last in multiples of four"));
        }
        let beside = |factor: &View| factor.strides[1] == 1 && factor.offset == 0;
        let plain = self.factors().chain(&depthwise.epilogue.extras).all(beside) && self.factors().count() <= 1;
        if !plain || !self.images().all(|view| view.dtype.is_byte()) {
            return Err(refuse("with other extras than a factor of channels and bytes"));
        }
        if column_tiles(output) > MOST_COLUMNS {
            return Err(refuse("of whose result no registers hold the sums"));
        }
        self.functions()?;
        band::check_reach([image, output].into_iter().chain(self.images()))?;
        Ok(shape)
    }

    /// Extras of the result that are factors of channels.
    fn factors(&self) -> impl Iterator<Item = &View> {
        self.pointwise.epilogue.extras.iter().filter(|extra| is_factor(extra))
    }

    /// The others, which are added to it as images.
    fn images(&self) -> impl Iterator<Item = &View> {
        self.pointwise.epilogue.extras.iter().filter(|extra| !is_factor(extra))
    }

    /// Bytes of dynamic shared memory: beside the band, weights, and filters, biases and factors.
    fn shared(&self, shape: &Geometry, tile: &Tile) -> u64 {
        let columns = column_tiles(&self.pointwise.geometry.output) * 16;
        let weights = columns * (tile.channels + 16);
        let words = if shape.taps[1] > 4 { 2 } else { 1 };
        let of_channels = (shape.taps[0] * words + 2) * tile.channels + 2 * columns;
        tile.shared(shape) + u64::from(weights + of_channels * 4)
    }

    /// Registers of a thread, roughly: for sums of the result beside what every kernel has.
    fn registers(&self) -> u32 {
        60 + 44 * column_tiles(&self.pointwise.geometry.output)
    }

    /// Expected microseconds: what the warps of a multiprocessor share and what follows each other in a block, which overlap in part.
    /// The constants are those of [`crate::quantized_mbconv`] (TUNING.md, section 59), whose loops these are.
    fn cost(&self, shape: &Geometry, tile: &Tile, target: &Target) -> f64 {
        let columns = f64::from(column_tiles(&self.pointwise.geometry.output));
        let (steps, warps) = (f64::from(tile.channels / 32), f64::from(tile.threads / 32));
        let blocks = tile.blocks(shape).of_image(shape.padded_channels) * shape.images;
        let resident = f64::from(blocks.div_ceil(target.multiprocessors));
        let registers = f64::from(tile.threads * self.registers());
        let waves = waves(resident, self.shared(shape, tile) + 2048, registers, target);
        // Products of a row of taps of a run, and what is moved for them: filters for two runs.
        let products = |r: u32| match (r * shape.steps[1] % 4, shape.taps[1]) {
            (0, ..=4) => 1.0,
            (moved, taps) if moved + taps <= 4 => 1.5,
            (0, _) | (_, ..=4) => 2.0,
            _ => 3.0,
        };
        let products = f64::from(shape.taps[0]) * (0..RUN).map(products).sum::<f64>();
        // Requantised four at once, 32 channels or outputs: conversion, factor, rounding and the way into a word.
        let requantised = |conv| 4.0 * (0.7 + 0.25 * slots(conv));
        let of_step = 16.0 * (0.45 * products + requantised(&self.depthwise)) + 18.0 * columns;
        let of_tile = steps * of_step + columns * 8.0 * (requantised(&self.pointwise) + 1.5);
        let reach = tile.band(shape)[0];
        let tiles = shape.mean_of_bands(tile.rows, reach, |[_, rows]| f64::from(runs_by_16(shape, rows)));
        let turns = (f64::from(runs_by_16(shape, tile.rows)) / warps).ceil();
        let [fill, of_turns] = tile.copy_cycles(shape);
        let work = resident * (fill + tiles * of_tile + warps * 17.5);
        let chain = waves * (1100.0 + of_turns + turns * (164.0 * (steps + 1.0) + 2.0 * of_tile));
        0.34 + (work.max(chain) + 0.55 * work.min(chain)) / target.clock
    }

    fn candidate(&self, shape: &Geometry, tile: &Tile, cost: f64) -> Result<Candidate, Unsupported> {
        let Operands { signature, fields, packing, parameters } = self.operands(shape, tile);
        let source = format!(
            "{}struct Operands {{ {fields}}};\n{}\nextern \"C\" __global__ void __launch_bounds__(THREADS, 1) \
             quantized_separable_conv_band({}) {{\n    quantized_separable_conv(Operands{{{}}});\n}}\n",
            self.constants(shape, tile, parameters)?,
            self.functions()? + SOURCES,
            signature.parameters.join(", "),
            signature.fields.join(", ")
        );
        let blocks = tile.blocks(shape).of_image(shape.padded_channels) * shape.images;
        let launch = Launch {
            shared: self.shared(shape, tile) as u32,
            ..Launch::new(source, "quantized_separable_conv_band", blocks, tile.threads, signature.arguments)
        };
        let configuration = format!("{} rows, {} threads", tile.rows, tile.threads);
        Ok(Candidate { packing, ..Candidate::new("fused", configuration, vec![launch], cost) })
    }

    /// The operands of a kernel, in their order.
    fn operands(&self, shape: &Geometry, tile: &Tile) -> Operands {
        let Self { depthwise, pointwise } = self;
        let mut all = Operands::default();
        all.push("const i8*", "image", Some(Packing::Keep), false);
        all.push("const i8*", "filters", Some(band::packed_filters(shape, depthwise)), true);
        all.push("const u32*", "filter_bias", depthwise.bias.is_some().then_some(Packing::Keep), true);
        all.push("const f32*", "filter_factor", depthwise.epilogue.extras.first().map(|_| Packing::Keep), true);
        let extents = [column_tiles(&pointwise.geometry.output) * 16, tile.channels];
        all.push("const i8*", "weights", Some(band::packed_weights(pointwise, extents)), true);
        all.push("const u32*", "bias", pointwise.bias.is_some().then_some(Packing::Keep), true);
        let mut images = 0;
        for extra in &pointwise.epilogue.extras {
            if is_factor(extra) {
                all.push("const f32*", "factor", Some(Packing::Keep), true);
            } else {
                all.push("const i8*", &format!("extra_{images}"), Some(Packing::Keep), false);
                images += 1;
            }
        }
        if self.factors().count() == 0 {
            all.push("const f32*", "factor", None, true);
        }
        all.fields += "Output* output; ";
        all.signature.push("Output*", "output", Some(Argument::Output(0)));
        all
    }

    /// Types and constants.
    fn constants(&self, shape: &Geometry, tile: &Tile, parameters: u32) -> Result<String, Unsupported> {
        let Self { depthwise, pointwise } = self;
        let (middle, output) = (&depthwise.geometry.output, &pointwise.geometry.output);
        let mut source = band::constants(shape, tile, depthwise, [&depthwise.geometry.input, output], parameters)?;
        source += INTRINSICS;
        source += &constants(output, pointwise.bias.is_some(), tile.channels / 16);
        let _ = write!(
            source,
            "constexpr bool FACTOR = {};\ntypedef {} AElement;\ntypedef {} Output;\n#define TURNED 0\n\
             #define A_LETTER \"{}\"\n#define B_LETTER \"{}\"\n",
            self.factors().count() > 0,
            element_type(middle.dtype),
            element_type(output.dtype),
            band::letter(middle.dtype),
            band::letter(pointwise.geometry.weights.dtype)
        );
        Ok(source)
    }

    /// `finished`, of four of which `pointwise_program_word` makes a word of the result, what it reads of images, and all tables.
    fn functions(&self) -> Result<String, Unsupported> {
        let epilogue = &self.pointwise.epilogue;
        let mut sources = vec![Source::Integer(DType::I32)];
        let mut arguments = String::new();
        let mut images = 0;
        for extra in &epilogue.extras {
            if is_factor(extra) {
                sources.push(Source::Channel);
                arguments += ", factor";
            } else {
                sources.push(Source::Integer(extra.dtype));
                let _ = write!(arguments, ", element_of_{}(extras.of[{images}], c)", element_type(extra.dtype));
                images += 1;
            }
        }
        let output = self.pointwise.geometry.output.dtype;
        let program = epilogue.program.as_ref();
        let program = program
            .and_then(|program| whole_functions("pointwise_program", program, &sources, output, Tables::Shared))
            .ok_or_else(|| Unsupported("a separable convolution of bytes without requantisation".into()))?;
        Ok(format!(
            "{program}{}{}DEVICE u32 finished(f32 sum, f32 factor, const Extras& extras, int c) {{\n    \
             return pointwise_program_part(sum{arguments});\n}}\n",
            band::all_tables(&["depthwise", "pointwise"]),
            load_extras(self.images(), "u32")
        ))
    }
}

/// What follows types, constants and functions of requantisation.
const SOURCES: &str = concat!(
    include_str!("../../gemm/integers.cu"),
    include_str!("../../quantized_mbconv/band.cu"),
    include_str!("../weights.cu"),
    include_str!("quantized.cu")
);

/// Operands of a kernel.
#[derive(Default)]
struct Operands {
    signature: Signature,
    /// Declarations of the structure's fields.
    fields: String,
    /// Packing of the inputs.
    packing: Vec<Packing>,
    /// Inputs that are weights or of channels, as bits.
    parameters: u32,
}

impl Operands {
    /// Adds a field, and the next input where one is packed so.
    fn push(&mut self, kind: &str, name: &str, packing: Option<Packing>, is_parameter: bool) {
        let number = self.packing.len();
        let _ = write!(self.fields, "{kind} {name}; ");
        self.signature.push(kind, name, packing.is_some().then_some(Argument::Input(number)));
        self.parameters |= u32::from(is_parameter && packing.is_some()) << number;
        self.packing.extend(packing);
    }
}
