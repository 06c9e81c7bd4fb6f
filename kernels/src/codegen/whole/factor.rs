//! Registers that a byte decides and that are that byte times a factor, rounded and bounded.

use super::{Printer, ROUNDED, f32_literal};

/// A register that is another one times a factor.
pub(super) struct Scaled {
    pub(super) base: usize,
    /// None where it is 1.
    pub(super) factor: Option<f32>,
    /// The least and the most that the register is.
    pub(super) range: [f32; 2],
    /// Whether the product is less, and more, before it is bounded.
    pub(super) exceeds: [bool; 2],
}

impl Scaled {
    /// The product, neither rounded nor bounded.
    pub(super) fn product(&self) -> String {
        let base = self.base;
        self.factor.map_or_else(|| format!("r{base}"), |factor| format!("__fmul_rn(r{base}, {})", f32_literal(factor)))
    }

    /// The register.
    pub(super) fn expression(&self) -> String {
        let mut value = self.product();
        if self.factor.is_some() {
            value = format!("round_bounded({value})");
        }
        if self.exceeds[0] {
            value = format!("fmaxf({value}, {})", f32_literal(self.range[0]));
        }
        if self.exceeds[1] {
            value = format!("fminf({value}, {})", f32_literal(self.range[1]));
        }
        value
    }

    /// Whether the two registers are the same.
    pub(super) fn is_base(&self) -> bool {
        self.factor.is_none() && self.exceeds == [false; 2]
    }
}

impl Printer<'_> {
    /// A register as its base times a factor, rounded and bounded.
    pub(super) fn scaled(&self, number: usize) -> Option<Scaled> {
        let (base, (first, values)) = (self.bases[number]?, self.values(number)?);
        let (low, high) = values.iter().fold((f32::MAX, f32::MIN), |(l, h), &v| (l.min(v), h.max(v)));
        if values.iter().any(|value| value.fract() != 0.0 || value.abs() > 255.0) {
            return None;
        }
        let operands = || (first..).map(|value| value as f32).zip(&values);
        // Factors that round to the value of each operand that no bound holds back.
        let free = operands().filter(|&(x, &y)| x != 0.0 && y > low && y < high);
        let (mut least, mut most) = (f64::MIN, f64::MAX);
        for (x, &y) in free {
            let (a, b) = ((f64::from(y) - 0.5) / f64::from(x), (f64::from(y) + 0.5) / f64::from(x));
            (least, most) = (least.max(a.min(b)), most.min(a.max(b)));
        }
        let plain = least <= 1.0 && most >= 1.0;
        let factor = if plain { 1.0 } else { ((least + most) / 2.0) as f32 };
        let rounded = |x: f32| (x * factor).round_ties_even();
        let holds =
            |(x, &y): (f32, &f32)| f64::from((x * factor).abs()) < ROUNDED && rounded(x).max(low).min(high) == y;
        if !factor.is_normal() || !operands().all(holds) {
            return None;
        }
        let exceeds = [operands().any(|(x, _)| rounded(x) < low), operands().any(|(x, _)| rounded(x) > high)];
        Some(Scaled { base, factor: (!plain).then_some(factor), range: [low, high], exceeds })
    }
}
