//! The one enum over all families: what a step of a host plan carries, and what the compiler selects for.

use crate::KernelError;
use serde::{Deserialize, Serialize};

/// Most inputs of any kernel.
pub const MAX_INPUTS: usize = 13;
/// Most outputs of any kernel.
pub const MAX_OUTPUTS: usize = 4;

/// All that has a line for each family, from one list: the type of a family's parameters and its module.
macro_rules! families {
    ($($family:ident in $module:ident,)*) => {
        /// A kernel with all its parameters.
        ///
        /// The variants' numbers are part of the plan format: whatever moves one raises its version.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[allow(missing_docs, clippy::large_enum_variant)]
        pub enum Kernel {
            $($family(crate::$module::$family),)*
        }

        /// Names of all families.
        pub const FAMILIES: &[&str] = &[$(stringify!($module)),*];

        $(
            impl Named for crate::$module::$family {
                fn name(&self) -> &'static str {
                    stringify!($module)
                }
            }
        )*

        impl Kernel {
            /// The family that the kernel belongs to.
            pub fn family(&self) -> &dyn Family {
                match self {
                    $(Self::$family(kernel) => kernel,)*
                }
            }

            /// What generates the kernel's candidates.
            #[cfg(feature = "codegen")]
            pub(crate) fn generator(&self) -> &dyn crate::codegen::Generate {
                match self {
                    $(Self::$family(kernel) => kernel,)*
                }
            }
        }

        /// Kernels of every family with odd sizes, types, layouts and parameters: what the reference kernels and every GPU are
        /// verified on.
        #[cfg(feature = "codegen")]
        pub fn all_cases() -> Vec<Kernel> {
            [$(crate::$module::cases::cases()),*].concat()
        }
    };
}

// A family's place is its number in the plan format.
families! {
    Conv in conv,
    ConvTranspose in conv_transpose,
    MatMul in matmul,
    Pointwise in pointwise,
    Pool in pool,
    Copy in copy,
    Gather in gather,
    Pad in pad,
    Reduce in reduce,
    Softmax in softmax,
    Normalize in normalize,
    Lrn in lrn,
    Resize in resize,
    Recurrent in recurrent,
    Attention in attention,
    SqueezeExcite in squeeze_excite,
    MbConv in mbconv,
    Scatter in scatter,
    Cumulative in cumulative,
    TopK in top_k,
    GridSample in grid_sample,
    RoiAlign in roi_align,
    PoolIndices in pool_indices,
    ScaledConv in scaled_conv,
    NonMaxSuppression in non_max_suppression,
    Frame in frame,
    NonZero in non_zero,
    Unique in unique,
    Determinant in determinant,
    QuantizedConv in quantized_conv,
    Detect in detect,
    PackedMatMul in packed_matmul,
    QuantizedMbConv in quantized_mbconv,
    QuantizedAverage in quantized_average,
    Custom in custom,
    RecurrentStack in recurrent_stack,
    ScaledQuantizedConv in scaled_quantized_conv,
    DualQuantizedConv in dual_quantized_conv,
    NormalizedMatMul in normalized_matmul,
    QuantizingConv in quantizing_conv,
    PooledConv in pooled_conv,
    PooledQuantizedConv in pooled_quantized_conv,
    MomentsMatMul in moments_matmul,
    AveragedConv in averaged_conv,
    SeparableConv in separable_conv,
    AveragedQuantizedConv in averaged_quantized_conv,
    QuantizedSeparableConv in quantized_separable_conv,
}

/// A family's name, for reports: that of its module.
pub trait Named {
    /// `conv`, `pool`, …
    fn name(&self) -> &'static str;
}

/// What every family offers. Implemented beside each family's parameters.
pub trait Family: Named {
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

    /// Bytes of scratch that the reference kernel needs, 64-byte aligned. Not what a GPU candidate needs.
    fn host_workspace(&self) -> u64 {
        0
    }

    /// Floating-point operations, a multiply-add counting two.
    fn flops(&self) -> u64;

    /// The part of [`Family::host_operations`] that is no movement of elements, where `flops` is no bound of it.
    fn host_arithmetic(&self) -> u64 {
        self.flops()
    }

    /// Upper bound, but for a constant factor, of the operations of the reference kernel: for whoever must bound its time. It
    /// moves all elements and clears all padded channels, and loops over some extents may run where others are 0.
    fn host_operations(&self) -> u64 {
        let elements = |view: &crate::View| {
            let extents = view.shape.iter().enumerate();
            let extents = extents.map(|(d, &extent)| if d == 1 { extent.max(view.padded_channels) } else { extent });
            extents.fold(1, |n: u64, extent| n.saturating_mul(extent.max(1).into()))
        };
        let inputs = (0..MAX_INPUTS).map_while(|i| self.input(i));
        let views = inputs.chain((0..MAX_OUTPUTS).map_while(|i| self.output(i)));
        views.map(elements).fold(self.host_arithmetic(), u64::saturating_add)
    }

    /// Runs the reference kernel. Checks operand count, length and alignment first and never panics after [`Family::check`].
    ///
    /// # Errors
    /// Where operands do not fit the parameters.
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError>;
}

impl Kernel {
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
