//! Bytes by saturation. Next to zero floats are the whole numbers times 2⁻¹⁴⁹, and their bits are these numbers: a sum with one of them
//! rounds, half to even, as one with 1.5 · 2²³ does, but then one instruction makes bytes of two and bounds them to 0 and 255. Negative
//! results have the sign bit, so that they become 0; what is too large, infinities among them, becomes 255.

use super::{Above, Outcome, Printer, Scaled};
use crate::DType;
use crate::pointwise::{Binary, Instruction, Unary};
use std::ops::RangeInclusive;

/// How a word comes of four parts, what `NAME_part` gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Their last bytes.
    LastBytes,
    /// The parts, saturated.
    Unsigned,
    /// The same, bounded to 127.
    Positive,
    /// The parts, which are 128 more than the bytes, saturated.
    Signed,
}

impl Word {
    /// How results of these bounds are stored, of which some lie below or above them before they are bounded; none where saturation
    /// bounds them otherwise.
    fn of(output: DType, [low, high]: [f64; 2], [below, above]: [bool; 2]) -> Option<Self> {
        let (least, most) = super::range(output)?;
        let word = match output {
            DType::U8 => Self::Unsigned,
            _ if low >= 0.0 && above => Self::Positive,
            _ if low >= 0.0 => Self::Unsigned,
            _ => Self::Signed,
        };
        let least = if word == Self::Signed { least } else { 0.0 };
        (!(below && low != least || above && high != most)).then_some(word)
    }

    /// What the parts are more than the bytes.
    pub(super) fn more(self) -> i32 {
        if self == Self::Signed { 128 } else { 0 }
    }

    /// The expression of the word of four `parts`.
    pub(super) fn expression(self) -> &'static str {
        match self {
            Self::LastBytes => "pack_bytes(parts)",
            Self::Unsigned => "saturated_word(parts)",
            Self::Positive => "positive_word(saturated_word(parts))",
            Self::Signed => "saturated_word(parts) ^ 0x80808080u",
        }
    }
}

/// The bits of an expression, rounded, `more` than it.
pub(super) fn bits(x: &str, more: i32) -> String {
    // A tie goes to the even sum, which is the even number's only where what is added is even.
    let even = number(more & !1);
    if more % 2 == 0 { format!("whole_bits({x}, {even})") } else { format!("odd_bits({x}, {even})") }
}

/// A whole number next to zero.
pub(super) fn number(value: i32) -> String {
    let sign = if value < 0 { 0x8000_0000 } else { 0 };
    format!("__uint_as_float({}u)", value.unsigned_abs() | sign)
}

impl Printer<'_> {
    /// The expression of a part of what is stored, and how four of them become a word.
    pub(super) fn part(&self, result: usize, above: &[Above], outcome: &Outcome, output: DType) -> (String, Word) {
        let saturated = match (&above[result], outcome) {
            (Above::Byte(_), _) => None,
            (_, Outcome::Joined(joined)) => {
                self.word(output, joined.range(), joined.exceeds()).map(|word| (joined.bits(word.more()), word))
            }
            (_, Outcome::Scaled(scaled)) => self.part_of_scaled(scaled, output),
            (_, Outcome::Program) => self.rounded(result).and_then(|(operand, added)| {
                // Saturation takes a ReLU's place.
                let (operand, floor) = match self.program.instructions[operand] {
                    Instruction::Unary(Unary::Relu, x) if !self.facts[self.at(x)].nan => (self.at(x), f64::from(added)),
                    _ => (operand, f64::NEG_INFINITY),
                };
                let [low, high] = self.bounds_of_rounded(operand, added);
                let word = self.word(output, [low.max(floor), high], [low < floor, false])?;
                Some((bits(&format!("r{operand}"), added + word.more()), word))
            }),
        };
        saturated.unwrap_or_else(|| (self.byte(result, above, output), Word::LastBytes))
    }

    /// The same of a byte times a factor. A byte by itself is rounded here alone.
    fn part_of_scaled(&self, scaled: &Scaled, output: DType) -> Option<(String, Word)> {
        let range @ [low, high] = scaled.range.map(f64::from);
        let rounded = self.rounded(scaled.base).filter(|_| scaled.factor.is_none() && !self.looked_up[scaled.base]);
        let Some((operand, added)) = rounded else {
            let word = self.word(output, range, scaled.exceeds)?;
            return Some((bits(&scaled.product(), word.more()), word));
        };
        let [least, most] = self.bounds_of_rounded(operand, added);
        let word = self.word(output, range, [least < low, most > high])?;
        Some((bits(&format!("r{operand}"), added + word.more()), word))
    }

    /// How results between these bounds are stored, of which some are less, and more, before they are bounded.
    fn word(&self, output: DType, [low, high]: [f64; 2], [less, more]: [bool; 2]) -> Option<Word> {
        let (least, most) = self.stored?;
        Word::of(output, [low.max(least), high.min(most)], [less || low < least, more || high > most])
    }

    /// The least and the most that a register is when it is rounded and so much is added.
    fn bounds_of_rounded(&self, register: usize, added: i32) -> [f64; 2] {
        let fact = self.facts[register];
        [fact.low, fact.high].map(|x| x.round_ties_even() + f64::from(added))
    }

    /// The index of a table of what follows a register that is rounded, and the value of that register that has the index 0.
    pub(super) fn saturated_index(
        &self,
        register: usize,
        above: &[Above],
        range: RangeInclusive<i32>,
    ) -> Option<(String, i32)> {
        let (operand, added) = self.rounded(register)?;
        let more = -range.start();
        let fits = !self.looked_up[register] && !matches!(above[register], Above::Byte(_)) && range.end() + more <= 255;
        fits.then(|| (format!("saturated_byte({})", bits(&format!("r{operand}"), more + added)), *range.start()))
    }

    /// The register that another one rounds, and what it adds: neither NaN nor whole.
    fn rounded(&self, register: usize) -> Option<(usize, i32)> {
        let (round, added) = match self.program.instructions[register] {
            Instruction::Binary(Binary::Add, round, constant) => {
                let added = self.constant(constant).filter(|added| added.fract() == 0.0 && added.abs() <= 255.0)?;
                (usize::from(round), added as i32)
            }
            _ => (register, 0),
        };
        let Instruction::Unary(Unary::Round, operand) = self.program.instructions[round] else { return None };
        let fact = self.facts[usize::from(operand)];
        (!fact.nan && !fact.whole).then_some((operand.into(), added))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Source, Tables,
        tests::{behind_bytes, function},
        whole_functions,
    };
    use super::*;
    use crate::host::testing::Random;
    use crate::pointwise::{Class, Program};

    /// `bits` as the GPU computes them.
    fn bits_of(x: f32, more: i32) -> i32 {
        let unit = f32::from_bits(1);
        let number = |value: i32| f32::from_bits(value.unsigned_abs()).copysign(value as f32);
        let even = x.mul_add(unit, number(more & !1));
        (if more % 2 == 0 { even } else { even + unit }).to_bits().cast_signed()
    }

    #[test]
    fn bits_saturate_to_the_rounded_number() {
        let mut random = Random::new(7);
        let edges =
            [0.5, 1.5, 2.5, 126.5, 127.5, 128.5, 254.5, 255.5, 1e9, 3e38, f32::INFINITY, 0.0, 1e-30, 0.499_999_97];
        let some = (0..2000).map(|_| 300.0 * random.next());
        for x in edges.into_iter().chain(some).flat_map(|x| [x, -x]) {
            for more in [0, 128, 1, 127, 5, -3, -128] {
                let expected = (x.round_ties_even() + more as f32).clamp(0.0, 255.0);
                assert_eq!(bits_of(x, more).clamp(0, 255), expected as i32, "{x} and {more}");
            }
        }
    }

    /// The part and the word of a sum times a factor, through `rest` and rounded.
    fn printed(rest: &[Instruction], output: DType) -> [String; 2] {
        let mut instructions =
            vec![Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Mul, 0, 1)];
        instructions.extend(rest);
        instructions.push(Instruction::Unary(Unary::Round, instructions.len() as u8 - 1));
        let program = Program { class: Class::F32, inputs: 2, instructions: instructions.into_iter().collect() };
        let sources = [Source::Integer(DType::I32), Source::Channel];
        let text = whole_functions("f", &program, &sources, output, Tables::InMemory).expect("of f32");
        ["f_part", "f_word"].map(|name| {
            let (_, result) = function(&text, name).split_once("return ").expect("a result");
            result.split(';').next().unwrap_or_default().to_owned()
        })
    }

    #[test]
    fn nothing_but_saturation_bounds_what_is_stored() {
        let relu = [Instruction::Unary(Unary::Relu, 2)];
        for (rest, output, more, word) in [
            (&[][..], DType::U8, 0, Word::Unsigned),
            (&[], DType::I8, 128, Word::Signed),
            (&relu, DType::U8, 0, Word::Unsigned),
            (&relu, DType::I8, 0, Word::Positive),
        ] {
            let expected = [format!("whole_bits(r2, __uint_as_float({more}u))"), word.expression().to_owned()];
            assert_eq!(printed(rest, output), expected);
        }
    }

    #[test]
    fn bounds_within_those_of_the_type_stay() {
        let clipped =
            [Instruction::Unary(Unary::Round, 2), Instruction::Float(-7.0), Instruction::Binary(Binary::Max, 3, 4)];
        let [part, word] = printed(&clipped, DType::I8);
        assert!(!part.contains("whole_bits"), "{part}");
        assert_eq!(word, Word::LastBytes.expression());
    }

    #[test]
    fn what_a_byte_decides_is_not_computed_anew() {
        // A ReLU behind bytes, stored at their scale; the sum is rounded once, by the part.
        let relu = behind_bytes(&[Instruction::Unary(Unary::Relu, 9)], 0.05);
        assert!(function(&relu, "f_part").contains("return whole_bits(r2, __uint_as_float(0u));"), "{relu}");
        assert!(function(&relu, "f_word").contains(Word::Positive.expression()), "{relu}");
        // At another scale it is the byte times a factor.
        let scaled = behind_bytes(&[Instruction::Unary(Unary::Relu, 9)], 0.07);
        assert!(function(&scaled, "f_part").contains("return whole_bits(__fmul_rn(r3, "), "{scaled}");
        // And so is a SiLU of values far from zero.
        let silu = [
            Instruction::Float(1e4),
            Instruction::Binary(Binary::Mul, 9, 10),
            Instruction::Unary(Unary::Sigmoid, 11),
            Instruction::Binary(Binary::Mul, 9, 12),
        ];
        let silu = behind_bytes(&silu, 0.05);
        assert!(function(&silu, "f_part").contains("return whole_bits(r2, "), "{silu}");
    }

    #[test]
    fn words_bound_to_what_their_type_holds() {
        let all = [f64::NEG_INFINITY, f64::INFINITY];
        let of = |dtype, range: [f64; 2], exceeds| Word::of(dtype, range, exceeds);
        assert_eq!(of(DType::I8, [-128.0, 127.0], [true; 2]), Some(Word::Signed));
        assert_eq!(of(DType::I8, [-100.0, 127.0], [true, false]), None);
        assert_eq!(of(DType::I8, [-100.0, 100.0], [false; 2]), Some(Word::Signed));
        assert_eq!(of(DType::I8, [3.0, 127.0], [true, false]), None);
        assert_eq!(of(DType::I8, [0.0, 90.0], [true, true]), None);
        assert_eq!(of(DType::U8, [0.0, 200.0], [true, true]), None);
        assert_eq!(of(DType::F16, all, [false; 2]), None);
    }
}
