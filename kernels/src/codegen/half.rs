//! Functions of programs whose results are stored in sixteen bits.
//!
//! A stored result is rounded by 2⁻¹² (f16) or 2⁻⁹ (bf16) of itself. Functions within 2⁻¹⁸ do not show behind that, and take
//! a third of the instructions: the epilogue of a product by a narrow matrix is as long as the product. CUDA's intrinsics
//! for them are one instruction each; the functions are in the prelude.
//!
//! They give what the exact functions give for infinities and NaN. They take subnormal f32 for 0, and a quotient by more
//! than 2¹²⁶ is 0: f16 holds no operand for which that shows, but bf16 and f32 ones do.

use super::f32_literal;
use crate::pointwise::{Binary, Class, Instruction, Program, Unary};

/// Whether a program may use these: no instruction jumps where its operand hardly changes.
pub(super) fn suits(program: &Program) -> bool {
    let jumps = |instruction: &Instruction| match instruction {
        Instruction::Unary(op, _) => {
            matches!(op, Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Not | Unary::ToF16)
        }
        Instruction::Binary(op, ..) => {
            use Binary as B;
            matches!(op, B::Mod | B::Fmod | B::Equal | B::Less | B::LessOrEqual | B::Greater | B::GreaterOrEqual)
                || matches!(op, B::And | B::Or | B::Xor)
        }
        _ => false,
    };
    program.class == Class::F32 && !program.instructions.iter().any(jumps)
}

/// The shorter expression of an instruction, where there is one.
pub(super) fn expression(program: &Program, instruction: Instruction) -> Option<String> {
    Some(match instruction {
        Instruction::Unary(Unary::Exp, x) => format!("exp_16(r{x})"),
        Instruction::Unary(Unary::Sigmoid, x) => format!("sigmoid_16(r{x})"),
        Instruction::Unary(Unary::Tanh, x) => format!("tanh_16(r{x})"),
        Instruction::Unary(Unary::Sqrt, x) => format!("sqrt_16(r{x})"),
        Instruction::Unary(Unary::Rsqrt, x) => format!("rsqrt_16(r{x})"),
        Instruction::Unary(Unary::Reciprocal, x) => format!("reciprocal_16(r{x})"),
        Instruction::Binary(Binary::Div, a, b) => format!("divide_16(r{a}, r{b})"),
        Instruction::Binary(Binary::Add, a, b) => return one_plus(program, a, b).or_else(|| one_plus(program, b, a)),
        _ => return None,
    })
}

/// The instruction whose result is in a register.
fn at(program: &Program, register: u8) -> Option<Instruction> {
    program.instructions.get(usize::from(register)).copied()
}

/// `1 + erf(x)` and `1 + tanh(x)`, of both forms of GELU, as functions of their own: sums would lose the digits of negative x. A constant
/// factor of erf's operand becomes part of the polynomial's.
fn one_plus(program: &Program, one: u8, function: u8) -> Option<String> {
    if at(program, one) != Some(Instruction::Float(1.0)) {
        return None;
    }
    match at(program, function)? {
        Instruction::Unary(Unary::Erf, x) => Some(match scaled(program, x) {
            Some((of, scale)) => format!("one_plus_erf_16(r{of}, {})", f32_literal(scale)),
            None => format!("one_plus_erf_16(r{x}, 1.0f)"),
        }),
        Instruction::Unary(Unary::Tanh, x) => Some(format!("2.0f * sigmoid_16(2.0f * r{x})")),
        _ => None,
    }
}

/// What register `x` is a multiple of, and its factor: a constant whose powers are far from the limits of f32.
fn scaled(program: &Program, x: u8) -> Option<(u8, f32)> {
    let constant = |register: u8| match at(program, register)? {
        Instruction::Float(value) => Some(value),
        _ => None,
    };
    let (of, scale) = match at(program, x)? {
        Instruction::Binary(Binary::Mul, a, b) => {
            constant(b).map(|scale| (a, scale)).or_else(|| constant(a).map(|scale| (b, scale)))?
        }
        Instruction::Binary(Binary::Div, a, b) => (a, 1.0 / constant(b)?),
        _ => return None,
    };
    (0.1..=10.0).contains(&scale).then_some((of, scale as f32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(instructions: &[Instruction]) -> Program {
        Program { class: Class::F32, inputs: 1, instructions: instructions.iter().copied().collect() }
    }

    #[test]
    fn sums_of_one_and_a_function_are_functions() {
        let x = Instruction::Input(0);
        for (function, expected) in
            [(Unary::Erf, "one_plus_erf_16(r0, 1.0f)"), (Unary::Tanh, "2.0f * sigmoid_16(2.0f * r0)")]
        {
            let sum = Instruction::Binary(Binary::Add, 2, 1);
            let program = program(&[x, Instruction::Unary(function, 0), Instruction::Float(1.0), sum]);
            assert_eq!(expression(&program, sum).as_deref(), Some(expected));
        }
    }

    #[test]
    fn factors_of_the_error_function_are_constants() {
        for (constant, op) in [(0.5, Binary::Mul), (2.0, Binary::Div)] {
            let sum = Instruction::Binary(Binary::Add, 3, 4);
            let program = program(&[
                Instruction::Input(0),
                Instruction::Float(constant),
                Instruction::Binary(op, 0, 1),
                Instruction::Unary(Unary::Erf, 2),
                Instruction::Float(1.0),
                sum,
            ]);
            let expected = format!("one_plus_erf_16(r0, {})", f32_literal(0.5));
            assert_eq!(expression(&program, sum), Some(expected));
        }
    }

    #[test]
    fn quotients_that_are_rounded_stay_exact() {
        let quotient = [Instruction::Input(0), Instruction::Float(3.0), Instruction::Binary(Binary::Div, 0, 1)];
        assert!(suits(&program(&quotient)));
        let floor = [&quotient[..], &[Instruction::Unary(Unary::Floor, 2)]].concat();
        assert!(!suits(&program(&floor)));
    }
}
