//! Scale and zero point of 8-bit values, and what quantising does to floats.

use floe_kernels::narrow::F8E4M3;
use floe_models::DType;
use serde_json::{Value, json};

/// The largest number of E4M3.
pub const LARGEST_E4M3: f32 = 448.0;

/// `saturate(round(x / scale) + zero)`, to the numbers of a type of 8 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Size of a step; of floats, what 1 stands for.
    pub scale: f32,
    /// The integer that stands for 0; 0 of floats.
    pub zero: i32,
    /// U8, I8 or F8E4M3.
    pub dtype: DType,
}

/// What activations may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activations {
    /// u8 from 0 on where nothing is negative, i8 around 0 where that costs little, else u8 with a zero point.
    #[default]
    Any,
    /// i8 around 0 throughout, as TensorRT asks.
    Symmetric,
    /// Floats of 8 bits, E4M3; weights too.
    Float8,
}

impl Activations {
    /// What weights become.
    pub fn weights(self) -> DType {
        if self == Self::Float8 { DType::F8E4M3 } else { DType::I8 }
    }

    /// The oldest opset whose `QuantizeLinear` has the types, with a scale for each channel.
    pub fn opset(self) -> i64 {
        if self == Self::Float8 { 19 } else { 13 }
    }
}

impl Params {
    /// For values between `low` and `high`, which is widened to hold 0.
    pub fn affine(low: f32, high: f32) -> Self {
        let (low, high) = (low.min(0.0), high.max(0.0));
        let scale = step((high - low) / 255.0);
        let zero = (-low / scale).round_ties_even().clamp(0.0, 255.0) as i32;
        Self { scale, zero, dtype: DType::U8 }
    }

    /// For values between `-limit` and `limit`.
    pub fn symmetric(limit: f32) -> Self {
        Self { scale: step(limit.abs() / 127.0), zero: 0, dtype: DType::I8 }
    }

    /// Floats of 8 bits for values between `-limit` and `limit`.
    pub fn float8(limit: f32) -> Self {
        Self { scale: step(limit.abs() / LARGEST_E4M3), zero: 0, dtype: DType::F8E4M3 }
    }

    /// What a value becomes that is quantised and dequantised.
    pub fn rounded(&self, value: f32) -> f32 {
        let (low, high) = match self.dtype {
            DType::F8E4M3 => return e4m3(value / self.scale).to_f32() * self.scale,
            DType::U8 => (-self.zero as f32, (255 - self.zero) as f32),
            _ => ((-128 - self.zero) as f32, (127 - self.zero) as f32),
        };
        nearest((value / self.scale).clamp(low, high)) * self.scale
    }

    /// The same for many values.
    pub fn round(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|&value| self.rounded(value)).collect()
    }

    /// For a report.
    pub fn json(&self) -> Value {
        json!({"scale": self.scale, "zero": self.zero, "type": self.dtype.name()})
    }
}

/// A scale that divides: positive and normal.
fn step(scale: f32) -> f32 {
    if scale.is_finite() && scale > 1e-30 { scale } else { 1.0 }
}

/// The nearest float of 8 bits; what is larger becomes the largest.
pub fn e4m3(value: f32) -> F8E4M3 {
    F8E4M3::from_f32(value.clamp(-LARGEST_E4M3, LARGEST_E4M3))
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
        assert_eq!(Params::affine(0.0, 255.0), Params { scale: 1.0, zero: 0, dtype: DType::U8 });
    }

    #[test]
    fn floats_of_8_bits_have_four_digits_and_an_end() {
        let params = Params::float8(44.8);
        assert_eq!(params.json(), serde_json::json!({"scale": 0.1f32, "zero": 0, "type": "f8e4m3"}));
        for (value, rounded) in [(0.0, 0.0), (44.8, 44.8), (-100.0, -44.8), (1.7, 1.6), (1.71, 1.8), (0.00009, 0.0)] {
            assert!((params.rounded(value) - rounded).abs() < 1e-5, "{value}: {}", params.rounded(value));
        }
    }

    #[test]
    fn rounding_is_to_even() {
        for value in [-2.5f32, -1.5, -0.5, 0.5, 1.5, 2.5, 3.49, 127.5, -128.5] {
            assert_eq!(nearest(value), value.round_ties_even());
        }
    }
}
