//! What a first layer takes: cycles of its parts, fitted to 459 measured candidates of 13 layers on 8, 16 and 132 multiprocessors of an H200 (3×3 to
//! 7×7, of one and three channels into 16 to 64, of floats, of bytes, and quantised on load). Products by tensor cores add nothing beside
//! the others.

use super::{Quantisation, TILE_WIDTH, Walk, halo, steps};
use crate::codegen::elementwise::transfer_time;
use crate::codegen::{Rate, Target};
use crate::conv::Geometry;
use crate::gemm::Problem;

/// Microseconds of the launch, until blocks run.
const LAUNCH: f64 = 1.2;
/// A warp's copy of 32 vectors of weights.
const WEIGHTS: f64 = 30.0;
/// A warp's loads of 32 vectors of a channel's pixels, with their way into shared memory; of an element that is quantised.
const PIXELS: f64 = 16.0;
const QUANTISATION: f64 = 7.2;
/// Of 64 bytes of the input.
const BYTES: f64 = 1.34;
/// Of what products read of shared memory, as its width goes.
const READS: f64 = 0.53;
/// A warp's 32 vectors of eight results; beside it, their requantisation, or an operation on them.
const RESULTS: f64 = 43.0;
const OPERATION: f64 = 44.0;
/// A tile's barrier, its steps along K, and the products of a step, one after the other: what no other block of a multiprocessor hides.
const TILE: f64 = 232.0;
const STEP: f64 = 52.0;
const PRODUCT: f64 = 13.0;

impl Walk {
    /// Expected microseconds. `size` is that of an element of the input, in bytes.
    pub(super) fn cost(
        &self,
        conv: &Geometry,
        whole: &Problem,
        size: u32,
        quantisation: Option<&Quantisation>,
        target: &Target,
    ) -> f64 {
        let warps = f64::from(self.threads() / 32);
        let of_warps = |items: u64| items.div_ceil(u64::from(self.threads())) as f64 * warps / 4.0;
        let integers = whole.integers.is_some();
        let steps = steps(&conv.weights);
        let places = steps * if integers { 8 } else { 4 };
        let fragments = [self.rows / self.warps[0], self.columns / 16 / self.warps[1]].map(f64::from);

        let [height, width] = halo(&conv.weights, conv.strides, conv.dilations, self.rows);
        let elements = height * width * u64::from(conv.weights.shape[1]);
        let quantised = quantisation.map_or(0.0, |_| f64::from(self.loaded) * QUANTISATION);
        let pixels = of_warps((height * width).div_ceil(u64::from(self.loaded)))
            * f64::from(conv.weights.shape[1])
            * (PIXELS + quantised)
            + (elements * u64::from(size)) as f64 / 64.0 * BYTES;
        let outputs = u64::from(self.rows * TILE_WIDTH * self.columns);
        let products = if target.has_async_copy() {
            warps * f64::from(steps) * (fragments[0] + fragments[1]) * 4.0 * READS
        } else {
            outputs as f64 * f64::from(places * 4) / target.multiply_adds_per_cycle(Rate::F32)
        };
        let operations = if integers { 1 } else { whole.operations() };
        let results = of_warps(outputs / 8) * (RESULTS + OPERATION * operations as f64);

        let of_multiprocessor = |items: u64| items.div_ceil(u64::from(target.multiprocessors)) as f64;
        let weights = of_multiprocessor(self.blocks().into()).min(f64::from(self.resident))
            * of_warps(u64::from(self.columns * places))
            * WEIGHTS;
        let alone = TILE + f64::from(steps) * (STEP + 2.0 * fragments[0] * fragments[1] * PRODUCT);
        let cycles = weights
            + of_multiprocessor(u64::from(self.all) * u64::from(self.n_tiles)) * (pixels + products + results)
            + f64::from(self.all) / f64::from(self.walkers) * alone;
        let read = quantisation.map_or(0.0, |quantisation| transfer_time(target, quantisation.bytes));
        LAUNCH + (cycles / target.clock).max(read)
    }
}
