//! What comes of quantising: the model, and what is known of it.

use crate::{
    Model,
    evaluate::Distance,
    layers::{Layer, Left},
    ranges::Choice,
    smooth::Smoothed,
};
use std::collections::BTreeMap;

/// A method and what it did to the outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the method.
    pub name: String,
    /// Distance from f32 with it and all that were kept before.
    pub distance: Distance,
    /// The same with biases corrected too, where that was tried.
    pub corrected: Option<Distance>,
    /// Whether it was kept.
    pub kept: bool,
}

impl Stage {
    /// The distance with biases corrected or not, whichever is less.
    pub fn best(&self) -> Distance {
        self.corrected.filter(|corrected| corrected.scores < self.distance.scores).unwrap_or(self.distance)
    }
}

/// What is known of a product in 8 bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerReport {
    /// Relative error of the outputs with this layer alone in 8 bits, where it was measured.
    pub alone: Option<f64>,
    /// Expected microseconds on the target, in f16 and in 8 bits.
    pub expected: Option<[f64; 2]>,
    /// Squared relative error of its own results, where there are samples.
    pub error: Option<f64>,
}

/// The result.
#[derive(Debug)]
pub struct Quantized {
    /// The model in 8 bits.
    pub model: Model,
    /// The float model with everything folded, of which it is made.
    pub float: Model,
    /// Layers in 8 bits.
    pub layers: Vec<Layer>,
    /// What is known of them, and of those that stay floats for accuracy's or time's sake.
    pub reports: BTreeMap<String, LayerReport>,
    /// Products that are not in 8 bits.
    pub left: Vec<Left>,
    /// What values became.
    pub values: BTreeMap<String, Choice>,
    /// The methods in their order.
    pub stages: Vec<Stage>,
    /// Distance from f32 of the result, where there are samples.
    pub distance: Option<Distance>,
    /// Values whose channels were evened out.
    pub smoothed: Vec<Smoothed>,
    /// Nodes that were folded into others.
    pub folded: Vec<String>,
    /// Expected microseconds of a replay on the target, in f16 and as quantised.
    pub expected: Option<[f64; 2]>,
    /// Whether the budget holds, where there is one.
    pub within_budget: Option<bool>,
    /// Samples used; none where the ranges are of a calibration table.
    pub samples: usize,
    /// Records of an earlier run that was interrupted.
    pub resumed: usize,
}
