//! Results that two 8-bit values alone decide, as a weighted sum of them: `(u − z₁)·s₁ + (v − z₂)·s₂`, divided by a third scale and
//! rounded, is `round(a·u + b·v + c)` but where that is within a few units in the last place of a half. All pairs are tried, by the
//! reference kernel's arithmetic and by that of the printed expression.

use super::{Printer, ROUNDED, WHOLE_SUM, above_literal, f32_literal};
use crate::pointwise::{Binary, Instruction, Unary};

/// Fewest instructions between the two values and the result for which the sum is shorter.
const LEAST: usize = 6;
/// Distance of a sum from a half below which the last places of its factors may decide: more than what the reference kernel's
/// roundings move it.
const NEAR: f64 = 1e-3;
/// Units in the last place by which factors are varied.
const UNITS: [i32; 7] = [0, 1, -1, 2, -2, 3, -3];
/// Values that are added to the sum, beside its constant.
const SHIFTS: [f64; 5] = [0.0, 1e-6, -1e-6, 4e-6, -4e-6];

/// `a·u + b·v + c`.
#[derive(Clone, Copy)]
struct Sum {
    a: f32,
    b: f32,
    c: f32,
}

impl Sum {
    /// The whole number that the printed expression gives before bounds.
    fn rounded(self, u: f32, v: f32) -> f32 {
        let inner = if self.c == 0.0 { v * self.b } else { v.mul_add(self.b, self.c) };
        (u.mul_add(self.a, inner) + WHOLE_SUM as f32) - WHOLE_SUM as f32
    }
}

/// A pair of values and what they give.
#[derive(Clone, Copy)]
struct Pair {
    u: f32,
    v: f32,
    result: f32,
}

impl Printer<'_> {
    /// The expression of the result as a bounded weighted sum of two bytes, plus 1.5 · 2²³.
    pub(super) fn weighted_sum(&self, result: usize) -> Option<String> {
        let [first, second] = self.two_bytes(result)?;
        let between =
            |&register: &usize| register != first && register != second && self.constant(register as u8).is_none();
        if (first.min(second)..=result).filter(between).count() < LEAST || !self.facts[result].whole {
            return None;
        }
        let (a, b, c) = self.weights(result, [first, second])?;
        let pairs = self.pairs(result, [first, second])?;
        let (low, high) = pairs.iter().fold((f32::MAX, f32::MIN), |(l, h), p| (l.min(p.result), h.max(p.result)));
        let bounded = |sum: Sum, pair: &Pair| sum.rounded(pair.u, pair.v).max(low).min(high);
        let exact = |pair: &Pair| a * f64::from(pair.u) + b * f64::from(pair.v) + c;
        if !pairs.iter().all(|pair| pair.result.fract() == 0.0 && exact(pair).abs() < ROUNDED / 2.0) {
            return None;
        }
        let near: Vec<Pair> = pairs
            .iter()
            .filter(|pair| ((exact(pair) - 0.5).rem_euclid(1.0) - 0.5).abs() > 0.5 - NEAR)
            .copied()
            .collect();
        let sums = SHIFTS.iter().flat_map(|shift| {
            UNITS.iter().flat_map(move |&i| {
                UNITS.iter().map(move |&j| Sum { a: varied(a, i), b: varied(b, j), c: (c + shift) as f32 })
            })
        });
        let mut sums = sums.filter(|&sum| near.iter().all(|pair| bounded(sum, pair) == pair.result));
        let sum = sums.next().filter(|&sum| pairs.iter().all(|pair| bounded(sum, pair) == pair.result))?;
        let Sum { a, b, c } = sum;
        let inner = match c == 0.0 {
            true => format!("__fmul_rn(r{second}, {})", f32_literal(b)),
            false => format!("fmaf(r{second}, {}, {})", f32_literal(b), f32_literal(c)),
        };
        let mut value = format!("above_whole(fmaf(r{first}, {}, {inner}))", f32_literal(a));
        if pairs.iter().any(|pair| sum.rounded(pair.u, pair.v) < low) {
            value = format!("fmaxf({value}, {})", above_literal(low.into()));
        }
        if pairs.iter().any(|pair| sum.rounded(pair.u, pair.v) > high) {
            value = format!("fminf({value}, {})", above_literal(high.into()));
        }
        Some(value)
    }

    /// The two registers of 8 bits that alone decide a register's value, if there are such; the later one comes first.
    fn two_bytes(&self, result: usize) -> Option<[usize; 2]> {
        let mut deciding: Vec<Option<Vec<usize>>> = Vec::new();
        for (number, instruction) in self.program.instructions[..=result].iter().enumerate() {
            let is_input = matches!(instruction, Instruction::Input(_));
            let of_operands = instruction.operands().try_fold(Vec::new(), |mut all, operand| {
                all.extend(deciding[self.at(operand)].as_ref()?);
                all.sort_unstable();
                all.dedup();
                (all.len() <= 2).then_some(all)
            });
            deciding.push(match of_operands.filter(|_| !is_input) {
                None if self.facts[number].is_byte() => Some(vec![number]),
                decided => decided,
            });
        }
        match deciding.pop()??[..] {
            [a, b] => Some([b, a]),
            _ => None,
        }
    }

    /// Factors of the two registers, and a constant, that give a register's value if nothing is rounded or bounded in between.
    fn weights(&self, result: usize, [first, second]: [usize; 2]) -> Option<(f64, f64, f64)> {
        type Weights = (f64, f64, f64);
        let scaled = |(a, b, c): Weights, by: f64| (a * by, b * by, c * by);
        let sum = |x: Weights, y: Weights| (x.0 + y.0, x.1 + y.1, x.2 + y.2);
        let mut all: Vec<Option<Weights>> = Vec::new();
        for (number, &instruction) in self.program.instructions[..=result].iter().enumerate() {
            let of = |operand: u8| all[self.at(operand)];
            let weights = match instruction {
                _ if number == first => Some((1.0, 0.0, 0.0)),
                _ if number == second => Some((0.0, 1.0, 0.0)),
                Instruction::Float(value) => Some((0.0, 0.0, f64::from(value as f32))),
                Instruction::Unary(Unary::Round | Unary::Relu, x) => of(x),
                Instruction::Binary(op, x, y) => match (op, self.constant(x), self.constant(y)) {
                    (Binary::Add, ..) => of(x).zip(of(y)).map(|(x, y)| sum(x, y)),
                    (Binary::Sub, ..) => of(x).zip(of(y)).map(|(x, y)| sum(x, scaled(y, -1.0))),
                    (Binary::Mul, _, Some(by)) => of(x).map(|x| scaled(x, by)),
                    (Binary::Mul, Some(by), _) => of(y).map(|y| scaled(y, by)),
                    (Binary::Div, _, Some(by)) => of(x).map(|x| scaled(x, 1.0 / by)),
                    (Binary::Min | Binary::Max, _, Some(_)) => of(x),
                    (Binary::Min | Binary::Max, Some(_), _) => of(y),
                    _ => None,
                },
                _ => None,
            };
            all.push(weights);
        }
        all.pop()?.filter(|(a, b, c)| (*a as f32).is_normal() && (*b as f32).is_normal() && c.is_finite())
    }

    /// All pairs of values, with what they give.
    fn pairs(&self, result: usize, registers: [usize; 2]) -> Option<Vec<Pair>> {
        let [first, second] = registers.map(|register| self.bytes(register));
        let (u, v): (Vec<f32>, Vec<f32>) =
            first.flat_map(|u| second.clone().map(move |v| (u as f32, v as f32))).unzip();
        let results = self.computed(result, &registers, &[&u, &v])?;
        Some(u.into_iter().zip(v).zip(results).map(|((u, v), result)| Pair { u, v, result }).collect())
    }
}

/// A number so many units in the last place larger.
fn varied(value: f64, units: i32) -> f32 {
    f32::from_bits((value as f32).to_bits().wrapping_add_signed(units))
}

#[cfg(test)]
mod tests {
    use super::super::{Source, whole_functions};
    use super::*;
    use crate::DType;
    use crate::host::testing::Random;
    use crate::pointwise::{Class, Program};

    /// The printed functions of a sum, requantised, joined with bytes of another scale by `join`, and requantised again.
    fn joined(join: Binary, [own, other, scale]: [f32; 3], zero: f32) -> String {
        use Instruction::{Binary as Two, Float, Input, Unary as One};
        let instructions = [
            Input(0),
            Input(1),
            Two(Binary::Mul, 0, 1),
            One(Unary::Round, 2),
            Float(-128.0),
            Two(Binary::Max, 3, 4),
            Float(127.0),
            Two(Binary::Min, 5, 6),
            Float(own.into()),
            Two(Binary::Mul, 7, 8),
            Input(2),
            Float(zero.into()),
            Two(Binary::Sub, 10, 11),
            Float(other.into()),
            Two(Binary::Mul, 12, 13),
            Two(join, 9, 14),
            One(Unary::Relu, 15),
            Float(scale.into()),
            Two(Binary::Div, 16, 17),
            One(Unary::Round, 18),
        ];
        let program = Program { class: Class::F32, inputs: 3, instructions: instructions.into_iter().collect() };
        let sources = [Source::Integer(DType::I32), Source::Channel, Source::Integer(DType::I8)];
        whole_functions("f", &program, &sources, DType::I8).expect("of f32")
    }

    #[test]
    fn residual_sums_are_weighted_sums() {
        let mut random = Random::new(3);
        let mut found = 0;
        for number in 0..40 {
            let mut scale = || 0.02 + 0.05 * random.next().abs();
            let scales = [scale(), scale(), scale()];
            let text = joined(Binary::Add, scales, (number % 3) as f32);
            found += u32::from(text.contains("above_whole(fmaf(r10, "));
        }
        // Where roundings of the reference kernel fall on both sides of a half, no sum gives the same.
        assert!(found >= 36, "{found} of 40");
    }

    #[test]
    fn products_of_two_values_are_none() {
        assert!(!joined(Binary::Mul, [0.03, 0.04, 0.05], 0.0).contains("above_whole(fmaf("));
    }
}
