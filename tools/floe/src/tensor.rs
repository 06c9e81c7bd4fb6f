//! Elements of a binding as numbers, for summaries and comparisons.

use floe_kernels::{DType, narrow};
use half::{bf16, f16};

/// Every element as a double; exact for all types but 64-bit integers beyond 2⁵³.
pub fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    /// Elements of `N` bytes through one conversion.
    fn each<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|&element| convert(element)).collect()
    }
    match dtype {
        DType::F32 => each(bytes, |e| f64::from(f32::from_le_bytes(e))),
        DType::F16 => each(bytes, |e| f16::from_le_bytes(e).to_f64()),
        DType::Bf16 => each(bytes, |e| bf16::from_le_bytes(e).to_f64()),
        DType::F64 => each(bytes, f64::from_le_bytes),
        DType::I8 => each(bytes, |e| f64::from(i8::from_le_bytes(e))),
        DType::I16 => each(bytes, |e| f64::from(i16::from_le_bytes(e))),
        DType::I32 => each(bytes, |e| f64::from(i32::from_le_bytes(e))),
        DType::I64 => each(bytes, |e| i64::from_le_bytes(e) as f64),
        DType::U16 => each(bytes, |e| f64::from(u16::from_le_bytes(e))),
        DType::U32 => each(bytes, |e| f64::from(u32::from_le_bytes(e))),
        DType::U64 => each(bytes, |e| u64::from_le_bytes(e) as f64),
        _ => each(bytes, |[e]| narrow::number(dtype, e).unwrap_or_else(|| f64::from(e))),
    }
}

/// Places of the `count` largest numbers, largest first; the earlier of equals first, NaN last.
pub fn largest(numbers: &[f64], count: usize) -> Vec<usize> {
    let key = |&place: &usize| if numbers[place].is_nan() { f64::NEG_INFINITY } else { numbers[place] };
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    places.sort_by(|a, b| key(b).total_cmp(&key(a)));
    places.truncate(count);
    places
}

/// Smallest, largest and mean of the finite numbers, and how many are not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// NaN and infinities.
    pub not_finite: usize,
}

impl Summary {
    /// Of any list; all NaN where nothing is finite.
    pub fn of(numbers: &[f64]) -> Self {
        let finite = || numbers.iter().copied().filter(|number| number.is_finite());
        let count = finite().count();
        Self {
            min: finite().fold(f64::NAN, f64::min),
            max: finite().fold(f64::NAN, f64::max),
            mean: finite().sum::<f64>() / count as f64,
            not_finite: numbers.len() - count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_become_numbers() {
        assert_eq!(numbers(DType::F16, &[0x00, 0x3c, 0x00, 0xc0]), [1.0, -2.0]);
        assert_eq!(numbers(DType::I16, &[0xff, 0xff]), [-1.0]);
        assert_eq!(numbers(DType::Bool, &[1, 0]), [1.0, 0.0]);
        assert_eq!(numbers(DType::Bf16, &[0x80, 0x3f]), [1.0]);
    }

    #[test]
    fn the_largest_come_first_and_nan_last() {
        assert_eq!(largest(&[1.0, f64::NAN, 3.0, 3.0], 3), [2, 3, 0]);
        let summary = Summary::of(&[1.0, f64::INFINITY, 3.0]);
        assert_eq!(summary, Summary { min: 1.0, max: 3.0, mean: 2.0, not_finite: 1 });
    }
}
