//! Post-training quantisation at the desk.
//!
//! [`quantise`] takes a float ONNX model and samples of its inputs and gives a plain ONNX model in which products are computed
//! with 8-bit integers or floats: `QuantizeLinear` and `DequantizeLinear` around them say how. ONNX Runtime runs the same file.
//! [`quantise_by_table`] does so with the ranges of another program in place of samples. [`packed::run`] quantises the weights of matrix products alone.
//!
//! # The way of a model
//!
//! | step | module | source |
//! |---|---|---|
//! | constants, names, opset 13 or 19 | [`normalise`], [`upgrade`] | ONNX's change log |
//! | batch normalisation and scales folded into products | [`fold`] | Jacob et al. 2018 |
//! | which products, and which values between them | [`layers`], [`places`] | the compiler's passes `quantized_products`, `quantized_moves` |
//! | samples run in f32, values observed | [`calibrate`], [`observe`] | |
//! | or ranges read from a calibration table | [`table`] | ONNX Runtime, TensorRT |
//! | channels evened out | [`smooth`] | cross-layer equalisation, Nagel et al. 2019; SmoothQuant, Xiao et al. 2023 |
//! | ranges: min-max, percentile, entropy, MSE, chosen by effect | [`observe`], [`ranges`] | Migacz 2017; Wu et al. 2020; Banner et al. 2019 |
//! | floats of 8 bits | [`params`] | Micikevicius et al., "FP8 formats for deep learning", 2022 |
//! | scales of weights by channel | [`weights`] | Krishnamoorthi, "Quantizing deep convolutional networks for efficient inference", 2018 |
//! | adaptive rounding | [`round`] | AdaRound, Nagel et al. 2020; CDQuant, Nair and Suggala 2024 |
//! | bias correction | [`correct`] | Nagel et al. 2019 |
//! | layers that gain nothing, and a budget | [`cost`], [`evaluate`] | the compiler's cost model |
//! | weights of 4 and 8 bits | [`gptq`], [`packed`] | GPTQ, Frantar et al. 2023 |
//! | written | [`insert`] | ONNX's `QuantizeLinear`, `DequantizeLinear` |
//!
//! # What becomes integers
//!
//! A value becomes integers where a product reads it, once, whoever else reads it too. Between a product and the functions on
//! elements that follow it nothing is rounded: their kernel computes them in f32 and rounds its result once. A pool for maxima,
//! a slice, a reshape and their like in front of a product get the scale of their result, so that they move bytes.
//!
//! Weights are i8 around 0 with a scale for each output channel. Activations have one scale: u8 from 0 on where nothing is
//! negative, i8 around 0 where that costs next to nothing, else u8 with a zero point; [`params::Activations::Symmetric`] takes
//! i8 around 0 throughout. Biases are i32 in steps of both scales, which is what the sums are in.
//!
//! [`params::Activations::Float8`] makes floats of 8 bits of values and weights in their place: E4M3, whose scale takes the largest value to
//! 448, the largest number. Biases stay f32. Adaptive rounding is one of integers and is not tried.
//!
//! # Effect
//!
//! Ranges, factors and weights are chosen by what they do to the results of the products that read them, on rows sampled from
//! the products' inputs. Then the whole network is compared with f32; a method that does not bring it nearer is not kept.
#![warn(missing_docs)]

pub mod calibrate;
pub mod checkpoint;
pub mod correct;
pub mod cost;
mod error;
pub mod evaluate;
pub mod fold;
pub mod gates;
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
mod prepare;
pub mod product;
mod quantise;
pub mod random;
pub mod ranges;
pub mod report;
pub mod round;
pub mod run;
pub mod smooth;
pub mod table;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod upgrade;
pub mod weights;

pub use error::Error;
pub use model::Model;
pub use quantise::{Effort, LayerReport, Options, Progress, Quantized, Stage, quantise, quantise_by_table};

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
