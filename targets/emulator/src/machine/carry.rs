//! Sums that are longer than a register: what one instruction carries out, the next takes in. Compilers make these of
//! arithmetic of 64 and 128 bits, as in the reduction of large angles.

use super::lanes::{Lane, Registers, Slots};
use super::reader::{Reader, Result};
use crate::ptx::Type;

#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    kind: Kind,
    /// Whether the carry of each lane is taken in, and whether it is left for the next instruction.
    takes_in: bool,
    carries_out: bool,
    long: bool,
    slots: Slots,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Add,
    /// The carry is a borrow.
    Sub,
    MadLow,
    MadHighUnsigned,
    MadHighSigned,
}

/// Decodes the instruction if it takes a carry in or out.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let takes_in = matches!(reader.opcode, "addc" | "subc" | "madc");
    if !takes_in && !matches!(reader.opcode, "add" | "sub" | "mad") {
        return Ok(None);
    }
    let carries_out = reader.takes("cc");
    if !takes_in && !carries_out {
        return Ok(None);
    }
    let high = reader.choice(&[("lo", false), ("hi", true)]);
    let r#type = reader.r#type()?;
    if !matches!(r#type, Type::U32 | Type::S32 | Type::B32 | Type::U64 | Type::S64 | Type::B64) {
        return Err(format!("type {:?}", r#type));
    }
    let (kind, sources) = match (&reader.opcode[..3], high) {
        ("add", None) => (Kind::Add, 2),
        ("sub", None) => (Kind::Sub, 2),
        ("mad", Some(false)) => (Kind::MadLow, 3),
        ("mad", Some(true)) if r#type.is_signed() => (Kind::MadHighSigned, 3),
        ("mad", Some(true)) => (Kind::MadHighUnsigned, 3),
        _ => return Err("this part of a product".to_owned()),
    };
    let slots = reader.slots(r#type, r#type, sources)?;
    Ok(Some(Op { kind, takes_in, carries_out, long: r#type.bytes() == 8, slots }))
}

pub(super) fn execute(op: &Op, registers: &mut Registers<'_>, lanes: u32) {
    if op.long { run::<u64>(op, registers, lanes) } else { run::<u32>(op, registers, lanes) }
}

fn run<T: Lane + Word>(op: &Op, registers: &mut Registers<'_>, lanes: u32) {
    let s = &op.slots;
    let (a, b, c) = (registers.get::<T>(s.a), registers.get::<T>(s.b), registers.get::<T>(s.c));
    let (mut results, mut carries) = ([T::default(); 32], 0);
    for lane in 0..32 {
        let carry = op.takes_in && registers.carry >> lane & 1 == 1;
        let (a, b, c) = (a[lane], b[lane], c[lane]);
        let (result, carried) = match op.kind {
            Kind::Add => a.add(b, carry),
            Kind::Sub => a.sub(b, carry),
            Kind::MadLow => a.product(b).0.add(c, carry),
            Kind::MadHighUnsigned => a.product(b).1.add(c, carry),
            Kind::MadHighSigned => a.signed_high(b).add(c, carry),
        };
        results[lane] = result;
        carries |= u32::from(carried) << lane;
    }
    registers.set(s.d, &results, lanes);
    if op.carries_out {
        registers.carry = registers.carry & !lanes | carries & lanes;
    }
}

/// What sums with carry need of a register.
trait Word: Sized {
    /// Sum, and whether it is longer than the register.
    fn add(self, other: Self, carry: bool) -> (Self, bool);
    /// Difference, and whether it is negative.
    fn sub(self, other: Self, borrow: bool) -> (Self, bool);
    /// Low and high half of the unsigned product.
    fn product(self, other: Self) -> (Self, Self);
    /// High half of the signed product.
    fn signed_high(self, other: Self) -> Self;
}

macro_rules! word {
    ($($unsigned:ty, $signed:ty, $wide:ty, $wide_signed:ty;)*) => {$(
        impl Word for $unsigned {
            fn add(self, other: Self, carry: bool) -> (Self, bool) {
                let sum = self as $wide + other as $wide + <$wide>::from(carry);
                (sum as Self, sum >> Self::BITS != 0)
            }
            fn sub(self, other: Self, borrow: bool) -> (Self, bool) {
                let taken = other as $wide + <$wide>::from(borrow);
                ((self as $wide).wrapping_sub(taken) as Self, taken > self as $wide)
            }
            fn product(self, other: Self) -> (Self, Self) {
                let product = self as $wide * other as $wide;
                (product as Self, (product >> Self::BITS) as Self)
            }
            fn signed_high(self, other: Self) -> Self {
                ((self as $signed as $wide_signed * other as $signed as $wide_signed) >> Self::BITS) as Self
            }
        }
    )*};
}

word! {
    u32, i32, u64, i64;
    u64, i64, u128, i128;
}

#[cfg(test)]
mod tests {
    use super::super::tests::{EDGES, holds};

    /// The operands, and what carries over into the upper half, as one register of twice the length.
    fn joined(low: u64, high: u64) -> u128 {
        u128::from(low) | u128::from(high) << 64
    }

    #[test]
    fn sums_of_two_registers_carry_over() {
        // Operands a and b, each with c above it.
        let upper = |sum: u128| (sum >> 64) as u64;
        holds("add.cc.u64 %d3, %d4, %d5; addc.u64 %d3, %d6, %d6;", &EDGES, |a, b, c| {
            upper(joined(a, c).wrapping_add(joined(b, c)))
        });
        holds("sub.cc.u64 %d3, %d4, %d5; subc.u64 %d3, %d6, %d4;", &EDGES, |a, b, c| {
            upper(joined(a, c).wrapping_sub(joined(b, a)))
        });
        holds("add.cc.u32 %r3, %r4, %r5; addc.u32 %r3, %r6, 0;", &EDGES, |a, b, c| {
            let carry = (u64::from(a as u32) + u64::from(b as u32)) >> 32;
            u64::from((c as u32).wrapping_add(carry as u32))
        });
    }

    #[test]
    fn a_carry_goes_through_an_instruction_that_takes_it_in_and_out() {
        // Three registers: the middle one is all ones, so that it passes the carry on.
        holds("add.cc.u32 %r3, %r4, %r5; addc.cc.u32 %r7, %r6, -1; addc.u32 %r3, 0, 0;", &EDGES, |a, b, c| {
            let carry = (u64::from(a as u32) + u64::from(b as u32)) >> 32;
            (u64::from(c as u32) + 0xffff_ffff + carry) >> 32
        });
        // What does not say `.cc` leaves the carry as it was.
        holds("add.cc.u32 %r3, %r4, %r5; add.u32 %r7, %r6, %r6; addc.u32 %r3, 0, 0;", &EDGES, |a, b, _| {
            (u64::from(a as u32) + u64::from(b as u32)) >> 32
        });
    }

    #[test]
    fn products_are_added_with_carry() {
        holds("mad.lo.cc.u32 %r3, %r4, %r5, %r6; madc.hi.u32 %r3, %r4, %r5, %r6;", &EDGES, |a, b, c| {
            let (a, b, c) = (a as u32, b as u32, c as u32);
            let product = u64::from(a) * u64::from(b);
            let sum = u128::from(product) + u128::from(u64::from(c) << 32 | u64::from(c));
            (sum >> 32) as u32 as u64
        });
        holds("mad.lo.cc.s64 %d3, %d4, %d5, %d6; madc.hi.s64 %d3, %d4, %d5, %d6;", &EDGES, |a, b, c| {
            let product = i128::from(a as i64) * i128::from(b as i64);
            (product as u128).wrapping_add(joined(c, c)).wrapping_shr(64) as u64
        });
    }
}
