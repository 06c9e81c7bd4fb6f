//! Convolution whose result is pooled: the largest of each window is stored, the others never are.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
pub mod quantized;
#[cfg(test)]
mod tests;

use crate::{conv::Conv, pool::Pool};
use serde::{Deserialize, Serialize};

/// `pool(conv(x))`.
///
/// Operands: those of the convolution; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pooled<C> {
    /// What makes the image.
    pub conv: C,
    /// Reads the convolution's output; of maxima.
    pub pool: Pool,
}

/// A convolution of floats.
pub type PooledConv = Pooled<Conv>;
