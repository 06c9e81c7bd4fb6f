//! The one enum over all families: what a step of a host plan carries, and what the compiler selects for.

use crate::{
    KernelError, attention::Attention, conv::Conv, conv_transpose::ConvTranspose, copy::Copy, cumulative::Cumulative,
    detect::Detect, determinant::Determinant, frame::Frame, gather::Gather, grid_sample::GridSample,
    integer_conv::IntegerConv, lrn::Lrn, matmul::MatMul, mbconv::MbConv, non_max_suppression::NonMaxSuppression,
    non_zero::NonZero, normalize::Normalize, normalized_matmul::NormalizedMatMul, packed_matmul::PackedMatMul,
    pad::Pad, pointwise::Pointwise, pool::Pool, pool_indices::PoolIndices, quantized_conv::QuantizedConv,
    recurrent::Recurrent, reduce::Reduce, resize::Resize, roi_align::RoiAlign, scaled_conv::ScaledConv,
    scatter::Scatter, softmax::Softmax, squeeze_excite::SqueezeExcite, top_k::TopK, unique::Unique,
};
use serde::{Deserialize, Serialize};

/// Most inputs of any kernel.
pub const MAX_INPUTS: usize = 10;
/// Most outputs of any kernel.
pub const MAX_OUTPUTS: usize = 4;

/// A kernel with all its parameters.
///
/// Variants are appended, never reordered: their numbers are part of the plan format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, clippy::large_enum_variant)]
pub enum Kernel {
    Conv(Conv),
    ConvTranspose(ConvTranspose),
    MatMul(MatMul),
    Pointwise(Pointwise),
    Pool(Pool),
    Copy(Copy),
    Gather(Gather),
    Pad(Pad),
    Reduce(Reduce),
    Softmax(Softmax),
    Normalize(Normalize),
    Lrn(Lrn),
    Resize(Resize),
    Recurrent(Recurrent),
    Attention(Attention),
    SqueezeExcite(SqueezeExcite),
    MbConv(MbConv),
    Scatter(Scatter),
    Cumulative(Cumulative),
    TopK(TopK),
    GridSample(GridSample),
    RoiAlign(RoiAlign),
    IntegerConv(IntegerConv),
    PoolIndices(PoolIndices),
    ScaledConv(ScaledConv),
    NormalizedMatMul(NormalizedMatMul),
    NonMaxSuppression(NonMaxSuppression),
    Frame(Frame),
    NonZero(NonZero),
    Unique(Unique),
    Determinant(Determinant),
    QuantizedConv(QuantizedConv),
    Detect(Detect),
    PackedMatMul(PackedMatMul),
}

/// Applies a method to whichever family the kernel belongs to.
macro_rules! each {
    ($kernel:expr, $k:ident => $body:expr) => {
        match $kernel {
            Kernel::Conv($k) => $body,
            Kernel::ConvTranspose($k) => $body,
            Kernel::MatMul($k) => $body,
            Kernel::Pointwise($k) => $body,
            Kernel::Pool($k) => $body,
            Kernel::Copy($k) => $body,
            Kernel::Gather($k) => $body,
            Kernel::Pad($k) => $body,
            Kernel::Reduce($k) => $body,
            Kernel::Softmax($k) => $body,
            Kernel::Normalize($k) => $body,
            Kernel::Lrn($k) => $body,
            Kernel::Resize($k) => $body,
            Kernel::Recurrent($k) => $body,
            Kernel::Attention($k) => $body,
            Kernel::SqueezeExcite($k) => $body,
            Kernel::MbConv($k) => $body,
            Kernel::Scatter($k) => $body,
            Kernel::Cumulative($k) => $body,
            Kernel::TopK($k) => $body,
            Kernel::GridSample($k) => $body,
            Kernel::RoiAlign($k) => $body,
            Kernel::IntegerConv($k) => $body,
            Kernel::PoolIndices($k) => $body,
            Kernel::ScaledConv($k) => $body,
            Kernel::NormalizedMatMul($k) => $body,
            Kernel::NonMaxSuppression($k) => $body,
            Kernel::Frame($k) => $body,
            Kernel::NonZero($k) => $body,
            Kernel::Unique($k) => $body,
            Kernel::Determinant($k) => $body,
            Kernel::QuantizedConv($k) => $body,
            Kernel::Detect($k) => $body,
            Kernel::PackedMatMul($k) => $body,
        }
    };
}

/// What every family offers. Implemented beside each family's parameters.
pub trait Family {
    /// Name of the family, for reports: `conv`, `pool`, …
    fn name(&self) -> &'static str;

    /// Total check of the parameters; after it, [`Family::run`] cannot fail on operands of the required length.
    ///
    /// # Errors
    /// What is wrong with the parameters.
    fn check(&self) -> Result<(), KernelError>;

    /// Views of the input operands, in operand order. `None` past the last.
    fn input(&self, index: usize) -> Option<&crate::View>;

    /// Views of the output operands, in operand order.
    fn output(&self, index: usize) -> Option<&crate::View>;

    /// Bytes that input `index` must have at least (for most families the view's; a bias has no view).
    ///
    /// # Errors
    /// Where the view is not valid.
    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.input(index).map(crate::View::bytes).transpose()
    }

    /// Bytes of scratch that the host twin needs, 64-byte aligned. Not what a GPU candidate needs.
    fn host_workspace(&self) -> u64 {
        0
    }

    /// Floating-point operations, a multiply-add counting two.
    fn flops(&self) -> u64;

    /// The part of [`Family::host_operations`] that is no movement of elements, where `flops` is no bound of it.
    fn host_arithmetic(&self) -> u64 {
        self.flops()
    }

    /// Upper bound, but for a constant factor, of the operations of the host twin: for whoever must bound its time. It
    /// moves all elements and clears all padding lanes, and loops over some extents may run where others are 0.
    fn host_operations(&self) -> u64 {
        let elements = |view: &crate::View| {
            let extents = view.shape.iter().enumerate();
            let extents = extents.map(|(d, &extent)| if d == 1 { extent.max(view.lanes) } else { extent });
            extents.fold(1, |n: u64, extent| n.saturating_mul(extent.max(1).into()))
        };
        let inputs = (0..MAX_INPUTS).map_while(|i| self.input(i));
        let views = inputs.chain((0..MAX_OUTPUTS).map_while(|i| self.output(i)));
        views.map(elements).fold(self.host_arithmetic(), u64::saturating_add)
    }

    /// Runs the host twin. Checks operand count, length and alignment first and never panics after [`Family::check`].
    ///
    /// # Errors
    /// Where operands do not fit the parameters.
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError>;
}

impl Kernel {
    /// The family that the kernel belongs to.
    pub fn family(&self) -> &dyn Family {
        each!(self, k => k)
    }

    /// Number of input operands.
    pub fn inputs(&self) -> usize {
        let family = self.family();
        (0..MAX_INPUTS).take_while(|&i| matches!(family.input_bytes(i), Ok(Some(_)) | Err(_))).count()
    }

    /// Number of output operands.
    pub fn outputs(&self) -> usize {
        let family = self.family();
        (0..MAX_OUTPUTS).take_while(|&i| family.output(i).is_some()).count()
    }
}
