//! Headroom: what a value's numbers would lose in f16 or bf16.

use floe_kernels::DType;
use half::{bf16, f16};

/// The largest number of f16.
pub const LARGEST: f64 = 65504.0;
/// The smallest normal number of f16: below it, fewer bits remain.
pub const SMALLEST: f64 = 6.103_515_625e-5;

/// The numbers of a value over all samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Smallest finite number.
    pub min: f64,
    /// Largest finite number.
    pub max: f64,
    /// Numbers.
    pub elements: u64,
    /// Finite numbers that f16 makes infinite.
    pub overflow: u64,
    /// Numbers other than 0 that f16 holds with fewer bits, or as 0.
    pub denormal: u64,
    /// Those of them that become 0.
    pub lost: u64,
    /// NaN and infinities.
    pub unfinite: u64,
    squares: f64,
    rounded: [f64; 2],
}

impl Default for Range {
    fn default() -> Self {
        Self {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            elements: 0,
            overflow: 0,
            denormal: 0,
            lost: 0,
            unfinite: 0,
            squares: 0.0,
            rounded: [0.0; 2],
        }
    }
}

impl Range {
    /// Takes numbers in.
    pub fn add(&mut self, numbers: &[f64]) {
        self.elements += numbers.len() as u64;
        for &number in numbers {
            if !number.is_finite() {
                self.unfinite += 1;
                continue;
            }
            self.min = self.min.min(number);
            self.max = self.max.max(number);
            self.squares += number * number;
            let (half, brain) = (f16::from_f64(number).to_f64(), bf16::from_f64(number).to_f64());
            if half.is_finite() {
                self.rounded[0] += (half - number) * (half - number);
                let is_small = number != 0.0 && number.abs() < SMALLEST;
                self.denormal += u64::from(is_small);
                self.lost += u64::from(is_small && half == 0.0);
            } else {
                self.overflow += 1;
            }
            if brain.is_finite() {
                self.rounded[1] += (brain - number) * (brain - number);
            }
        }
    }

    /// Takes in what another has gathered.
    pub fn merge(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.elements += other.elements;
        self.overflow += other.overflow;
        self.denormal += other.denormal;
        self.lost += other.lost;
        self.unfinite += other.unfinite;
        self.squares += other.squares;
        self.rounded[0] += other.rounded[0];
        self.rounded[1] += other.rounded[1];
    }

    /// The largest absolute number.
    pub fn largest(&self) -> f64 {
        if self.max >= self.min { self.min.abs().max(self.max.abs()) } else { 0.0 }
    }

    /// By how much the largest number may grow before f16 makes it infinite; infinite where all are 0.
    pub fn headroom(&self) -> f64 {
        LARGEST / self.largest()
    }

    /// The relative error (L2) of rounding to f16 or bf16, those that overflow left out. About 2.4e-4 and 1.9e-3 are usual;
    /// more tells that small numbers lose bits.
    pub fn rounding(&self, dtype: DType) -> f64 {
        let rounded = self.rounded[usize::from(dtype == DType::Bf16)];
        if self.squares > 0.0 { (rounded / self.squares).sqrt() } else { 0.0 }
    }

    /// What storing it as f16 would cost, where that is more than usual.
    pub fn trouble(&self) -> Option<String> {
        const SMALL: f64 = 6e-4;
        if self.overflow > 0 {
            return Some(format!(
                "overflow: {} of {} numbers are beyond {LARGEST}, up to {:.3e}",
                self.overflow,
                self.elements,
                self.largest()
            ));
        }
        let rounding = self.rounding(DType::F16);
        if rounding > SMALL {
            let (denormal, lost) = (self.denormal, self.lost);
            return Some(format!(
                "denormals: {denormal} of {} numbers are below {SMALLEST:.1e}, {lost} become 0; a relative error of {rounding:.1e}",
                self.elements
            ));
        }
        (self.headroom() < 2.0).then(|| format!("near overflow: up to {:.3e}, f16 ends at {LARGEST}", self.largest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[f64]) -> Range {
        let mut range = Range::default();
        range.add(numbers);
        range
    }

    #[test]
    fn overflow_and_denormals_are_told_and_usual_numbers_are_not() {
        let usual: Vec<f64> = (0..1000).map(|i| f64::from(i).sin()).collect();
        let range = of(&usual);
        assert_eq!(range.trouble(), None);
        assert!((1e-4..4e-4).contains(&range.rounding(DType::F16)), "{}", range.rounding(DType::F16));
        assert!((1e-3..3e-3).contains(&range.rounding(DType::Bf16)));
        let large = of(&[1.0, -70_000.0]);
        assert_eq!((large.overflow, large.largest()), (1, 70_000.0));
        assert!(large.trouble().unwrap().starts_with("overflow: 1 of 2"));
        assert!(of(&[40_000.0]).trouble().unwrap().starts_with("near overflow"));
        let small: Vec<f64> = usual.iter().map(|x| x * 1e-7).collect();
        let range = of(&small);
        assert!(range.trouble().unwrap().starts_with("denormals: 999 of 1000"), "{:?}", range.trouble());
        assert!(range.lost > 0);
        // A few small numbers among large ones cost nothing.
        assert_eq!(of(&[1.0, 1e-7]).trouble(), None);
    }

    #[test]
    fn ranges_merge() {
        let mut merged = of(&[1.0, f64::NAN]);
        merged.merge(&of(&[-2.0, 1e6]));
        assert_eq!(merged, of(&[1.0, f64::NAN, -2.0, 1e6]));
        assert_eq!(Range::default().largest(), 0.0);
    }
}
