//! CUDA candidates: a block computes a chunk of channels over a band of rows (sm_80 and later; f16 and bf16).

use super::MbConv;
use super::geometry::{Geometry, RESIDENT, waves};
use crate::codegen::{
    Argument, Arithmetic, Candidate, Generate, Launch, PRELUDE, Packing, Signature, Target, Unsupported, element_type,
    program_function,
};
use crate::conv::Conv;
use crate::gemm::INTRINSICS;
use crate::pointwise::{Binary, Instruction, Program, Unary};
use crate::squeeze_excite::cuda::{GATE, GATE_LATENCY};
use crate::view::Strides;
use crate::{DType, View};

/// Vectors of eight channels of a block.
const CHUNKS: [u32; 3] = [1, 2, 4];
/// Neighbouring outputs of an item, one below the other.
const RUNS: [u32; 4] = [1, 2, 4, 7];
/// Threads of a block.
const THREADS: [u32; 2] = [128, 256];
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

/// A configuration.
struct Tile {
    chunk: u32,
    rows: u32,
    run: u32,
    threads: u32,
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

impl Tile {
    /// Rows and columns of a band.
    fn band(&self, shape: &Geometry) -> [u32; 2] {
        let reach =
            |d: usize, outputs: u32| (outputs - 1) * shape.steps[d] + (shape.taps[d] - 1) * shape.dilations[d] + 1;
        [reach(0, self.rows.next_multiple_of(self.run)), reach(1, shape.output[1])]
    }

    /// Places of a line's columns with the same remainder of the step, and of a plane; each holds 16 bytes. Where lanes access
    /// two parts of a line or two planes at once, these lie four banks of 16 bytes apart.
    fn part_and_plane(&self, shape: &Geometry) -> [u32; 2] {
        let apart = |places: u32| places + (12 - places % 8) % 8;
        let [rows, columns] = self.band(shape);
        let part = if shape.steps[1] == 1 { columns } else { apart(columns.div_ceil(shape.steps[1])) };
        let plane = rows * shape.steps[1] * part;
        [part, if self.chunk == 1 { plane } else { apart(plane) }]
    }

    /// Bytes of dynamic shared memory.
    fn shared(&self, shape: &Geometry) -> u64 {
        let [_, plane] = self.part_and_plane(shape).map(u64::from);
        let filters = u64::from(shape.taps[0] * shape.taps[1] * self.chunk).next_multiple_of(8);
        (filters + plane * u64::from(self.chunk)) * 16
    }

    /// Tiles of 16 items, of which a warp computes one at a time; an item is a run of outputs.
    fn items_by_16(&self, shape: &Geometry) -> u32 {
        (self.rows.div_ceil(self.run) * shape.output[1]).div_ceil(16)
    }

    /// How often a warp expands 16 pixels.
    fn fill_turns(&self, shape: &Geometry) -> f64 {
        let rows = self.band(shape)[0].min(shape.input[0]);
        f64::from((rows * shape.input[1]).div_ceil(16).div_ceil(self.threads / 32))
    }

    /// Blocks of one image.
    fn blocks(&self, shape: &Geometry) -> u32 {
        (shape.padded_channels / 8).div_ceil(self.chunk) * shape.output[0].div_ceil(self.rows)
    }
}

/// Configurations that fit.
fn tiles(shape: &Geometry, target: &Target) -> Vec<Tile> {
    let mut all = Vec::new();
    for chunk in CHUNKS.into_iter().filter(|&chunk| chunk == 1 || chunk / 2 < shape.padded_channels / 8) {
        if groups(shape) * chunk > MOST_WEIGHTS {
            continue;
        }
        // Bands of equal height: an eighth of the rows, a seventh, …, all of them, and single ones.
        let mut heights: Vec<u32> = (1..=16).map(|parts| shape.output[0].div_ceil(parts)).collect();
        heights.extend([1, 2, 4]);
        heights.retain(|&rows| rows <= shape.output[0]);
        heights.sort_unstable();
        heights.dedup();
        for rows in heights {
            // With longer steps, outputs below each other share few rows: long runs only take registers and wait.
            let longest = if shape.steps[0] == 1 { u32::MAX } else { 2 };
            for run in RUNS.into_iter().filter(|&run| run < 2 * rows && run <= longest) {
                for threads in THREADS {
                    let tile = Tile { chunk, rows, run, threads };
                    // The gate's few kilobytes are static.
                    let fits = tile.shared(shape) + (24 << 10) <= u64::from(target.shared_per_block);
                    let idle = tile.items_by_16(shape) * chunk * 128 < threads;
                    if fits && !idle {
                        all.push(tile);
                    }
                }
            }
        }
    }
    all
}

/// Instructions of a program, roughly. One of the special-function units takes the slots of eight others; a sigmoid is one of them where
/// it gates its operand, and is seldom met elsewhere.
fn instructions(program: Option<&Program>) -> f64 {
    let of_one = |instruction: &Instruction| match instruction {
        Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_) => 0.0,
        Instruction::Unary(Unary::Relu | Unary::Abs | Unary::Neg, _) => 1.0,
        Instruction::Unary(Unary::Sigmoid, _) => 8.0,
        Instruction::Unary(..) | Instruction::Binary(Binary::Div | Binary::Pow, ..) => 18.0,
        Instruction::Binary(..) | Instruction::Select(..) => 1.0,
    };
    program.map_or(0.0, |program| program.instructions.iter().map(of_one).sum())
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
        let output = &depthwise.geometry.output;
        let reach = |view: &View| view.bytes().unwrap_or(u64::MAX) / 2;
        let wide = reach(image).max(reach(output)) > i32::MAX as u64;
        let mut source = String::from(PRELUDE);
        let mut line = |text: String| {
            source += &text;
            source.push('\n');
        };
        line(INTRINSICS.into());
        line(format!("typedef {} Element;", element_type(output.dtype)));
        line(format!("typedef {} offset_t;", if wide { "i64" } else { "i32" }));
        line(format!("#define EXPAND {}\n#define GATE {}", u8::from(expand.is_some()), u8::from(self.gate.is_some())));
        // All inputs of the convolutions but the image.
        line(format!("constexpr u32 PARAMETER_INPUTS = {}u;", (1u32 << self.gate_input()) - 2));
        let [[band_rows, band_columns], [part, plane]] = [tile.band(shape), tile.part_and_plane(shape)];
        let of_tile = [
            ("ROWS", i64::from(tile.rows)),
            ("RUN", tile.run.into()),
            ("BAND_ROWS", band_rows.into()),
            ("BAND_COLUMNS", band_columns.into()),
            ("PART", part.into()),
            ("PLANE", plane.into()),
        ];
        let others = [
            ("EXPAND_BIAS", i64::from(expand.is_some_and(|conv| conv.epilogue.bias))),
            ("FILTER_BIAS", depthwise.epilogue.bias.into()),
            ("THREADS", tile.threads.into()),
            ("CHANNELS", output.shape[1].into()),
            ("LANES", shape.padded_channels.into()),
            ("CHUNK_VECTORS", tile.chunk.into()),
        ];
        let columns = [("DILATION_W", i64::from(shape.dilations[1]))];
        let places = shape.places(image, output);
        for (name, value) in of_tile.into_iter().chain(shape.window()).chain(columns).chain(places).chain(others) {
            line(format!("constexpr int {name} = {value};"));
        }
        for (name, conv) in [("expand_program", expand), ("depthwise_program", Some(depthwise))] {
            line(match conv.and_then(|conv| conv.epilogue.program.as_ref()) {
                Some(program) => program_function(name, program, Arithmetic::of(output.dtype)),
                None => format!("DEVICE f32 {name}(f32 x) {{ return x; }}"),
            });
        }
        if let Some(gate) = &self.gate {
            line(gate.gate_source(blocks));
            line(GATE.into());
        }
        line("struct Operands {\n    const Element* image;\n    const Element* expand;".into());
        line("    const f32* expand_bias;\n    const Element* filters;\n    const f32* filter_bias;".into());
        line("    Element* output;".into());
        line(if self.gate.is_some() { "    GateOperands gate;\n};" } else { "};" }.into());
        source + include_str!("mbconv.cu")
    }

    /// Packing of all operands: weights of the expansion `[lane][channel]`, filters `[tap][lane]`, rows of the gate's.
    fn packing(&self, shape: &Geometry) -> Vec<Packing> {
        let mut all = vec![Packing::Keep];
        let mut push = |conv: &Conv, extents: [u32; 2], strides: [i64; 2], taps: i64| {
            let mut view = View { padded_channels: 0, offset: 0, ..conv.geometry.weights.clone() };
            (view.shape[0], view.shape[1]) = (extents[0], extents[1]);
            let mut step = taps;
            let mut of_taps = Vec::new();
            for &extent in view.shape[2..].iter().rev() {
                of_taps.push(step as i32);
                step *= i64::from(extent);
            }
            view.strides = strides.iter().map(|&s| s as i32).chain(of_taps.into_iter().rev()).collect::<Strides>();
            all.push(Packing::View(view));
            all.extend(conv.epilogue.bias.then_some(Packing::Keep));
        };
        let depth = groups(shape) * 32;
        if let Some(expand) = &self.expand {
            push(expand, [shape.padded_channels, depth], [depth.into(), 1], 1);
        }
        push(&self.depthwise, [shape.padded_channels, 1], [1, 1], shape.padded_channels.into());
        all.extend(self.gate.iter().flat_map(|gate| gate.gate_packing()));
        all
    }
}
