//! Convolution with long filters by fast Fourier transforms: overlap-save, in f32.
//!
//! The image is cut into blocks of as many points as a transform has; each yields `length − taps + 1` outputs along a
//! dimension. Two blocks share a complex transform, one as the real part, one as the imaginary part, since filters are
//! real. Transforms leave their points in digit-reversed order, which a product of spectra does not mind and the inverse
//! transform expects. Filters are transformed by the compiler ([`Spectrum`]).
//!
//! Depthwise convolutions are one kernel. Others are two: spectra of all blocks, then for a few output channels and
//! pairs of blocks the sum over input channels in order, the inverse transform and the epilogue.
//!
//! See Oppenheim and Schafer, "Discrete-Time Signal Processing", on overlap-save and on decimation in frequency.

mod weights;

#[cfg(test)]
mod tests;

pub use weights::Spectrum;

use crate::DType;
use crate::codegen::packing::Packing;
use crate::codegen::{Argument, Candidate, Launch, PRELUDE, Target, element_type};
use crate::conv;
use crate::gemm::{Constants, Geometry, Operand, Problem, launch, spatial};
use std::sync::Arc;

/// The algorithm's name.
const ALGORITHM: &str = "fft";
/// Fewest taps: below, a direct sum needs no more operations.
const LEAST_TAPS: u32 = 64;
/// Fewest and most points of a transform.
const POINTS: (u32, u32) = (256, 8192);
/// Threads of a block.
const THREADS: u32 = 256;
/// Most bytes of transformed filters.
const MOST_BYTES: u64 = 256 << 20;
/// Candidates returned.
const MOST_CANDIDATES: usize = 6;
/// Output channels and pairs of blocks that a thread block sums together.
const SUMS: [(u32, u32); 6] = [(1, 1), (2, 1), (2, 2), (4, 2), (4, 4), (8, 2)];
/// Sequences that a thread block transforms together where no sums are shared.
const SEQUENCES: [u32; 4] = [1, 2, 4, 8];

/// A convolution cut into blocks.
struct Blocks<'a> {
    conv: &'a conv::Geometry,
    whole: &'a Problem,
    spectrum: Spectrum,
    taps: [u32; 2],
    /// Blocks in the batch, along height and along width.
    blocks: [u32; 3],
}

/// Candidates, cheapest first; none where the filter is short, strided or dilated.
pub(super) fn candidates(conv: &conv::Geometry, whole: &Problem, target: &Target) -> Vec<Candidate> {
    let (taps, _) = spatial(&conv.weights);
    let float = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
    let plain = taps[0] == 1
        && whole.rows[1] == 1
        && conv.pads[0] == 0
        && matches!(conv.weights.rank(), 3 | 4)
        && taps[1] * taps[2] >= LEAST_TAPS
        && conv.strides == [1; 3]
        && conv.dilations == [1; 3]
        && [&conv.input, &conv.weights, &conv.output].iter().all(|view| float(view.dtype));
    let mut all = Vec::new();
    for height in lengths(taps[1], whole.rows[2]) {
        for width in lengths(taps[2], whole.rows[3]) {
            if plain && (POINTS.0..=POINTS.1).contains(&(height * width)) {
                let blocks = Blocks::new(conv, whole, [taps[1], taps[2]], [height, width]);
                all.extend(blocks.candidates(target));
            }
        }
    }
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all.truncate(MOST_CANDIDATES);
    all
}

/// Lengths of transforms worth trying along a dimension: from the first that holds the taps to one that needs no second
/// block.
fn lengths(taps: u32, outputs: u32) -> Vec<u32> {
    if taps == 1 {
        return vec![1];
    }
    let all = (4..=13).map(|power| 1 << power).filter(|&length| length >= taps + taps / 4);
    let enough = outputs.saturating_add(taps - 1).checked_next_power_of_two().unwrap_or(u32::MAX);
    all.filter(|&length| length <= enough.max(16)).collect()
}

impl<'a> Blocks<'a> {
    fn new(conv: &'a conv::Geometry, whole: &'a Problem, taps: [u32; 2], lengths: [u32; 2]) -> Self {
        let count = |d: usize| whole.rows[d + 2].div_ceil(lengths[d] - taps[d] + 1);
        let blocks = [whole.rows[0], count(0), count(1)];
        Self { conv, whole, spectrum: Spectrum { lengths }, taps, blocks }
    }

    fn count(&self) -> u32 {
        self.blocks.iter().product()
    }

    fn pairs(&self) -> u32 {
        self.count().div_ceil(2)
    }

    fn channels(&self) -> u32 {
        self.conv.input.shape[1]
    }

    fn channels_of_group(&self) -> u32 {
        self.channels() / self.conv.groups
    }

    /// Complex numbers of the input's spectra and of the filters.
    fn sizes(&self) -> [u64; 2] {
        let points = u64::from(self.spectrum.points());
        let filters = u64::from(self.conv.weights.shape[0]) * u64::from(self.conv.weights.shape[1]);
        [u64::from(self.pairs()) * u64::from(self.channels()) * points, filters * points]
    }

    fn candidates(&self, target: &Target) -> Vec<Candidate> {
        let [spectra, filters] = self.sizes();
        if spectra >= 1 << 30 || filters * 8 > MOST_BYTES || self.conv.weights.shape[1] != self.channels_of_group() {
            return Vec::new();
        }
        let fits = |sequences: u32| self.shared(sequences) <= target.shared_per_block;
        if self.channels_of_group() == 1 {
            let sequences = SEQUENCES.into_iter().filter(|&n| fits(n) && (n == 1 || n <= self.whole.stored_columns));
            return sequences.map(|sequences| self.depthwise(sequences, target)).collect();
        }
        let sums = SUMS.into_iter().filter(|&(columns, pairs)| {
            let group = self.whole.columns_of_group;
            let of_thread = self.spectrum.points() / THREADS * columns * pairs;
            let whole_groups = self.conv.groups == 1 || group.is_multiple_of(columns);
            fits(columns * pairs) && of_thread <= 32 && whole_groups && columns <= group && pairs <= self.pairs()
        });
        sums.map(|(columns, pairs)| self.summed(columns, pairs, target)).collect()
    }

    /// Bytes of shared memory for twiddle factors and padded sequences.
    fn shared(&self, sequences: u32) -> u32 {
        let padded = sequences * self.spectrum.points() / 16 * 17;
        (self.spectrum.factors() + padded) * 8
    }

    fn constants(&self, sequences: u32) -> Constants {
        let (extents, _) = spatial(&self.conv.input);
        let (_, strides) = spatial(&self.conv.input);
        let [height, width] = self.spectrum.lengths;
        Constants::default()
            .int("SEQUENCES", sequences)
            .int("LENGTH_H", height)
            .int("LENGTH_W", width)
            .int("TAPS_H", self.taps[0])
            .int("TAPS_W", self.taps[1])
            .int("BLOCKS", self.count())
            .int("BLOCKS_H", self.blocks[1])
            .int("BLOCKS_W", self.blocks[2])
            .int("PAIRS", self.pairs())
            .int("CHANNELS", self.channels())
            .int("CHANNELS_OF_GROUP", self.channels_of_group())
            .int("MULTIPLIER", if self.channels_of_group() == 1 { self.whole.columns_of_group } else { 1 })
            .int("HEIGHT", extents[1])
            .int("WIDTH", extents[2])
            .int("PAD_H", self.conv.pads[1])
            .int("PAD_W", self.conv.pads[2])
            .int("X_OFFSET", self.conv.input.offset)
            .int("X_N", self.conv.input.strides[0])
            .int("X_C", self.conv.input.strides[1])
            .int("X_H", strides[1])
            .int("X_W", strides[2])
            .int("OUT_HEIGHT", self.whole.rows[2])
            .int("OUT_WIDTH", self.whole.rows[3])
    }

    /// A kernel that ends with the epilogue; `input` is the element type of its first operand.
    fn finishing(
        &self,
        input: DType,
        constants: Constants,
        tile: &'static str,
        part: &'static str,
        blocks: u32,
        sequences: u32,
    ) -> Launch {
        let mut problem = self.whole.clone();
        problem.a.dtype = input;
        let filters = Operand { dtype: DType::F32, packing: Packing::Keep, ..problem.b[0].clone() };
        let parts = [include_str!("fft.cu"), include_str!("store.cu"), part];
        let plain = Geometry::new(ALGORITHM, tile, parts.map(Into::into).into(), blocks, THREADS);
        launch(&problem, &filters, constants, Geometry { shared: self.shared(sequences), ..plain })
    }

    /// One kernel for a filter an output channel.
    fn depthwise(&self, sequences: u32, target: &Target) -> Candidate {
        let constants = self.constants(sequences).int("PAIRS_OF_BLOCK", 1).int("COLUMNS_OF_BLOCK", sequences);
        let blocks = self.pairs() * self.whole.stored_columns.div_ceil(sequences);
        let part = include_str!("depthwise.cu");
        let launch = self.finishing(self.conv.input.dtype, constants, "fft_depthwise_block", part, blocks, sequences);
        let [_, filters] = self.sizes();
        let cost = self.time(target, blocks, sequences, 2, 0.0, filters);
        self.candidate(format!("{sequences} channels"), vec![launch], 0, cost)
    }

    /// Spectra of the input, then sums and inverse transforms.
    fn summed(&self, columns: u32, pairs: u32, target: &Target) -> Candidate {
        let [spectra, filters] = self.sizes();
        let wanted = SEQUENCES.into_iter().rev().find(|&n| {
            let blocks = self.pairs() * self.channels().div_ceil(n);
            n * self.spectrum.points() <= 4096 && blocks >= target.multiprocessors
        });
        let of_forward = wanted.unwrap_or(1);
        let forward_blocks = self.pairs() * self.channels().div_ceil(of_forward);
        let forward = Launch {
            shared: self.shared(of_forward),
            ..Launch::new(
                format!(
                    "{PRELUDE}typedef {} Element;\n{}{}{}",
                    element_type(self.conv.input.dtype),
                    self.constants(of_forward).int("THREADS", THREADS).source(),
                    include_str!("fft.cu"),
                    include_str!("forward.cu")
                ),
                "fft_forward",
                forward_blocks,
                THREADS,
                vec![Argument::Input(0), Argument::Input(1), Argument::Workspace(0)],
            )
        };
        let sequences = columns * pairs;
        let constants = self
            .constants(sequences)
            .int("PAIRS_OF_BLOCK", pairs)
            .int("COLUMNS_OF_BLOCK", columns)
            .int("COLUMNS_OF_GROUP", self.whole.columns_of_group);
        let blocks = self.pairs().div_ceil(pairs) * self.whole.stored_columns.div_ceil(columns);
        let part = include_str!("inverse.cu");
        let mut inverse = self.finishing(DType::F32, constants, "fft_inverse_block", part, blocks, sequences);
        for argument in &mut inverse.arguments {
            if *argument == Argument::Input(0) {
                *argument = Argument::Workspace(0);
            }
        }
        // Per block and input channel: what comes from level 2 at 32 bytes a cycle, and four multiply-adds a point.
        let points = f64::from(self.spectrum.points());
        let copied = points * f64::from(columns + pairs) * 8.0 / 32.0;
        let arithmetic = points * f64::from(sequences) * 4.0 / 128.0;
        let sums = f64::from(self.channels_of_group()) * copied.max(arithmetic).max(600.0);
        let cost = self.time(target, forward_blocks, of_forward, 1, 0.0, spectra)
            + self.time(target, blocks, sequences, 1, sums, filters);
        self.candidate(format!("{columns} columns {pairs} pairs"), vec![forward, inverse], spectra * 8, cost)
    }

    /// Expected microseconds of a kernel whose blocks do `transforms` transforms of their sequences and `sums` cycles of
    /// other work, and that moves `numbers` complex numbers through device memory.
    fn time(&self, target: &Target, blocks: u32, sequences: u32, transforms: u32, sums: f64, numbers: u64) -> f64 {
        // Start, end, and the way of a point in and out: two dozen instructions at four a cycle.
        let elements = f64::from(sequences * self.spectrum.points());
        let ends = 1500.0 + elements * 2.0 * 24.0 / 128.0;
        // About sixty instructions a butterfly and a barrier after each pass, which take three times what the instructions
        // do: measured on an H200 (`TUNING.md`).
        let passes: u32 = self.spectrum.lengths.iter().map(|length| length.ilog2().div_ceil(2)).sum();
        let pass = 3.0 * ((elements / 4.0 * 60.0 / 128.0).max(150.0) + 60.0);
        let work = ends + f64::from(passes * transforms) * pass + sums;
        let of_one = f64::from(blocks.div_ceil(target.multiprocessors));
        // Blocks that share a multiprocessor hide each other's latencies, not each other's instructions.
        let resident = f64::from((target.shared_per_multiprocessor / (self.shared(sequences) + 1024)).clamp(1, 4));
        let hidden = 1.0 + 0.15 * (of_one.min(resident) - 1.0);
        let memory = numbers as f64 * 8.0 / (target.bandwidth * 700.0);
        1.3 + (of_one * work / hidden / target.clock).max(memory)
    }

    fn candidate(&self, what: String, launches: Vec<Launch>, workspace: u64, cost: f64) -> Candidate {
        let mut packing = vec![Packing::Keep; 2 + usize::from(self.whole.bias) + self.whole.extras.len()];
        packing[1] = Packing::Transform(Arc::new(self.spectrum));
        let [height, width] = self.spectrum.lengths;
        Candidate {
            workspace,
            packing,
            ..Candidate::new(ALGORITHM, format!("{height}x{width} points, {what}"), launches, cost)
        }
    }
}
