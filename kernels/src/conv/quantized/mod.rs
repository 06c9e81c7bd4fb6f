//! Convolution of integers with exact sums, or of 8-bit floats, and a fused epilogue: quantised networks.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
pub mod dual;
pub mod quantizing;
#[cfg(test)]
mod tests;

use super::Geometry;
use super::parameters::{Arithmetic, Convolution, Parameters};
use crate::{DType, View, pointwise::Epilogue};
use serde::{Deserialize, Serialize};

/// `sum[n, m, …] = bias[m] + Σ x · w` over the taps of a window and the channels of a group, in i32, wrapping; positions
/// outside of the input count as `padding_value`. Stored is `program(sum, extras…)` in f32, to whole elements truncated and
/// saturated, or without a program the sum itself.
///
/// Zero points need no arithmetic of their own. With `padding_value` the zero point of x, `Σ (x − zx) · w` is the sum without
/// them minus `zx · Σ w`, a constant of the output channel and so a part of the bias. (Jacob et al., "Quantization and
/// training of neural networks for efficient integer-arithmetic-only inference", 2018, section 2.3.)
///
/// Of floats of 8 bits the products are exact and the sums are f32, as in [`crate::conv::Conv`]. What stands outside is 0, there is
/// no bias, and what is stored is a float: their scale comes with the program, and so does what is added behind it.
///
/// A matrix product is a convolution of one tap: rows are positions, columns channels.
///
/// Operands: input and weights (i8, u8 or i16 each, or E4M3 or E5M2 each), bias if there is one (i32, `[m]`), extras of the
/// epilogue; one output (without a program i32, or f32 for floats).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuantizedConv {
    /// What it reads and writes; what stands outside is `padding_value`.
    pub geometry: Geometry,
    /// The padding value of the input; a value of its element type.
    pub padding_value: i16,
    /// One value for each output channel, side by side; added to the sums.
    pub bias: Option<View>,
    /// What happens before the store; its own bias, which is f32, is not used.
    pub epilogue: Epilogue,
}

impl QuantizedConv {
    /// Whether it multiplies floats of 8 bits.
    pub fn is_float(&self) -> bool {
        is_float_factor(self.geometry.input.dtype)
    }

    /// Whether it multiplies integers of 8 bits.
    pub(crate) fn is_of_bytes(&self) -> bool {
        self.geometry.input.dtype.is_byte() && self.geometry.weights.dtype.is_byte()
    }
}

impl Parameters for QuantizedConv {
    fn convolution(&self) -> Convolution<'_> {
        let arithmetic = if self.is_float() { Arithmetic::NarrowFloats } else { Arithmetic::Integers };
        Convolution {
            padding_value: self.padding_value,
            bias: self.bias.as_ref(),
            ..Convolution::new(&self.geometry, arithmetic, &self.epilogue)
        }
    }
}

/// Whether products are computed with floats of 8 bits of this type: both are exact in f16.
pub const fn is_float_factor(dtype: DType) -> bool {
    matches!(dtype, DType::F8E4M3 | DType::F8E5M2)
}
