//! CUDA candidates: a block computes some channels over a band of rows (sm_80 and later).

use super::QuantizedMbConv;
use super::band::{self, RUN, THREADS, Tile, slots};
use crate::codegen::{
    Argument, Candidate, Generate, Launch, Packing, SHARED_TABLES, Signature, Tables, Target, Unsupported, element_type,
};
use crate::mbconv::geometry::{Geometry, RESIDENT, waves};
use crate::quantized_average::QuantizedAverage;

/// Channels of a block.
const CHANNELS: [u32; 3] = [16, 32, 64];
/// Most vectors of 16 rows by 64 channels of the expansion's weights that a warp holds in registers.
const MOST_WEIGHTS: u32 = 6;
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

/// The geometry, if these kernels take it.
fn geometry(kernel: &QuantizedMbConv, target: &Target) -> Result<Geometry, Unsupported> {
    let image = kernel.image();
    let shape = band::geometry(image, kernel.expand.is_some(), &kernel.depthwise, target)?;
    if let Some(expand) = &kernel.expand {
        band::functions("f", expand, Tables::Shared)?;
    }
    if let Some(gate) = &kernel.gate {
        gate.check_finish()?;
    }
    band::check_reach([image, &kernel.depthwise.geometry.output])?;
    Ok(shape)
}

/// Groups of 64 channels of the image.
fn groups(shape: &Geometry) -> u32 {
    shape.depth.div_ceil(64)
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
        let pitch = pitch(channels, shape.steps[1]);
        for rows in shape.heights() {
            for threads in THREADS {
                let tile = Tile { channels, pitch, rows, threads };
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
                let [fill, of_turns] = tile.copy_cycles(shape);
                (0.34, fill, of_turns)
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
        let Tile { channels, rows, threads, .. } = tile;
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
        // All inputs of the convolutions but the image.
        let parameters = (1u32 << inputs) - 2;
        let mut source = band::constants(shape, tile, depthwise, [image, output], parameters)?;
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("typedef {} ImageElement;", element_type(image.dtype)));
        line(format!("typedef {} Output;", element_type(output.dtype)));
        line(format!("#define EXPAND {}\n#define GATE {}", u8::from(expand.is_some()), u8::from(self.gate.is_some())));
        if let Some(expand) = expand {
            line(format!("#define IMAGE_LETTER \"{}\"", band::letter(image.dtype)));
            line(format!("#define WEIGHT_LETTER \"{}\"", band::letter(expand.geometry.weights.dtype)));
            line(format!("constexpr bool EXPAND_BIAS = {};", expand.bias.is_some()));
            line(format!("constexpr bool EXPAND_FACTOR = {};", !expand.epilogue.extras.is_empty()));
            line(band::functions("expand", expand, Tables::Shared)?);
        }
        line(band::all_tables(if expand.is_some() { &["expand", "depthwise"] } else { &["depthwise"] }));
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
        Ok(source + include_str!("band.cu") + include_str!("quantized_mbconv.cu"))
    }

    /// Packing of all operands: weights of the expansion `[lane][channel]`, filters `[row of taps][lane][8]`, rows of the
    /// gate's.
    fn packing(&self, shape: &Geometry) -> Vec<Packing> {
        let mut all = vec![Packing::Keep];
        if let Some(expand) = &self.expand {
            all.push(band::packed_weights(expand, [shape.padded_channels, groups(shape) * 64]));
            all.resize(all.len() + usize::from(expand.bias.is_some()) + expand.epilogue.extras.len(), Packing::Keep);
        }
        let depthwise = &self.depthwise;
        all.push(band::packed_filters(shape, depthwise));
        all.resize(all.len() + usize::from(depthwise.bias.is_some()) + depthwise.epilogue.extras.len(), Packing::Keep);
        all.extend(self.gate.iter().flat_map(QuantizedAverage::finish_packing));
        all
    }
}
