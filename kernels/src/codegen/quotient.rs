//! Quotients that are only rounded to whole numbers, as quantising takes them, without the branch and the call of CUDA's
//! division.

use super::f32_literal;
use crate::pointwise::{Binary, Class, Instruction, Program, Unary};

/// The divisor of a program's instruction `quotient`, where it is a constant of moderate size and every reader rounds the
/// quotient.
pub(super) fn divisor(program: &Program, quotient: usize, divisor: u8) -> Option<f32> {
    let &Instruction::Float(value) = program.instructions.get(usize::from(divisor))? else { return None };
    let rounds = |instruction: &Instruction| matches!(instruction, Instruction::Unary(Unary::Round, _));
    let is_result = quotient + 1 >= program.instructions.len();
    let rounded = !is_result && program.instructions.iter().filter(|i| i.reads(quotient)).all(rounds);
    let value = value as f32;
    (program.class == Class::F32 && rounded && (1e-30..1e30).contains(&value)).then_some(value)
}

/// Whether a program has such quotients.
pub(crate) fn are_in(program: &Program) -> bool {
    program.instructions.iter().enumerate().any(|(number, instruction)| {
        matches!(*instruction, Instruction::Binary(Binary::Div, _, by) if divisor(program, number, by).is_some())
    })
}

/// The expression of register a over the divisor: by way of the reciprocal, corrected by the remainder, which a fused
/// multiply-add gives exactly. It is correctly rounded but where the quotient is within 2⁻²² of its last place of the middle
/// between two floats, and a half of an odd number is always itself. (Markstein, "Computation of elementary functions on the
/// IBM RISC System/6000 processor", 1990.)
pub(super) fn expression(a: u8, divisor: f32) -> String {
    format!("quotient(r{a}, {}, {})", f32_literal(divisor), f32_literal(divisor.recip()))
}

#[cfg(test)]
mod tests {
    use super::super::{Arithmetic, program_function};
    use super::*;
    use crate::host::testing::Random;

    #[test]
    fn only_quotients_that_are_rounded_are_computed_so() {
        let quotient = [Instruction::Input(0), Instruction::Float(0.3), Instruction::Binary(Binary::Div, 0, 1)];
        let source = |rest: &[Instruction], arithmetic| {
            let instructions = quotient.iter().chain(rest).copied().collect();
            program_function("f", &Program { class: Class::F32, inputs: 1, instructions }, arithmetic)
        };
        let round = Instruction::Unary(Unary::Round, 2);
        assert!(source(&[round], Arithmetic::Exact).contains("quotient(r0"));
        assert!(!source(&[round], Arithmetic::Full).contains("quotient(r0"));
        for rest in [&[][..], &[Instruction::Unary(Unary::Floor, 2)], &[round, Instruction::Binary(Binary::Add, 2, 3)]]
        {
            assert!(!source(rest, Arithmetic::Exact).contains("quotient(r0"));
        }
    }

    #[test]
    fn they_round_to_the_same_whole_numbers() {
        // `quotient` of the prelude.
        let quotient = |x: f32, by: f32| {
            let reciprocal = by.recip();
            let near = x * reciprocal;
            let refined = (-near).mul_add(by, x).mul_add(reciprocal, near);
            if refined.is_nan() { near } else { refined }
        };
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let by = (random.next() + 1.5) * (random.next() * 20.0).exp2();
            for whole in [0.0_f32, 1.0, 3.0, 17.0, 100.0, 254.0] {
                // Ties and their neighbours.
                let tie = (whole + 0.5) * by;
                for distance in -3..=3_i32 {
                    let x = f32::from_bits(tie.to_bits().wrapping_add_signed(distance));
                    assert_eq!(quotient(x, by).round_ties_even(), (x / by).round_ties_even(), "{x:e} / {by:e}");
                }
            }
        }
        assert_eq!(quotient(f32::INFINITY, 0.3), f32::INFINITY);
        assert_eq!(quotient(f32::NEG_INFINITY, 0.3), f32::NEG_INFINITY);
        assert!(quotient(f32::NAN, 0.3).is_nan());
    }

    #[test]
    fn operands_bounded_by_products_give_the_bounded_whole_numbers() {
        // `quotient_bounded` of `whole.cu`, as `whole.rs` calls it.
        let bounded = |x: f32, by: f32, low: f32, high: f32| {
            let (x, reciprocal) = (x.max(low * by).min(high * by), by.recip());
            let near = x * reciprocal;
            (-near).mul_add(by, x).mul_add(reciprocal, near).round_ties_even()
        };
        let mut random = Random::new(2);
        for _ in 0..2000 {
            let by = (random.next() + 1.5) * (random.next() * 90.0).exp2();
            for (low, high) in [(-128.0, 127.0), (0.0, 255.0), (-391.0, -3.0), (5.0, 1_048_576.0)] {
                let near = [low, high].map(|bound| bound * by);
                let steps =
                    near.iter().flat_map(|x| (-3..=3).map(|d| f32::from_bits(x.to_bits().wrapping_add_signed(d))));
                let ties = [low - 0.5, low + 0.5, high - 0.5, high + 0.5].map(|tie| tie * by);
                for x in steps.chain(ties).chain([0.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY]) {
                    let wanted = (x / by).round_ties_even().max(low).min(high);
                    assert_eq!(bounded(x, by, low, high), wanted, "{x:e} / {by:e} in {low}..{high}");
                }
            }
        }
    }
}
