//! Convolution of integers with exact sums.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
#[cfg(test)]
mod tests;

use super::Geometry;
use super::parameters::{Arithmetic, Convolution, Parameters};
use crate::DType;
use crate::pointwise::Epilogue;
use serde::{Deserialize, Serialize};

/// Cross-correlation as ONNX `ConvInteger` with zero points already taken off. Products are summed in i32 and wrap.
///
/// Operands: input, weights (i8, u8 or i16 each); one output (i32).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IntegerConv {
    /// What it reads and writes; what stands outside is 0.
    pub geometry: Geometry,
}

/// Sums are stored as they are.
static SUMS: Epilogue = Epilogue { bias: false, program: None, extras: heapless::Vec::new() };

impl Parameters for IntegerConv {
    fn convolution(&self) -> Convolution<'_> {
        Convolution::new(&self.geometry, Arithmetic::Integers(&[DType::I8, DType::U8, DType::I16]), &SUMS)
    }
}
