//! What kernels share that compute a depthwise convolution over a band of rows in shared memory (`band.cu`): configurations, constants and
//! packed weights.

use super::geometry::Geometry;
use crate::View;
use crate::codegen::{Arithmetic, PRELUDE, Packing, element_type, program_function};
use crate::conv::Conv;
use crate::gemm::INTRINSICS;
use crate::pointwise::{Binary, Instruction, Program, Unary};
use crate::view::Strides;

/// Neighbouring outputs of an item, one below the other.
const RUNS: [u32; 4] = [1, 2, 4, 7];
/// Threads of a block.
const THREADS: [u32; 2] = [128, 256];

/// A configuration.
pub(crate) struct Tile {
    /// Vectors of eight channels of a block.
    pub chunk: u32,
    /// Rows of outputs of a block.
    pub rows: u32,
    /// Outputs of an item, one below the other.
    pub run: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// Configurations of so many vectors of channels.
pub(crate) fn tiles(shape: &Geometry, chunk: u32) -> Vec<Tile> {
    // With longer steps, outputs below each other share few rows: long runs only take registers and wait.
    let longest = if shape.steps[0] == 1 { u32::MAX } else { 2 };
    let mut all = Vec::new();
    for rows in shape.heights() {
        for run in RUNS.into_iter().filter(|&run| run < 2 * rows && run <= longest) {
            all.extend(THREADS.map(|threads| Tile { chunk, rows, run, threads }));
        }
    }
    all
}

impl Tile {
    /// Rows and columns of a band.
    pub(crate) fn band(&self, shape: &Geometry) -> [u32; 2] {
        let reach =
            |d: usize, outputs: u32| (outputs - 1) * shape.steps[d] + (shape.taps[d] - 1) * shape.dilations[d] + 1;
        [reach(0, self.rows.next_multiple_of(self.run)), reach(1, shape.output[1])]
    }

    /// Places of a line's columns with the same remainder of the step, and of a plane; each holds 16 bytes. Where lanes access
    /// two parts of a line or two planes at once, these lie four banks of 16 bytes apart.
    pub(crate) fn part_and_plane(&self, shape: &Geometry) -> [u32; 2] {
        let apart = |places: u32| places + (12 - places % 8) % 8;
        let [rows, columns] = self.band(shape);
        let part = if shape.steps[1] == 1 { columns } else { apart(columns.div_ceil(shape.steps[1])) };
        let plane = rows * shape.steps[1] * part;
        [part, if self.chunk == 1 { plane } else { apart(plane) }]
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn shared(&self, shape: &Geometry) -> u64 {
        let [_, plane] = self.part_and_plane(shape).map(u64::from);
        let filters = u64::from(shape.taps[0] * shape.taps[1] * self.chunk).next_multiple_of(8);
        (filters + plane * u64::from(self.chunk)) * 16
    }

    /// Tiles of 16 items, of which a warp computes one at a time; an item is a run of outputs.
    pub(crate) fn items_by_16(&self, shape: &Geometry) -> u32 {
        (self.rows.div_ceil(self.run) * shape.output[1]).div_ceil(16)
    }

    /// How often a warp expands 16 pixels.
    pub(crate) fn fill_turns(&self, shape: &Geometry) -> f64 {
        let rows = self.band(shape)[0].min(shape.input[0]);
        f64::from((rows * shape.input[1]).div_ceil(16).div_ceil(self.threads / 32))
    }

    /// Blocks of one image.
    pub(crate) fn blocks(&self, shape: &Geometry) -> u32 {
        (shape.padded_channels / 8).div_ceil(self.chunk) * shape.output[0].div_ceil(self.rows)
    }
}

/// What stands in front of `band.cu`: types, constants and programs. `parameters` are the inputs of the kernel, as bits, that weights and
/// biases are.
pub(crate) fn constants(
    shape: &Geometry,
    tile: &Tile,
    depthwise: &Conv,
    [image, output]: [&View; 2],
    expands: bool,
    parameters: u32,
) -> String {
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
    line(format!("#define EXPAND {}", u8::from(expands)));
    line(format!("constexpr u32 PARAMETER_INPUTS = {parameters}u;"));
    let [[band_rows, band_columns], [part, plane]] = [tile.band(shape), tile.part_and_plane(shape)];
    let of_tile = [
        ("ROWS", i64::from(tile.rows)),
        ("RUN", tile.run.into()),
        ("BAND_ROWS", band_rows.into()),
        ("BAND_COLUMNS", band_columns.into()),
        ("PART", part.into()),
        ("PLANE", plane.into()),
        ("THREADS", tile.threads.into()),
        ("CHUNK_VECTORS", tile.chunk.into()),
    ];
    let others = [
        ("DILATION_W", i64::from(shape.dilations[1])),
        ("FILTER_BIAS", depthwise.epilogue.bias.into()),
        ("CHANNELS", depthwise.geometry.output.shape[1].into()),
        ("LANES", shape.padded_channels.into()),
    ];
    for (name, value) in of_tile.into_iter().chain(shape.window()).chain(shape.places(image, output)).chain(others) {
        line(format!("constexpr int {name} = {value};"));
    }
    line(program("depthwise_program", depthwise));
    source
}

/// The function that finishes a result of a convolution.
pub(crate) fn program(name: &str, conv: &Conv) -> String {
    match &conv.epilogue.program {
        Some(program) => program_function(name, program, Arithmetic::of(conv.geometry.output.dtype)),
        None => format!("DEVICE f32 {name}(f32 x) {{ return x; }}"),
    }
}

/// Weights of a convolution, packed with so many output channels and input channels; `strides` are those of both, and `taps` that of
/// the last of the taps.
pub(crate) fn packed_weights(conv: &Conv, extents: [u32; 2], strides: [i64; 2], taps: i64) -> Packing {
    let mut view = View { padded_channels: 0, offset: 0, ..conv.geometry.weights.clone() };
    (view.shape[0], view.shape[1]) = (extents[0], extents[1]);
    let mut step = taps;
    let mut of_taps = Vec::new();
    for &extent in view.shape[2..].iter().rev() {
        of_taps.push(step as i32);
        step *= i64::from(extent);
    }
    view.strides = strides.iter().map(|&s| s as i32).chain(of_taps.into_iter().rev()).collect::<Strides>();
    Packing::View(view)
}

/// Weights of the depthwise convolution, packed `[tap][lane]`.
pub(crate) fn packed_filters(shape: &Geometry, depthwise: &Conv) -> Packing {
    packed_weights(depthwise, [shape.padded_channels, 1], [1, 1], shape.padded_channels.into())
}

/// Instructions of a program, roughly. One of the special-function units takes the slots of eight others; a sigmoid is one of them where
/// it gates its operand, and is seldom met elsewhere.
pub(crate) fn instructions(program: Option<&Program>) -> f64 {
    let of_one = |instruction: &Instruction| match instruction {
        Instruction::Input(_) | Instruction::Float(_) | Instruction::Integer(_) => 0.0,
        Instruction::Unary(Unary::Relu | Unary::Abs | Unary::Neg, _) => 1.0,
        Instruction::Unary(Unary::Sigmoid, _) => 8.0,
        Instruction::Unary(..) | Instruction::Binary(Binary::Div | Binary::Pow, ..) => 18.0,
        Instruction::Binary(..) | Instruction::Select(..) => 1.0,
    };
    program.map_or(0.0, |program| program.instructions.iter().map(of_one).sum())
}
