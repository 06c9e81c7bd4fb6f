//! Integer arithmetic: bit for bit as the PTX ISA defines it. Of a division by zero, which it leaves open, quotient and
//! remainder are all ones, as an H200 has it.

use super::lanes::{Lane, Registers, Slots, vectorised};
use super::reader::{Reader, Result};
use crate::ptx::Type;

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: Kind,
    number: Number,
    slots: Slots,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Add,
    AddSaturated,
    Sub,
    SubSaturated,
    MulLow,
    MulHigh,
    MulWide,
    MadLow,
    MadHigh,
    MadWide,
    Mul24,
    Mad24,
    Div,
    Rem,
    Min,
    Max,
    MinRelu,
    MaxRelu,
    Abs,
    Neg,
    Sad,
    /// Signedness of the bytes of `a` and `b`.
    Dp4a(bool, bool),
    /// The same, and whether the upper bytes of `b` count.
    Dp2a(bool, bool, bool),
}

#[derive(Clone, Copy, Debug)]
enum Number {
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
}

impl Number {
    fn of(r#type: Type) -> Result<Self> {
        Ok(match r#type {
            Type::U16 | Type::B16 => Self::U16,
            Type::S16 => Self::S16,
            Type::U32 | Type::B32 => Self::U32,
            Type::S32 => Self::S32,
            Type::U64 | Type::B64 => Self::U64,
            Type::S64 => Self::S64,
            other => return Err(format!("type {other:?}")),
        })
    }
}

/// Decodes the instruction if it is one of integers.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    use Kind::*;
    let opcode = reader.opcode;
    if matches!(opcode, "dp4a" | "dp2a") {
        let half = reader.choice(&[("lo", false), ("hi", true)]).unwrap_or(false);
        let (a, b) = (reader.r#type()?.is_signed(), reader.r#type()?.is_signed());
        let slots = reader.slots(Type::B32, Type::B32, 3)?;
        let kind = if opcode == "dp4a" { Dp4a(a, b) } else { Dp2a(a, b, half) };
        return Ok(Some(Op { kind, number: Number::U32, slots }));
    }
    if !matches!(
        opcode,
        "add" | "sub" | "mul" | "mad" | "mul24" | "mad24" | "div" | "rem" | "min" | "max" | "abs" | "neg" | "sad"
    ) {
        return Ok(None);
    }
    let floats = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f64"];
    if reader.instruction.name.split('.').any(|part| floats.contains(&part)) {
        return Ok(None);
    }
    let saturated = reader.takes("sat");
    let relu = reader.takes("relu");
    let part = reader.choice(&[("lo", 'l'), ("hi", 'h'), ("wide", 'w')]).unwrap_or('-');
    let r#type = reader.r#type()?;
    let number = Number::of(r#type)?;
    let (kind, sources) = match (opcode, part) {
        ("add", '-') if saturated => (AddSaturated, 2),
        ("add", '-') => (Add, 2),
        ("sub", '-') if saturated => (SubSaturated, 2),
        ("sub", '-') => (Sub, 2),
        ("mul", 'l') => (MulLow, 2),
        ("mul", 'h') => (MulHigh, 2),
        ("mul", 'w') => (MulWide, 2),
        ("mad", 'l') => (MadLow, 3),
        ("mad", 'h') if !saturated => (MadHigh, 3),
        ("mad", 'w') => (MadWide, 3),
        ("mul24", 'l') => (Mul24, 2),
        ("mad24", 'l') if !saturated => (Mad24, 3),
        ("div", '-') => (Div, 2),
        ("rem", '-') => (Rem, 2),
        ("min", '-') if relu => (MinRelu, 2),
        ("max", '-') if relu => (MaxRelu, 2),
        ("min", '-') => (Min, 2),
        ("max", '-') => (Max, 2),
        ("abs", '-') => (Abs, 1),
        ("neg", '-') => (Neg, 1),
        ("sad", '-') => (Sad, 3),
        _ => return Err("this part of a product".to_owned()),
    };
    let slots = if matches!(kind, MulWide | MadWide) {
        let double = if r#type.bytes() == 2 { Type::B32 } else { Type::B64 };
        if r#type.bytes() == 8 {
            return Err("wide product of 64 bits".to_owned());
        }
        let operands = reader.operands();
        if operands.len() != sources + 1 {
            return Err(format!("{} operands", operands.len()));
        }
        let d = reader.destination(&operands[0], double.bytes())?;
        let (a, b) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], r#type)?);
        let c = if sources == 3 { reader.value(&operands[3], double)? } else { a };
        Slots { d, a, b, c }
    } else {
        reader.slots(r#type, r#type, sources)?
    };
    Ok(Some(Op { kind, number, slots }))
}

/// What the arithmetic needs of a type.
trait Integer: Lane + Ord {
    type Wide: Lane;
    const ZERO: Self;
    fn add(self, other: Self) -> Self;
    fn add_saturated(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn sub_saturated(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn mul_high(self, other: Self) -> Self;
    fn mul_wide(self, other: Self) -> Self::Wide;
    fn add_wide(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn low24(self) -> Self;
    fn div(self, other: Self) -> Self;
    fn rem(self, other: Self) -> Self;
    fn abs(self) -> Self;
    fn distance(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($type:ident, $wide:ty, $product:ty, $abs:expr;)*) => {$(
        impl Integer for $type {
            type Wide = $wide;
            const ZERO: Self = 0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn add_saturated(self, other: Self) -> Self { self.saturating_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn sub_saturated(self, other: Self) -> Self { self.saturating_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn mul_high(self, other: Self) -> Self {
                ((self as $product).wrapping_mul(other as $product) >> Self::BITS) as Self
            }
            #[inline(always)]
            fn mul_wide(self, other: Self) -> Self::Wide { (self as $wide).wrapping_mul(other as $wide) }
            #[inline(always)]
            fn add_wide(a: Self::Wide, b: Self::Wide) -> Self::Wide { a.wrapping_add(b) }
            #[inline(always)]
            fn low24(self) -> Self { if Self::BITS == 32 { self << (Self::BITS - 24) >> (Self::BITS - 24) } else { self } }
            #[inline(always)]
            fn div(self, other: Self) -> Self { if other == 0 { !0 } else { self.wrapping_div(other) } }
            #[inline(always)]
            fn rem(self, other: Self) -> Self { if other == 0 { !0 } else { self.wrapping_rem(other) } }
            #[inline(always)]
            fn abs(self) -> Self { $abs(self) }
            #[inline(always)]
            fn distance(self, other: Self) -> Self { self.max(other).wrapping_sub(self.min(other)) }
        }
    )*};
}

integer! {
    u16, u32, u32, |x| x;
    i16, i32, i32, i16::wrapping_abs;
    u32, u64, u64, |x| x;
    i32, i64, i64, i32::wrapping_abs;
    u64, u64, u128, |x| x;
    i64, i64, i128, i64::wrapping_abs;
}

vectorised! {
    pub(super) fn execute(op: &Op, registers: &mut Registers<'_>, lanes: u32) {
        match op.number {
            Number::U16 => run::<u16>(op, registers, lanes),
            Number::S16 => run::<i16>(op, registers, lanes),
            Number::U32 => run::<u32>(op, registers, lanes),
            Number::S32 => run::<i32>(op, registers, lanes),
            Number::U64 => run::<u64>(op, registers, lanes),
            Number::S64 => run::<i64>(op, registers, lanes),
        }
    }
}

#[inline(always)]
fn run<T: Integer>(op: &Op, r: &mut Registers<'_>, lanes: u32) {
    let s = &op.slots;
    match op.kind {
        Kind::Add => r.binary(s, lanes, T::add),
        Kind::AddSaturated => r.binary(s, lanes, T::add_saturated),
        Kind::Sub => r.binary(s, lanes, T::sub),
        Kind::SubSaturated => r.binary(s, lanes, T::sub_saturated),
        Kind::MulLow => r.binary(s, lanes, T::mul),
        Kind::MulHigh => r.binary(s, lanes, T::mul_high),
        Kind::MulWide => r.binary(s, lanes, T::mul_wide),
        Kind::MadLow => r.ternary(s, lanes, |a: T, b: T, c: T| a.mul(b).add(c)),
        Kind::MadHigh => r.ternary(s, lanes, |a: T, b: T, c: T| a.mul_high(b).add(c)),
        Kind::MadWide => r.ternary(s, lanes, |a: T, b: T, c: T::Wide| T::add_wide(a.mul_wide(b), c)),
        Kind::Mul24 => r.binary(s, lanes, |a: T, b: T| a.low24().mul(b.low24())),
        Kind::Mad24 => r.ternary(s, lanes, |a: T, b: T, c: T| a.low24().mul(b.low24()).add(c)),
        Kind::Div => r.binary(s, lanes, T::div),
        Kind::Rem => r.binary(s, lanes, T::rem),
        Kind::Min => r.binary(s, lanes, |a: T, b: T| a.min(b)),
        Kind::Max => r.binary(s, lanes, |a: T, b: T| a.max(b)),
        Kind::MinRelu => r.binary(s, lanes, |a: T, b: T| a.min(b).max(T::ZERO)),
        Kind::MaxRelu => r.binary(s, lanes, |a: T, b: T| a.max(b).max(T::ZERO)),
        Kind::Abs => r.unary(s, lanes, T::abs),
        Kind::Neg => r.unary(s, lanes, |a: T| T::ZERO.sub(a)),
        Kind::Sad => r.ternary(s, lanes, |a: T, b: T, c: T| c.add(a.distance(b))),
        Kind::Dp4a(signed_a, signed_b) => r.ternary(s, lanes, |a: u32, b: u32, c: u32| {
            let product = |i| byte(a, i, signed_a).wrapping_mul(byte(b, i, signed_b));
            (0..4).fold(c, |sum, i| sum.wrapping_add(product(i) as u32))
        }),
        Kind::Dp2a(signed_a, signed_b, high) => r.ternary(s, lanes, |a: u32, b: u32, c: u32| {
            let half = |i: u32| (a >> (16 * i)) as u16;
            let wide = |i| if signed_a { i32::from(half(i) as i16) } else { i32::from(half(i)) };
            let product = |i| wide(i).wrapping_mul(byte(b, i + if high { 2 } else { 0 }, signed_b));
            c.wrapping_add(product(0) as u32).wrapping_add(product(1) as u32)
        }),
    }
}

#[inline(always)]
fn byte(word: u32, index: u32, signed: bool) -> i32 {
    let byte = (word >> (8 * index)) as u8;
    if signed { i32::from(byte as i8) } else { i32::from(byte) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EDGES, holds};

    #[test]
    fn arithmetic_is_that_of_its_width() {
        let s32 = |x: u64| i64::from(x as u32 as i32);
        let u32 = |x: i64| u64::from(x as u32);
        holds("add.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u32(s32(a) + s32(b)));
        holds("add.sat.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u32((a as i32).saturating_add(b as i32).into()));
        holds("sub.u64 %d3, %d4, %d5;", &EDGES, |a, b, _| a.wrapping_sub(b));
        holds("mul.lo.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u32(s32(a).wrapping_mul(s32(b))));
        holds("mul.hi.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u32((s32(a) * s32(b)) >> 32));
        holds("mul.hi.u32 %r3, %r4, %r5;", &EDGES, |a, b, _| ((a & 0xffff_ffff) * (b & 0xffff_ffff)) >> 32);
        holds("mul.hi.u64 %d3, %d4, %d5;", &EDGES, |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64);
        holds("mul.hi.s64 %d3, %d4, %d5;", &EDGES, |a, b, _| {
            ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64
        });
        holds("mul.wide.s32 %d3, %r4, %r5;", &EDGES, |a, b, _| (s32(a) * s32(b)) as u64);
        holds("mul.wide.u16 %r3, %h4, %h5;", &EDGES, |a, b, _| (a & 0xffff) * (b & 0xffff));
        holds("mad.wide.u32 %d3, %r4, %r5, %d6;", &EDGES, |a, b, c| {
            ((a & 0xffff_ffff) * (b & 0xffff_ffff)).wrapping_add(c)
        });
        holds("mad.lo.s32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            u32(s32(a).wrapping_mul(s32(b)).wrapping_add(s32(c)))
        });
        holds("mul24.lo.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| {
            u32(i64::from((a as i32) << 8 >> 8).wrapping_mul(i64::from((b as i32) << 8 >> 8)))
        });
    }

    #[test]
    fn division_by_zero_is_what_gpus_make_of_it() {
        holds("div.u32 %r3, %r4, %r5;", &EDGES, |a, b, _| match b as u32 {
            0 => 0xffff_ffff,
            b => u64::from(a as u32 / b),
        });
        holds("div.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| match b as i32 {
            0 => 0xffff_ffff,
            b => u64::from((a as i32).wrapping_div(b) as u32),
        });
        holds("rem.s64 %d3, %d4, %d5;", &EDGES, |a, b, _| match b as i64 {
            0 => u64::MAX,
            b => (a as i64).wrapping_rem(b) as u64,
        });
        holds("rem.u16 %h3, %h4, %h5; cvt.u32.u16 %r3, %h3;", &EDGES, |a, b, _| match b as u16 {
            0 => 0xffff,
            b => u64::from(a as u16 % b),
        });
    }

    #[test]
    fn products_of_bytes_sum_up() {
        let byte = |x: u64, i: u64, signed: bool| {
            let byte = (x >> (8 * i)) as u8;
            if signed { i64::from(byte as i8) } else { i64::from(byte) }
        };
        let sum = |a: u64, b: u64, c: u64, signs: (bool, bool)| {
            (0..4).fold(c as i64, |sum, i| sum.wrapping_add(byte(a, i, signs.0) * byte(b, i, signs.1))) as u32
        };
        holds("dp4a.u32.s32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| u64::from(sum(a, b, c, (false, true))));
        holds("dp4a.s32.s32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| u64::from(sum(a, b, c, (true, true))));
        holds("dp2a.hi.s32.u32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            let half = |i: u64| i64::from((a >> (16 * i)) as i16);
            let sum = (c as i64).wrapping_add(half(0) * byte(b, 2, false)).wrapping_add(half(1) * byte(b, 3, false));
            u64::from(sum as u32)
        });
    }

    #[test]
    fn order_and_size_follow_the_sign() {
        holds("min.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u64::from((a as i32).min(b as i32) as u32));
        holds("max.u32 %r3, %r4, %r5;", &EDGES, |a, b, _| u64::from((a as u32).max(b as u32)));
        holds("max.s64 %d3, %d4, %d5;", &EDGES, |a, b, _| (a as i64).max(b as i64) as u64);
        holds("abs.s32 %r3, %r4;", &EDGES, |a, _, _| u64::from((a as i32).wrapping_abs() as u32));
        holds("neg.s64 %d3, %d4;", &EDGES, |a, _, _| a.wrapping_neg());
        holds("sad.s32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            u64::from((c as u32).wrapping_add((a as i32).abs_diff(b as i32)))
        });
    }
}
