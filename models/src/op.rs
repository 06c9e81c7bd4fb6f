//! The operators of the graph: ONNX operators with attributes resolved to static values and synonyms merged.
//!
//! Inputs that ONNX passes as tensors but that shape the computation (axes, pads, shapes, scales…) are attributes here;
//! the importer refuses models where they are not constant.

mod detect;
mod frame;
mod properties;

pub use crate::custom::Custom;
pub use detect::Detect;
// What reference kernels compute has its words where they do.
pub use floe_kernels::{
    detect::{Head, ScoreActivation},
    frame::{Channels, ColourMatrix, Mosaic, PixelFormat, Region, Resampling, VideoLayout},
    grid_sample::{Outside, SampleCoordinates, Sampling},
    pad::PadMode,
    pointwise::{Binary, Unary},
    pool::Pooling,
    recurrent::{Activation, ActivationKind, Cell},
    reduce::Reduction,
    resize::{Coordinates, Interpolation, Rounding},
    roi_align::RegionPooling,
    scatter::ScatterReduction,
};
pub use frame::Frame;
pub use properties::{Elements, ImageLayout, Inputs, Properties, Size};

use std::sync::Arc;

/// Window of a convolution or pooling; vectors have one entry for each spatial dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Steps.
    pub strides: Vec<usize>,
    /// Distances between taps.
    pub dilations: Vec<usize>,
    /// Padding before (auto_pad resolved).
    pub pads_begin: Vec<usize>,
    /// Padding after.
    pub pads_end: Vec<usize>,
}

/// Element-wise functions of one operand that are more than one instruction of a pointwise program.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Composite {
    Softsign,
    LeakyRelu {
        alpha: f32,
    },
    Elu {
        alpha: f32,
    },
    Selu {
        alpha: f32,
        gamma: f32,
    },
    Celu {
        alpha: f32,
    },
    ThresholdedRelu {
        alpha: f32,
    },
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    HardSwish,
    Mish,
    /// The error-function form, or the tanh approximation.
    Gelu {
        tanh: bool,
    },
    /// x·sigmoid(alpha·x)
    Swish {
        alpha: f32,
    },
    /// Bounds in f64 (exact for every type up to 2⁵³); absent ones are infinite.
    Clip {
        min: Option<f64>,
        max: Option<f64>,
    },
    Shrink {
        bias: f32,
        lambda: f32,
    },
}

/// A recurrent layer: what its inputs are and how a step is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Recurrence {
    /// What a cell computes.
    pub cell: Cell,
    /// For each direction whether it runs from the last step to the first.
    pub reverse: Vec<bool>,
    /// For each direction the activations f, g, h, as many as the cell has.
    pub activations: Vec<Vec<Activation>>,
    /// Bound on the magnitude of what goes into activations; infinite for none.
    pub clip: f32,
    /// Whether there is a bias input.
    pub bias: bool,
    /// Whether there is a bias input for the recurrent part of the candidate (GRU with `linear_before_reset`).
    pub candidate_bias: bool,
    /// Whether there is an input of lengths.
    pub lengths: bool,
    /// Whether there is an input of initial states.
    pub initial_hidden: bool,
    /// Whether there is an input of initial cell states (LSTM).
    pub initial_cell: bool,
    /// Whether there are peephole weights (LSTM).
    pub peepholes: bool,
}

/// An operator.
///
/// Shapes: `n` batch, `c` input channels, `m` output channels, `…` one to three spatial dimensions. Where a comment says
/// that extents are in the fact, [`crate::infer()`] takes them from there and checks them.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Inputs x `[n, c, …]`, weights `[m, c / groups, …]`, `[bias]` `[m]`.
    Conv {
        /// Strides, dilations and padding.
        window: Window,
        /// Number of groups.
        groups: usize,
    },
    /// Inputs x `[n, c, …]`, weights `[c, m / groups, …]`, `[bias]` `[m]`. Output extents are in the fact; they settle
    /// how much is cut from the end, so `pads_end` and ONNX's output padding say nothing more.
    ConvTranspose {
        /// Strides, dilations and what is cut off.
        window: Window,
        /// Number of groups.
        groups: usize,
    },
    /// Inputs x `[n, c, …]`, scale, bias, mean, variance, each `[c]`.
    BatchNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// Inputs x `[n, c, …]`, scale, bias, each `[c]`.
    InstanceNormalization {
        /// Added to the variance.
        epsilon: f32,
    },
    /// Inputs x, scale, `[bias]`, the latter with as many elements as the dimensions `axis..` have together.
    LayerNormalization {
        /// First of the normalised dimensions.
        axis: usize,
        /// Added to the variance.
        epsilon: f32,
        /// Whether the mean is subtracted; false is RMS normalisation.
        center: bool,
    },
    /// Inputs x `[n, c, …]`, scale, bias, each `[c]`.
    GroupNormalization {
        /// Number of groups of channels.
        groups: usize,
        /// Added to the variance.
        epsilon: f32,
    },
    /// Local response normalisation over channels: x / (bias + alpha / size · Σx²)^beta. Input x `[n, c, …]`.
    Lrn {
        /// Number of channels that are summed over.
        size: usize,
        /// Factor.
        alpha: f32,
        /// Exponent.
        beta: f32,
        /// Bias.
        bias: f32,
    },
    /// Element-wise, one input.
    Unary(Unary),
    /// Element-wise, one input, as several instructions.
    Composite(Composite),
    /// Element-wise, two inputs of one type, broadcasting. Variadic Sum, Min, Max and Mean are chains of these.
    Binary(Binary),
    /// x where x ≥ 0, else x·slope; inputs x and slope, which is broadcast to x.
    PRelu,
    /// Inputs condition (bool), a, b; broadcasting.
    Where,
    /// To the output's element type, which is in the fact.
    Cast,
    /// Input x `[n, c, …]`. Output extents are in the fact: with ONNX's ceil_mode a last window may reach beyond
    /// `pads_end`, and what lies there never counts.
    Pool {
        /// What is computed.
        kind: Pooling,
        /// Extents of the kernel.
        kernel: Vec<usize>,
        /// Strides, dilations and padding.
        window: Window,
    },
    /// Mean or maximum over all spatial dimensions, kept as 1. Input x `[n, c, …]`.
    GlobalPool {
        /// What is computed.
        kind: Pooling,
    },
    /// Inputs to join.
    Concat {
        /// Dimension.
        axis: usize,
    },
    /// Outputs are the pieces; their extents are in the facts.
    Split {
        /// Dimension.
        axis: usize,
    },
    /// Element i of the output is element `starts + i·steps` of the input; extents are in the output's fact.
    Slice {
        /// First index along each dimension.
        starts: Vec<usize>,
        /// Step along each dimension, negative ones go backwards.
        steps: Vec<i64>,
    },
    /// One entry for each dimension, negative crops.
    Pad {
        /// Elements before.
        before: Vec<i64>,
        /// Elements after.
        after: Vec<i64>,
        /// What stands there.
        mode: PadMode,
    },
    /// Same elements, new extents (Reshape, Flatten, Squeeze, Unsqueeze); the new shape is in the output's fact.
    Reshape,
    /// Reorders dimensions.
    Transpose {
        /// Dimension d of the output is dimension `permutation[d]` of the input.
        permutation: Vec<usize>,
    },
    /// Broadcast to the output's shape, which is in the fact.
    Expand,
    /// Repeats.
    Tile {
        /// How often along each dimension.
        repeats: Vec<usize>,
    },
    /// Inputs data, indices (I32 or I64).
    Gather {
        /// Dimension of the data that is indexed.
        axis: usize,
    },
    /// Inputs a, b; ranks ≥ 1 with NumPy's rules for vectors.
    MatMul,
    /// alpha·op(a)·op(b) + beta·c; inputs a, b, `[c]`, the latter broadcast to the product.
    Gemm {
        /// Factor of the product.
        alpha: f32,
        /// Factor of c.
        beta: f32,
        /// Whether a is transposed.
        transpose_a: bool,
        /// Whether b is transposed.
        transpose_b: bool,
    },
    /// Along `axis`.
    Softmax {
        /// Dimension.
        axis: usize,
        /// Whether the logarithm is taken.
        log: bool,
    },
    /// softmax(scale·Q·Kᵀ + mask)·V. Inputs query `[n, heads, queries, size]`, key `[n, shared, keys, size]`, value
    /// `[n, shared, keys, value size]`, `[mask]`, broadcast to `[n, heads, queries, keys]`: floats are added, Bool hides
    /// keys where it is false. The number of heads is a multiple of `shared`. All may lack the dimension n.
    Attention {
        /// Factor of the products.
        scale: f32,
        /// Bound of the scores before the mask, `softcap·tanh(score / softcap)`; 0 for none.
        softcap: f32,
        /// Query i sees keys 0..=i + causal only. `None` where it sees all.
        causal: Option<i32>,
    },
    /// Over `axes`; none means element-wise (|x| for L1, say), never all.
    Reduce {
        /// What is computed.
        kind: Reduction,
        /// Dimensions.
        axes: Vec<usize>,
        /// Whether they stay, with extent 1.
        keep: bool,
    },
    /// Output extents are in the fact.
    Resize {
        /// Output over input extent along each dimension, as coordinates are computed with.
        scales: Vec<f32>,
        /// How values between samples are found.
        interpolation: Interpolation,
        /// How coordinates are found.
        coordinates: Coordinates,
    },
    /// Depth to space, rank 4.
    DepthToSpace {
        /// Block extent.
        block: usize,
        /// CRD mode; false is ONNX's DCR mode.
        column_row_depth: bool,
    },
    /// Space to depth, rank 4; the inverse of the DCR mode.
    SpaceToDepth {
        /// Block extent.
        block: usize,
    },
    /// The input itself.
    Identity,
    /// The same bits as the output's element type, which is in the fact and has the input's size.
    BitCast,
    /// Inputs data `[rows, width]`, indices `[count]` (I64), updates `[count, width]`: row `indices[i]` of a copy of the
    /// data takes update i, in the order of i.
    Scatter {
        /// What an update does to the row.
        reduction: ScatterReduction,
    },
    /// Running sums or products along an axis.
    Cumulative {
        /// Dimension.
        axis: usize,
        /// Products instead of sums.
        product: bool,
        /// Whether an element leaves itself out.
        exclusive: bool,
        /// From the end.
        reverse: bool,
    },
    /// The k largest or smallest along an axis, the best first, of equals the one with the smallest index. Outputs values
    /// and indices (I64).
    TopK {
        /// Dimension.
        axis: usize,
        /// Number.
        k: usize,
        /// Largest; false is smallest.
        largest: bool,
    },
    /// As `Conv` without bias, on integers; sums in I32, wrapping.
    ConvInteger {
        /// Strides, dilations and padding.
        window: Window,
        /// Number of groups.
        groups: usize,
    },
    /// As `ConvInteger` on 8-bit operands, whose types may differ, with an optional third one: a bias (I32), one value for
    /// each output channel. Of floats (E4M3, E5M2) the sums are F32, and there is no bias.
    QuantizedConv {
        /// Strides, dilations and padding.
        window: Window,
        /// Number of groups.
        groups: usize,
        /// What stands outside of x, a value of its type.
        padding_value: i16,
    },
    /// Inputs a `[…, m, k]`, b `[k, n]` (8 bits each, whose types may differ), optional bias `[n]` (I32); sums in I32,
    /// wrapping. Of floats (E4M3, E5M2) the sums are F32, there is no bias, and b may be `[…, k, n]` too.
    QuantizedMatMul,
    /// Inputs x `[n, c, …]`, grid `[n, …, spatial rank]` with the innermost dimension's coordinate first; output
    /// `[n, c, …]` with the grid's extents.
    GridSample {
        /// How a value between pixels is found.
        sampling: Sampling,
        /// What stands outside.
        outside: Outside,
        /// What the coordinates mean.
        coordinates: SampleCoordinates,
    },
    /// Inputs x `[n, c, h, w]`, regions `[r, 4]` (x₁, y₁, x₂, y₂), batch indices `[r]` (I64); output
    /// `[r, c, extents…]`.
    RoiAlign {
        /// How samples become one value.
        kind: RegionPooling,
        /// Height and width of the output.
        extents: [usize; 2],
        /// Samples along each side of a bin; 0 takes as many as the bin has pixels, rounded up.
        samples: usize,
        /// Pixels for each unit of the regions.
        scale: f32,
        /// Whether pixel centres are at ½; otherwise regions are at least one pixel large too.
        half_pixel: bool,
    },
    /// Where the maxima of a pooling lie: numbers of elements of x (I64), row-major or with the spatial dimensions in
    /// reverse. As `Pool` otherwise.
    PoolIndices {
        /// Extents of the kernel.
        kernel: Vec<usize>,
        /// Strides, dilations and padding.
        window: Window,
        /// Whether the first spatial dimension is the innermost in the numbers.
        column_major: bool,
    },
    /// A recurrent layer over T steps of B sequences in D directions with H units of G gates.
    ///
    /// Inputs x `[T, B, I]`, weights `[D, G·H, I]`, recurrent weights `[D, G·H, H]`, then those of bias `[D·G·H]`, candidate bias
    /// `[D, H]`, lengths `[B]` (I32), initial states `[D, B, H]`, initial cell states `[D, B, H]`, peepholes `[D, 3·H]` that
    /// are present. Outputs: states after every step `[T, D, B, H]`, after the last `[D, B, H]`, and for LSTM the cell
    /// states after the last.
    Recurrent(Box<Recurrence>),
    /// Boxes of the best scores, but none that overlaps a better one of its class too much. Inputs boxes `[b, n, 4]`, scores
    /// `[b, c, n]`, thresholds `[1]` or `[2]` (F32): the intersection over union above which a box is suppressed, and what a
    /// score must exceed. Outputs image, class and index of the boxes `[b·c·limit, 3]` (I64), −1 in the rows that are not
    /// used, and the number of the used ones (I64, scalar). A score that is NaN is never selected.
    NonMaxSuppression {
        /// Most boxes of a class of an image, at most n.
        limit: usize,
        /// Whether boxes are x, y, width and height, x and y those of the centre; otherwise two corners, y before x.
        center: bool,
    },
    /// A camera's frame as a tensor. Input bytes (U8) `[n, rows, bytes of a row]`; output `[n, channels, height, width]`,
    /// whose element type (F32, F16, BF16 or U8), height and width are in the fact. U8 is rounded.
    Frame(Box<Frame>),
    /// Objects, each once, the best score first. Inputs are those of boxes and of scores, in whatever shape their numbers,
    /// candidate after candidate in row-major order, have (`[1, numbers, candidates]` where they are columns); then places
    /// (F32) `[candidates, 6]`, or `[1, 6]` for all: factor and summand of x, factor of the width, factor and summand of y,
    /// factor of the height. Outputs detections (F32) `[most, 6 + 2·points]`: left, top, right, bottom, score, class, then x
    /// and y of each point, zeros in the rows that are not used; and the number of the used ones (I32) `[1]`.
    Detect(Box<Detect>),
    /// Indices of the elements that are not zero, in row-major order. One input of rank 1 or more; outputs the indices
    /// `[rank, elements]` (I64), −1 in the columns that are not used, and the number of the used ones (I64, scalar).
    NonZero,
    /// The different rows of a matrix `[n, width]`. Outputs, all I64: the first row that is equal to each different one
    /// `[n]`, which different one each row is `[n]`, how often each different one occurs `[n]`, and their number, scalar; −1
    /// in what is not used.
    Unique {
        /// Whether they are in the order of their elements; otherwise in that of their first places.
        sorted: bool,
    },
    /// Determinants `[b]` of matrices `[b, n, n]`.
    Determinant,
    /// A product with weights that are packed into 4 or 8 bits, for a few rows: `y[i, j] = Σₖ x[i, k] · (w[j, k] − zero) ·
    /// scale`. Inputs x `[rows, k]`, w (U8) `[n, blocks, bytes of a block]`, the first weight in the lowest bits, scales (F32
    /// or F16) `[n, blocks]`, and optional zero points: as the scales, or (U8) packed as w, `[n, bytes of a row]`. Without
    /// them half the range of the integers.
    PackedMatMul {
        /// Bits of a weight.
        bits: u32,
    },
    /// An operator that is described outside of Floe. Inputs and outputs as its description says; it works on row-major ones.
    Custom(Arc<Custom>),
}

impl From<Unary> for Op {
    fn from(op: Unary) -> Self {
        Self::Unary(op)
    }
}

impl From<Composite> for Op {
    fn from(op: Composite) -> Self {
        Self::Composite(op)
    }
}

impl Op {
    /// Whether a pointwise program computes it: each element of the output from those of the inputs in its place.
    pub const fn is_element_wise(&self) -> bool {
        matches!(self, Self::Unary(_) | Self::Composite(_) | Self::Binary(_) | Self::PRelu | Self::Where | Self::Cast)
    }

    /// Short name for messages and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Conv { .. } => "Conv",
            Self::ConvTranspose { .. } => "ConvTranspose",
            Self::BatchNormalization { .. } => "BatchNormalization",
            Self::InstanceNormalization { .. } => "InstanceNormalization",
            Self::LayerNormalization { .. } => "LayerNormalization",
            Self::GroupNormalization { .. } => "GroupNormalization",
            Self::Lrn { .. } => "LRN",
            Self::Unary(_) | Self::Composite(_) => "Unary",
            Self::Binary(_) => "Binary",
            Self::PRelu => "PRelu",
            Self::Where => "Where",
            Self::Cast => "Cast",
            Self::Pool { .. } => "Pool",
            Self::GlobalPool { .. } => "GlobalPool",
            Self::Concat { .. } => "Concat",
            Self::Split { .. } => "Split",
            Self::Slice { .. } => "Slice",
            Self::Pad { .. } => "Pad",
            Self::Reshape => "Reshape",
            Self::Transpose { .. } => "Transpose",
            Self::Expand => "Expand",
            Self::Tile { .. } => "Tile",
            Self::Gather { .. } => "Gather",
            Self::MatMul => "MatMul",
            Self::Gemm { .. } => "Gemm",
            Self::Softmax { .. } => "Softmax",
            Self::Attention { .. } => "Attention",
            Self::Reduce { .. } => "Reduce",
            Self::Resize { .. } => "Resize",
            Self::DepthToSpace { .. } => "DepthToSpace",
            Self::SpaceToDepth { .. } => "SpaceToDepth",
            Self::Identity => "Identity",
            Self::BitCast => "BitCast",
            Self::Scatter { .. } => "Scatter",
            Self::Cumulative { .. } => "Cumulative",
            Self::TopK { .. } => "TopK",
            Self::ConvInteger { .. } => "ConvInteger",
            Self::QuantizedConv { .. } => "QuantizedConv",
            Self::QuantizedMatMul => "QuantizedMatMul",
            Self::GridSample { .. } => "GridSample",
            Self::RoiAlign { .. } => "RoiAlign",
            Self::PoolIndices { .. } => "PoolIndices",
            Self::Recurrent(layer) => match layer.cell {
                Cell::Rnn => "RNN",
                Cell::Lstm { .. } => "LSTM",
                Cell::Gru { .. } => "GRU",
            },
            Self::NonMaxSuppression { .. } => "NonMaxSuppression",
            Self::Frame(_) => "Frame",
            Self::Detect(_) => "Detect",
            Self::NonZero => "NonZero",
            Self::Unique { .. } => "Unique",
            Self::Determinant => "Det",
            Self::PackedMatMul { .. } => "MatMulNBits",
            Self::Custom(custom) => custom.description.name,
        }
    }
}

/// Evaluates operators on constants, so that the importer can fold shape arithmetic. The compiler provides one that
/// runs the reference kernels, so that folding and running cannot disagree.
pub trait Evaluate {
    /// The outputs of `op` on constant inputs, with the facts that shape inference gave. `None` where it cannot.
    fn evaluate(&self, op: &Op, inputs: &[&crate::Tensor], outputs: &[crate::Fact]) -> Option<Vec<crate::Tensor>>;
}
