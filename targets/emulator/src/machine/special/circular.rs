//! `sin.approx` and `cos.approx`: the compiler makes revolutions of the operand, the unit does the rest.

use super::interpolator::FRACTION;
use super::tables::SINE;
use super::{NAN, SIGN, fields};

/// 1 / 2π, as the compiler has it.
const REVOLUTIONS: f32 = 0.159_154_94;
/// Bits of the phase: two select the quadrant.
const PHASE: i32 = 25;

/// The product, cut to the bits of an f32. With `FLUSH`, subnormal products are zero.
fn revolutions<const FLUSH: bool>(x: f32) -> f32 {
    let exact = f64::from(x) * f64::from(REVOLUTIONS);
    let near = exact as f32;
    let cut = if f64::from(near).abs() > exact.abs() { f32::from_bits(near.to_bits() - 1) } else { near };
    if FLUSH { super::flushed(cut) } else { cut }
}

/// The sine, so many quadrants further on.
fn unit(revolutions: f32, ahead: u32) -> f32 {
    let (sign, exponent, fraction) = fields(revolutions);
    if exponent == 0xff {
        return NAN;
    }
    // What is below the phase is cut, and whole revolutions too.
    let (significand, shift) = (u64::from(fraction | 0x80_0000), exponent - 127 - 23 + PHASE);
    let phase = if shift >= 0 {
        significand.checked_shl(shift as u32).unwrap_or(0)
    } else {
        significand.checked_shr(shift.unsigned_abs()).unwrap_or(0)
    } as u32;
    let quadrant = (phase >> 23 & 3) + ahead;
    // The second and the fourth quadrant are the first backwards, and the complement turns it round.
    let operand = if quadrant & 1 == 0 { phase } else { !phase } & 0x7f_ffff;
    let sign = if ahead == 0 { sign } else { 0 } ^ if quadrant & 2 == 0 { 0 } else { SIGN };
    let sum = SINE.sum(operand);
    if sum == 0 {
        return f32::from_bits(sign);
    }
    let top = sum.ilog2();
    let significand = if top > 23 { sum >> (top - 23) } else { sum << (23 - top) } as u32;
    f32::from_bits(sign | (127 + top - 24 - FRACTION) << 23 | significand & 0x7f_ffff)
}

pub(super) fn sine<const FLUSH: bool>(x: f32) -> f32 {
    unit(revolutions::<FLUSH>(x), 0)
}

pub(super) fn cosine<const FLUSH: bool>(x: f32) -> f32 {
    unit(revolutions::<FLUSH>(x), 1)
}
