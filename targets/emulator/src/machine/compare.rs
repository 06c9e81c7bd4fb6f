//! Comparisons and selections.

#![allow(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord)] // NaN is unordered: neither form says the same.

use super::lanes::{Lane, Registers, Slot, Slots, every, mask_of, vectorised};
use super::reader::{Reader, Result};
use super::rounding::{flush, from_bf16, from_f16};
use crate::ptx::{Operand, Type};

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// `setp`
    Predicate { test: Test, d: Slot, complement: Slot, combine: Option<(Logic, Slot, bool)> },
    /// `set`: all ones, or 1.0, where it holds.
    Value { test: Test, d: Slot, float: bool, combine: Option<(Logic, Slot, bool)> },
    /// `selp`
    Select { long: bool, half: bool, slots: Slots, predicate: Slot, negated: bool },
    /// `slct`: by the sign of `c`.
    SelectBySign { long: bool, float: bool, slots: Slots },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    r#type: Type,
    how: How,
    flush: bool,
    a: Slot,
    b: Slot,
}

#[derive(Clone, Copy, Debug)]
enum How {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    EqualUnordered,
    NotEqualUnordered,
    LessUnordered,
    LessEqualUnordered,
    GreaterUnordered,
    GreaterEqualUnordered,
    Number,
    Nan,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Logic {
    And,
    Or,
    Xor,
}

/// Decodes the instruction if it compares or selects.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let operands = reader.operands();
    Ok(Some(match reader.opcode {
        "setp" | "set" => {
            let tests = [
                ("eq", How::Equal),
                ("ne", How::NotEqual),
                ("lt", How::Less),
                ("le", How::LessEqual),
                ("gt", How::Greater),
                ("ge", How::GreaterEqual),
                ("lo", How::Less),
                ("ls", How::LessEqual),
                ("hi", How::Greater),
                ("hs", How::GreaterEqual),
                ("equ", How::EqualUnordered),
                ("neu", How::NotEqualUnordered),
                ("ltu", How::LessUnordered),
                ("leu", How::LessEqualUnordered),
                ("gtu", How::GreaterUnordered),
                ("geu", How::GreaterEqualUnordered),
                ("num", How::Number),
                ("nan", How::Nan),
            ];
            let how = reader.choice(&tests).ok_or("no comparison")?;
            let logic = reader.choice(&[("and", Logic::And), ("or", Logic::Or), ("xor", Logic::Xor)]);
            let flush = reader.takes("ftz");
            let result = if reader.opcode == "set" { Some(reader.r#type()?) } else { None };
            let r#type = reader.r#type()?;
            if matches!(r#type, Type::Pred | Type::F16x2 | Type::Bf16x2 | Type::B128 | Type::Tf32)
                || r#type.bytes() == 1
            {
                return Err(format!("type {type:?}"));
            }
            if operands.len() != if logic.is_some() { 4 } else { 3 } {
                return Err(format!("{} operands", operands.len()));
            }
            let (a, b) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], r#type)?);
            let test = Test { r#type, how, flush, a, b };
            let combine = match logic {
                Some(logic) => {
                    let (slot, negated) = reader.predicate(&operands[3])?;
                    Some((logic, slot, negated))
                }
                None => None,
            };
            if let Some(result) = result {
                if !matches!(result, Type::U32 | Type::S32 | Type::B32 | Type::F32) {
                    return Err(format!("result of type {result:?}"));
                }
                let d = reader.destination(&operands[0], 4)?;
                return Ok(Some(Op::Value { test, d, float: result == Type::F32, combine }));
            }
            let (d, complement) = match &operands[0] {
                Operand::Pair(both) => {
                    (reader.predicate_destination(&both[0])?, reader.predicate_destination(&both[1])?)
                }
                one => (reader.predicate_destination(one)?, Slot::SINK),
            };
            Op::Predicate { test, d, complement, combine }
        }
        "selp" => {
            let r#type = reader.r#type()?;
            if operands.len() != 4 {
                return Err(format!("{} operands", operands.len()));
            }
            let d = reader.destination(&operands[0], r#type.bytes())?;
            let (a, b) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], r#type)?);
            let (predicate, negated) = reader.predicate(&operands[3])?;
            let slots = Slots { d, a, b, c: a };
            Op::Select { long: r#type.bytes() == 8, half: r#type.bytes() == 2, slots, predicate, negated }
        }
        "slct" => {
            reader.takes("ftz");
            let (r#type, by) = (reader.r#type()?, reader.r#type()?);
            if operands.len() != 4 || !matches!(by, Type::S32 | Type::F32) || r#type.bytes() < 4 {
                return Err("this form".to_owned());
            }
            let d = reader.destination(&operands[0], r#type.bytes())?;
            let (a, b) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], r#type)?);
            let c = reader.value(&operands[3], by)?;
            Op::SelectBySign { long: r#type.bytes() == 8, float: by == Type::F32, slots: Slots { d, a, b, c } }
        }
        _ => return Ok(None),
    }))
}

vectorised! {
    pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
        match op {
            Op::Predicate { test, d, complement, combine } => {
                let holds = holds(test, r);
                let (value, other) = (combined(combine, holds, r), combined(combine, !holds, r));
                r.set_predicate(*complement, other, lanes);
                r.set_predicate(*d, value, lanes);
            }
            Op::Value { test, d, float, combine } => {
                let value = combined(combine, holds(test, r), r);
                let yes = if *float { 1.0_f32.to_bits() } else { u32::MAX };
                r.set(*d, &std::array::from_fn(|l| if value >> l & 1 == 1 { yes } else { 0 }), lanes);
            }
            Op::Select { long, half, slots, predicate, negated } => {
                let first = r.predicate(*predicate) ^ u32::from(*negated).wrapping_neg();
                if *long {
                    select::<u64>(r, slots, first, lanes);
                } else if *half {
                    select::<u16>(r, slots, first, lanes);
                } else {
                    select::<u32>(r, slots, first, lanes);
                }
            }
            Op::SelectBySign { long, float, slots } => {
                let c = r.get::<u32>(slots.c);
                let float = *float;
                let first = mask_of(|l| if float { f32::from_bits(c[l]) >= 0.0 } else { c[l] as i32 >= 0 });
                if *long {
                    select::<u64>(r, slots, first, lanes);
                } else {
                    select::<u32>(r, slots, first, lanes);
                }
            }
        }
    }
}

#[inline(always)]
fn select<T: Lane>(r: &mut Registers<'_>, s: &Slots, first: u32, lanes: u32) {
    let (a, b) = (r.get::<T>(s.a), r.get::<T>(s.b));
    r.set(s.d, &every(|l| if first >> l & 1 == 1 { a[l] } else { b[l] }), lanes);
}

#[inline(always)]
fn combined(combine: &Option<(Logic, Slot, bool)>, value: u32, r: &Registers<'_>) -> u32 {
    let Some((logic, slot, negated)) = combine else { return value };
    let other = r.predicate(*slot) ^ u32::from(*negated).wrapping_neg();
    match logic {
        Logic::And => value & other,
        Logic::Or => value | other,
        Logic::Xor => value ^ other,
    }
}

/// Lanes that a comparison holds for.
#[inline(always)]
fn holds(test: &Test, r: &Registers<'_>) -> u32 {
    match test.r#type {
        Type::U16 | Type::B16 => compare::<u16>(test, &r.get(test.a), &r.get(test.b)),
        Type::S16 => compare::<i16>(test, &r.get(test.a), &r.get(test.b)),
        Type::S32 => compare::<i32>(test, &r.get(test.a), &r.get(test.b)),
        Type::U64 | Type::B64 => compare::<u64>(test, &r.get(test.a), &r.get(test.b)),
        Type::S64 => compare::<i64>(test, &r.get(test.a), &r.get(test.b)),
        Type::F64 => compare::<f64>(test, &r.get(test.a), &r.get(test.b)),
        Type::F32 if test.flush => {
            compare::<f32>(test, &r.get::<f32>(test.a).map(flush), &r.get::<f32>(test.b).map(flush))
        }
        Type::F32 => compare::<f32>(test, &r.get(test.a), &r.get(test.b)),
        Type::F16 => compare::<f32>(test, &r.get(test.a).map(from_f16), &r.get(test.b).map(from_f16)),
        Type::Bf16 => compare::<f32>(test, &r.get(test.a).map(from_bf16), &r.get(test.b).map(from_bf16)),
        _ => compare::<u32>(test, &r.get(test.a), &r.get(test.b)),
    }
}

#[inline(always)]
fn compare<T: PartialOrd + Copy>(test: &Test, a: &[T; 32], b: &[T; 32]) -> u32 {
    // The complements hold where either is NaN.
    match test.how {
        How::Equal => mask_of(|l| a[l] == b[l]),
        How::NotEqual => mask_of(|l| a[l] < b[l] || a[l] > b[l]),
        How::Less => mask_of(|l| a[l] < b[l]),
        How::LessEqual => mask_of(|l| a[l] <= b[l]),
        How::Greater => mask_of(|l| a[l] > b[l]),
        How::GreaterEqual => mask_of(|l| a[l] >= b[l]),
        How::EqualUnordered => !mask_of(|l| a[l] < b[l] || a[l] > b[l]),
        How::NotEqualUnordered => !mask_of(|l| a[l] == b[l]),
        How::LessUnordered => !mask_of(|l| a[l] >= b[l]),
        How::LessEqualUnordered => !mask_of(|l| a[l] > b[l]),
        How::GreaterUnordered => !mask_of(|l| a[l] <= b[l]),
        How::GreaterEqualUnordered => !mask_of(|l| a[l] < b[l]),
        How::Number => mask_of(|l| a[l].partial_cmp(&b[l]).is_some()),
        How::Nan => !mask_of(|l| a[l].partial_cmp(&b[l]).is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EDGES, float_edges, holds};

    #[test]
    fn order_is_that_of_the_type() {
        let set = |test: &str, a: &str, b: &str| format!("setp.{test} %p0, {a}, {b}; selp.u32 %r3, 1, 0, %p0;");
        holds(&set("lt.s32", "%r4", "%r5"), &EDGES, |a, b, _| u64::from((a as i32) < b as i32));
        holds(&set("hi.u32", "%r4", "%r5"), &EDGES, |a, b, _| u64::from(a as u32 > b as u32));
        holds(&set("ge.s16", "%h4", "%h5"), &EDGES, |a, b, _| u64::from(a as i16 >= b as i16));
        holds(&set("ne.b64", "%d4", "%d5"), &EDGES, |a, b, _| u64::from(a != b));
        holds(&set("le.s64", "%d4", "%d5"), &EDGES, |a, b, _| u64::from(a as i64 <= b as i64));
    }

    #[test]
    fn nan_is_unordered() {
        type Test = fn(f32, f32) -> bool;
        let tests: [(&str, Test); 14] = [
            ("eq", |a, b| a == b),
            ("ne", |a, b| a < b || a > b),
            ("lt", |a, b| a < b),
            ("le", |a, b| a <= b),
            ("gt", |a, b| a > b),
            ("ge", |a, b| a >= b),
            ("equ", |a, b| a == b || a.is_nan() || b.is_nan()),
            ("neu", |a, b| a != b),
            ("ltu", |a, b| !(a >= b)),
            ("leu", |a, b| !(a > b)),
            ("gtu", |a, b| !(a <= b)),
            ("geu", |a, b| !(a < b)),
            ("num", |a, b| !a.is_nan() && !b.is_nan()),
            ("nan", |a, b| a.is_nan() || b.is_nan()),
        ];
        for (name, test) in tests {
            let body = format!(
                "setp.{name}.f32 %p0|%p1, %r4, %r5; selp.u32 %r3, 1, 0, %p0; selp.u32 %r7, 2, 0, %p1; or.b32 %r3, %r3, %r7;"
            );
            holds(
                &body,
                &float_edges(),
                |a, b, _| {
                    if test(f32::from_bits(a as u32), f32::from_bits(b as u32)) { 1 } else { 2 }
                },
            );
        }
    }

    #[test]
    fn predicates_combine() {
        holds(
            "setp.ne.u32 %p1, %r6, 0; setp.lt.and.u32 %p0, %r4, %r5, !%p1; selp.u32 %r3, 1, 0, %p0;",
            &EDGES,
            |a, b, c| u64::from((a as u32) < b as u32 && c as u32 == 0),
        );
        holds(
            "setp.ne.u32 %p1, %r6, 0; setp.lt.u32 %p0, %r4, %r5; xor.pred %p0, %p0, %p1; selp.u32 %r3, 1, 0, %p0;",
            &EDGES,
            |a, b, c| u64::from(((a as u32) < b as u32) != (c as u32 != 0)),
        );
        holds("slct.u32.s32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            if c as i32 >= 0 { a as u32 } else { b as u32 }.into()
        });
    }
}
