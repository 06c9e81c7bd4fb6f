//! Scale and zero point of 8-bit integers, and what quantising does to floats.

use serde_json::{Value, json};

/// `saturate(round(x / scale) + zero)` between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Size of a step.
    pub scale: f32,
    /// The integer that stands for 0.
    pub zero: i32,
    /// Least integer: 0 of u8, -128 of i8.
    pub low: i32,
    /// Largest integer.
    pub high: i32,
}

/// Which integers activations may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// u8 from 0 on where nothing is negative, i8 around 0 where that costs little, else u8 with a zero point.
    #[default]
    Any,
    /// i8 around 0 throughout, as TensorRT asks.
    Symmetric,
}

impl Params {
    /// For values between `low` and `high`, which is widened to hold 0.
    pub fn affine(low: f32, high: f32) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = step((high - low) / 255.0);
        let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0) as i32;
        Self { scale, zero, low: 0, high: 255 }
    }

    /// For values between `-limit` and `limit`.
    pub fn symmetric(limit: f32) -> Self {
        Self { scale: step(limit.abs() / 127.0), zero: 0, low: -128, high: 127 }
    }

    /// Whether the integers are unsigned.
    pub fn is_unsigned(&self) -> bool {
        self.low == 0
    }

    /// What a value becomes that is quantised and dequantised.
    pub fn rounded(&self, value: f32) -> f32 {
        let (low, high) = ((self.low - self.zero) as f32, (self.high - self.zero) as f32);
        nearest((value / self.scale).clamp(low, high)) * self.scale
    }

    /// The same for many values.
    pub fn round(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|&value| self.rounded(value)).collect()
    }

    /// For a report.
    pub fn json(&self) -> Value {
        json!({"scale": self.scale, "zero": self.zero, "type": if self.is_unsigned() { "u8" } else { "i8" }})
    }
}

/// A scale that divides: positive and normal.
fn step(scale: f32) -> f32 {
    if scale.is_finite() && scale > 1e-30 { scale } else { 1.0 }
}

/// The nearest whole number, halves to even, of values below 2^22 in size.
pub fn nearest(value: f32) -> f32 {
    const SHIFT: f32 = 12_582_912.0;
    (value + SHIFT) - SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_exact_and_the_ends_are_within_half_a_step() {
        for (low, high) in [(0.0, 6.0), (-0.28, 7.0), (-3.0, 3.0), (2.0, 5.0), (-5.0, -2.0), (0.0, 0.0)] {
            let params = Params::affine(low, high);
            assert_eq!(params.rounded(0.0), 0.0);
            for value in [low, high, (low + high) / 2.0] {
                assert!((params.rounded(value) - value).abs() <= params.scale * 0.51, "{value} {params:?}");
            }
        }
        assert_eq!(Params::affine(0.0, 255.0), Params { scale: 1.0, zero: 0, low: 0, high: 255 });
    }

    #[test]
    fn rounding_is_to_even() {
        for value in [-2.5f32, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, 127.5, -128.5] {
            assert_eq!(nearest(value), value.round_ties_even());
        }
    }
}
