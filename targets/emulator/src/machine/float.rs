//! Arithmetic in f32 and f64. `add`, `sub`, `mul`, `fma`, `div.rn`, `rcp.rn`, `sqrt.rn`, `min`, `max`, `abs` and `neg` are
//! exact: the one result that the PTX ISA allows, with the NaN that GPUs make. In f32 there is one; in f64 an operand's is
//! passed on.
//!
//! The approximate functions of f32, and those of f64 with `.ftz`, are [`special`]'s: a GPU's own bits.

use super::lanes::{Registers, Slots, vectorised};
use super::reader::{Reader, Result};
use super::rounding::{F32, NAN, Rounding, canonical, flush, narrow, quiet, saturate, sum_to_odd};
use super::special::{self, Function};
use crate::ptx::Type;

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: Kind,
    double: bool,
    rounding: Rounding,
    flush: bool,
    saturate: bool,
    slots: Slots,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    /// `div.full`.
    FullDiv,
    /// `div.approx`.
    QuickDiv,
    Min,
    Max,
    MinNan,
    MaxNan,
    Abs,
    Neg,
    CopySign,
    Reciprocal,
    Root,
    ReciprocalRoot,
    /// Of the special function unit.
    Special(Function),
}

/// Takes a rounding of results (`.rn`) if there is one.
pub(super) fn rounding(reader: &mut Reader<'_>) -> Option<Rounding> {
    reader.choice(&[
        ("rn", Rounding::Nearest),
        ("rz", Rounding::Zero),
        ("rm", Rounding::Down),
        ("rp", Rounding::Up),
        ("rna", Rounding::NearestAway),
    ])
}

/// Decodes the instruction if it is one of f32 or f64.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    use Kind::*;
    let (kind, sources) = match reader.opcode {
        "add" => (Add, 2),
        "sub" => (Sub, 2),
        "mul" => (Mul, 2),
        "fma" | "mad" => (Fma, 3),
        "div" => (Div, 2),
        "min" => (Min, 2),
        "max" => (Max, 2),
        "abs" => (Abs, 1),
        "neg" => (Neg, 1),
        "copysign" => (CopySign, 2),
        "rcp" => (Reciprocal, 1),
        "sqrt" => (Root, 1),
        "rsqrt" => (ReciprocalRoot, 1),
        "ex2" => (Special(Function::Exp2), 1),
        "lg2" => (Special(Function::Log2), 1),
        "sin" => (Special(Function::Sine), 1),
        "cos" => (Special(Function::Cosine), 1),
        "tanh" => (Special(Function::Tangent), 1),
        _ => return Ok(None),
    };
    let last = reader.instruction.name.rsplit('.').next();
    if !matches!(last, Some("f32" | "f64")) {
        return Ok(None);
    }
    let quick = reader.takes("approx");
    let approximate = quick || reader.takes("full");
    let rounding = rounding(reader).unwrap_or(Rounding::Nearest);
    let (flush, saturate) = (reader.takes("ftz"), reader.takes("sat"));
    let nan = reader.takes("NaN");
    let r#type = reader.r#type()?;
    let double = r#type == Type::F64;
    let directed = rounding != Rounding::Nearest;
    if directed && (double || approximate || !matches!(kind, Add | Sub | Mul | Fma)) {
        return Err("this rounding here".to_owned());
    }
    if double && (saturate || nan || matches!(kind, Special(_))) {
        return Err("f64 here".to_owned());
    }
    let kind = match kind {
        Min if nan => MinNan,
        Max if nan => MaxNan,
        Div if quick && !double => QuickDiv,
        Div if approximate && !double => FullDiv,
        // In f64 the unit gives the upper half; without `.ftz` there is more to it.
        Reciprocal if approximate && (!double || flush) => Special(Function::Reciprocal),
        ReciprocalRoot if !double || flush => Special(Function::ReciprocalRoot),
        Root if approximate => Special(Function::Root),
        kind => kind,
    };
    let slots = reader.slots(r#type, r#type, sources)?;
    Ok(Some(Op { kind, double, rounding, flush, saturate, slots }))
}

vectorised! {
    pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
        if op.double {
            double(op, r, lanes);
        } else if op.rounding != Rounding::Nearest {
            directed(op, r, lanes);
        } else if op.flush {
            single::<true>(op, r, lanes);
        } else {
            single::<false>(op, r, lanes);
        }
    }
}

#[inline(always)]
fn before<const FLUSH: bool>(value: f32) -> f32 {
    if FLUSH { flush(value) } else { value }
}

#[inline(always)]
fn single<const FLUSH: bool>(op: &Op, r: &mut Registers<'_>, lanes: u32) {
    if op.saturate {
        finish::<FLUSH>(op, r, lanes, |value| saturate(before::<FLUSH>(value)));
    } else {
        finish::<FLUSH>(op, r, lanes, |value| canonical(before::<FLUSH>(value)));
    }
}

#[inline(always)]
fn finish<const FLUSH: bool>(op: &Op, r: &mut Registers<'_>, lanes: u32, after: impl Fn(f32) -> f32) {
    let s = &op.slots;
    match op.kind {
        Kind::Add => r.binary(s, lanes, |a: f32, b: f32| after(before::<FLUSH>(a) + before::<FLUSH>(b))),
        Kind::Sub => r.binary(s, lanes, |a: f32, b: f32| after(before::<FLUSH>(a) - before::<FLUSH>(b))),
        Kind::Mul => r.binary(s, lanes, |a: f32, b: f32| after(before::<FLUSH>(a) * before::<FLUSH>(b))),
        Kind::Fma => r.ternary(s, lanes, |a: f32, b: f32, c: f32| {
            after(before::<FLUSH>(a).mul_add(before::<FLUSH>(b), before::<FLUSH>(c)))
        }),
        Kind::Div => r.binary(s, lanes, |a: f32, b: f32| after(before::<FLUSH>(a) / before::<FLUSH>(b))),
        Kind::FullDiv => r.binary(s, lanes, |a: f32, b: f32| {
            after(special::quotient::<FLUSH>(before::<FLUSH>(a), before::<FLUSH>(b)))
        }),
        Kind::QuickDiv => r.binary(s, lanes, |a: f32, b: f32| {
            after(special::quick_quotient::<FLUSH>(before::<FLUSH>(a), before::<FLUSH>(b)))
        }),
        Kind::Min => r.binary(s, lanes, |a: f32, b: f32| after(least(before::<FLUSH>(a), before::<FLUSH>(b)))),
        Kind::Max => r.binary(s, lanes, |a: f32, b: f32| after(-least(-before::<FLUSH>(a), -before::<FLUSH>(b)))),
        Kind::MinNan => r.binary(s, lanes, |a: f32, b: f32| {
            after(if a.is_nan() || b.is_nan() { NAN } else { least(before::<FLUSH>(a), before::<FLUSH>(b)) })
        }),
        Kind::MaxNan => r.binary(s, lanes, |a: f32, b: f32| {
            after(if a.is_nan() || b.is_nan() { NAN } else { -least(-before::<FLUSH>(a), -before::<FLUSH>(b)) })
        }),
        Kind::Abs => r.unary(s, lanes, |a: f32| after(before::<FLUSH>(a).abs())),
        Kind::Neg => r.unary(s, lanes, |a: f32| after(-before::<FLUSH>(a))),
        // The sign of the first operand on the second.
        Kind::CopySign => r.binary(s, lanes, |a: f32, b: f32| b.copysign(a)),
        Kind::Reciprocal => r.unary(s, lanes, |a: f32| after(1.0 / before::<FLUSH>(a))),
        Kind::Root => r.unary(s, lanes, |a: f32| after(before::<FLUSH>(a).sqrt())),
        Kind::ReciprocalRoot => {}
        Kind::Special(function) => {
            slow(r, s, lanes, &after, |a| special::evaluate::<FLUSH>(function, before::<FLUSH>(a)));
        }
    }
}

/// A function that costs too much for lanes that are not active.
#[inline(always)]
fn slow(r: &mut Registers<'_>, s: &Slots, lanes: u32, after: &impl Fn(f32) -> f32, f: impl Fn(f32) -> f32) {
    let a = r.get::<f32>(s.a);
    let values = std::array::from_fn(|l| if lanes >> l & 1 == 1 { after(f(a[l])) } else { 0.0 });
    r.set(s.d, &values, lanes);
}

/// The lesser; of a number and NaN, the number; of zeros, the negative one.
#[inline(always)]
fn least(a: f32, b: f32) -> f32 {
    let or = f32::from_bits(a.to_bits() | b.to_bits());
    if a.is_nan() {
        b
    } else if a < b {
        a
    } else if a == b {
        // Equal numbers have equal bits, unless they are zeros.
        or
    } else if b.is_nan() {
        a
    } else {
        b
    }
}

fn directed(op: &Op, r: &mut Registers<'_>, lanes: u32) {
    let before = |value: f32| f64::from(if op.flush { flush(value) } else { value });
    let after = |exact: f64| {
        let value = canonical(narrow(exact, F32, op.rounding) as f32);
        let value = if op.flush { flush(value) } else { value };
        if op.saturate { saturate(value) } else { value }
    };
    // A sum that is exactly zero of numbers that are not takes its sign from the rounding.
    let sum = |a: f64, b: f64| {
        let sum = sum_to_odd(a, b);
        let negative = op.rounding == Rounding::Down && sum == 0.0 && a.is_sign_negative() != b.is_sign_negative();
        if negative { -0.0 } else { sum }
    };
    let s = &op.slots;
    match op.kind {
        Kind::Add => r.binary(s, lanes, |a: f32, b: f32| after(sum(before(a), before(b)))),
        Kind::Sub => r.binary(s, lanes, |a: f32, b: f32| after(sum(before(a), -before(b)))),
        Kind::Mul => r.binary(s, lanes, |a: f32, b: f32| after(before(a) * before(b))),
        _ => r.ternary(s, lanes, |a: f32, b: f32, c: f32| after(sum(before(a) * before(b), before(c)))),
    }
}

/// A result in f64. Where it is NaN, it is the first NaN among the sources, which come in the hardware's order.
#[inline(always)]
fn passed<const N: usize>(value: f64, sources: [f64; N]) -> f64 {
    if !value.is_nan() {
        return value;
    }
    // An invalid operation makes this one.
    let made = f64::from_bits(0xfff8_0000_0000_0000);
    sources.into_iter().find(|source| source.is_nan()).map_or(made, quiet)
}

/// The lesser of two f64; of a number and NaN, the number; of zeros, the negative one.
#[inline(always)]
fn least_double(a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => quiet(b),
        (true, false) => b,
        (false, true) => a,
        _ if a.total_cmp(&b).is_le() => a,
        _ => b,
    }
}

#[inline(always)]
fn double(op: &Op, r: &mut Registers<'_>, lanes: u32) {
    let s = &op.slots;
    let signed = |value: f64, source: f64| if source.is_nan() { quiet(source) } else { value };
    match op.kind {
        Kind::Add => r.binary(s, lanes, |a: f64, b: f64| passed(a + b, [b, a])),
        Kind::Sub => r.binary(s, lanes, |a: f64, b: f64| passed(a - b, [b, a])),
        Kind::Mul => r.binary(s, lanes, |a: f64, b: f64| passed(a * b, [b, a])),
        Kind::Fma => r.ternary(s, lanes, |a: f64, b: f64, c: f64| passed(a.mul_add(b, c), [b, c, a])),
        Kind::Div => r.binary(s, lanes, |a: f64, b: f64| passed(a / b, [a, b])),
        Kind::Min => r.binary(s, lanes, least_double),
        Kind::Max => r.binary(s, lanes, |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
            (false, false) => -least_double(-a, -b),
            _ => least_double(a, b),
        }),
        Kind::Abs => r.unary(s, lanes, |a: f64| signed(a.abs(), a)),
        Kind::Neg => r.unary(s, lanes, |a: f64| signed(-a, a)),
        Kind::CopySign => r.binary(s, lanes, |a: f64, b: f64| b.copysign(a)),
        Kind::Reciprocal => r.unary(s, lanes, |a: f64| passed(1.0 / a, [a])),
        Kind::Root => r.unary(s, lanes, |a: f64| passed(a.sqrt(), [a])),
        Kind::ReciprocalRoot => r.unary(s, lanes, |a: f64| passed(1.0 / a.sqrt(), [a])),
        Kind::MinNan | Kind::MaxNan | Kind::QuickDiv => {}
        Kind::Special(Function::Reciprocal) => r.unary(s, lanes, special::upper_reciprocal),
        Kind::Special(Function::ReciprocalRoot) => r.unary(s, lanes, special::upper_reciprocal_root),
        Kind::Special(_) | Kind::FullDiv => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{evaluate, float_edges, holds, triples};

    fn one(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }

    fn bits(value: f32) -> u64 {
        if value.is_nan() { 0x7fff_ffff } else { u64::from(value.to_bits()) }
    }

    const LOAD: &str = "mov.b32 %f4, %r4; mov.b32 %f5, %r5; mov.b32 %f6, %r6;";

    fn exact(instruction: &str, definition: impl Fn(f32, f32, f32) -> f32) {
        let body = format!(".reg .f32 %f<8>; {LOAD} {instruction} mov.b32 %r3, %f3;");
        holds(&body, &float_edges(), |a, b, c| bits(definition(one(a), one(b), one(c))));
    }

    #[test]
    fn arithmetic_is_rounded_once() {
        exact("add.f32 %f3, %f4, %f5;", |a, b, _| a + b);
        exact("sub.rn.f32 %f3, %f4, %f5;", |a, b, _| a - b);
        exact("mul.f32 %f3, %f4, %f5;", |a, b, _| a * b);
        exact("fma.rn.f32 %f3, %f4, %f5, %f6;", libm::fmaf);
        exact("div.rn.f32 %f3, %f4, %f5;", |a, b, _| a / b);
        exact("sqrt.rn.f32 %f3, %f4;", |a, _, _| a.sqrt());
        exact("rcp.rn.f32 %f3, %f4;", |a, _, _| 1.0 / a);
    }

    #[test]
    fn subnormal_numbers_are_flushed_where_asked() {
        let flush = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
        exact("add.ftz.f32 %f3, %f4, %f5;", |a, b, _| flush(flush(a) + flush(b)));
        exact("mul.ftz.f32 %f3, %f4, %f5;", |a, b, _| flush(flush(a) * flush(b)));
        exact("fma.rn.ftz.f32 %f3, %f4, %f5, %f6;", |a, b, c| flush(libm::fmaf(flush(a), flush(b), flush(c))));
    }

    #[test]
    fn saturation_limits_and_takes_nan_for_zero() {
        let saturate = |x: f32| if x > 0.0 { x.min(1.0) } else { 0.0 };
        exact("add.sat.f32 %f3, %f4, %f5;", |a, b, _| saturate(a + b));
        exact("fma.rn.sat.f32 %f3, %f4, %f5, %f6;", |a, b, c| saturate(libm::fmaf(a, b, c)));
    }

    #[test]
    fn extremes_prefer_numbers_and_order_zeros() {
        exact("min.f32 %f3, %f4, %f5;", |a, b, _| match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            _ if a == b => {
                if a.is_sign_negative() {
                    a
                } else {
                    b
                }
            }
            _ => {
                if a < b {
                    a
                } else {
                    b
                }
            }
        });
        exact("max.f32 %f3, %f4, %f5;", |a, b, _| match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            _ if a == b => {
                if a.is_sign_positive() {
                    a
                } else {
                    b
                }
            }
            _ => {
                if a > b {
                    a
                } else {
                    b
                }
            }
        });
        exact("max.NaN.f32 %f3, %f4, %f5;", |a, b, _| {
            if a.is_nan() || b.is_nan() {
                f32::NAN
            } else if a == b {
                if a.is_sign_positive() { a } else { b }
            } else {
                a.max(b)
            }
        });
    }

    #[test]
    fn directed_rounding_brackets_the_nearest() {
        let run = |rounding: &str, instruction: &str| {
            let body = format!(
                ".reg .f32 %f<8>; {LOAD} {}.{rounding}.f32 {} mov.b32 %r3, %f3;",
                instruction,
                if instruction == "fma" { "%f3, %f4, %f5, %f6;" } else { "%f3, %f4, %f5;" }
            );
            evaluate(&body, &triples(&float_edges()))
        };
        for instruction in ["add", "mul", "fma"] {
            let (down, up, zero, near) =
                (run("rm", instruction), run("rp", instruction), run("rz", instruction), run("rn", instruction));
            for i in 0..near.len() {
                let [d, u, z, n] = [down[i], up[i], zero[i], near[i]].map(one);
                if n.is_nan() {
                    assert!(d.is_nan() && u.is_nan() && z.is_nan());
                    continue;
                }
                assert!(d <= n && n <= u && (n == d || n == u), "{instruction} {i}: {d:e} {n:e} {u:e}");
                assert!(z.abs() <= d.abs() && z.abs() <= u.abs() && (z == d || z == u));
                // One step apart at most.
                assert!(d == u || d.next_up() == u, "{instruction} {i}: {d:e} {u:e}");
            }
        }
    }

    #[test]
    fn approximations_keep_the_bounds_of_the_isa() {
        let body = |instruction: &str| format!(".reg .f32 %f<8>; {LOAD} {instruction} mov.b32 %r3, %f3;");
        let inputs: Vec<f32> = (0..2000).map(|i| (i as f32 - 1000.0) * 0.0317 + 0.001).collect();
        let operands: Vec<[u64; 3]> = inputs.iter().map(|x| [u64::from(x.to_bits()), 0, 0]).collect();
        let relative = |instruction: &str, bound: f64, exact: fn(f64) -> f64| {
            for (x, result) in inputs.iter().zip(evaluate(&body(instruction), &operands)) {
                let (result, exact) = (f64::from(one(result)), exact(f64::from(*x)));
                assert!(
                    exact.is_nan() && result.is_nan() || (result - exact).abs() <= bound * exact.abs(),
                    "{instruction} of {x}"
                );
            }
        };
        relative("ex2.approx.ftz.f32 %f3, %f4;", 2.0_f64.powi(-22), f64::exp2);
        relative("rcp.approx.ftz.f32 %f3, %f4;", 2.0_f64.powi(-23), |x| 1.0 / x);
        relative("rsqrt.approx.f32 %f3, %f4;", 2.0_f64.powf(-22.9), |x| 1.0 / x.sqrt());
        relative("sqrt.approx.f32 %f3, %f4;", 2.0_f64.powi(-23), f64::sqrt);
        relative("tanh.approx.f32 %f3, %f4;", 2.0_f64.powi(-11), f64::tanh);
    }

    #[test]
    fn f64_passes_an_operands_nan_on() {
        let [first, second, third] = [0x7ff0_0000_0000_0001_u64, 0xfff8_0000_0000_0002, 0x7ff8_0000_0000_0003];
        let (one, quieted) = (1.0_f64.to_bits(), first | 1 << 51);
        let of = |instruction: &str, operands: [u64; 3]| evaluate(instruction, &[operands])[0];
        for instruction in ["add.f64 %d3, %d4, %d5;", "sub.f64 %d3, %d4, %d5;", "mul.f64 %d3, %d4, %d5;"] {
            assert_eq!(of(instruction, [first, one, 0]), quieted, "{instruction}");
            assert_eq!(of(instruction, [first, second, 0]), second, "{instruction}");
        }
        assert_eq!(of("fma.rn.f64 %d3, %d4, %d5, %d6;", [first, second, third]), second);
        assert_eq!(of("fma.rn.f64 %d3, %d4, %d5, %d6;", [first, one, third]), third);
        assert_eq!(of("div.rn.f64 %d3, %d4, %d5;", [first, second, 0]), quieted);
        assert_eq!(of("div.rn.f64 %d3, %d4, %d5;", [0, 0, 0]), 0xfff8_0000_0000_0000);
        assert_eq!(of("neg.f64 %d3, %d4;", [second, 0, 0]), second);
        assert_eq!(of("abs.f64 %d3, %d4;", [second, 0, 0]), second);
        assert_eq!(of("min.f64 %d3, %d4, %d5;", [second, first, 0]), quieted);
        let (zero, negative) = (0.0_f64.to_bits(), (-0.0_f64).to_bits());
        assert_eq!(of("min.f64 %d3, %d4, %d5;", [zero, negative, 0]), negative);
        assert_eq!(of("max.f64 %d3, %d4, %d5;", [negative, zero, 0]), zero);
    }

    #[test]
    fn special_values_of_approximations() {
        let of = |instruction: &str, x: f32| {
            let body = format!(".reg .f32 %f<8>; {LOAD} {instruction} mov.b32 %r3, %f3;");
            one(evaluate(&body, &[[u64::from(x.to_bits()), 0, 0]])[0])
        };
        assert_eq!(of("ex2.approx.ftz.f32 %f3, %f4;", f32::NEG_INFINITY), 0.0);
        assert_eq!(of("ex2.approx.ftz.f32 %f3, %f4;", 1e-40), 1.0);
        assert_eq!(of("ex2.approx.f32 %f3, %f4;", -200.0), 0.0);
        assert_eq!(of("ex2.approx.ftz.f32 %f3, %f4;", -127.5), 0.0);
        assert_eq!(of("rcp.approx.ftz.f32 %f3, %f4;", -1e-40), f32::NEG_INFINITY);
        assert_eq!(of("rcp.approx.ftz.f32 %f3, %f4;", f32::INFINITY), 0.0);
        assert_eq!(of("lg2.approx.f32 %f3, %f4;", 0.0), f32::NEG_INFINITY);
        assert!(of("sqrt.approx.f32 %f3, %f4;", -1.0).is_nan());
        assert!(of("neg.f32 %f3, %f4;", f32::from_bits(0xffa1_2345)).to_bits() == 0x7fff_ffff);
        // Of a divisor beyond 2^126 nothing is left.
        assert_eq!(of("div.approx.f32 %f3, 0f3F800000, %f4;", -f32::MAX).to_bits(), 0x8000_0000);
        assert_eq!(of("div.full.f32 %f3, 0f3F800000, %f4;", f32::MAX), 1.0 / f32::MAX);
        assert!(of("div.approx.f32 %f3, 0f7F800000, %f4;", f32::MAX).is_nan());
        assert_eq!(of("div.approx.f32 %f3, 0f3F800000, %f4;", f32::INFINITY), 0.0);
    }
}
