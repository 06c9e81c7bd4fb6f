//! Weights as signed 8-bit integers around 0 or as floats of 8 bits, with a scale for each output channel.

use crate::{
    layers::Layer,
    params::{LARGEST_E4M3, e4m3, nearest},
};
use floe_kernels::narrow;
use floe_models::DType;
use rayon::prelude::*;

/// Largest integer; -128 is not used, so that products of negated weights are the same.
pub const MOST: f32 = 127.0;

/// A layer's weights in 8 bits, a row for each output channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// I8 or F8E4M3.
    pub dtype: DType,
    /// The integers, or the codes of the floats.
    pub elements: Vec<i8>,
    /// The size of a step, by output channel.
    pub scales: Vec<f32>,
}

impl Weights {
    /// The numbers that the elements stand for.
    pub fn floats(&self) -> Vec<f32> {
        let depth = self.elements.len() / self.scales.len().max(1);
        let scale = |index: usize| self.scales[index / depth];
        let number =
            |element: i8| narrow::number(self.dtype, element as u8).map_or(f32::from(element), |number| number as f32);
        self.elements.iter().enumerate().map(|(index, &element)| number(element) * scale(index)).collect()
    }
}

/// Rounds weights to steps of these sizes.
pub fn rounded(rows: &[f32], scales: &[f32], dtype: DType) -> Weights {
    let depth = rows.len() / scales.len().max(1);
    let element = |(index, &value): (usize, &f32)| {
        let steps = value / scales[index / depth];
        match dtype {
            DType::F8E4M3 => e4m3(steps).0 as i8,
            _ => steps.clamp(-MOST, MOST).round_ties_even() as i8,
        }
    };
    Weights { dtype, elements: rows.iter().enumerate().map(element).collect(), scales: scales.to_vec() }
}

/// The largest number of steps.
fn most(dtype: DType) -> f32 {
    if dtype == DType::F8E4M3 { LARGEST_E4M3 } else { MOST }
}

/// Scales of which the largest weight of each channel is the last step.
pub fn largest(layer: &Layer, rows: &[f32], dtype: DType) -> Vec<f32> {
    let scale = |row: &[f32]| row.iter().fold(0.0f32, |most, value| most.max(value.abs())) / most(dtype);
    usable(rows.chunks(layer.depth).map(scale).collect())
}

/// Scales of the least squared error, where each weight counts by the mean square of what it is multiplied with.
pub fn least_error(layer: &Layer, rows: &[f32], squares: &[f32], dtype: DType) -> Vec<f32> {
    let most = largest(layer, rows, dtype);
    let each = layer.group_outputs();
    let best = |(output, row): (usize, &[f32])| {
        let squares = &squares[output / each * layer.depth..][..layer.depth];
        let error = |scale: f32| -> f64 {
            let error = |(&value, &square): (&f32, &f32)| {
                let rounded = scale
                    * match dtype {
                        DType::F8E4M3 => e4m3(value / scale).to_f32(),
                        _ => nearest((value / scale).clamp(-MOST, MOST)),
                    };
                f64::from((rounded - value) * (rounded - value) * square)
            };
            row.iter().zip(squares).map(error).sum()
        };
        let shares = (0..=20).map(|step| 1.0 - step as f32 * 0.025);
        let candidates = shares.map(|share| most[output] * share);
        candidates
            .map(|scale| (error(scale), scale))
            .fold((f64::INFINITY, most[output]), |best, next| if next.0 < best.0 { next } else { best })
    };
    rows.par_chunks(layer.depth).enumerate().map(|pair| best(pair).1).collect()
}

/// Channels of zeros get the scale of the least other one: biases are in steps of it.
fn usable(mut scales: Vec<f32>) -> Vec<f32> {
    let least = scales.iter().copied().filter(|&scale| scale > 1e-30).fold(f32::INFINITY, f32::min);
    let least = if least.is_finite() { least } else { 1e-4 };
    scales.iter_mut().filter(|scale| **scale <= 1e-30).for_each(|scale| *scale = least);
    scales
}
