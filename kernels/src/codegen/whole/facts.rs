//! What is known of the registers of a program: ranges, whether they are whole, whether they can be NaN, and the bytes that decide them.

use super::{BOUND, CHANNEL, Printer, ROUNDED, Source, quotient, range};
use crate::DType;
use crate::pointwise::{Binary, Instruction, Unary};

/// What is known of a register.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fact {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) whole: bool,
    pub(super) nan: bool,
}

impl Fact {
    const ANY: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY, whole: false, nan: true };

    fn new(low: f64, high: f64, whole: bool) -> Self {
        Self { low, high, whole, nan: false }
    }

    pub(super) fn within(self, low: f64, high: f64) -> bool {
        self.low >= low && self.high <= high
    }

    /// Whether an 8-bit table can be indexed by it.
    pub(super) fn is_byte(self) -> bool {
        self.whole && !self.nan && self.high - self.low <= 255.0 && self.within(-BOUND, BOUND)
    }
}

/// What bounds a quotient that is only rounded.
pub(super) struct Quotient {
    /// Bounds of the rounded quotient: whole numbers.
    low: f64,
    high: f64,
    /// Bounds of the operand.
    pub(super) least: f32,
    pub(super) most: f32,
}

impl Printer<'_> {
    pub(super) fn find_facts(&mut self, sources: &[Source]) {
        (self.facts, self.bases) = (Vec::new(), Vec::new());
        for number in 0..self.program.instructions.len() {
            let fact = self.fact(number, sources);
            self.facts.push(fact);
            let base = self.base(number);
            self.bases.push(base);
        }
    }

    /// The range that a register is bounded to by what reads it: further values give the results of the nearest in it.
    pub(super) fn bounds_of_readers(&self, register: usize) -> (f64, f64) {
        let all = (f64::NEG_INFINITY, f64::INFINITY);
        if let Some(&Some(bounds)) = self.narrowed.get(register) {
            return bounds;
        }
        if register + 1 == self.program.instructions.len() {
            return self.stored.unwrap_or(all);
        }
        let mut readers = self.program.instructions.iter().enumerate().filter(|(_, i)| i.reads(register));
        let (Some((reader, &instruction)), None) = (readers.next(), readers.next()) else { return all };
        let (low, high) = self.bounds_of_readers(reader);
        let whole = |a: u8, b: u8| {
            let other = if self.at(a) == register { b } else { a };
            self.constant(other).filter(|c| c.fract() == 0.0 && c.abs() <= BOUND)
        };
        let bounds = match instruction {
            Instruction::Unary(Unary::Round, _) => (low, high),
            Instruction::Unary(Unary::Relu, _) => (low.max(0.0), high),
            Instruction::Binary(Binary::Max, a, b) => whole(a, b).map_or(all, |c| (low.max(c), high)),
            Instruction::Binary(Binary::Min, a, b) => whole(a, b).map_or(all, |c| (low, high.min(c))),
            Instruction::Binary(Binary::Add, a, b) => whole(a, b).map_or(all, |c| (low - c, high - c)),
            Instruction::Binary(Binary::Sub, a, b) if self.at(a) == register => {
                whole(a, b).map_or(all, |c| (low + c, high + c))
            }
            _ => all,
        };
        if bounds.0 <= bounds.1 { bounds } else { all }
    }

    /// Bounds to take before rounding, so that a sum can round; infinite where nothing exceeds them.
    pub(super) fn bounds_before_rounding(&self, round: usize, operand: u8) -> Option<(f64, f64)> {
        let fact = self.facts[self.at(operand)];
        if fact.within(-ROUNDED, ROUNDED) {
            return Some((f64::NEG_INFINITY, f64::INFINITY));
        }
        let (low, high) = self.bounds_of_readers(round);
        if fact.nan || low.max(fact.low) < -BOUND || high.min(fact.high) > BOUND {
            return None;
        }
        let low = if fact.low >= low { f64::NEG_INFINITY } else { low };
        Some((low, if fact.high <= high { f64::INFINITY } else { high }))
    }

    /// Whether a quotient that is only rounded is finite, and so is its operand.
    pub(super) fn is_finite_quotient(&self, operand: u8, by: f32) -> bool {
        let fact = self.facts[self.at(operand)];
        let largest = fact.low.abs().max(fact.high.abs());
        !fact.nan && largest < 1e30 && largest / f64::from(by) < 1e30
    }

    /// Bounds to take before such a quotient where it may be infinite: those that its readers take of it, and those times
    /// the divisor. Such a product is rounded, but what it gives still rounds to the whole number.
    pub(super) fn bounds_before_dividing(&self, quotient: usize, operand: u8, by: f32) -> Option<Quotient> {
        let (low, high) = self.bounds_of_readers(quotient);
        let bounded = low.abs().max(high.abs()) <= BOUND;
        let usable = bounded && !self.facts[self.at(operand)].nan && !self.is_finite_quotient(operand, by);
        usable.then_some(Quotient { low, high, least: low as f32 * by, most: high as f32 * by })
    }

    fn fact(&self, number: usize, sources: &[Source]) -> Fact {
        let of = |register: u8| self.facts[self.at(register)];
        match self.program.instructions[number] {
            Instruction::Input(input) => match sources.get(usize::from(input)) {
                Some(Source::Integer(dtype)) => match range(*dtype) {
                    Some((low, high)) => Fact::new(low, high, true),
                    // The largest becomes a float that is one more.
                    None if *dtype == DType::I32 => Fact::new(-2_147_483_648.0, 2_147_483_648.0, true),
                    None => Fact::new(-9.3e18, 1.9e19, true),
                },
                Some(Source::Channel) => Fact::new(-CHANNEL, CHANNEL, false),
                Some(Source::Number) => Fact { nan: false, ..Fact::ANY },
                Some(Source::Float) | None => Fact::ANY,
            },
            Instruction::Float(value) => {
                let value = f64::from(value as f32);
                Fact { low: value, high: value, whole: value.fract() == 0.0, nan: value.is_nan() }
            }
            Instruction::Unary(Unary::Relu, a) => {
                let a = of(a);
                Fact { low: a.low.max(0.0), high: a.high.max(0.0), ..a }
            }
            Instruction::Unary(Unary::Round, a) => {
                let x = of(a);
                let (low, high) = self.bounds_before_rounding(number, a).unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
                let clamped = |value: f64| value.round_ties_even().clamp(low, high);
                Fact { low: clamped(x.low), high: clamped(x.high), whole: true, ..x }
            }
            Instruction::Unary(Unary::Sigmoid, a) => Fact { nan: of(a).nan, ..Fact::new(0.0, 1.0, false) },
            Instruction::Binary(op, a, b) => {
                let by = quotient::divisor(self.program, number, b).filter(|_| op == Binary::Div);
                let fact = binary(op, of(a), of(b));
                match by.and_then(|by| self.bounds_before_dividing(number, a, by)) {
                    Some(q) => Fact::new(fact.low.clamp(q.low, q.high), fact.high.clamp(q.low, q.high), false),
                    None => fact,
                }
            }
            _ => Fact::ANY,
        }
    }
}

/// What is known of the result of two operands.
fn binary(op: Binary, a: Fact, b: Fact) -> Fact {
    let products = || [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
    let (low, high) = match op {
        Binary::Add => (a.low + b.low, a.high + b.high),
        Binary::Sub => (a.low - b.high, a.high - b.low),
        Binary::Mul => (
            products().into_iter().fold(f64::INFINITY, f64::min),
            products().into_iter().fold(f64::NEG_INFINITY, f64::max),
        ),
        Binary::Div if b.low == b.high && b.low > 0.0 => (a.low / b.low, a.high / b.low),
        Binary::Min => (a.low.min(b.low), a.high.min(b.high)),
        Binary::Max => (a.low.max(b.low), a.high.max(b.high)),
        _ => return Fact::ANY,
    };
    let infinite = |x: Fact| x.low.is_infinite() || x.high.is_infinite();
    let zero = |x: Fact| x.low <= 0.0 && x.high >= 0.0;
    let opposed = match op {
        Binary::Add | Binary::Sub => infinite(a) && infinite(b),
        Binary::Mul => infinite(a) && zero(b) || infinite(b) && zero(a),
        _ => false,
    };
    let nan = a.nan || b.nan || opposed;
    if low.is_nan() || high.is_nan() {
        return Fact::ANY;
    }
    let bounds = matches!(op, Binary::Min | Binary::Max);
    let exact = bounds || (low >= -16_777_216.0 && high <= 16_777_216.0 && op != Binary::Div);
    let whole = a.whole && b.whole && exact;
    if whole || bounds {
        return Fact { low, high, whole, nan };
    }
    // Results are rounded, and may overflow.
    let widened = |x: f64, up: f64| {
        let x = x + up * (x.abs() * 1e-6 + 1e-40);
        if x.abs() > 3.4e38 { x.signum() * f64::INFINITY } else { x }
    };
    Fact { low: widened(low, -1.0), high: widened(high, 1.0), whole: false, nan }
}
