//! Convolution in one, two or three spatial dimensions, with groups (depthwise included) and a fused epilogue.
//!
//! There is one convolution, and one reference kernel for it. Its parameters are a [`Geometry`] and what `parameters.rs` adds:
//! the arithmetic, and what happens to the sums. The families of this folder are choices of them:
//!
//! | family | what it multiplies | sums | first | last |
//! |---|---|---|---|---|
//! | [`Conv`] | floats | f32, or f64 of f64 | | bias, program |
//! | [`ConvTranspose`](transposed::ConvTranspose) | floats, with inputs spread out | f32, or f64 of f64 | | bias, program |
//! | [`ScaledConv`](scaled::ScaledConv) | floats | f32 | a scale for each channel | bias, program |
//! | [`ScaledQuantizedConv`](scaled::quantized::ScaledQuantizedConv) | integers of 8 bits | i32 | a scale for each channel, rounded | bias of i32, program |
//! | [`QuantizedConv`](quantized::QuantizedConv) | integers of 8 or 16 bits | i32 | | bias of i32, program |
//! | | floats of 8 bits | f32 | | program |
//! | [`DualQuantizedConv`](quantized::dual::DualQuantizedConv) | integers of 8 bits | i32 | | bias of i32, program; stored twice |
//! | [`QuantizingConv`](quantized::quantizing::QuantizingConv) | integers of 8 bits | i32 | a program that makes them | bias of i32, program |
//! | [`PooledConv`](pooled::PooledConv) | floats | f32 | | bias, program; pooled |
//! | [`AveragedConv`](pooled::averaged::AveragedConv) | floats | f32 | | bias, program; averaged |
//! | [`PooledQuantizedConv`](pooled::quantized::PooledQuantizedConv) | integers of 8 bits | i32 | | bias of i32, program; pooled |
//! | [`AveragedQuantizedConv`](pooled::averaged::quantized::AveragedQuantizedConv) | integers of 8 bits | i32 | | bias of i32, program; averaged |

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod depthwise;
#[cfg(feature = "codegen")]
pub mod fft;
mod host;
mod parameters;
pub mod pooled;
pub mod quantized;
pub mod scaled;
#[cfg(test)]
pub(crate) mod tests;
pub mod transposed;
#[cfg(feature = "codegen")]
pub mod winograd;

#[cfg(feature = "codegen")]
pub use cuda::{reads_any_layout, reads_bytes_of_any_layout};
pub(crate) use parameters::Parameters;

use crate::{View, pointwise::Epilogue};
use parameters::{Arithmetic, Convolution};
use serde::{Deserialize, Serialize};

/// What a convolution reads and writes, and how its window slides. Spatial dimensions are always three (unused leading ones have
/// extent 1).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Geometry {
    /// `[n, c, spatial…]`, rank 3 to 5.
    pub input: View,
    /// `[m, c / groups, kernel…]`; transposed `[c, m / groups, kernel…]`. Of floats, extents may be padded beyond the logical
    /// ones by a candidate's packing.
    pub weights: View,
    /// `[n, m, spatial…]`.
    pub output: View,
    /// Steps of the window, one for each spatial dimension, padded with leading 1s to three.
    pub strides: [u32; 3],
    /// Distances between taps, likewise.
    pub dilations: [u32; 3],
    /// Padding values before the first element, likewise with leading 0s; those after follow from the output's extents. Transposed,
    /// elements cut from the start of the full output; the end is cut by the output's extents.
    pub pads: [u32; 3],
    /// Number of groups; equal to `c` for a depthwise convolution.
    pub groups: u32,
}

impl Geometry {
    /// A window that moves by single steps, without padding and groups: of one tap, a matrix product whose rows are positions and
    /// whose columns are channels.
    pub const fn plain(input: View, weights: View, output: View) -> Self {
        Self { input, weights, output, strides: [1; 3], dilations: [1; 3], pads: [0; 3], groups: 1 }
    }
}

/// Cross-correlation as ONNX `Conv`.
///
/// Input, weights and output are any mixture of f32, f16 and bf16 (sums in f32), or all f64 (sums in f64; the bias stays
/// f32 and a program is refused). Operands: input, weights, bias if `epilogue.bias`, extras; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv {
    /// What it reads and writes; what stands outside is 0.
    pub geometry: Geometry,
    /// What happens before the store.
    pub epilogue: Epilogue,
}

impl Parameters for Conv {
    fn convolution(&self) -> Convolution<'_> {
        Convolution::new(&self.geometry, Arithmetic::Floats, &self.epilogue)
    }
}
