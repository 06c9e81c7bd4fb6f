//! Convolution whose result is pooled: what is stored is the largest of each window, or the average of each channel. The image itself
//! never is.

pub mod averaged;
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
pub struct Pooled<C, P = Pool> {
    /// What makes the image.
    pub conv: C,
    /// Reads the convolution's output; of maxima, or of averages.
    pub pool: P,
}

/// A convolution of floats, and the largest of each window.
pub type PooledConv = Pooled<Conv>;
