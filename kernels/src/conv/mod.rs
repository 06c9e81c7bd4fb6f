//! Convolution in one, two or three spatial dimensions, with groups (depthwise included) and a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod depthwise;
#[cfg(feature = "codegen")]
pub mod fft;
mod host;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(feature = "codegen")]
pub mod winograd;

#[cfg(feature = "codegen")]
pub(crate) use cuda::quantized_candidates;
#[cfg(feature = "codegen")]
pub use cuda::{reads_any_layout, reads_integers_of_any_layout};

use crate::{View, pointwise::Epilogue};
use serde::{Deserialize, Serialize};

/// Cross-correlation as ONNX `Conv`, spatial dimensions always three (unused leading ones have extent 1).
///
/// Input, weights and output are any mixture of f32, f16 and bf16 (sums in f32), or all f64 (sums in f64; the bias stays
/// f32 and a program is refused). Operands: input, weights, bias if `epilogue.bias`, extras; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conv {
    /// `[n, c, spatial…]`, rank 3 to 5.
    pub input: View,
    /// `[m, c / groups, kernel…]`. Extents may be padded beyond the logical ones by a candidate's packing.
    pub weights: View,
    /// `[n, m, spatial…]`.
    pub output: View,
    /// Steps of the window, one for each spatial dimension, padded with leading 1s to three.
    pub strides: [u32; 3],
    /// Distances between taps, likewise.
    pub dilations: [u32; 3],
    /// Zeros before the first element, likewise with leading 0s. Zeros after follow from the output's extents.
    pub pads: [u32; 3],
    /// Number of groups; equal to `c` for a depthwise convolution.
    pub groups: u32,
    /// What happens before the store.
    pub epilogue: Epilogue,
}
