//! Conversions: every one is exact or rounded once, as the instruction says.

use super::float;
use super::lanes::{Registers, Slot, Slots, vectorised};
use super::reader::{Reader, Result};
use super::rounding::{
    self, BF16, E4M3, E5M2, F16, F32, Format, Rounding, TF32, canonical, f16_bits, flush, from_bf16, from_f16, narrow,
    quiet, saturate, to_bf16, to_f16,
};
use crate::ptx::{Operand, Type};

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: Kind,
    slots: Slots,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// f16 to f32.
    Widen,
    /// f32 to f16, to nearest.
    Narrow,
    /// Any integer or float to any other.
    General { from: Type, to: Type, wide: bool, rounding: Rounding, integral: bool, flush: bool, limit: Limit },
    /// Two f32 to a pair of halves: `a` above, `b` below.
    PairOfHalves { brain: bool, rounding: Rounding, relu: bool },
    /// Two f32 to a pair of 8-bit floats: `a` above, `b` below.
    PairOfBytes { five: bool, relu: bool },
    /// A pair of 8-bit floats to a pair of f16.
    FromBytes { five: bool, relu: bool },
    /// Two s32 to bytes or halves, saturated, below what `c` holds.
    Pack { to: Type },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    None,
    Saturate,
    Relu,
    /// The largest number instead of infinity.
    Finite,
}

/// Decodes the instruction if it is a conversion.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    if reader.opcode != "cvt" {
        return Ok(None);
    }
    let operands = reader.operands();
    if reader.takes("pack") {
        if !reader.takes("sat") {
            return Err("packing without saturation".to_owned());
        }
        let (to, from) = (reader.r#type()?, reader.r#type()?);
        if from != Type::S32 || !matches!(to, Type::U8 | Type::S8 | Type::U16 | Type::S16) {
            return Err(format!("packing {from:?} to {to:?}"));
        }
        let third = to.bytes() == 1;
        if third && reader.r#type()? != Type::B32 || operands.len() != if third { 4 } else { 3 } {
            return Err("this form".to_owned());
        }
        let slots = reader.slots(Type::B32, Type::S32, operands.len() - 1)?;
        return Ok(Some(Op { kind: Kind::Pack { to }, slots }));
    }
    let integral = reader.choice(&[
        ("rni", Rounding::Nearest),
        ("rzi", Rounding::Zero),
        ("rmi", Rounding::Down),
        ("rpi", Rounding::Up),
    ]);
    let rounded = float::rounding(reader);
    let flush = reader.takes("ftz");
    let limits = [("satfinite", Limit::Finite), ("sat", Limit::Saturate), ("relu", Limit::Relu)];
    let limit = reader.choice(&limits).unwrap_or(Limit::None);
    let relu = limit == Limit::Relu || reader.takes("relu");
    let (to, from) = (reader.r#type()?, reader.r#type()?);
    let rounding = integral.or(rounded).unwrap_or(Rounding::Nearest);
    let kind = match (to, from) {
        (Type::F16x2 | Type::Bf16x2, Type::F32) => Kind::PairOfHalves { brain: to == Type::Bf16x2, rounding, relu },
        (Type::E4m3x2 | Type::E5m2x2, Type::F32) => Kind::PairOfBytes { five: to == Type::E5m2x2, relu },
        (Type::F16x2, Type::E4m3x2 | Type::E5m2x2) => Kind::FromBytes { five: from == Type::E5m2x2, relu },
        _ => {
            let odd = [Type::Pred, Type::F16x2, Type::Bf16x2, Type::E4m3x2, Type::E5m2x2, Type::B128];
            if odd.contains(&to) || odd.contains(&from) || from == Type::Tf32 || operands.len() != 2 {
                return Err(format!("{from:?} to {to:?}"));
            }
            // Nothing but integers of 64 bits is rounded on the way to f64.
            if to == Type::F64 && from.bytes() == 8 && from != Type::F64 && rounding != Rounding::Nearest {
                return Err("this rounding here".to_owned());
            }
            let plain = integral.is_none() && limit == Limit::None && !relu;
            let source = reader.value(&operands[1], from)?;
            let Operand::Register(register) = operands[0] else {
                return Err("destination that is no register".to_owned());
            };
            // A register wider than the type holds the number extended.
            let wide = reader.width(register) == 8;
            let d = reader.destination(&operands[0], to.bytes())?;
            let slots = Slots { d, a: source, b: source, c: source };
            let kind = match (to, from) {
                (Type::F32, Type::F16) if plain => Kind::Widen,
                (Type::F16, Type::F32) if plain && !flush && rounding == Rounding::Nearest => Kind::Narrow,
                _ => {
                    let integral = integral.is_some();
                    let limit = if relu { Limit::Relu } else { limit };
                    Kind::General { from, to, wide, rounding, integral, flush, limit }
                }
            };
            return Ok(Some(Op { kind, slots }));
        }
    };
    let slots = match kind {
        Kind::PairOfHalves { .. } => reader.slots(Type::B32, Type::F32, 2)?,
        Kind::PairOfBytes { .. } => reader.slots(Type::B16, Type::F32, 2)?,
        _ => reader.slots(Type::B32, Type::B16, 1)?,
    };
    Ok(Some(Op { kind, slots }))
}

vectorised! {
    pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
        let s = &op.slots;
        match op.kind {
            Kind::Widen => r.unary(s, lanes, from_f16),
            Kind::Narrow => r.unary(s, lanes, to_f16),
            Kind::General { from, .. } => general(op, from, r, lanes),
            Kind::PairOfHalves { brain, rounding, relu } => r.binary(s, lanes, |a: f32, b: f32| {
                let half = |value: f32| {
                    let value = if relu && value <= 0.0 { 0.0 } else { value };
                    u32::from(match (brain, rounding) {
                        (false, Rounding::Nearest) => to_f16(value),
                        (true, Rounding::Nearest) => to_bf16(value),
                        (false, _) => to_f16(narrow(f64::from(value), F16, rounding) as f32),
                        (true, _) => to_bf16(narrow(f64::from(value), BF16, rounding) as f32),
                    })
                };
                half(a) << 16 | half(b)
            }),
            Kind::PairOfBytes { five, relu } => r.binary(s, lanes, |a: f32, b: f32| {
                let byte = |value: f32| u16::from(to_byte(if relu && value <= 0.0 { 0.0 } else { value }, five));
                byte(a) << 8 | byte(b)
            }),
            Kind::FromBytes { five, relu } => r.unary(s, lanes, |a: u16| {
                let half = |byte: u8| {
                    let value = from_byte(byte, five);
                    u32::from(to_f16(if relu && value <= 0.0 { 0.0 } else { value }))
                };
                half((a >> 8) as u8) << 16 | half(a as u8)
            }),
            Kind::Pack { to } => r.ternary(s, lanes, |a: i32, b: i32, c: u32| match to {
                Type::U8 => c << 16 | (a.clamp(0, 255) as u32) << 8 | b.clamp(0, 255) as u32,
                Type::S8 => c << 16 | (a.clamp(-128, 127) as u32 & 0xff) << 8 | b.clamp(-128, 127) as u32 & 0xff,
                Type::U16 => (a.clamp(0, 0xffff) as u32) << 16 | b.clamp(0, 0xffff) as u32,
                _ => (a.clamp(-0x8000, 0x7fff) as u32) << 16 | b.clamp(-0x8000, 0x7fff) as u32 & 0xffff,
            }),
        }
    }
}

/// Dispatches on the type that is read.
#[inline(always)]
fn general(op: &Op, from: Type, r: &mut Registers<'_>, lanes: u32) {
    let a = op.slots.a;
    match from {
        Type::U8 | Type::B8 => whole(op, r, lanes, r.get::<u8>(a).map(extended)),
        Type::S8 => whole(op, r, lanes, r.get::<i8>(a).map(extended)),
        Type::U16 | Type::B16 => whole(op, r, lanes, r.get::<u16>(a).map(extended)),
        Type::S16 => whole(op, r, lanes, r.get::<i16>(a).map(extended)),
        Type::U32 | Type::B32 => whole(op, r, lanes, r.get::<u32>(a).map(extended)),
        Type::S32 => whole(op, r, lanes, r.get::<i32>(a).map(extended)),
        Type::U64 | Type::B64 => long(op, r, lanes, r.get::<u64>(a)),
        Type::S64 => whole(op, r, lanes, r.get::<i64>(a)),
        Type::F16 => real(op, r, lanes, r.get::<u16>(a).map(double_of)),
        Type::Bf16 => real(op, r, lanes, r.get::<u16>(a).map(|h| f64::from(from_bf16(h)))),
        Type::F64 => real(op, r, lanes, r.get::<f64>(a)),
        _ => {
            let flushes = matches!(op.kind, Kind::General { flush: true, .. });
            real(op, r, lanes, r.get::<f32>(a).map(|x| f64::from(if flushes { flush(x) } else { x })));
        }
    }
}

#[inline(always)]
fn extended<T: Into<i64>>(value: T) -> i64 {
    value.into()
}

/// An integer that fits i64, to anything.
#[inline(always)]
fn whole(op: &Op, r: &mut Registers<'_>, lanes: u32, values: [i64; 32]) {
    let Kind::General { to, wide, rounding, limit, .. } = op.kind else { return };
    let d = op.slots.d;
    let saturates = limit == Limit::Saturate;
    match to {
        Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => {
            let exact = rounding == Rounding::Nearest && limit == Limit::None;
            match to {
                Type::F32 if exact => return r.set(d, &values.map(|value| value as f32), lanes),
                Type::F64 if exact => return r.set(d, &values.map(|value| value as f64), lanes),
                _ => {}
            }
            rounded(op, r, lanes, values.map(|value| odd(value.unsigned_abs(), value < 0)));
        }
        _ => {
            let (low, high) = range(to);
            let values = if saturates { values.map(|value| value.clamp(low, high)) } else { values };
            integer(r, d, to, wide, values.map(|value| value as u64), lanes);
        }
    }
}

#[inline(always)]
fn long(op: &Op, r: &mut Registers<'_>, lanes: u32, values: [u64; 32]) {
    let Kind::General { to, wide, rounding, limit, .. } = op.kind else { return };
    match to {
        Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => {
            let exact = rounding == Rounding::Nearest && limit == Limit::None;
            match to {
                Type::F32 if exact => return r.set(op.slots.d, &values.map(|value| value as f32), lanes),
                Type::F64 if exact => return r.set(op.slots.d, &values.map(|value| value as f64), lanes),
                _ => {}
            }
            rounded(op, r, lanes, values.map(|value| odd(value, false)));
        }
        _ => {
            let high = range(to).1 as u64;
            let high = if matches!(to, Type::U64 | Type::B64) { u64::MAX } else { high };
            let values = if limit == Limit::Saturate { values.map(|value| value.min(high)) } else { values };
            integer(r, op.slots.d, to, wide, values, lanes);
        }
    }
}

/// An integer as f64, rounded to odd: rounding it again is rounding the integer.
#[inline(always)]
fn odd(magnitude: u64, negative: bool) -> f64 {
    let value = if magnitude < 1 << 53 {
        magnitude as f64
    } else {
        (magnitude >> 11 | u64::from(magnitude & 0x7ff != 0)) as f64 * 2048.0
    };
    if negative { -value } else { value }
}

/// Range of an integer type, as far as i64 holds it.
fn range(r#type: Type) -> (i64, i64) {
    match r#type {
        Type::U8 | Type::B8 => (0, 0xff),
        Type::S8 => (-0x80, 0x7f),
        Type::U16 | Type::B16 => (0, 0xffff),
        Type::S16 => (-0x8000, 0x7fff),
        Type::U32 | Type::B32 => (0, 0xffff_ffff),
        Type::S32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Type::U64 | Type::B64 => (0, i64::MAX),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Writes integers, cut to the type and extended to the register.
#[inline(always)]
fn integer(r: &mut Registers<'_>, d: Slot, to: Type, wide: bool, values: [u64; 32], lanes: u32) {
    let cut = |value: u64| match to {
        Type::U8 | Type::B8 => u64::from(value as u8),
        Type::S8 => value as i8 as u64,
        Type::U16 | Type::B16 => u64::from(value as u16),
        Type::S16 => value as i16 as u64,
        Type::U32 | Type::B32 => u64::from(value as u32),
        Type::S32 => value as i32 as u64,
        _ => value,
    };
    if wide {
        r.set(d, &values.map(cut), lanes);
    } else {
        r.set(d, &values.map(|value| cut(value) as u32), lanes);
    }
}

/// f16 to f64, exact: NaN keeps its sign and its fraction.
#[inline(always)]
fn double_of(half: u16) -> f64 {
    let bits = u64::from(half);
    let nan = (bits >> 15) << 63 | 0x7ff << 52 | (bits & 0x3ff) << 42;
    if bits & 0x7fff > 0x7c00 { quiet(f64::from_bits(nan)) } else { f64::from(from_f16(half)) }
}

/// What becomes of NaN in an integer: of f32 and f16 it is zero, but in 64 bits, and of f64, the lowest signed number.
fn of_nan(from: Type, to: Type) -> u64 {
    if from == Type::F64 || to.bytes() == 8 { 1 << (8 * to.bytes() - 1) } else { 0 }
}

/// A float to anything.
#[inline(always)]
fn real(op: &Op, r: &mut Registers<'_>, lanes: u32, values: [f64; 32]) {
    let Kind::General { to, wide, rounding, integral, limit, from, .. } = op.kind else { return };
    match to {
        Type::F16 | Type::Bf16 | Type::Tf32 | Type::F32 | Type::F64 => {
            if integral {
                let values = values.map(|value| rounding::integral(value, rounding));
                return rounded(op, r, lanes, values);
            }
            if to == Type::F32 && from == Type::F32 && limit == Limit::Saturate {
                return r.set(op.slots.d, &values.map(|value| saturate(value as f32)), lanes);
            }
            rounded(op, r, lanes, values);
        }
        // Out of range the nearest number of the type is the result, `.sat` or not.
        _ => {
            let (low, high) = range(to);
            let (nan, unsigned) = (of_nan(from, to), matches!(to, Type::U64 | Type::B64));
            let values = values.map(|value| {
                let whole = rounding::integral(value, rounding);
                let inside = if unsigned { whole as u64 } else { (whole as i64).clamp(low, high) as u64 };
                if value.is_nan() { nan } else { inside }
            });
            integer(r, op.slots.d, to, wide, values, lanes);
        }
    }
}

/// Rounds to a float type.
#[inline(always)]
fn rounded(op: &Op, r: &mut Registers<'_>, lanes: u32, values: [f64; 32]) {
    let Kind::General { from, to, rounding, flush: flushes, limit, .. } = op.kind else { return };
    // Narrowing f64 keeps NaN's sign and the upper bits of its fraction.
    let passes = |value: f64| from == Type::F64 && value.is_nan() && limit == Limit::None;
    let limited = |value: f64| match limit {
        Limit::None => value,
        Limit::Saturate => {
            if value > 0.0 {
                value.min(1.0)
            } else {
                0.0
            }
        }
        Limit::Relu => {
            if value <= 0.0 {
                0.0
            } else {
                value
            }
        }
        Limit::Finite => value,
    };
    let fit = |value: f64, format: Format| {
        let value = narrow(limited(value), format, rounding);
        if limit == Limit::Finite && value.is_infinite() { format.largest.copysign(value) } else { value }
    };
    let d = op.slots.d;
    match to {
        Type::F16 => r.set(
            d,
            &values.map(|value| {
                let bits = quiet(value).to_bits();
                let nan = (bits >> 63) << 15 | 0x1f << 10 | bits >> 42 & 0x3ff;
                if passes(value) { nan as u16 } else { f16_bits(fit(value, F16)) }
            }),
            lanes,
        ),
        Type::Bf16 => r.set(d, &values.map(|value| to_bf16(fit(value, BF16) as f32)), lanes),
        Type::Tf32 => r.set(d, &values.map(|value| canonical(fit(value, TF32) as f32)), lanes),
        Type::F32 => r.set(
            d,
            &values.map(|value| {
                if passes(value) {
                    let bits = quiet(value).to_bits();
                    return f32::from_bits(((bits >> 63) << 31 | 0xff << 23 | bits >> 29 & 0x7f_ffff) as u32);
                }
                let value = canonical(fit(value, F32) as f32);
                if flushes { flush(value) } else { value }
            }),
            lanes,
        ),
        _ => r.set(
            d,
            &values.map(|value| if value.is_nan() && limit == Limit::None { quiet(value) } else { limited(value) }),
            lanes,
        ),
    }
}

/// f32 to an 8-bit float, to nearest; what is too large becomes the largest number.
fn to_byte(value: f32, five: bool) -> u8 {
    let (format, fraction, bias) = if five { (E5M2, 2, 15) } else { (E4M3, 3, 7) };
    if value.is_nan() {
        return 0x7f;
    }
    let rounded = narrow(f64::from(value), format, Rounding::Nearest).abs().min(format.largest);
    let sign = u8::from(value.is_sign_negative()) << 7;
    let exponent = (rounded.to_bits() >> 52) as i32 - 1023;
    let magnitude = if exponent < format.lowest {
        rounded * 2.0_f64.powi(format.precision - 1 - format.lowest)
    } else {
        let significand = rounded * 2.0_f64.powi(fraction - exponent) - f64::from(1 << fraction);
        f64::from((exponent + bias) << fraction) + significand
    };
    sign | magnitude as u8
}

/// An 8-bit float to f32, exact.
fn from_byte(byte: u8, five: bool) -> f32 {
    if five {
        return from_f16(u16::from(byte) << 8);
    }
    let sign = if byte & 0x80 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(byte >> 3 & 15), f32::from(byte & 7));
    match (exponent, byte & 7) {
        (15, 7) => f32::NAN,
        (0, _) => sign * fraction * 2.0_f32.powi(-9),
        _ => sign * (1.0 + fraction / 8.0) * 2.0_f32.powi(exponent - 7),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EDGES, FLOATS, float_edges, holds};

    fn one(bits: u64) -> f32 {
        f32::from_bits(bits as u32)
    }

    #[test]
    fn integers_are_cut_extended_and_saturated() {
        holds("cvt.s64.s32 %d3, %r4;", &EDGES, |a, _, _| a as i32 as i64 as u64);
        holds("cvt.u32.u16 %r3, %h4;", &EDGES, |a, _, _| a & 0xffff);
        holds("cvt.s32.s8 %r3, %r4;", &EDGES, |a, _, _| u64::from(a as i8 as i32 as u32));
        holds("cvt.s16.s8 %h3, %h4; cvt.u32.u16 %r3, %h3;", &EDGES, |a, _, _| u64::from(a as i8 as i16 as u16));
        holds("cvt.sat.u8.s32 %r3, %r4;", &EDGES, |a, _, _| (a as i32).clamp(0, 255) as u64);
        holds("cvt.sat.s16.s64 %h3, %d4; cvt.u32.u16 %r3, %h3;", &EDGES, |a, _, _| {
            u64::from((a as i64).clamp(-32768, 32767) as u16)
        });
        holds("cvt.sat.u32.u64 %r3, %d4;", &EDGES, |a, _, _| a.min(0xffff_ffff));
        holds("cvt.pack.sat.u8.s32.b32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            (c << 16 & 0xffff_ffff) | ((a as i32).clamp(0, 255) as u64) << 8 | (b as i32).clamp(0, 255) as u64
        });
    }

    #[test]
    fn floats_become_the_nearest_integer_of_the_range() {
        let edges = float_edges();
        holds("mov.b32 %r7, %r4; cvt.rzi.s32.f32 %r3, %r7;", &edges, |a, _, _| u64::from(one(a) as i32 as u32));
        holds("cvt.rni.s32.f32 %r3, %r4;", &edges, |a, _, _| u64::from(one(a).round_ties_even() as i32 as u32));
        holds("cvt.rmi.u32.f32 %r3, %r4;", &edges, |a, _, _| u64::from(one(a).floor() as u32));
        let or_lowest = |a: f32, bits: u64| if a.is_nan() { 1 << 63 } else { bits };
        holds("cvt.rpi.s64.f32 %d3, %r4;", &edges, |a, _, _| or_lowest(one(a), one(a).ceil() as i64 as u64));
        holds("cvt.rzi.u64.f32 %d3, %r4;", &edges, |a, _, _| or_lowest(one(a), one(a) as u64));
        for (form, expected) in [("s32.f64 %r3", 0x8000_0000_u64), ("u8.f64 %r3", 0x80), ("s8.f64 %r3", 0xffff_ff80)] {
            let body = format!("cvt.f64.f32 %d3, %r4; cvt.rzi.{form}, %d3; cvt.u64.u32 %d3, %r3;");
            let results = super::super::tests::evaluate(&body, &[[0x7fc0_0001, 0, 0], [0xff80_0001, 0, 0]]);
            assert_eq!(results, [expected; 2], "{form}");
        }
        holds("cvt.rni.f32.f32 %r3, %r4;", &edges, |a, _, _| match one(a) {
            a if a.is_nan() => 0x7fff_ffff,
            a => u64::from(a.round_ties_even().to_bits()),
        });
        holds("cvt.sat.f32.f32 %r3, %r4;", &edges, |a, _, _| {
            let a = one(a);
            u64::from(if a > 0.0 { a.min(1.0) } else { 0.0 }.to_bits())
        });
    }

    #[test]
    fn integers_become_floats_rounded_as_said() {
        holds("cvt.rn.f32.s32 %r3, %r4;", &EDGES, |a, _, _| u64::from((a as i32 as f32).to_bits()));
        holds("cvt.rn.f32.u64 %r3, %d4;", &EDGES, |a, _, _| u64::from((a as f32).to_bits()));
        holds("cvt.rn.f64.s64 %d3, %d4;", &EDGES, |a, _, _| (a as i64 as f64).to_bits());
        let down = |a: u64| {
            let near = a as f32;
            if near as u128 > u128::from(a) { near.next_down() } else { near }
        };
        holds("cvt.rz.f32.u64 %r3, %d4;", &EDGES, |a, _, _| u64::from(down(a).to_bits()));
        holds("cvt.rn.f16.u16 %h3, %h4; cvt.u32.u16 %r3, %h3;", &EDGES, |a, _, _| {
            u64::from(half::f16::from_f32(f32::from(a as u16)).to_bits())
        });
    }

    #[test]
    fn floats_are_narrowed_and_widened() {
        let edges = float_edges();
        let narrow = |x: f32| if x.is_nan() { 0x7fff } else { u64::from(half::f16::from_f32(x).to_bits()) };
        holds("cvt.rn.f16.f32 %h3, %r4; cvt.u32.u16 %r3, %h3;", &edges, |a, _, _| narrow(one(a)));
        holds("cvt.rn.f16x2.f32 %r3, %r4, %r5;", &edges, |a, b, _| narrow(one(a)) << 16 | narrow(one(b)));
        holds("cvt.f64.f32 %d3, %r4; cvt.rn.f32.f64 %r7, %d3; cvt.u64.u32 %d3, %r7;", &edges, |a, _, _| {
            // NaN comes back as it went, quiet.
            if one(a).is_nan() { a & 0xffff_ffff | 1 << 22 } else { a & 0xffff_ffff }
        });
        holds("cvt.rz.f16.f32 %h3, %r4; cvt.u32.u16 %r3, %h3;", &edges, |a, _, _| {
            let near = half::f16::from_f32(one(a));
            if one(a).is_nan() {
                0x7fff
            } else if f64::from(near.to_f32().abs()) > f64::from(one(a).abs()) {
                u64::from(near.to_bits() - 1)
            } else {
                u64::from(near.to_bits())
            }
        });
        assert!(FLOATS.iter().any(|x| x.is_subnormal()));
    }

    #[test]
    fn eight_bit_floats_go_there_and_back() {
        // All pairs of bytes: to f16, to f32, and back.
        let values: Vec<u64> = (0..256).map(|i| i << 8 | (255 - i)).collect();
        let operands: Vec<[u64; 3]> = values.iter().map(|pair| [*pair, 0, 0]).collect();
        for kind in ["e4m3x2", "e5m2x2"] {
            let body = format!(
                "cvt.rn.f16x2.{kind} %r7, %h4; mov.b32 {{%h7, %h8}}, %r7; cvt.f32.f16 %r8, %h7; cvt.f32.f16 %r9, %h8;\n\
                 cvt.rn.satfinite.{kind}.f32 %h3, %r9, %r8; cvt.u32.u16 %r3, %h3;"
            );
            for (pair, result) in values.iter().zip(super::super::tests::evaluate(&body, &operands)) {
                for shift in [0, 8] {
                    let (byte, back) = (pair >> shift & 0xff, result >> shift & 0xff);
                    let (nan, infinite) = match kind {
                        "e4m3x2" => (byte & 0x7f == 0x7f, false),
                        _ => (byte & 0x7f > 0x7c, byte & 0x7f == 0x7c),
                    };
                    let expected = if nan {
                        0x7f
                    } else if infinite {
                        byte - 1
                    } else {
                        byte
                    };
                    assert_eq!(back, expected, "{kind} {byte:#x}");
                }
            }
        }
    }
}
