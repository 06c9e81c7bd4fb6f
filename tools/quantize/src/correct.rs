//! Bias correction: rounding shifts the mean of each output channel, which the bias takes back. (Nagel et al., "Data-free
//! quantization through weight equalization and bias correction", 2019; here measured on rows of the samples, as in section 4.3
//! of Nagel et al., "A white paper on neural network quantization", 2021.)

use crate::{layers::Layer, params::Params, product::product};

/// By how much the mean of each output channel is too large.
pub fn shift(layer: &Layer, rows: &[f32], exact: &[f32], params: &Params, rounded: &[f32]) -> Vec<f32> {
    let before = product(layer, rows, exact);
    let after = product(layer, &params.round(rows), rounded);
    let count = (before.len() / layer.outputs).max(1) as f64;
    let mut sums = vec![0.0f64; layer.outputs];
    for (before, after) in before.chunks(layer.outputs).zip(after.chunks(layer.outputs)) {
        for (sum, (before, after)) in sums.iter_mut().zip(before.iter().zip(after)) {
            *sum += f64::from(after - before);
        }
    }
    sums.into_iter().map(|sum| (sum / count) as f32).collect()
}
