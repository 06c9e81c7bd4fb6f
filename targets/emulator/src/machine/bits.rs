//! Logic, shifts and fields of bits; predicates among themselves.

use super::lanes::{Lane, Registers, Slot, Slots, vectorised};
use super::reader::{Reader, Result};
use crate::ptx::Type;

#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// 16 and 32 bits; the upper half of 16 is kept clear.
    Short {
        kind: Kind,
        half: bool,
        slots: Slots,
    },
    Long {
        kind: Kind,
        slots: Slots,
    },
    /// Destination, sources, and the kind of logic.
    Predicate {
        kind: Kind,
        d: Slot,
        a: (Slot, bool),
        b: (Slot, bool),
    },
    /// Count of bits: 32-bit result of a 64-bit source.
    Count {
        kind: Kind,
        slots: Slots,
    },
    BfiShort {
        slots: Slots,
        length: Slot,
    },
    BfiLong {
        slots: Slots,
        length: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    And,
    Or,
    Xor,
    Not,
    Cnot,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    /// `shf`: left, wrapping.
    Funnel {
        left: bool,
        wrap: bool,
    },
    Field,
    FieldSigned,
    Permute(Permute),
    Lookup(u8),
    Reverse,
    Population,
    LeadingZeros,
    /// `bfind`: signed, shift amount instead of position.
    Find {
        signed: bool,
        shift: bool,
    },
    Mask {
        clamp: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Permute {
    Bytes,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// Decodes the instruction if it is one of bits.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let kind = match reader.opcode {
        "and" => Kind::And,
        "or" => Kind::Or,
        "xor" => Kind::Xor,
        "not" => Kind::Not,
        "cnot" => Kind::Cnot,
        "shl" => Kind::ShiftLeft,
        "shr" => Kind::ShiftRight,
        "shf" => {
            let left = reader.choice(&[("l", true), ("r", false)]).ok_or("no direction")?;
            let wrap = reader.choice(&[("wrap", true), ("clamp", false)]).ok_or("neither wrap nor clamp")?;
            Kind::Funnel { left, wrap }
        }
        "bfe" => Kind::Field,
        "bfi" => {
            let r#type = reader.r#type()?;
            let operands = reader.operands();
            if operands.len() != 5 {
                return Err(format!("{} operands", operands.len()));
            }
            let d = reader.destination(&operands[0], r#type.bytes())?;
            let (a, b) = (reader.value(&operands[1], r#type)?, reader.value(&operands[2], r#type)?);
            let (c, length) = (reader.value(&operands[3], Type::U32)?, reader.value(&operands[4], Type::U32)?);
            let slots = Slots { d, a, b, c };
            return match r#type {
                Type::B32 => Ok(Some(Op::BfiShort { slots, length })),
                Type::B64 => Ok(Some(Op::BfiLong { slots, length })),
                other => Err(format!("type {other:?}")),
            };
        }
        "prmt" => {
            let modes = [
                ("f4e", Permute::F4e),
                ("b4e", Permute::B4e),
                ("rc8", Permute::Rc8),
                ("ecl", Permute::Ecl),
                ("ecr", Permute::Ecr),
                ("rc16", Permute::Rc16),
            ];
            Kind::Permute(reader.choice(&modes).unwrap_or(Permute::Bytes))
        }
        "lop3" => {
            let r#type = reader.r#type()?;
            if r#type != Type::B32 || reader.operands().len() != 5 {
                return Err("this form".to_owned());
            }
            let table = reader.number(4)? as u8;
            let operands = reader.operands();
            let d = reader.destination(&operands[0], 4)?;
            let [a, b, c] = [1, 2, 3].map(|i| reader.value(&operands[i], r#type));
            return Ok(Some(Op::Short {
                kind: Kind::Lookup(table),
                half: false,
                slots: Slots { d, a: a?, b: b?, c: c? },
            }));
        }
        "brev" => Kind::Reverse,
        "popc" => Kind::Population,
        "clz" => Kind::LeadingZeros,
        "bfind" => Kind::Find { signed: false, shift: reader.takes("shiftamt") },
        "bmsk" => {
            Kind::Mask { clamp: reader.choice(&[("clamp", true), ("wrap", false)]).ok_or("neither wrap nor clamp")? }
        }
        _ => return Ok(None),
    };
    let r#type = reader.r#type()?;
    if r#type == Type::Pred {
        let operands = reader.operands();
        let d = reader.predicate_destination(reader.operand(0)?)?;
        let a = reader.predicate(reader.operand(1)?)?;
        let b = if operands.len() > 2 { reader.predicate(&operands[2])? } else { a };
        if !matches!(kind, Kind::And | Kind::Or | Kind::Xor | Kind::Not) {
            return Err("predicates".to_owned());
        }
        return Ok(Some(Op::Predicate { kind, d, a, b }));
    }
    let kind = match (kind, r#type.is_signed()) {
        (Kind::ShiftRight, true) => Kind::ShiftRightSigned,
        (Kind::Field, true) => Kind::FieldSigned,
        (Kind::Find { shift, .. }, signed) => Kind::Find { signed, shift },
        (kind, _) => kind,
    };
    let sources = match kind {
        Kind::Not | Kind::Cnot | Kind::Reverse | Kind::Population | Kind::LeadingZeros | Kind::Find { .. } => 1,
        Kind::Funnel { .. } | Kind::Field | Kind::FieldSigned | Kind::Permute(_) => 3,
        _ => 2,
    };
    let operands = reader.operands();
    if operands.len() != sources + 1 {
        return Err(format!("{} operands", operands.len()));
    }
    let counts = matches!(kind, Kind::Population | Kind::LeadingZeros | Kind::Find { .. });
    let d = reader.destination(&operands[0], if counts { 4 } else { r#type.bytes() })?;
    let a = reader.value(&operands[1], r#type)?;
    // Amounts of shifts and places of fields have 32 bits whatever the type.
    let amounts =
        matches!(kind, Kind::ShiftLeft | Kind::ShiftRight | Kind::ShiftRightSigned | Kind::Field | Kind::FieldSigned);
    let other = if amounts { Type::U32 } else { r#type };
    let b = if sources > 1 { reader.value(&operands[2], other)? } else { a };
    let c = if sources > 2 { reader.value(&operands[3], if amounts { Type::U32 } else { r#type })? } else { a };
    let slots = Slots { d, a, b, c };
    Ok(Some(match r#type.bytes() {
        8 if counts => Op::Count { kind, slots },
        8 => Op::Long { kind, slots },
        4 => Op::Short { kind, half: false, slots },
        2 => Op::Short { kind, half: true, slots },
        _ => return Err(format!("type {:?}", r#type)),
    }))
}

vectorised! {
    pub(super) fn execute(op: &Op, r: &mut Registers<'_>, lanes: u32) {
        match op {
            Op::Short { kind, half: false, slots } => short(*kind, slots, r, lanes),
            Op::Short { kind, half: true, slots } => half(*kind, slots, r, lanes),
            Op::Long { kind, slots } => long(*kind, slots, r, lanes),
            Op::Predicate { kind, d, a, b } => {
                let [a, b] = [a, b].map(|(slot, negated)| r.predicate(*slot) ^ u32::from(*negated).wrapping_neg());
                let value = match kind {
                    Kind::And => a & b,
                    Kind::Or => a | b,
                    Kind::Xor => a ^ b,
                    _ => !a,
                };
                r.set_predicate(*d, value, lanes);
            }
            Op::Count { kind, slots } => match kind {
                Kind::Population => r.unary(slots, lanes, |a: u64| a.count_ones()),
                Kind::LeadingZeros => r.unary(slots, lanes, |a: u64| a.leading_zeros()),
                Kind::Find { signed, shift } => r.unary(slots, lanes, |a: u64| {
                    let a = if *signed && (a as i64) < 0 { !a } else { a };
                    found(a.leading_zeros(), 64, *shift)
                }),
                _ => {}
            },
            Op::BfiShort { slots, length } => {
                let lengths = r.get::<u32>(*length);
                insert(r, slots, &lengths, lanes, |a: u32, b: u32, position, length| {
                    let mask = field_mask(position.min(32), length.min(32)) as u32;
                    b & !mask | (u64::from(a) << position.min(32)) as u32 & mask
                });
            }
            Op::BfiLong { slots, length } => {
                let lengths = r.get::<u32>(*length);
                insert(r, slots, &lengths, lanes, |a: u64, b: u64, position, length| {
                    let mask = field_mask(position.min(64), length.min(64));
                    b & !mask | a.checked_shl(position).unwrap_or(0) & mask
                });
            }
        }
    }
}

#[inline(always)]
fn insert<T: Lane>(r: &mut Registers<'_>, s: &Slots, lengths: &[u32; 32], lanes: u32, f: impl Fn(T, T, u32, u32) -> T) {
    let (a, b, positions) = (r.get::<T>(s.a), r.get::<T>(s.b), r.get::<u32>(s.c));
    // Position and length count modulo 256.
    let values = std::array::from_fn(|l| f(a[l], b[l], positions[l] & 0xff, lengths[l] & 0xff));
    r.set(s.d, &values, lanes);
}

/// Bits `position..position + length`, as far as there are any.
#[inline(always)]
fn field_mask(position: u32, length: u32) -> u64 {
    let ones = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    ones.checked_shl(position).unwrap_or(0)
}

#[inline(always)]
fn found(zeros: u32, bits: u32, shift: bool) -> u32 {
    if zeros == bits {
        u32::MAX
    } else if shift {
        zeros
    } else {
        bits - 1 - zeros
    }
}

/// Logic and shifts of words of one width, and what else they have.
macro_rules! of_width {
    ($kind:ident, $s:ident, $r:ident, $lanes:ident, $word:ty, $signed:ty, { $($others:tt)* }) => {
        match $kind {
            Kind::And => $r.binary($s, $lanes, |a: $word, b: $word| a & b),
            Kind::Or => $r.binary($s, $lanes, |a: $word, b: $word| a | b),
            Kind::Xor => $r.binary($s, $lanes, |a: $word, b: $word| a ^ b),
            Kind::Not => $r.unary($s, $lanes, |a: $word| !a),
            Kind::Cnot => $r.unary($s, $lanes, |a: $word| <$word>::from(a == 0)),
            Kind::ShiftLeft => $r.binary($s, $lanes, |a: $word, b: u32| if b < <$word>::BITS { a << b } else { 0 }),
            Kind::ShiftRight => $r.binary($s, $lanes, |a: $word, b: u32| if b < <$word>::BITS { a >> b } else { 0 }),
            Kind::ShiftRightSigned => $r.binary($s, $lanes, |a: $signed, b: u32| a >> b.min(<$word>::BITS - 1)),
            $($others)*
        }
    };
}

#[inline(always)]
fn short(kind: Kind, s: &Slots, r: &mut Registers<'_>, lanes: u32) {
    of_width!(kind, s, r, lanes, u32, i32, {
        Kind::Funnel { left, wrap } => r.ternary(s, lanes, |a: u32, b: u32, c: u32| {
            let amount = if wrap { c & 31 } else { c.min(32) };
            let both = u64::from(b) << 32 | u64::from(a);
            if left { (both << amount >> 32) as u32 } else { (both >> amount) as u32 }
        }),
        Kind::Field => r.ternary(s, lanes, |a: u32, b: u32, c: u32| field(u64::from(a), b, c, 32) as u32),
        Kind::FieldSigned => r.ternary(s, lanes, |a: i32, b: u32, c: u32| field_signed(i64::from(a), b, c, 32) as i32),
        Kind::Permute(mode) => r.ternary(s, lanes, |a: u32, b: u32, c: u32| permute(mode, a, b, c)),
        Kind::Lookup(table) => r.ternary(s, lanes, |a: u32, b: u32, c: u32| lookup(table, a, b, c)),
        Kind::Reverse => r.unary(s, lanes, u32::reverse_bits),
        Kind::Population => r.unary(s, lanes, u32::count_ones),
        Kind::LeadingZeros => r.unary(s, lanes, u32::leading_zeros),
        Kind::Find { signed, shift } => r.unary(s, lanes, |a: u32| {
            let a = if signed && (a as i32) < 0 { !a } else { a };
            found(a.leading_zeros(), 32, shift)
        }),
        Kind::Mask { clamp } => r.binary(s, lanes, |a: u32, b: u32| {
            if clamp { field_mask(a.min(32), b.min(32)) as u32 } else { field_mask(a & 31, b & 31) as u32 }
        }),
    })
}

#[inline(always)]
fn half(kind: Kind, s: &Slots, r: &mut Registers<'_>, lanes: u32) {
    of_width!(kind, s, r, lanes, u16, i16, {
        _ => {}
    })
}

#[inline(always)]
fn long(kind: Kind, s: &Slots, r: &mut Registers<'_>, lanes: u32) {
    of_width!(kind, s, r, lanes, u64, i64, {
        Kind::Field => r.ternary(s, lanes, |a: u64, b: u32, c: u32| field(a, b, c, 64)),
        Kind::FieldSigned => r.ternary(s, lanes, |a: i64, b: u32, c: u32| field_signed(a, b, c, 64)),
        Kind::Reverse => r.unary(s, lanes, u64::reverse_bits),
        _ => {}
    })
}

#[inline(always)]
fn field(a: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if position >= bits { 0 } else { (a >> position) & field_mask(0, length.min(bits)) }
}

/// The sign is that of the field's top bit, or of the value's where the field reaches beyond it.
#[inline(always)]
fn field_signed(a: i64, position: u32, length: u32, bits: u32) -> i64 {
    let (position, length) = (position & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let top = (position + length - 1).min(bits - 1);
    let sign = a >> top & 1;
    let mask = field_mask(0, length.min(bits));
    let value =
        if position >= bits { 0 } else { (a as u64) >> position & field_mask(0, bits.min(64) - position) & mask };
    let known = bits.saturating_sub(position).min(length);
    let extended = if known >= 64 { 0 } else { (-sign) as u64 & !field_mask(0, known) };
    (value | extended) as i64
}

#[inline(always)]
fn permute(mode: Permute, a: u32, b: u32, c: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let byte = |selector: u32| {
        let byte = (both >> (8 * (selector & 7))) as u8;
        u32::from(if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 })
    };
    let four = |selectors: [u32; 4]| (0..4).fold(0, |word, i| word | byte(selectors[i]) << (8 * i));
    let n = c & 3;
    match mode {
        Permute::Bytes => four([c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15]),
        Permute::F4e => four([n, n + 1, n + 2, n + 3]),
        Permute::B4e => four([n, n.wrapping_sub(1) & 7, n.wrapping_sub(2) & 7, n.wrapping_sub(3) & 7]),
        Permute::Rc8 => four([n; 4]),
        Permute::Ecl => four([n, n.max(1), n.max(2), 3]),
        Permute::Ecr => four([0, n.min(1), n.min(2), n]),
        Permute::Rc16 => four([2 * (n & 1), 2 * (n & 1) + 1, 2 * (n & 1), 2 * (n & 1) + 1]),
    }
}

#[inline(always)]
fn lookup(table: u8, a: u32, b: u32, c: u32) -> u32 {
    let mut result = 0;
    for row in 0..8 {
        let term = (if row & 4 != 0 { a } else { !a })
            & (if row & 2 != 0 { b } else { !b })
            & (if row & 1 != 0 { c } else { !c });
        result |= term & u32::from(table >> row & 1).wrapping_neg();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EDGES, holds};

    #[test]
    fn shifts_reach_beyond_the_width() {
        holds("shl.b32 %r3, %r4, %r5;", &EDGES, |a, b, _| u64::from((a as u32).checked_shl(b as u32).unwrap_or(0)));
        holds("shr.u64 %d3, %d4, %r5;", &EDGES, |a, b, _| a.checked_shr(b as u32).unwrap_or(0));
        holds("shr.s32 %r3, %r4, %r5;", &EDGES, |a, b, _| u64::from((a as i32 >> (b as u32).min(31)) as u32));
        holds("shr.s16 %h3, %h4, %r5; cvt.u32.u16 %r3, %h3;", &EDGES, |a, b, _| {
            u64::from((a as i16 >> (b as u32).min(15)) as u16)
        });
        holds("shf.l.wrap.b32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            let both = (b & 0xffff_ffff) << 32 | a & 0xffff_ffff;
            both << (c & 31) >> 32 & 0xffff_ffff
        });
        holds("shf.r.clamp.b32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            let both = (b & 0xffff_ffff) << 32 | a & 0xffff_ffff;
            both >> (c as u32).min(32) & 0xffff_ffff
        });
    }

    /// The PTX ISA's own pseudocode, bit by bit.
    fn extract(a: u64, position: u64, length: u64, bits: u64, signed: bool) -> u64 {
        let (position, length, top) = (position & 0xff, length & 0xff, bits - 1);
        let bit = |i: u64| a >> i & 1;
        let sign = if !signed || length == 0 { 0 } else { bit((position + length - 1).min(top)) };
        (0..bits).fold(0, |d, i| d | (if i < length && position + i <= top { bit(position + i) } else { sign }) << i)
    }

    fn insert(a: u64, b: u64, position: u64, length: u64, bits: u64) -> u64 {
        let (position, length) = (position & 0xff, length & 0xff);
        (0..length)
            .filter(|i| position + i < bits)
            .fold(b, |d, i| d & !(1 << (position + i)) | (a >> i & 1) << (position + i))
    }

    #[test]
    fn fields_are_those_of_the_isa() {
        let values = [0, 1, 3, 8, 16, 31, 32, 33, 63, 64, 255, 256, 0x8000_0000, 0xdead_beef, u64::MAX];
        holds("bfe.u32 %r3, %r4, %r5, %r6;", &values, |a, b, c| extract(a, b, c, 32, false));
        holds("bfe.s32 %r3, %r4, %r5, %r6;", &values, |a, b, c| extract(a, b, c, 32, true));
        holds("bfe.s64 %d3, %d4, %r5, %r6;", &values, |a, b, c| extract(a, b, c, 64, true));
        for (position, length) in [(0, 0), (0, 32), (5, 7), (31, 9), (32, 1), (255, 255), (60, 10), (0, 64)] {
            holds(&format!("bfi.b32 %r3, %r4, %r5, {position}, {length};"), &values, |a, b, _| {
                insert(a, b & 0xffff_ffff, position, length, 32)
            });
            holds(&format!("bfi.b64 %d3, %d4, %d5, {position}, {length};"), &values, |a, b, _| {
                insert(a, b, position, length, 64)
            });
        }
    }

    #[test]
    fn bytes_are_permuted() {
        let selectors = [0x3210, 0x7654, 0x0123, 0xba98, 0xfedc, 0x4444, 0x80c0, 0x0042];
        holds("prmt.b32 %r3, %r4, %r5, %r6;", &selectors, |a, b, c| {
            let bytes = [(a as u32).to_le_bytes(), (b as u32).to_le_bytes()].concat();
            let byte = |i: u64| {
                let selector = c >> (4 * i) & 15;
                let byte = bytes[selector as usize & 7];
                u64::from(if selector & 8 == 0 {
                    byte
                } else if byte & 0x80 != 0 {
                    0xff
                } else {
                    0
                })
            };
            (0..4).fold(0, |d, i| d | byte(i) << (8 * i))
        });
        holds("lop3.b32 %r3, %r4, %r5, %r6, 0xca;", &EDGES, |a, b, c| (a & b | !a & c) & 0xffff_ffff);
    }

    #[test]
    fn bits_are_counted_and_found() {
        holds("popc.b64 %r3, %d4;", &EDGES, |a, _, _| u64::from(a.count_ones()));
        holds("clz.b32 %r3, %r4;", &EDGES, |a, _, _| u64::from((a as u32).leading_zeros()));
        holds("brev.b32 %r3, %r4;", &EDGES, |a, _, _| u64::from((a as u32).reverse_bits()));
        holds("bfind.u32 %r3, %r4;", &EDGES, |a, _, _| u64::from((a as u32).checked_ilog2().unwrap_or(u32::MAX)));
        holds("bfind.shiftamt.u32 %r3, %r4;", &EDGES, |a, _, _| match a as u32 {
            0 => 0xffff_ffff,
            a => u64::from(a.leading_zeros()),
        });
        holds("not.b32 %r3, %r4;", &EDGES, |a, _, _| !a & 0xffff_ffff);
    }
}
