//! CUDA candidates: a block computes a chunk of channels over a band of rows (sm_80 and later; f16 and bf16).

use super::MbConv;
use super::band::{self, Tile, instructions};
use super::geometry::{Geometry, RESIDENT, waves};
use crate::DType;
use crate::codegen::{Argument, Candidate, Generate, Launch, Packing, Signature, Target, Unsupported};
use crate::conv::Conv;
use crate::squeeze_excite::cuda::{GATE, GATE_LATENCY};

/// Vectors of eight channels of a block.
const CHUNKS: [u32; 3] = [1, 2, 4];
/// Most vectors of weights and sums of the expansion that 128 registers hold.
const MOST_BOUNDED: u32 = 16;
/// Most registers for weights of the expansion: 16-byte vectors of a thread.
const MOST_WEIGHTS: u32 = 12;
/// Most candidates.
const MOST: usize = 10;

impl Generate for MbConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let shape = geometry(self, target)?;
        let mut ranked = Vec::new();
        for tile in tiles(&shape, target) {
            ranked.push((self.cost(&shape, &tile, target), tile));
        }
        if ranked.is_empty() {
            return Err(Unsupported("a band of the depthwise convolution does not fit into shared memory".into()));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(MOST);
        Ok(ranked.into_iter().map(|(cost, tile)| self.candidate(&shape, &tile, cost, target)).collect())
    }
}

/// The geometry, if these kernels take it.
fn geometry(kernel: &MbConv, target: &Target) -> Result<Geometry, Unsupported> {
    let refuse = |what: &str| Unsupported(format!("a fused depthwise convolution {what}"));
    let depthwise = &kernel.depthwise.geometry;
    let (image, expand) = (kernel.image(), kernel.expand.as_ref());
    let element = depthwise.output.dtype;
    let read = [image, &depthwise.weights, &depthwise.input];
    let same = read.into_iter().chain(expand.map(|expand| &expand.geometry.weights)).all(|v| v.dtype == element);
    if !target.has_async_copy() || !matches!(element, DType::F16 | DType::Bf16) || !same {
        return Err(refuse("of other than f16 or bf16, or before sm_80"));
    }
    Geometry::of(image, expand.is_some(), depthwise, 8).map_err(|what| refuse(&what))
}

/// Groups of 32 channels of the image.
fn groups(shape: &Geometry) -> u32 {
    shape.depth.div_ceil(32)
}

/// Configurations that fit.
fn tiles(shape: &Geometry, target: &Target) -> Vec<Tile> {
    let chunks = CHUNKS.into_iter().filter(|&chunk| chunk == 1 || chunk / 2 < shape.padded_channels / 8);
    let held = chunks.filter(|chunk| groups(shape) * chunk <= MOST_WEIGHTS);
    let fits = |tile: &Tile| {
        // The gate's few kilobytes are static.
        let fits = tile.shared(shape) + (24 << 10) <= u64::from(target.shared_per_block);
        let idle = tile.items_by_16(shape) * tile.chunk * 128 < tile.threads;
        fits && !idle
    };
    held.flat_map(|chunk| band::tiles(shape, chunk)).filter(fits).collect()
}

impl MbConv {
    /// Expected microseconds: what the warps of a multiprocessor share and what follows each other in a block, which overlap in part.
    /// The constants are fitted (TUNING.md, section 56).
    fn cost(&self, shape: &Geometry, tile: &Tile, target: &Target) -> f64 {
        let [chunk, run, warps] = [tile.chunk, tile.run, tile.threads / 32].map(f64::from);
        let [band_rows, band_columns] = tile.band(shape);
        // Blocks of a multiprocessor.
        let resident = f64::from((tile.blocks(shape) * shape.images).div_ceil(target.multiprocessors));
        let registers = f64::from(tile.threads) * self.registers(shape, tile, target);
        let waves = waves(resident, tile.shared(shape) + 1024, registers, target);
        // Cycles of a multiprocessor for eight channels of 16 pixels on their way out of the sums.
        let program = |conv: &Conv| 3.6 + 0.11 * instructions(conv.epilogue.program.as_ref());
        let (fill, weights, of_turns) = match &self.expand {
            Some(expand) => {
                let groups = f64::from(groups(shape));
                let of_tile = 17.0 * groups + chunk * program(expand);
                let rows = shape.mean_of_bands(tile.rows, band_rows, |[read, _]| f64::from(read));
                let tiles = rows * f64::from(shape.input[1]) / 16.0;
                (tiles * of_tile, 13.0 * groups * chunk, tile.fill_turns(shape) * (190.0 + 6.1 * of_tile))
            }
            // One vector of a pixel is half of a sector.
            None => (f64::from(band_rows * band_columns) * chunk * if tile.chunk == 1 { 1.58 } else { 0.79 }, 0.0, 0.0),
        };
        let [[taps_h, taps_w], [step, _]] = [shape.taps, shape.steps].map(|pair| pair.map(f64::from));
        let span = (run - 1.0) * step + (taps_h - 1.0) * f64::from(shape.dilations[0]) + 1.0;
        // Reads and products of two columns of taps at once.
        let of_tile = (taps_w / 2.0).ceil() * (span + run * taps_h) * 1.8 + run * program(&self.depthwise);
        let rows = shape.mean_of_bands(tile.rows, band_rows, |[_, rows]| f64::from(rows.div_ceil(tile.run)));
        let tiles = rows * f64::from(shape.output[1]) / 16.0 * chunk;
        let turns = (f64::from(tile.items_by_16(shape)) * chunk / warps).ceil();
        let (arrival, gate) = self
            .gate
            .as_ref()
            .map_or((0.0, 0.0), |gate| (GATE_LATENCY, gate.gate_cycles(tile.blocks(shape), tile.chunk, tile.threads)));
        // A fifth of a gate's latency is work.
        let work = resident * (fill + tiles * of_tile + warps * (51.0 + weights) + 0.195 * arrival);
        let chain = waves * (680.0 + of_turns + turns * 370.0 + arrival);
        0.97 + (work.max(chain) + 0.6 * work.min(chain) + gate) / target.clock
    }

    /// Registers of a thread, roughly: for weights, pixels and sums of the expansion, or for filters and sums. Pixels of the next
    /// tile take none where there is none.
    fn registers(&self, shape: &Geometry, tile: &Tile, target: &Target) -> f64 {
        let [groups, chunk, run] = [groups(shape), tile.chunk, tile.run].map(f64::from);
        let only = tile.rows == shape.output[0] && tile.fill_turns(shape) <= 1.0;
        let expansion = 28.0 + groups * (5.0 * chunk + if only { 5.0 } else { 12.0 }) + 6.5 * chunk;
        let depthwise = 26.0 + f64::from((shape.taps[0] * shape.taps[1]).min(50)) + 5.8 * run;
        let both = if self.expand.is_some() { expansion.max(depthwise) } else { depthwise };
        let most = if self.bounded(shape, tile, target) { 128.0 } else { f64::INFINITY };
        (both.min(most) / 8.0).ceil() * 8.0
    }

    /// Whether registers are bounded to what [`RESIDENT`] leaves. With a gate most configurations take 104 to 154, of which a
    /// multiprocessor has room for one block or two. Without, the bound costs more than it gives (TUNING.md, section 46), and many
    /// weights and sums of the expansion would spill.
    fn bounded(&self, shape: &Geometry, tile: &Tile, target: &Target) -> bool {
        let fits = tile.chunk * (groups(shape) + 2) <= MOST_BOUNDED;
        self.gate.is_some() && fits && tile.blocks(shape) * shape.images > target.multiprocessors
    }

    fn candidate(&self, shape: &Geometry, tile: &Tile, cost: f64, target: &Target) -> Candidate {
        let blocks = tile.blocks(shape);
        let source = self.source(shape, tile, blocks);
        let gate = self.gate.as_ref().map(|gate| gate.gate_operands(self.gate_input(), 1));
        let mut operands = Signature::default();
        operands.push("const Element*", "image", Some(Argument::Input(0)));
        let mut input = 1;
        for (name, conv) in [("expand", self.expand.as_ref()), ("filter", Some(&self.depthwise))] {
            let weights = if name == "filter" { "filters" } else { name };
            operands.push("const Element*", weights, conv.map(|_| Argument::Input(input)));
            input += usize::from(conv.is_some());
            let bias = conv.is_some_and(|conv| conv.epilogue.bias);
            operands.push("const f32*", &format!("{name}_bias"), bias.then_some(Argument::Input(input)));
            input += usize::from(bias);
        }
        operands.push("Element*", "output", Some(Argument::Output(0)));
        if let Some(gate) = gate {
            operands.push_structure("GateOperands", gate);
        }
        let source = format!(
            "{source}\nextern \"C\" __global__ void __launch_bounds__(THREADS, {}) mbconv_band({}) {{\n    \
             mbconv(Operands{{{}}});\n}}\n",
            if self.bounded(shape, tile, target) { RESIDENT / tile.threads } else { 1 },
            operands.parameters.join(", "),
            operands.fields.join(", ")
        );
        let launch = Launch {
            shared: tile.shared(shape) as u32,
            ..Launch::new(source, "mbconv_band", blocks * shape.images, tile.threads, operands.arguments)
        };
        let Tile { chunk, rows, run, threads } = tile;
        Candidate {
            workspace: self.gate.as_ref().map_or(0, |gate| gate.gate_workspace(blocks)),
            counters: self.gate.as_ref().map_or(0, |gate| gate.gate_counters()),
            packing: self.packing(shape),
            ..Candidate::new(
                "fused",
                format!("{} channels, {rows} rows, run {run}, {threads} threads", 8 * chunk),
                vec![launch],
                cost,
            )
        }
    }

    /// Number of the gate's first parameter among the inputs.
    fn gate_input(&self) -> usize {
        let convolutions = self.expand.iter().chain([&self.depthwise]);
        1 + convolutions.map(|conv| 1 + usize::from(conv.epilogue.bias)).sum::<usize>()
    }

    fn source(&self, shape: &Geometry, tile: &Tile, blocks: u32) -> String {
        let (depthwise, expand, image) = (&self.depthwise, self.expand.as_ref(), self.image());
        let places = [image, &depthwise.geometry.output];
        // All inputs of the convolutions but the image.
        let parameters = (1u32 << self.gate_input()) - 2;
        let mut source = band::constants(shape, tile, depthwise, places, expand.is_some(), parameters);
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(format!("#define GATE {}", u8::from(self.gate.is_some())));
        if let Some(expand) = expand {
            line(format!("constexpr int EXPAND_BIAS = {};", u8::from(expand.epilogue.bias)));
            line(band::program("expand_program", expand));
        }
        if let Some(gate) = &self.gate {
            line(gate.gate_source(blocks));
            line(GATE.into());
        }
        line("struct Operands {\n    const Element* image;\n    const Element* expand;".into());
        line("    const f32* expand_bias;\n    const Element* filters;\n    const f32* filter_bias;".into());
        line("    Element* output;".into());
        line(if self.gate.is_some() { "    GateOperands gate;\n};" } else { "};" }.into());
        source + include_str!("band.cu") + include_str!("mbconv.cu")
    }

    /// Packing of all operands: weights of the expansion `[lane][channel]`, filters `[tap][lane]`, rows of the gate's.
    fn packing(&self, shape: &Geometry) -> Vec<Packing> {
        let mut all = vec![Packing::Keep];
        let mut push = |conv: &Conv, weights: Packing| {
            all.push(weights);
            all.extend(conv.epilogue.bias.then_some(Packing::Keep));
        };
        let depth = groups(shape) * 32;
        if let Some(expand) = &self.expand {
            push(expand, band::packed_weights(expand, [shape.padded_channels, depth], [depth.into(), 1], 1));
        }
        push(&self.depthwise, band::packed_filters(shape, &self.depthwise));
        all.extend(self.gate.iter().flat_map(|gate| gate.gate_packing()));
        all
    }
}
