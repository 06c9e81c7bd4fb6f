//! The same with averages: each channel becomes the mean of its image.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
pub mod quantized;

use super::Pooled;
use super::host::Pools;
use crate::conv::Conv;
use crate::reduce::{Reduce, Reduction};
use crate::{KernelError, View};

/// A convolution of floats, and the average of each channel.
///
/// Shapes: `[n, m, spatial…]` becomes `[n, m, 1, …]`.
pub type AveragedConv = Pooled<Conv, Reduce>;

impl Pools for Reduce {
    fn views(&self) -> [&View; 2] {
        [&self.input, &self.output]
    }

    fn check_kind(&self) -> Result<(), KernelError> {
        if self.kind != Reduction::Mean {
            return Err(KernelError::Parameter("kind of reduction"));
        }
        let [images, channels, spatial @ ..] = &*self.output.shape else { return Err(KernelError::Shape("rank")) };
        let kept = [*images, *channels] == self.input.shape[..2];
        if !kept || spatial.iter().any(|&extent| extent != 1) {
            return Err(KernelError::Shape("an average of other than a whole image"));
        }
        Ok(())
    }
}
