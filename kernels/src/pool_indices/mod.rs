//! Where the maxima of a pooling lie.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

use crate::View;
use serde::{Deserialize, Serialize};

/// The number of the first largest element of each window, counted over the whole input in row-major order (ONNX
/// `MaxPool`'s output `Indices`); of equal elements the first wins, as does the first NaN. 0 for a window with nothing
/// in it.
///
/// Operands: input of any type; one output (i64).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PoolIndices {
    /// `[n, c, spatial…]`.
    pub input: View,
    /// `[n, c, spatial…]`, i64.
    pub output: View,
    /// Window extents, padded with leading 1s to three.
    pub window: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub strides: [u32; 3],
    /// As in [`crate::conv::Conv`].
    pub dilations: [u32; 3],
    /// Padding before, leading 0s.
    pub pads: [u32; 3],
    /// Whether the first spatial dimension is the innermost in the numbers (ONNX `storage_order` 1).
    pub column_major: bool,
}

impl PoolIndices {
    /// Distances between neighbours in the numbering: batch, channel, three spatial dimensions.
    pub(crate) fn numbering(&self) -> Result<[i64; 5], crate::KernelError> {
        let extents = crate::host::window::spatial(&self.input)?.map(i64::from);
        let pixels: i64 = extents.iter().product();
        let channels = i64::from(self.input.shape.get(1).copied().unwrap_or(0));
        let [a, b, c] = extents;
        let spatial = if self.column_major { [1, a, a * b] } else { [b * c, c, 1] };
        Ok([channels * pixels, pixels, spatial[0], spatial[1], spatial[2]])
    }
}
