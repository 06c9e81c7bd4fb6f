//! Winograd's minimal filtering `F(2×2, 3×3)` and `F(4×4, 3×3)`: fewer multiplications for more traffic.
//!
//! Three launches: the input transform in f32, rounded once to the element type; one product for each of the 16 or 36
//! elements of a tile, as a batch of the matrix products in [`crate::gemm`], summed and stored in f32; the output
//! transform with the epilogue. Weights are transformed by the compiler ([`Weights`]).
//!
//! Rounding to 16 bits happens in a basis that magnifies it. On inputs and weights of unit variance and 64 to 512
//! channels the relative L2 error against exact sums is 5.5e-4 for `F(2×2)` in f16 and 1.6e-3 for `F(4×4)`. The first
//! meets the bound of 1e-3 for every f16 kernel; the second is offered under a name of its own, [`RELAXED`], and is only
//! chosen when it is forced. `F(4×4)` in bf16 is not offered. In f32 both meet the bound. An infinity in the input makes all
//! outputs of its tile NaN, and weights whose transform is beyond the range of f16 are refused by the compiler.

mod transform;
mod weights;

#[cfg(test)]
mod tests;

pub use weights::Weights;

use crate::DType;
use crate::codegen::packing::Packing;
use crate::codegen::{Argument, Candidate, Launch, PRELUDE, Target, Unsupported, element_type};
use crate::conv;
use crate::gemm::{self, Constants, Depth, Geometry, Map, Operand, Problem, launch};
use std::sync::Arc;
use transform::Transforms;

/// Algorithm whose error is within its family's bound.
pub const ALGORITHM: &str = "winograd";
/// `F(4×4, 3×3)` in f16, whose error is not.
pub const RELAXED: &str = "winograd_4x4";
/// Relative L2 error that [`RELAXED`] promises.
pub const RELAXED_TOLERANCE: f64 = 5e-3;

/// Products considered for each tile size.
const PRODUCTS: usize = 3;
/// Threads of a block of both transforms.
const THREADS: u32 = 128;

/// A convolution in tiles.
struct Tiling<'a> {
    conv: &'a conv::Geometry,
    transforms: Transforms,
    /// Tiles in the batch, along height and along width.
    tiles: [u32; 3],
    /// Input channels, padding included.
    channels: u32,
    /// Distance between tiles in the products.
    pitch: u32,
}

/// Candidates, cheapest first; none where the convolution is not 3×3 with steps of 1, or the target has no use for them.
///
/// # Errors
/// As [`gemm::candidates`].
pub(super) fn candidates(
    conv: &conv::Geometry,
    whole: &Problem,
    target: &Target,
) -> Result<Vec<Candidate>, Unsupported> {
    let element = conv.input.dtype;
    let plain = conv.groups == 1
        && conv.weights.rank() == 4
        && conv.weights.shape[2..] == [3, 3]
        && conv.strides == [1; 3]
        && conv.dilations == [1; 3]
        && conv.weights.dtype == element
        // A result that is stored in more than the transforms' type is not to show what these round.
        && conv.output.dtype.size() <= element.size()
        && matches!(element, DType::F32 | DType::F16 | DType::Bf16);
    let mut all = Vec::new();
    for tile in [2, 4] {
        if plain && !(tile == 4 && element == DType::Bf16) {
            let tiling = Tiling::new(conv, tile, whole);
            if let Some(problem) = tiling.products() {
                for product in gemm::candidates(&problem, target)?.into_iter().take(PRODUCTS) {
                    all.push(tiling.candidate(whole, product, target));
                }
            }
        }
    }
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    Ok(all)
}

/// Expected microseconds of a transform that moves `bytes`. Planes far apart are much slower than one stream: measured on
/// an H200, 0.4 of the device memory's bandwidth even where all of it stays in level 2 (`TUNING.md`).
fn transform_cost(target: &Target, bytes: u64) -> f64 {
    target.launch + (bytes as f64 / (target.bandwidth * 400.0)).max(1.0)
}

/// Threads of a launch as blocks.
fn blocks(threads: u64) -> u32 {
    u32::try_from(threads.div_ceil(u64::from(THREADS))).unwrap_or(u32::MAX)
}

impl<'a> Tiling<'a> {
    fn new(conv: &'a conv::Geometry, tile: u32, whole: &Problem) -> Self {
        Self {
            conv,
            transforms: Transforms::new(tile as usize),
            tiles: [conv.output.shape[0], conv.output.shape[2].div_ceil(tile), conv.output.shape[3].div_ceil(tile)],
            channels: conv.input.shape[1].next_multiple_of(8),
            pitch: whole.stored_columns.next_multiple_of(8),
        }
    }

    fn tile(&self) -> u32 {
        self.transforms.tile as u32
    }

    /// Elements of a tile of the input, which is how many products there are.
    fn elements(&self) -> u32 {
        (self.transforms.size * self.transforms.size) as u32
    }

    fn count(&self) -> u64 {
        self.tiles.iter().map(|&t| u64::from(t)).product()
    }

    /// Elements of the transformed input, of the weights and of the products.
    fn sizes(&self) -> [u64; 3] {
        let planes = u64::from(self.elements());
        let channels = u64::from(self.channels);
        [
            planes * self.count() * channels,
            planes * u64::from(self.conv.weights.shape[0]) * channels,
            planes * self.count() * u64::from(self.pitch),
        ]
    }

    /// The products of all elements of the tiles, or nothing where thread numbers and offsets might not fit 31 bits.
    fn products(&self) -> Option<Problem> {
        if self.sizes().iter().any(|&size| size >= 1 << 30) {
            return None;
        }
        let [tiles, channels, pitch, columns] =
            [self.count(), self.channels.into(), self.pitch.into(), self.conv.weights.shape[0].into()]
                .map(|x: u64| x as i64);
        let dtype = self.conv.input.dtype;
        let map = |dtype: DType, row: i64, column: i64| Map {
            dtype,
            offset: 0,
            batch: vec![tiles * row],
            row: vec![row],
            column,
        };
        let weights = Weights { tile: self.tile(), channels: self.channels, dtype };
        Some(Problem {
            batch: vec![self.elements()],
            rows: vec![tiles as u32],
            columns: self.conv.output.shape[1],
            stored_columns: self.pitch,
            a: map(dtype, channels, 0),
            depth: Depth { channels: self.channels, stride: 1, window: None },
            b: vec![Operand {
                dtype,
                offset: 0,
                batch: vec![columns * channels],
                column: channels,
                depth: 1,
                taps: None,
                group: 0,
                packing: Packing::Transform(Arc::new(weights)),
            }],
            output: map(DType::F32, pitch, 1),
            bias: false,
            bias_batch: 0,
            extras: vec![],
            program: None,
            crop: None,
            columns_of_group: self.conv.output.shape[1],
            scale: None,
            second: None,
            pool: None,
            moments: None,
            leaves_moments: false,
            normalized_extra: None,
            integers: None,
        })
    }

    /// The three launches around one configuration of the products.
    fn candidate(&self, whole: &Problem, mut product: Candidate, target: &Target) -> Candidate {
        let size = self.conv.input.dtype.size() as u64;
        let [transformed, weights, products] = self.sizes();
        let at_products = (transformed * size).next_multiple_of(256);
        let at_partials = (at_products + products * 4).next_multiple_of(256);
        for argument in product.launches.iter_mut().flat_map(|launch| &mut launch.arguments) {
            *argument = match *argument {
                Argument::Input(0) => Argument::Workspace(0),
                Argument::Output(_) => Argument::Workspace(at_products),
                Argument::Workspace(from) => Argument::Workspace(at_partials + from),
                other => other,
            };
        }
        let mut launches = vec![self.input_transform(whole)];
        launches.append(&mut product.launches);
        launches.push(self.output_transform(whole, at_products));

        let conv = self.conv;
        let bytes = |elements: u64, dtype: DType| elements * dtype.size() as u64;
        let read = bytes(conv.input.elements(), conv.input.dtype) + transformed * size;
        let written = bytes(conv.output.elements(), conv.output.dtype) * (1 + whole.extras.len() as u64);
        // The cost of a product counts the weights of one batch only.
        let weights = 1.3 + (weights * size) as f64 / (target.bandwidth * 700.0);
        let cost =
            transform_cost(target, read) + product.cost.max(weights) + transform_cost(target, written + products * 4);
        let mut packing = vec![Packing::Keep; 2 + usize::from(whole.bias) + whole.extras.len()];
        packing[1] = Packing::Transform(Arc::new(Weights {
            tile: self.tile(),
            channels: self.channels,
            dtype: conv.input.dtype,
        }));
        let relaxed = self.tile() == 4 && size == 2;
        Candidate {
            workspace: at_partials + product.workspace,
            counters: product.counters,
            packing,
            relaxed_tolerance: relaxed.then_some(RELAXED_TOLERANCE),
            ..Candidate::new(
                if relaxed { RELAXED } else { ALGORITHM },
                format!("F({0}x{0}) {1} {2}", self.tile(), product.algorithm, product.configuration),
                launches,
                cost,
            )
        }
    }

    fn constants(&self, constants: Constants) -> Constants {
        constants
            .int("TILE", self.tile())
            .int("SIZE", self.transforms.size as i64)
            .int("TILES", self.count() as i64)
            .int("TILES_H", self.tiles[1])
            .int("TILES_W", self.tiles[2])
    }

    fn input_transform(&self, whole: &Problem) -> Launch {
        let input = &self.conv.input;
        // Registers hold the whole tile: fewer channels of larger tiles.
        let width = if self.tile() == 2 { 4 } else { 2 };
        let first = input.strides[1] == 1;
        let vectors = first
            && input.padded_channels.max(input.shape[1]) >= self.channels
            && whole.a.rows_are_multiples(whole, width.into())
            && input.strides[2..].iter().all(|stride| stride % width == 0);
        let width = if vectors { width as u32 } else { 1 };
        let constants = self
            .constants(Constants::default())
            .int("CHANNELS", input.shape[1])
            .int("CHANNELS_STORED", self.channels)
            .int("WIDTH", width)
            .int("HEIGHT", input.shape[2])
            .int("WIDTH_OF_INPUT", input.shape[3])
            .int("PAD_H", self.conv.pads[1])
            .int("PAD_W", self.conv.pads[2])
            .int("X_OFFSET", input.offset)
            .int("X_N", input.strides[0])
            .int("X_C", input.strides[1])
            .int("X_H", input.strides[2])
            .int("X_W", input.strides[3])
            .int("THREADS", THREADS)
            .flag("CHANNELS_FIRST", first);
        let source = format!(
            "{PRELUDE}typedef {} Element;\n{}{}{}",
            element_type(input.dtype),
            constants.source(),
            transform::product_function("transform_input", &self.transforms.input),
            include_str!("input.cu")
        );
        Launch::new(
            source,
            "winograd_input",
            blocks(self.count() * u64::from(self.channels / width)),
            THREADS,
            vec![Argument::Input(0), Argument::Workspace(0)],
        )
    }

    fn output_transform(&self, whole: &Problem, at_products: u64) -> Launch {
        let mut problem = whole.clone();
        problem.a.dtype = DType::F32;
        let constants = self
            .constants(Constants::default())
            .int("PITCH", self.pitch)
            .int("OUT_HEIGHT", self.conv.output.shape[2])
            .int("OUT_WIDTH", self.conv.output.shape[3])
            .flag("CHANNELS_FIRST", self.conv.output.strides[1] == 1);
        let element = transform::element_function("output_element", &self.transforms.output);
        let parts = vec![element.into(), include_str!("output.cu").into()];
        let blocks = blocks(self.count() * u64::from(self.pitch / 8 * self.tile()));
        let geometry = Geometry::new("winograd_output", "winograd_output_tile", parts, blocks, THREADS);
        let mut launch = launch(&problem, &problem.b[0], constants, geometry);
        for argument in &mut launch.arguments {
            if *argument == Argument::Input(0) {
                *argument = Argument::Workspace(at_products);
            }
        }
        launch
    }
}
