//! Functions of programs whose results are stored in sixteen bits.
//!
//! A stored result is rounded by 2⁻¹² (f16) or 2⁻⁹ (bf16) of itself. Functions within 2⁻¹⁸ do not show behind that, and take
//! a third of the instructions: the epilogue of a product by a narrow matrix is as long as the product. CUDA's intrinsics
//! for them are one instruction each; the functions are in the prelude.
//!
//! What gates an operand, as SiLU and both forms of GELU do, is made of one instruction for tanh. An H200 computes it within 2⁻¹⁶ of
//! itself, PTX promises 2⁻¹¹: the gated operand is off by as much of itself at most. Where a gate is nearly closed, that is more of the
//! result than its rounding, though not more than the rounding of larger results beside it.
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
        Instruction::Binary(Binary::Div, a, b) => match constant(program, b).and_then(|by| factor(1.0 / by)) {
            Some(factor) => format!("r{a} * {}", f32_literal(factor)),
            None => format!("divide_16(r{a}, r{b})"),
        },
        Instruction::Binary(Binary::Add, a, b) => format!("1.0f + {}", of_one_plus(program, a, b)?),
        Instruction::Binary(Binary::Mul, a, b) => return gated(program, a, b).or_else(|| gated(program, b, a)),
        _ => return None,
    })
}

/// The instruction whose result is in a register.
fn at(program: &Program, register: u8) -> Option<Instruction> {
    program.instructions.get(usize::from(register)).copied()
}

/// The constant in a register.
fn constant(program: &Program, register: u8) -> Option<f64> {
    match at(program, register)? {
        Instruction::Float(value) => Some(value),
        _ => None,
    }
}

/// A factor whose powers are far from the limits of f32.
fn factor(value: f64) -> Option<f32> {
    (0.1..=10.0).contains(&value).then_some(value as f32)
}

/// A product by `1 + erf`, `1 + tanh` or the sigmoid of a multiple of the operand itself.
fn gated(program: &Program, operand: u8, gate: u8) -> Option<String> {
    match at(program, gate)? {
        Instruction::Binary(Binary::Add, a, b) => {
            let function = of_one_plus(program, a, b)?;
            Some(format!("fmaf(r{operand}, {function}, r{operand})"))
        }
        Instruction::Unary(Unary::Sigmoid, of)
            if of == operand || scaled(program, of).is_some_and(|(of, _)| of == operand) =>
        {
            Some(format!("times_sigmoid(r{operand}, r{of})"))
        }
        _ => None,
    }
}

/// `erf(x)` or `tanh(x)`, of which `a + b` is the sum with 1. A constant factor of erf's operand becomes part of the polynomial.
fn of_one_plus(program: &Program, a: u8, b: u8) -> Option<String> {
    let function = match (constant(program, a), constant(program, b)) {
        (Some(1.0), _) => b,
        (_, Some(1.0)) => a,
        _ => return None,
    };
    match at(program, function)? {
        Instruction::Unary(Unary::Erf, x) => {
            let (of, scale) = scaled(program, x).unwrap_or((x, 1.0));
            Some(format!("erf_approx(r{of}, {})", f32_literal(scale)))
        }
        Instruction::Unary(Unary::Tanh, x) => Some(format!("tanh_approx(r{x})")),
        _ => None,
    }
}

/// What register `x` is a multiple of, and its factor: a positive constant.
fn scaled(program: &Program, x: u8) -> Option<(u8, f32)> {
    let (of, scale) = match at(program, x)? {
        Instruction::Binary(Binary::Mul, a, b) => {
            constant(program, b).map(|scale| (a, scale)).or_else(|| constant(program, a).map(|scale| (b, scale)))?
        }
        Instruction::Binary(Binary::Div, a, b) => (a, 1.0 / constant(program, b)?),
        _ => return None,
    };
    Some((of, factor(scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(instructions: &[Instruction]) -> Program {
        Program { class: Class::F32, inputs: 1, instructions: instructions.iter().copied().collect() }
    }

    #[test]
    fn gates_are_made_of_tanh() {
        let [x, one] = [Instruction::Input(0), Instruction::Float(1.0)];
        let one_of_erf = format!("erf_approx(r0, {})", f32_literal(1.0));
        for (function, expected) in [(Unary::Erf, one_of_erf.as_str()), (Unary::Tanh, "tanh_approx(r0)")] {
            for (sum, product) in [([1, 2], [0, 3]), ([2, 1], [3, 0])] {
                let [sum, product] =
                    [(Binary::Add, sum), (Binary::Mul, product)].map(|(op, [a, b])| Instruction::Binary(op, a, b));
                let program = program(&[x, Instruction::Unary(function, 0), one, sum, product]);
                assert_eq!(expression(&program, sum), Some(format!("1.0f + {expected}")));
                assert_eq!(expression(&program, product), Some(format!("fmaf(r0, {expected}, r0)")));
            }
        }
    }

    #[test]
    fn sigmoids_gate_what_they_are_of() {
        let [x, sigmoid] = [Instruction::Input(0), Instruction::Unary(Unary::Sigmoid, 0)];
        for product in [[0, 1], [1, 0]].map(|[a, b]| Instruction::Binary(Binary::Mul, a, b)) {
            let of_itself = program(&[x, sigmoid, product]);
            assert_eq!(expression(&of_itself, product).as_deref(), Some("times_sigmoid(r0, r0)"));
        }
        let product = Instruction::Binary(Binary::Mul, 0, 3);
        let scaled = |factor| {
            let times = Instruction::Binary(Binary::Mul, 0, 1);
            program(&[x, Instruction::Float(factor), times, Instruction::Unary(Unary::Sigmoid, 2), product])
        };
        assert_eq!(expression(&scaled(1.702), product).as_deref(), Some("times_sigmoid(r0, r2)"));
        // A gate that the operand closes, and one of another operand: their sigmoids stay exact.
        assert_eq!(expression(&scaled(-1.0), product), None);
        let mut other = program(&[x, Instruction::Input(1), Instruction::Unary(Unary::Sigmoid, 1), product]);
        other.inputs = 2;
        assert_eq!(expression(&other, Instruction::Binary(Binary::Mul, 0, 2)), None);
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
            let expected = format!("1.0f + erf_approx(r0, {})", f32_literal(0.5));
            assert_eq!(expression(&program, sum), Some(expected));
        }
    }

    /// The prelude's polynomial, evaluated here, with an exact tanh.
    #[test]
    fn the_polynomial_of_erf_is_as_exact_as_the_prelude_says() {
        let coefficients = ["7.97828136e-1f", "3.64687908e-2f", "-1.24861562e-4f", "-3.05810211e-5f", "1.11908304e-6f"]
            .map(|text| {
                assert!(crate::codegen::PRELUDE.contains(text), "{text}");
                text.trim_end_matches('f').parse::<f32>().expect("a number")
            });
        let scale = core::f32::consts::FRAC_1_SQRT_2;
        let error = |x: f32| {
            let square = 2.0 * scale * scale * x * x;
            let polynomial = coefficients.iter().rev().fold(0.0, |sum, coefficient| sum * square + coefficient);
            let tanh = f64::from(x * (core::f32::consts::SQRT_2 * scale) * polynomial).tanh();
            (f64::from(x) / 2.0 * (tanh - libm::erf(f64::from(x * scale)))).abs()
        };
        let worst = (-8000i16..=8000).map(|i| error(f32::from(i) * 0.001)).fold(0.0, f64::max);
        assert!((3.0e-6..3.2e-6).contains(&worst), "{worst}");
    }

    #[test]
    fn constant_divisors_are_factors() {
        let quotient = Instruction::Binary(Binary::Div, 0, 1);
        let by = |divisor| program(&[Instruction::Input(0), Instruction::Float(divisor), quotient]);
        assert_eq!(expression(&by(6.0), quotient), Some(format!("r0 * {}", f32_literal(1.0 / 6.0))));
        for divisor in [0.0, 1e30, f64::NAN] {
            assert_eq!(expression(&by(divisor), quotient).as_deref(), Some("divide_16(r0, r1)"));
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
