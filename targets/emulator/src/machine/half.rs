//! Arithmetic in f16 and bf16: exact sums and products, rounded once.

use super::lanes::{Registers, Slots, vectorised};
use super::reader::{Reader, Result};
use super::rounding::{self, Format, Rounding, from_bf16, from_f16, narrow, sum_to_odd, to_bf16, to_f16};
use super::special::{self, Function};
use crate::ptx::Type;

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: Kind,
    brain: bool,
    pair: bool,
    flush: bool,
    limit: Limit,
    slots: Slots,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    Saturate,
    Relu,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Add,
    Sub,
    Mul,
    Fma,
    Min,
    Max,
    MinNan,
    MaxNan,
    Abs,
    Neg,
    Exp2,
    Tanh,
}

/// Decodes the instruction if it is one of f16 or bf16.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    use Kind::*;
    let (kind, sources) = match reader.opcode {
        "add" => (Add, 2),
        "sub" => (Sub, 2),
        "mul" => (Mul, 2),
        "fma" => (Fma, 3),
        "min" => (Min, 2),
        "max" => (Max, 2),
        "abs" => (Abs, 1),
        "neg" => (Neg, 1),
        "ex2" => (Exp2, 1),
        "tanh" => (Tanh, 1),
        _ => return Ok(None),
    };
    let last = reader.instruction.name.rsplit('.').next();
    let (brain, pair) = match last {
        Some("f16") => (false, false),
        Some("f16x2") => (false, true),
        Some("bf16") => (true, false),
        Some("bf16x2") => (true, true),
        _ => return Ok(None),
    };
    reader.takes("rn");
    reader.takes("approx");
    let flush = reader.takes("ftz");
    let limit = reader.choice(&[("sat", Limit::Saturate), ("relu", Limit::Relu)]).unwrap_or(Limit::None);
    let kind = match (kind, reader.takes("NaN")) {
        (Min, true) => MinNan,
        (Max, true) => MaxNan,
        (kind, _) => kind,
    };
    let _ = reader.r#type()?;
    let register = if pair { Type::B32 } else { Type::B16 };
    let slots = reader.slots(register, register, sources)?;
    Ok(Some(Op { kind, brain, pair, flush, limit, slots }))
}

vectorised! {
    pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
        if op.brain {
            run(op, r, lanes, from_bf16, to_bf16, rounding::BF16);
        } else {
            run(op, r, lanes, from_f16, to_f16, rounding::F16);
        }
    }
}

#[inline(always)]
fn run(
    op: &Op,
    r: &mut Registers<'_>,
    lanes: u32,
    from: impl Fn(u16) -> f32 + Copy,
    to: impl Fn(f32) -> u16 + Copy,
    format: Format,
) {
    let load = |bits: u16| {
        let value = from(bits);
        let subnormal = op.flush && value != 0.0 && f64::from(value.abs()) < 2.0_f64.powi(format.lowest);
        if subnormal { 0.0_f32.copysign(value) } else { value }
    };
    let finish = |value: f32| {
        let value = match op.limit {
            Limit::None => value,
            Limit::Saturate => rounding::saturate(value),
            Limit::Relu if value.is_nan() => value,
            Limit::Relu => {
                if value > 0.0 {
                    value
                } else {
                    0.0
                }
            }
        };
        let value = to(value);
        to(load(value))
    };
    // f32 holds a sum of two halves, or their product, to twice their precision and two bits: rounding twice is rounding once.
    let binary = |f: fn(f32, f32) -> f32| move |a: u16, b: u16, _: u16| finish(f(load(a), load(b)));
    // The special function unit's f32, cut.
    let special = |function: Function| {
        move |a: u16, _: u16, _: u16| {
            let evaluate = if op.brain { special::evaluate::<true> } else { special::evaluate::<false> };
            finish(cut(evaluate(function, load(a)), format))
        }
    };
    match op.kind {
        Kind::Add => each(op, r, lanes, binary(|a, b| a + b)),
        Kind::Sub => each(op, r, lanes, binary(|a, b| a - b)),
        Kind::Mul => each(op, r, lanes, binary(|a, b| a * b)),
        Kind::Fma => each(op, r, lanes, |a, b, c| {
            let exact = sum_to_odd(f64::from(load(a)) * f64::from(load(b)), f64::from(load(c)));
            finish(narrow(exact, format, Rounding::Nearest) as f32)
        }),
        Kind::Min => {
            each(op, r, lanes, binary(|a, b| if a.is_nan() || b < a || b == a && b.is_sign_negative() { b } else { a }))
        }
        Kind::Max => {
            each(op, r, lanes, binary(|a, b| if a.is_nan() || b > a || b == a && b.is_sign_positive() { b } else { a }))
        }
        Kind::MinNan => each(
            op,
            r,
            lanes,
            binary(|a, b| {
                if a.is_nan() || b.is_nan() {
                    f32::NAN
                } else if b < a || b == a && b.is_sign_negative() {
                    b
                } else {
                    a
                }
            }),
        ),
        Kind::MaxNan => each(
            op,
            r,
            lanes,
            binary(|a, b| {
                if a.is_nan() || b.is_nan() {
                    f32::NAN
                } else if b > a || b == a && b.is_sign_positive() {
                    b
                } else {
                    a
                }
            }),
        ),
        Kind::Abs => each(op, r, lanes, |a, _, _| a & 0x7fff),
        Kind::Neg => each(op, r, lanes, |a, _, _| a ^ 0x8000),
        Kind::Exp2 => each(op, r, lanes, special(Function::Exp2)),
        Kind::Tanh => each(op, r, lanes, special(Function::Tangent)),
    }
}

/// Rounds towards zero; what the format's exponents do not reach is infinite.
fn cut(value: f32, format: Format) -> f32 {
    let next = format.largest + format.largest / f64::from((1 << format.precision) - 1);
    let infinite = f64::from(value.abs()) >= next;
    if infinite { f32::INFINITY.copysign(value) } else { narrow(f64::from(value), format, Rounding::Zero) as f32 }
}

#[inline(always)]
fn each(op: &Op, r: &mut Registers<'_>, lanes: u32, f: impl Fn(u16, u16, u16) -> u16) {
    if op.pair {
        r.ternary(&op.slots, lanes, |a: u32, b: u32, c: u32| {
            let low = f(a as u16, b as u16, c as u16);
            let high = f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16);
            u32::from(low) | u32::from(high) << 16
        });
    } else {
        r.ternary(&op.slots, lanes, f);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::holds;
    use half::f16;

    const HALVES: [u64; 18] = [
        0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xbc01, 0x3555, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x1400, 0x4801,
        0x2c66, 0x5bff, 0x0fff,
    ];

    fn value(bits: u64) -> f64 {
        f64::from(f16::from_bits(bits as u16).to_f32())
    }

    /// Nearest f16, by search.
    fn nearest(exact: f64) -> u64 {
        if exact.is_nan() {
            return 0x7fff;
        }
        let sign = u64::from(exact.is_sign_negative()) << 15;
        let magnitude = exact.abs();
        // Beyond the largest number counts as the number that would follow.
        let number = |bits: u16| if bits == 0x7c00 { 65536.0 } else { value(u64::from(bits)) };
        let (mut low, mut high) = (0_u16, 0x7c00_u16);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if number(middle) <= magnitude { low = middle } else { high = middle }
        }
        if magnitude >= 65536.0 {
            return sign | 0x7c00;
        }
        let (below, above) = (magnitude - number(low), number(high) - magnitude);
        sign | u64::from(if below < above || below == above && low % 2 == 0 { low } else { high })
    }

    #[test]
    fn sums_and_products_are_rounded_once() {
        holds("mul.rn.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", &HALVES, |a, b, _| nearest(value(a) * value(b)));
        holds("add.f16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", &HALVES, |a, b, _| nearest(value(a) + value(b)));
        // Products of f16 have 22 bits; of these values the sums are exact in f64.
        holds("fma.rn.f16 %h3, %h4, %h5, %h6; cvt.u32.u16 %r3, %h3;", &HALVES, |a, b, c| {
            nearest(value(a).mul_add(value(b), value(c)))
        });
    }

    #[test]
    fn pairs_are_two_of_one() {
        holds("mov.b32 %r7, {%h4, %h5}; mov.b32 %r8, {%h5, %h6}; mul.rn.f16x2 %r3, %r7, %r8;", &HALVES, |a, b, c| {
            nearest(value(a) * value(b)) | nearest(value(b) * value(c)) << 16
        });
        holds("neg.f16 %h3, %h4; cvt.u32.u16 %r3, %h3;", &HALVES, |a, _, _| a ^ 0x8000);
    }
}
