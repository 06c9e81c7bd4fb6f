//! Results that two 8-bit values alone decide, as a weighted sum or as a product of them: `(u − z₁)·s₁ + (v − z₂)·s₂`, divided by a
//! third scale and rounded, is `round(a·u + b·v + c)` but where that is within a few units in the last place of a half, and so are
//! products. All pairs are tried, by the reference kernel's arithmetic and by that of the printed expression.

use super::saturated::{self, Word};
use super::{Printer, ROUNDED, WHOLE_SUM, above_literal, f32_literal};
use crate::DType;
use crate::pointwise::{Binary, Instruction, Unary};

/// Fewest instructions between the two values and the result for which the expression is shorter.
const LEAST: usize = 4;
/// Distance of an exact value from a half below which the last places of its factors may decide: more than what the reference kernel's
/// roundings move it.
const NEAR: f64 = 1e-3;
/// Units in the last place by which factors are varied.
const UNITS: [i32; 7] = [0, 1, -1, 2, -2, 3, -3];
/// What values and factors of a product are multiplied by, so that the product is one of numbers next to zero: both stay normal.
const VALUE_UNIT: f32 = f32::from_bits((127 - 75) << 23);
const FACTOR_UNIT: f32 = f32::from_bits((127 - 74) << 23);
/// Values that are added to a sum, beside its constant.
const SHIFTS: [f64; 5] = [0.0, 1e-6, -1e-6, 4e-6, -4e-6];

/// What two values give before it is rounded and bounded.
#[derive(Clone, Copy, Debug)]
enum Form<T> {
    /// `a·u + b·v + c`.
    Sum { a: T, b: T, c: T },
    /// `(u − u₀)·a·(v − v₀) + c`.
    Product { zeros: [T; 2], a: T, c: T },
}

impl Form<f64> {
    fn exact(self, u: f32, v: f32) -> f64 {
        let (u, v) = (f64::from(u), f64::from(v));
        match self {
            Self::Sum { a, b, c } => a * u + b * v + c,
            Self::Product { zeros, a, c } => (u - zeros[0]) * a * (v - zeros[1]) + c,
        }
    }

    fn scaled(self, by: f64) -> Self {
        match self {
            Self::Sum { a, b, c } => Self::Sum { a: a * by, b: b * by, c: c * by },
            Self::Product { zeros, a, c } => Self::Product { zeros, a: a * by, c: c * by },
        }
    }

    fn plus(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Sum { a, b, c }, Self::Sum { a: d, b: e, c: f }) => Some(Self::Sum { a: a + d, b: b + e, c: c + f }),
            (Self::Product { zeros, a, c }, Self::Sum { a: 0.0, b: 0.0, c: d })
            | (Self::Sum { a: 0.0, b: 0.0, c: d }, Self::Product { zeros, a, c }) => {
                Some(Self::Product { zeros, a, c: c + d })
            }
            _ => None,
        }
    }

    fn times(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Sum { a: 0.0, b: 0.0, c: by }, x) | (x, Self::Sum { a: 0.0, b: 0.0, c: by }) => Some(x.scaled(by)),
            (Self::Sum { a, b: 0.0, c }, Self::Sum { a: 0.0, b, c: d })
            | (Self::Sum { a: 0.0, b, c: d }, Self::Sum { a, b: 0.0, c }) => {
                Some(Self::Product { zeros: [-c / a, -d / b].map(f64::round), a: a * b, c: 0.0 })
            }
            _ => None,
        }
    }

    /// Forms in f32 whose factors are a few units in the last place from these.
    fn near(self) -> Vec<Form<f32>> {
        let varied =
            |value: f64| UNITS.map(|units| f32::from_bits((value as f32).to_bits().wrapping_add_signed(units)));
        match self {
            Self::Sum { a, b, c } => {
                let of_shift = |shift: f64| {
                    let c = (c + shift) as f32;
                    varied(a).into_iter().flat_map(move |a| varied(b).map(|b| Form::Sum { a, b, c }))
                };
                SHIFTS.into_iter().flat_map(of_shift).collect()
            }
            Self::Product { zeros, a, c } => {
                let zeros = zeros.map(|zero| zero as f32);
                varied(a).map(|a| Form::Product { zeros, a, c: c as f32 }).into()
            }
        }
    }

    /// Whether its factors and its constant are usable in f32.
    fn is_normal(self) -> bool {
        match self {
            Self::Sum { a, b, c } => (a as f32).is_normal() && (b as f32).is_normal() && c.is_finite(),
            Self::Product { a, c, .. } => (1e-9..1e9).contains(&a.abs()) && c.fract() == 0.0 && c.abs() < ROUNDED / 2.0,
        }
    }
}

impl Form<f32> {
    /// The whole number that the printed expression gives before bounds.
    fn rounded(self, u: f32, v: f32) -> f32 {
        match self {
            Self::Sum { a, b, c } => {
                let inner = if c == 0.0 { v * b } else { v.mul_add(b, c) };
                (u.mul_add(a, inner) + WHOLE_SUM as f32) - WHOLE_SUM as f32
            }
            Self::Product { zeros: [of_u, of_v], a, c } => {
                (v - of_v).mul_add((u - of_u) * a, WHOLE_SUM as f32 + c) - WHOLE_SUM as f32
            }
        }
    }

    /// That number plus 1.5 · 2²³, of two registers.
    fn expression(self, [u, v]: [usize; 2]) -> String {
        match self {
            Self::Sum { .. } => format!("above_whole({})", self.sum([u, v])),
            // Factors are of the later value: scales of channels, which many elements share.
            Self::Product { zeros: [of_u, of_v], a, c } => {
                let factor = format!("__fmul_rn({}, {})", less(u, of_u), f32_literal(a));
                format!("fmaf({}, {factor}, {})", less(v, of_v), above_literal(c.into()))
            }
        }
    }

    /// The same as the bits of a number next to zero, `more` than it.
    fn bits(self, [u, v]: [usize; 2], more: i32) -> String {
        match self {
            Self::Sum { .. } => saturated::bits(&self.sum([u, v]), more),
            Self::Product { zeros: [of_u, of_v], a, c } => {
                let factor = format!("__fmul_rn({}, {})", less(u, of_u), f32_literal(a * FACTOR_UNIT));
                let value = format!("__fmul_rn({}, {})", less(v, of_v), f32_literal(VALUE_UNIT));
                format!("__float_as_uint(fmaf({value}, {factor}, {}))", saturated::number(c as i32 + more))
            }
        }
    }

    /// A sum before it is rounded.
    fn sum(self, [u, v]: [usize; 2]) -> String {
        let Self::Sum { a, b, c } = self else { return String::new() };
        let inner = match c == 0.0 {
            true => format!("__fmul_rn(r{v}, {})", f32_literal(b)),
            false => format!("fmaf(r{v}, {}, {})", f32_literal(b), f32_literal(c)),
        };
        format!("fmaf(r{u}, {}, {inner})", f32_literal(a))
    }
}

/// A register less a zero point.
fn less(register: usize, zero: f32) -> String {
    match zero == 0.0 {
        true => format!("r{register}"),
        false => format!("__fsub_rn(r{register}, {})", f32_literal(zero)),
    }
}

/// How words are scaled: the expressions of a channel's `factor` of its scale `x1`, of part `j` of a `word`, and of the word of four
/// `parts`.
pub(super) struct Scaling {
    pub(super) factor: String,
    pub(super) part: String,
    pub(super) word: String,
}

/// A result that two registers of 8 bits give.
pub(super) struct TwoBytes {
    form: Form<f32>,
    registers: [usize; 2],
    /// Of all results.
    low: f32,
    high: f32,
    /// Whether the form gives less, and more.
    exceeds: [bool; 2],
}

impl TwoBytes {
    /// The result, bounded, plus 1.5 · 2²³.
    pub(super) fn expression(&self) -> String {
        let mut value = self.form.expression(self.registers);
        if self.exceeds[0] {
            value = format!("fmaxf({value}, {})", above_literal(self.low.into()));
        }
        if self.exceeds[1] {
            value = format!("fminf({value}, {})", above_literal(self.high.into()));
        }
        value
    }

    /// What is bounded, as the bits of a number next to zero, `more` than it.
    pub(super) fn bits(&self, more: i32) -> String {
        self.form.bits(self.registers, more)
    }

    /// The registers, the later one first.
    pub(super) fn registers(&self) -> [usize; 2] {
        self.registers
    }

    /// Factors and parts of a product whose earlier register is a byte of type `dtype` in a word. Its bytes become numbers of
    /// [`VALUE_UNIT`] as they become floats.
    pub(super) fn scaling(&self, word: Word, dtype: DType) -> Option<Scaling> {
        let Form::Product { zeros: [of_factor, of_value], a, c } = self.form else { return None };
        // A sign bit exchanged is 128 more.
        let (exchanged, more) = if dtype == DType::I8 { (" ^ 0x80808080u", 128.0) } else { ("", 0.0) };
        let zero = (0.0..256.0).contains(&(of_value + more)).then_some((of_value + more) as u32)?;
        let unit = VALUE_UNIT.to_bits() + (23 << 23);
        let number = saturated::number(c as i32 + word.more());
        let factor = format!("__fsub_rn(x1, {})", f32_literal(of_factor));
        (word != Word::LastBytes).then(|| Scaling {
            factor: format!("__fmul_rn({factor}, {})", f32_literal(a * FACTOR_UNIT)),
            part: format!(
                "__float_as_uint(fmaf(__fsub_rn(__uint_as_float(__byte_perm(word{exchanged}, {unit:#x}u, 0x7650 | j)), \
                 __uint_as_float({:#x}u)), factor, {number}))",
                unit + zero
            ),
            word: word.expression().into(),
        })
    }

    /// The least and the most that results are.
    pub(super) fn range(&self) -> [f64; 2] {
        [self.low.into(), self.high.into()]
    }

    /// Whether there is less, and more, before results are bounded.
    pub(super) fn exceeds(&self) -> [bool; 2] {
        self.exceeds
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
    /// The result as a bounded sum or product of two bytes.
    pub(super) fn of_two_bytes(&self, result: usize) -> Option<TwoBytes> {
        let registers = self.two_bytes(result)?;
        let [first, second] = registers;
        let between =
            |&register: &usize| register != first && register != second && self.constant(register as u8).is_none();
        if (first.min(second)..=result).filter(between).count() < LEAST || !self.facts[result].whole {
            return None;
        }
        let exact = self.form(result, registers)?;
        let pairs = self.pairs(result, registers)?;
        let (low, high) = pairs.iter().fold((f32::MAX, f32::MIN), |(l, h), p| (l.min(p.result), h.max(p.result)));
        let gives = |form: Form<f32>, pair: &Pair| form.rounded(pair.u, pair.v).max(low).min(high) == pair.result;
        if !pairs.iter().all(|p| p.result.fract() == 0.0 && exact.exact(p.u, p.v).abs() < ROUNDED / 2.0) {
            return None;
        }
        let is_near = |p: &&Pair| ((exact.exact(p.u, p.v) - 0.5).rem_euclid(1.0) - 0.5).abs() > 0.5 - NEAR;
        let near: Vec<Pair> = pairs.iter().filter(is_near).copied().collect();
        let mut forms = exact.near().into_iter().filter(|&form| near.iter().all(|pair| gives(form, pair)));
        let form = forms.next().filter(|&form| pairs.iter().all(|pair| gives(form, pair)))?;
        let less = pairs.iter().any(|pair| form.rounded(pair.u, pair.v) < low);
        let more = pairs.iter().any(|pair| form.rounded(pair.u, pair.v) > high);
        Some(TwoBytes { form, registers, low, high, exceeds: [less, more] })
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
            deciding.push(match of_operands.filter(|_| !is_input && !self.looked_up[number]) {
                None if self.facts[number].is_byte() => Some(vec![number]),
                decided => decided,
            });
        }
        match deciding.pop()??[..] {
            [a, b] => Some([b, a]),
            _ => None,
        }
    }

    /// How two registers give a register's value if nothing is rounded or bounded in between.
    fn form(&self, result: usize, [first, second]: [usize; 2]) -> Option<Form<f64>> {
        let mut all: Vec<Option<Form<f64>>> = Vec::new();
        for (number, &instruction) in self.program.instructions[..=result].iter().enumerate() {
            let of = |operand: u8| all[self.at(operand)];
            let form = match instruction {
                _ if number == first => Some(Form::Sum { a: 1.0, b: 0.0, c: 0.0 }),
                _ if number == second => Some(Form::Sum { a: 0.0, b: 1.0, c: 0.0 }),
                Instruction::Float(value) => Some(Form::Sum { a: 0.0, b: 0.0, c: f64::from(value as f32) }),
                Instruction::Unary(Unary::Round | Unary::Relu, x) => of(x),
                Instruction::Binary(op, x, y) => match (op, self.constant(x), self.constant(y)) {
                    (Binary::Add, ..) => of(x).zip(of(y)).and_then(|(x, y)| x.plus(y)),
                    (Binary::Sub, ..) => of(x).zip(of(y)).and_then(|(x, y)| x.plus(y.scaled(-1.0))),
                    (Binary::Mul, ..) => of(x).zip(of(y)).and_then(|(x, y)| x.times(y)),
                    (Binary::Div, _, Some(by)) => of(x).map(|x| x.scaled(1.0 / by)),
                    (Binary::Min | Binary::Max, _, Some(_)) => of(x),
                    (Binary::Min | Binary::Max, Some(_), _) => of(y),
                    _ => None,
                },
                _ => None,
            };
            all.push(form);
        }
        all.pop()?.filter(|form| form.is_normal())
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

#[cfg(test)]
mod tests {
    use super::super::{Source, Tables, tests::stored, whole_functions};
    use super::*;
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
        whole_functions("f", &program, &sources, DType::I8, Tables::InMemory).expect("of f32")
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
    fn bytes_that_are_looked_up_are_summed_as_bytes() {
        use Instruction::{Binary as Two, Float, Input, Unary as One};
        let bounded = |round: u8, scale: f32| {
            [
                One(Unary::Round, round),
                Float(-128.0),
                Two(Binary::Max, round + 1, round + 2),
                Float(127.0),
                Two(Binary::Min, round + 3, round + 4),
                Float(scale.into()),
                Two(Binary::Mul, round + 5, round + 6),
            ]
        };
        // A SiLU of bytes, rounded to bytes, and added to a residual of bytes.
        let mut instructions = vec![Input(0), Input(1), Two(Binary::Mul, 0, 1)];
        instructions.extend(bounded(2, 0.05));
        instructions.extend([One(Unary::Sigmoid, 9), Two(Binary::Mul, 9, 10), Float(0.04), Two(Binary::Div, 11, 12)]);
        instructions.extend(bounded(13, 0.0413));
        instructions.extend([
            Input(2),
            Float(0.0317),
            Two(Binary::Mul, 21, 22),
            Two(Binary::Add, 20, 23),
            Float(0.0629),
            Two(Binary::Div, 24, 25),
            One(Unary::Round, 26),
        ]);
        let program = Program { class: Class::F32, inputs: 3, instructions: instructions.into_iter().collect() };
        let sources = [Source::Integer(DType::I32), Source::Channel, Source::Integer(DType::I8)];
        let text = whole_functions("f", &program, &sources, DType::I8, Tables::InMemory).expect("of f32");
        assert!(text.contains("const u8 f_table_18[256]") && !text.contains("const u32 f_table"), "{text}");
        assert!(text.contains("above_whole(fmaf(r21, "), "{text}");
    }

    /// The byte of a product of two bytes, with zero points, requantised: as a gate scales a channel.
    fn product(zeros: [f32; 3], [own, other, scale]: [f32; 3]) -> String {
        use Instruction::{Binary as Two, Float, Input, Unary as One};
        let instructions = [
            Input(0),
            Float(zeros[0].into()),
            Two(Binary::Sub, 0, 1),
            Float(own.into()),
            Two(Binary::Mul, 2, 3),
            Input(1),
            Float(zeros[1].into()),
            Two(Binary::Sub, 5, 6),
            Float(other.into()),
            Two(Binary::Mul, 7, 8),
            Two(Binary::Mul, 4, 9),
            Float(scale.into()),
            Two(Binary::Div, 10, 11),
            One(Unary::Round, 12),
            Float(zeros[2].into()),
            Two(Binary::Add, 13, 14),
        ];
        let program = Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() };
        whole_functions("f", &program, &[Source::Integer(DType::I8); 2], DType::I8, Tables::InMemory).expect("of f32")
    }

    #[test]
    fn gates_are_one_multiply_add() {
        let mut random = Random::new(4);
        let mut found = 0;
        for number in 0..40 {
            let zeros = [[0.0; 3], [-5.0, -128.0, 3.0]][number % 2];
            let scales = [0.02 + 0.05 * random.next().abs(), 1.0 / 256.0, 0.02 + 0.05 * random.next().abs()];
            found += u32::from(stored(&product(zeros, scales)).contains("fmaf("));
        }
        assert!(found >= 36, "{found} of 40");
        let text = product([0.0; 3], [0.0419, 1.0 / 255.0, 0.0373]);
        let byte = stored(&text);
        assert!(
            byte.contains("= fminf(fmaxf(fmaf(r0, __fmul_rn(r5, ") || byte.contains("= fmaf(r0, __fmul_rn(r5, "),
            "{byte}"
        );
    }

    #[test]
    fn quotients_of_two_values_are_none() {
        let text = joined(Binary::Div, [0.03, 0.04, 0.05], 0.0);
        assert!(!stored(&text).contains("fmaf("), "{text}");
    }
}
