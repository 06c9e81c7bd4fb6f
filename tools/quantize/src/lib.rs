//! Post-training quantisation at the desk.
//!
//! [`quantise`] takes a float ONNX model and samples of its inputs and gives a plain ONNX model in which products are computed
//! with 8-bit integers: `QuantizeLinear` and `DequantizeLinear` around them say how. ONNX Runtime runs the same file.
#![warn(missing_docs)]

pub mod calibrate;
pub mod checkpoint;
pub mod correct;
pub mod cost;
mod error;
pub mod evaluate;
pub mod fold;
pub mod gptq;
pub mod gram;
pub mod insert;
pub mod layers;
pub mod model;
pub mod nodes;
pub mod normalise;
pub mod observe;
pub mod packed;
pub mod params;
pub mod places;
pub mod product;
pub mod random;
pub mod ranges;
pub mod report;
pub mod round;
pub mod run;
pub mod smooth;
mod quantise;
#[cfg(test)]
mod testing;
pub mod upgrade;
pub mod weights;

pub use error::Error;
pub use model::Model;
pub use quantise::{Effort, LayerReport, Options, Progress, Quantized, Stage, quantise};

use run::Sample;

/// Inputs to calibrate with.
pub trait Samples: Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The inputs of one run.
    ///
    /// # Errors
    /// Where it cannot be read or does not fit.
    fn load(&self, number: usize) -> Result<Sample, Error>;
}

impl Samples for Vec<Sample> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn load(&self, number: usize) -> Result<Sample, Error> {
        Ok(self[number].clone())
    }
}
