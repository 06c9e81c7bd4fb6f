//! CUDA candidates: a block computes some channels over a band of rows (sm_80 and later).

use super::QuantizedMbConv;
use crate::codegen::{
    Argument, Candidate, Generate, Launch, PRELUDE, Packing, SHARED_TABLES, Signature, Source, Tables, Target,
    Unsupported, element_type, whole_functions,
};
use crate::mbconv::geometry::{Geometry, RESIDENT, waves};
use crate::pointwise::{Instruction, Unary};
use crate::quantized_average::{QuantizedAverage, cuda::Blocks};
use crate::quantized_conv::QuantizedConv;
use crate::view::Strides;
use crate::{DType, View};

/// Channels of a block.
const CHANNELS: [u32; 3] = [16, 32, 64];
/// Threads of a block.
const THREADS: [u32; 2] = [128, 256];
/// Neighbouring outputs of a thread.
const RUN: u32 = 4;
/// Most vectors of 16 rows by 64 channels of the expansion's weights that a warp holds in registers.
const MOST_WEIGHTS: u32 = 6;
/// Most taps of a row: moved by three columns they fit into two words.
const MOST_TAPS: u32 = 5;
/// Most candidates.
const MOST: usize = 10;

impl Generate for QuantizedMbConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let shape = geometry(self, target)?;
        let mut ranked: Vec<(f64, Tile)> = tiles(&shape, self.gate.is_some(), target)
            .into_iter()
            .map(|tile| (self.cost(&shape, &tile, target), tile))
            .collect();
        if ranked.is_empty() {
            return Err(Unsupported("a band of the depthwise convolution does not fit into shared memory".into()));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(MOST);
        ranked.into_iter().map(|(cost, tile)| self.candidate(&shape, &tile, cost)).collect()
    }
}

/// A configuration.
struct Tile {
    channels: u32,
    rows: u32,
    threads: u32,
}

/// The geometry, if these kernels take it.
fn geometry(kernel: &QuantizedMbConv, target: &Target) -> Result<Geometry, Unsupported> {
    let refuse = |what: &str| Unsupported(format!("a depthwise convolution of bytes {what}"));
    let depthwise = &kernel.depthwise.geometry;
    let image = kernel.image();
    let is_byte = |view: &View| view.dtype.is_byte();
    if !target.has_async_copy() || ![image, &depthwise.input, &depthwise.output].into_iter().all(is_byte) {
        return Err(refuse("before sm_80, or with another result"));
    }
    let shape = Geometry::of(image, kernel.expand.is_some(), depthwise, 16).map_err(|what| refuse(&what))?;
    if shape.taps[1] > MOST_TAPS || shape.taps[0] > 8 || shape.dilations[1] != 1 {
        return Err(refuse("with long or spread rows of taps"));
    }
    if kernel.members().any(|conv| functions("f", conv, Tables::Shared).is_none()) {
        return Err(refuse("without requantisation"));
    }
    if let Some(gate) = &kernel.gate {
        gate.check_finish()?;
    }
    let reach = |view: &View| view.bytes().unwrap_or(u64::MAX);
    if reach(image).max(reach(&depthwise.output)) > i32::MAX as u64 {
        return Err(refuse("of 2 GiB or more"));
    }
    Ok(shape)
}

/// Groups of 64 channels of the image.
fn groups(shape: &Geometry) -> u32 {
    shape.depth.div_ceil(64)
}

impl Tile {
    /// Rows of a band, and words of four columns of each.
    fn band(&self, shape: &Geometry) -> [u32; 2] {
        let rows = (self.rows - 1) * shape.steps[0] + (shape.taps[0] - 1) * shape.dilations[0] + 1;
        let columns = (shape.output[1].next_multiple_of(RUN) - 1) * shape.steps[1] + shape.taps[1];
        [rows, columns.div_ceil(4)]
    }

    /// Bytes of dynamic shared memory.
    fn shared(&self, shape: &Geometry) -> u64 {
        let [rows, words] = self.band(shape).map(u64::from);
        rows * words * u64::from(pitch(self.channels, shape.steps[1])) * 4
    }

    /// The blocks.
    fn blocks(&self, shape: &Geometry) -> Blocks {
        Blocks { vectors: self.channels / 16, parts: shape.output[0].div_ceil(self.rows), threads: self.threads }
    }
}

/// Words from one word of a channel to the next: four words of eight channels lie in banks of their own. Of 16 channels a warp reads
/// two words at once, which is more often than it writes.
fn pitch(channels: u32, step: u32) -> u32 {
    if channels == 16 && step == 1 { 16 } else { channels + 8 }
}

/// Configurations that fit.
fn tiles(shape: &Geometry, gated: bool, target: &Target) -> Vec<Tile> {
    let mut all = Vec::new();
    for channels in CHANNELS.into_iter().filter(|&channels| channels == 16 || channels / 2 < shape.padded_channels) {
        if groups(shape) * (channels / 16) > MOST_WEIGHTS {
            continue;
        }
        // Bands of equal height, and small ones.
        let mut heights: Vec<u32> = (1..=16).map(|parts| shape.output[0].div_ceil(parts)).collect();
        heights.extend([1, 2, 4]);
        heights.retain(|&rows| rows <= shape.output[0]);
        heights.sort_unstable();
        heights.dedup();
        for rows in heights {
            for threads in THREADS {
                let tile = Tile { channels, rows, threads };
                // What a gate needs is static: average and squeezed channels, and sums of threads. So are the tables of two programs.
                let of_gate = if gated { u64::from(shape.padded_channels) + (12 << 10) } else { 0 };
                let fits =
                    tile.shared(shape) + of_gate + u64::from(2 * SHARED_TABLES) <= u64::from(target.shared_per_block);
                let idle = shape.output[1].div_ceil(RUN) * rows * channels * 2 < threads;
                if fits && !idle {
                    all.push(tile);
                }
            }
        }
    }
    all
}

/// Words of a line that have a column of the image.
fn inner_words(shape: &Geometry, words: u32) -> u32 {
    let end = (shape.input[1] - 1 + shape.pads[1]) / 4 + 1;
    end.min(words).saturating_sub(shape.pads[1] / 4).max(1)
}

/// `DEVICE u32 NAME_byte(f32 sum, f32 factor)`, whose last byte is what is stored; `DEVICE u32 NAME_part(f32 sum, f32 factor)`, of four of
/// which `DEVICE u32 NAME_word(const u32* parts)` makes a word to store.
pub(crate) fn functions(name: &str, conv: &QuantizedConv, tables: Tables) -> Option<String> {
    let program = conv.epilogue.program.as_ref()?;
    let factors = conv.epilogue.extras.len();
    if factors > 1 || !conv.geometry.output.dtype.is_byte() {
        return None;
    }
    let sources = [Source::Integer(DType::I32), Source::Channel];
    let inner = whole_functions(
        &format!("{name}_program"),
        program,
        &sources[..1 + factors],
        conv.geometry.output.dtype,
        tables,
    )?;
    let argument = if factors == 1 { ", factor" } else { "" };
    Some(format!(
        "{inner}DEVICE u32 {name}_byte(f32 sum, f32 factor) {{ return {name}_program_byte(sum{argument}); }}\n\
         DEVICE u32 {name}_part(f32 sum, f32 factor) {{ return {name}_program_part(sum{argument}); }}\n\
         DEVICE u32 {name}_word(const u32* parts) {{ return {name}_program_word(parts); }}\n"
    ))
}

/// Issue slots that a requantisation takes beside its multiplication and its rounding: those of a table, or of two special functions and
/// a conversion, of eight each.
fn slots(conv: &QuantizedConv) -> f64 {
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

impl QuantizedMbConv {
    /// Expected microseconds: what the warps of a multiprocessor share and what follows each other in a block, which overlap in part.
    /// The constants are fitted (TUNING.md, section 59).
    fn cost(&self, shape: &Geometry, tile: &Tile, target: &Target) -> f64 {
        let [m_tiles, warps] = [tile.channels / 16, tile.threads / 32].map(f64::from);
        let sectors = f64::from(tile.channels.div_ceil(32));
        let groups = f64::from(groups(shape));
        let [reach, words] = tile.band(shape);
        let blocks = tile.blocks(shape);
        // Blocks of a multiprocessor.
        let count = blocks.of_image(shape.padded_channels) * shape.images;
        let resident = f64::from(count.div_ceil(target.multiprocessors));
        let registers = f64::from(tile.threads) * self.registers(shape, tile);
        let waves = waves(resident, tile.shared(shape) + 2048, registers, target);
        let tiles = |rows: u32| f64::from((rows * inner_words(shape, words)).div_ceil(4));
        let (start, fill, of_turns) = match &self.expand {
            Some(expand) => {
                // Cycles in which the schedulers of a multiprocessor issue what makes four words of each channel.
                let of_tile = 18.0 + m_tiles * (8.7 * groups + 2.0 * (2.0 + slots(expand)));
                let turns = (tiles(reach.min(shape.input[0])) / warps).ceil();
                let fill = shape.mean_of_bands(tile.rows, reach, |[read, _]| tiles(read)) * of_tile;
                (0.64, fill, turns * 12.8 * of_tile)
            }
            None => {
                let items = f64::from(reach * words * (tile.channels / 16));
                let turns = (items / f64::from(tile.threads)).ceil();
                (0.34, f64::from(reach * words * 4) * sectors * 1.4, turns * 290.0)
            }
        };
        // The same of four outputs of 32 channels, whose rows of taps are in one word each, or in two.
        let products = |run: u32| if run * shape.steps[1] % 4 + shape.taps[1] > 4 { 2.0 } else { 1.0 };
        let products = f64::from(shape.taps[0]) * (0..RUN).map(products).sum::<f64>();
        let of_item = 0.45 * products + 7.6 + slots(&self.depthwise);
        let rows = shape.mean_of_bands(tile.rows, reach, |[_, rows]| f64::from(rows));
        let items = f64::from(shape.output[1].div_ceil(RUN) * tile.channels) / 32.0;
        let stores = rows * f64::from(shape.output[1]) * sectors * 0.44;
        let work = fill + rows * items * of_item + stores + warps * (17.5 + 30.0 * groups * m_tiles);
        let turns = (f64::from(tile.rows) * items / warps).ceil();
        let [work, chain] = [resident * work, waves * (1100.0 + of_turns + turns * 164.0)];
        let gate = self.gate.as_ref().map_or(0.0, |gate| gate.finish_cycles(&blocks));
        start + (work.max(chain) + 0.55 * work.min(chain) + gate) / target.clock
    }

    /// Registers of a thread, roughly: weights, pixels and sums of the expansion beside what every kernel has.
    fn registers(&self, shape: &Geometry, tile: &Tile) -> f64 {
        let [groups, m_tiles] = [groups(shape), tile.channels / 16];
        let all = if self.expand.is_some() { 42 + 8 * (groups * m_tiles + groups + m_tiles) } else { 58 };
        f64::from(all.next_multiple_of(8).min(128))
    }

    fn candidate(&self, shape: &Geometry, tile: &Tile, cost: f64) -> Result<Candidate, Unsupported> {
        let blocks = tile.blocks(shape);
        let mut operands = Signature::default();
        operands.push("const ImageElement*", "image", Some(Argument::Input(0)));
        let mut input = 1;
        for (name, weights, conv) in
            [("expand", "expand", self.expand.as_ref()), ("filter", "filters", Some(&self.depthwise))]
        {
            let mut push = |kind: &str, name: String, exists: bool| {
                operands.push(kind, &name, exists.then_some(Argument::Input(input)));
                input += usize::from(exists);
            };
            push("const i8*", weights.into(), conv.is_some());
            push("const u32*", format!("{name}_bias"), conv.is_some_and(|conv| conv.bias.is_some()));
            push("const f32*", format!("{name}_factor"), conv.is_some_and(|conv| !conv.epilogue.extras.is_empty()));
        }
        operands.push("Output*", "output", Some(Argument::Output(0)));
        if let Some(gate) = &self.gate {
            operands.push_structure("AverageOperands", gate.finish_operands(input, 1));
        }
        let source = self.source(shape, tile, input)?;
        let source = format!(
            "{source}\nextern \"C\" __global__ void __launch_bounds__(THREADS, {}) quantized_mbconv_band({}) {{\n    \
             quantized_mbconv(Operands{{{}}});\n}}\n",
            RESIDENT / tile.threads,
            operands.parameters.join(", "),
            operands.fields.join(", ")
        );
        let count = blocks.of_image(shape.padded_channels) * shape.images;
        let launch = Launch {
            shared: tile.shared(shape) as u32,
            ..Launch::new(source, "quantized_mbconv_band", count, tile.threads, operands.arguments)
        };
        let Tile { channels, rows, threads } = tile;
        Ok(Candidate {
            workspace: self.gate.as_ref().map_or(0, |gate| gate.finish_workspace(&blocks)),
            counters: self.gate.as_ref().map_or(0, |gate| gate.finish_counters()),
            packing: self.packing(shape),
            ..Candidate::new(
                "fused",
                format!("{channels} channels, {rows} rows, {threads} threads"),
                vec![launch],
                cost,
            )
        })
    }

    fn source(&self, shape: &Geometry, tile: &Tile, inputs: usize) -> Result<String, Unsupported> {
        let (depthwise, expand, image) = (&self.depthwise, self.expand.as_ref(), self.image());
        let output = &depthwise.geometry.output;
        let letter = |dtype: DType| if dtype == DType::I8 { "s" } else { "u" };
        let has = |conv: Option<&QuantizedConv>| {
            (conv.is_some_and(|c| c.bias.is_some()), conv.is_some_and(|c| !c.epilogue.extras.is_empty()))
        };
        let ((expand_bias, expand_factor), (filter_bias, filter_factor)) = (has(expand), has(Some(depthwise)));
        let mut source = String::from(PRELUDE);
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("typedef {} ImageElement;", element_type(image.dtype)));
        line(format!("typedef {} Output;\ntypedef i32 offset_t;", element_type(output.dtype)));
        line(format!("#define EXPAND {}\n#define GATE {}", u8::from(expand.is_some()), u8::from(self.gate.is_some())));
        for (name, dtype) in [
            ("IMAGE_LETTER", image.dtype),
            ("WEIGHT_LETTER", expand.map_or(DType::I8, |conv| conv.geometry.weights.dtype)),
            ("WIDE_LETTER", depthwise.geometry.input.dtype),
            ("FILTER_LETTER", depthwise.geometry.weights.dtype),
        ] {
            line(format!("#define {name} \"{}\"", letter(dtype)));
        }
        // All inputs of the convolutions but the image.
        line(format!("constexpr u32 PARAMETER_INPUTS = {}u;", (1u32 << inputs) - 2));
        let of_tile = [("ROWS", i64::from(tile.rows)), ("PITCH", pitch(tile.channels, shape.steps[1]).into())];
        let of_blocks = tile.blocks(shape).constants(shape.padded_channels);
        let others = [
            ("OUTSIDE", i64::from(depthwise.padding_value)),
            ("CHANNELS", output.shape[1].into()),
            ("LANES", shape.padded_channels.into()),
        ];
        let places = shape.places(image, output);
        for (name, value) in of_blocks.into_iter().chain(of_tile).chain(shape.window()).chain(places).chain(others) {
            line(format!("constexpr int {name} = {value};"));
        }
        for (name, value) in [
            ("EXPAND_BIAS", expand_bias),
            ("EXPAND_FACTOR", expand_factor),
            ("FILTER_BIAS", filter_bias),
            ("FILTER_FACTOR", filter_factor),
        ] {
            line(format!("constexpr bool {name} = {value};"));
        }
        let mut tables = String::new();
        for (name, conv) in [("expand", expand), ("depthwise", Some(depthwise))] {
            if let Some(conv) = conv {
                let refused = || Unsupported("a requantisation that is not of f32".into());
                line(functions(name, conv, Tables::Shared).ok_or_else(refused)?);
                tables += &format!(" {name}_program_tables(copy);");
            }
        }
        line(format!("template <typename Copy> DEVICE void all_tables(Copy copy) {{{tables} }}"));
        if let Some(gate) = &self.gate {
            line(gate.finish_source(0)?);
        }
        line(
            "struct Operands {\n    const ImageElement* image;\n    const i8* expand;\n    const u32* expand_bias;"
                .into(),
        );
        line("    const f32* expand_factor;\n    const i8* filters;\n    const u32* filter_bias;".into());
        line("    const f32* filter_factor;\n    Output* output;".into());
        line(if self.gate.is_some() { "    AverageOperands average;\n};" } else { "};" }.into());
        Ok(source + include_str!("quantized_mbconv.cu"))
    }

    /// Packing of all operands: weights of the expansion `[lane][channel]`, filters `[row of taps][lane][8]`, rows of the
    /// gate's.
    fn packing(&self, shape: &Geometry) -> Vec<Packing> {
        let mut all = vec![Packing::Keep];
        if let Some(expand) = &self.expand {
            let depth = groups(shape) * 64;
            let mut view = View { padded_channels: 0, offset: 0, ..expand.geometry.weights.clone() };
            (view.shape[0], view.shape[1]) = (shape.padded_channels, depth);
            view.strides = (0..view.rank()).map(|d| if d == 0 { depth as i32 } else { 1 }).collect::<Strides>();
            all.push(Packing::View(view));
            all.resize(all.len() + usize::from(expand.bias.is_some()) + expand.epilogue.extras.len(), Packing::Keep);
        }
        let depthwise = &self.depthwise;
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
        all.push(Packing::View(view));
        all.resize(all.len() + usize::from(depthwise.bias.is_some()) + depthwise.epilogue.extras.len(), Packing::Keep);
        all.extend(self.gate.iter().flat_map(QuantizedAverage::finish_packing));
        all
    }
}
