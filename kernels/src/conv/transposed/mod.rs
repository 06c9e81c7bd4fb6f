//! Transposed convolution (ONNX `ConvTranspose`) with a fused epilogue.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

pub(super) use host::{axis, most_taps};

use super::Geometry;
use super::parameters::{Arithmetic, Convolution, Parameters};
use crate::pointwise::Epilogue;
use serde::{Deserialize, Serialize};

/// Transposed convolution. Output position `o` gathers input `i` where `o + pad = i·stride + tap·dilation`.
///
/// Element types and operands as in [`crate::conv::Conv`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConvTranspose {
    /// What it reads and writes.
    pub geometry: Geometry,
    /// What happens before the store.
    pub epilogue: Epilogue,
}

impl Parameters for ConvTranspose {
    fn convolution(&self) -> Convolution<'_> {
        Convolution { transposed: true, ..Convolution::new(&self.geometry, Arithmetic::Floats, &self.epilogue) }
    }
}
