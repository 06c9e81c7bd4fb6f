//! CUDA candidates: a block computes all channels over a band of rows (sm_80 and later; f16 and bf16).

use super::SeparableConv;
use crate::codegen::{Argument, Candidate, Generate, Launch, Packing, Signature, Target, Unsupported};
use crate::gemm::spatial;
use crate::mbconv::band::{self, Tile, instructions};
use crate::mbconv::geometry::{Geometry, waves};
use crate::{DType, View};
use std::fmt::Write;

/// Most registers of a thread, by estimate.
const MOST_REGISTERS: u32 = 200;
/// Most candidates.
const MOST: usize = 10;

impl Generate for SeparableConv {
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let shape = self.shape(target)?;
        // Vectors of both halves of a K step.
        let chunk = (shape.padded_channels / 8).next_multiple_of(2);
        let fits = |tile: &Tile| {
            // One warp of eight may have nothing to do.
            let idle = tile.threads > 128 && tile.items_by_16(&shape) < tile.threads / 32 * 7 / 8;
            let room = self.shared(&shape, tile) <= u64::from(target.shared_per_block);
            room && self.registers(&shape, tile) <= MOST_REGISTERS && !idle
        };
        let tiles = band::tiles(&shape, chunk).into_iter().filter(fits);
        let mut ranked: Vec<(f64, Tile)> = tiles.map(|tile| (self.cost(&shape, &tile, target), tile)).collect();
        if ranked.is_empty() {
            return Err(Unsupported("a separable convolution of which no band fits into a block".into()));
        }
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.truncate(MOST);
        Ok(ranked.into_iter().map(|(cost, tile)| self.candidate(&shape, &tile, cost)).collect())
    }
}

/// Channels of a view that exist in memory.
fn stored_channels(view: &View) -> u32 {
    view.padded_channels.max(view.shape[1])
}

/// Whether lanes, which have four neighbouring channels of the result, access a view of its extents by vectors of four.
pub(super) fn is_of_fours(view: &View, output: &View) -> bool {
    let whole = |d: usize| d == 1 || view.shape[d] == 1 || view.strides[d] % 4 == 0;
    let enough = stored_channels(view).is_multiple_of(4) && stored_channels(view) >= stored_channels(output);
    let aligned = view.strides[1] == 1 && view.offset.is_multiple_of(4) && (0..view.rank()).all(whole);
    view.shape == output.shape && enough && aligned
}

/// Tiles of 16 channels of the result.
pub(super) fn column_tiles(output: &View) -> u32 {
    stored_channels(output).div_ceil(16)
}

/// What stands in front of `weights.cu`: channels of the result, and vectors of 16 bytes of each one's weights.
pub(super) fn constants(output: &View, bias: bool, row_vectors: u32) -> String {
    let all = [
        ("BIAS", u32::from(bias)),
        ("COLUMNS", output.shape[1]),
        ("OUT_LANES", stored_channels(output)),
        ("ROW_VECTORS", row_vectors),
    ];
    all.map(|(name, value)| format!("constexpr int {name} = {value};\n")).concat()
}

/// `Pixel`, `Extras` and `load_extras`, which loads `vector`s of four channels of images that are added to the result, `extra_0` and on of
/// the operands.
pub(super) fn load_extras<'a>(images: impl IntoIterator<Item = &'a View>, vector: &str) -> String {
    let mut loads = String::new();
    let mut count = 0;
    for extra in images {
        let (_, strides) = spatial(extra);
        let [image, row, column] = [i64::from(extra.strides[0]), strides[1], strides[2]];
        let _ = writeln!(
            loads,
            "    extras.of[{count}] = *(const {vector}*)(o.extra_{count} + {} + (offset_t)at.image * {image} + (offset_t)at.row * {row} + \
             at.column * {column} + channel);",
            extra.offset
        );
        count += 1;
    }
    format!(
        "struct Pixel {{ int image, row, column; }};\n\
         struct Extras {{ {vector} of[{}]; }};  // Of four channels.\n\
         DEVICE Extras load_extras(const Operands& o, const Pixel& at, int channel) {{\n    Extras extras;\n{loads}    \
         return extras;\n}}\n",
        count.max(1)
    )
}

impl SeparableConv {
    /// The geometry, if these kernels take it.
    fn shape(&self, target: &Target) -> Result<Geometry, Unsupported> {
        let refuse = |what: &str| Unsupported(format!("a separable convolution {what}"));
        let [depthwise, pointwise] = [&self.depthwise.geometry, &self.pointwise.geometry];
        let (output, extras) = (&pointwise.output, &self.pointwise.epilogue.extras);
        let views = [&depthwise.input, &depthwise.weights, &depthwise.output, &pointwise.weights];
        let same = views.into_iter().chain(extras).all(|view| view.dtype == output.dtype);
        if !target.has_async_copy() || !matches!(output.dtype, DType::F16 | DType::Bf16) || !same {
            return Err(refuse("of other than f16 or bf16, or before sm_80"));
        }
        if ![output].into_iter().chain(extras).all(|view| is_of_fours(view, output)) {
            return Err(refuse("whose result or what is added to it is not channels-last in multiples of four"));
        }
        Geometry::of(&depthwise.input, false, depthwise, 8).map_err(|what| refuse(&what))
    }

    /// Tiles of 16 channels of the result.
    fn column_tiles(&self) -> u32 {
        column_tiles(&self.pointwise.geometry.output)
    }

    /// Bytes of dynamic shared memory: beside those of the band, weights and biases.
    fn shared(&self, shape: &Geometry, tile: &Tile) -> u64 {
        let weights = u64::from(self.column_tiles() * 16 * (tile.chunk + 1) * 16);
        tile.shared(shape) + weights + u64::from(tile.chunk * 8 * 4)
    }

    /// Registers of a thread, roughly: for sums and biases of the result, for rows of A and the sums of a vector, for filters.
    fn registers(&self, shape: &Geometry, tile: &Tile) -> u32 {
        let taps = (shape.taps[0] * shape.taps[1]).min(50);
        40 + self.column_tiles() * (8 * tile.run + 4) + 8 * tile.run + taps
    }

    /// Expected microseconds: what the warps of a multiprocessor share and what follows each other in a block, which overlap in part.
    /// The constants are those of MBConv blocks (TUNING.md, section 56), whose loops these are.
    fn cost(&self, shape: &Geometry, tile: &Tile, target: &Target) -> f64 {
        let [chunk, run, warps, columns] =
            [tile.chunk, tile.run, tile.threads / 32, self.column_tiles()].map(f64::from);
        let [band_rows, band_columns] = tile.band(shape);
        let blocks = shape.output[0].div_ceil(tile.rows) * shape.images;
        let resident = f64::from(blocks.div_ceil(target.multiprocessors));
        let registers = f64::from(tile.threads * self.registers(shape, tile));
        let waves = waves(resident, self.shared(shape, tile) + 1024, registers, target);
        let program = |conv: &crate::conv::Conv| 3.6 + 0.11 * instructions(conv.epilogue.program.as_ref());
        let fill = f64::from(band_rows * band_columns) * chunk * 0.79;
        let [[taps_h, taps_w], [step, _]] = [shape.taps, shape.steps].map(|pair| pair.map(f64::from));
        let span = (run - 1.0) * step + (taps_h - 1.0) * f64::from(shape.dilations[0]) + 1.0;
        let of_vector =
            (taps_w / 2.0).ceil() * (span + run * taps_h) * 1.8 + taps_h * taps_w + run * program(&self.depthwise);
        let of_columns = columns * (chunk * (0.5 + run * 1.8) + 2.0 * run * program(&self.pointwise));
        let of_tile = chunk * of_vector + of_columns;
        let rows = shape.mean_of_bands(tile.rows, band_rows, |[_, rows]| f64::from(rows.div_ceil(tile.run)));
        let tiles = rows * f64::from(shape.output[1]) / 16.0;
        let turns = (f64::from(tile.items_by_16(shape)) / warps).ceil();
        let work = resident * (fill + tiles * of_tile + warps * 51.0);
        let chain = waves * (680.0 + turns * (150.0 * chunk + 220.0 + 2.0 * of_tile));
        0.97 + (work.max(chain) + 0.6 * work.min(chain)) / target.clock
    }

    fn candidate(&self, shape: &Geometry, tile: &Tile, cost: f64) -> Candidate {
        let mut operands = Signature::default();
        let mut packing = vec![Packing::Keep];
        operands.push("const Element*", "image", Some(Argument::Input(0)));
        let weights = self.packed_weights(tile);
        let convolutions = [
            (&self.depthwise, ["filters", "filter_bias"], band::packed_filters(shape, &self.depthwise)),
            (&self.pointwise, ["weights", "bias"], weights),
        ];
        for (conv, [weights, bias], packed) in convolutions {
            operands.push("const Element*", weights, Some(Argument::Input(packing.len())));
            packing.push(packed);
            operands.push("const f32*", bias, conv.epilogue.bias.then_some(Argument::Input(packing.len())));
            packing.extend(conv.epilogue.bias.then_some(Packing::Keep));
        }
        let parameters = (1u32 << packing.len()) - 2;
        for number in 0..self.pointwise.epilogue.extras.len() {
            operands.push("const Element*", &format!("extra_{number}"), Some(Argument::Input(packing.len())));
            packing.push(Packing::Keep);
        }
        operands.push("Element*", "output", Some(Argument::Output(0)));
        let source = format!(
            "{}\nextern \"C\" __global__ void __launch_bounds__(THREADS, 1) separable_conv_band({}) {{\n    \
             separable_conv(Operands{{{}}});\n}}\n",
            self.source(shape, tile, parameters),
            operands.parameters.join(", "),
            operands.fields.join(", ")
        );
        let blocks = shape.output[0].div_ceil(tile.rows) * shape.images;
        let launch = Launch {
            shared: self.shared(shape, tile) as u32,
            ..Launch::new(source, "separable_conv_band", blocks, tile.threads, operands.arguments)
        };
        let Tile { rows, run, threads, .. } = tile;
        let configuration = format!("{rows} rows, run {run}, {threads} threads");
        Candidate { packing, ..Candidate::new("fused", configuration, vec![launch], cost) }
    }

    /// Weights of the pointwise convolution, `[channel of the result][channel]`, in whole tiles.
    fn packed_weights(&self, tile: &Tile) -> Packing {
        let depth = tile.chunk * 8;
        band::packed_weights(&self.pointwise, [self.column_tiles() * 16, depth], [depth.into(), 1], 1)
    }

    fn source(&self, shape: &Geometry, tile: &Tile, parameters: u32) -> String {
        let (output, extras) = (&self.pointwise.geometry.output, &self.pointwise.epilogue.extras);
        let places = [&self.depthwise.geometry.input, output];
        let mut source = band::constants(shape, tile, &self.depthwise, places, false, parameters);
        source += &band::program("pointwise_program", &self.pointwise);
        source += &constants(output, self.pointwise.epilogue.bias, tile.chunk);
        let mut fields = String::from("const Element* image; const Element* filters; const f32* filter_bias; ");
        fields += "const Element* weights; const f32* bias; ";
        let mut values = String::from("sum");
        for number in 0..extras.len() {
            let _ = write!(fields, "const Element* extra_{number}; ");
            let _ = write!(values, ", to_f32(extras.of[{number}].v[c])");
        }
        let _ = write!(
            source,
            "struct Operands {{ {fields}Element* output; }};\n{}\
             DEVICE f32 finished(f32 sum, const Extras& extras, int c) {{ return pointwise_program({values}); }}\n",
            load_extras(extras, "Vector<Element, 4>")
        );
        source + include_str!("../mbconv/band.cu") + include_str!("weights.cu") + include_str!("separable_conv.cu")
    }
}
