//! `ex2.approx` and `lg2.approx`: sums in fixed point.

use super::tables::{EXP2, LOG2};
use super::{INFINITY, NAN, SIGN, fields, scaled};

/// Fraction bits of a logarithm.
const LOG_BITS: u32 = 36;

fn exp2_unit(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    let negative = sign != 0;
    let beyond = f32::from_bits(if negative { 0 } else { INFINITY });
    match exponent {
        0xff if fraction != 0 => return NAN,
        135.. => return beyond,
        _ => {}
    }
    // What is below 23 fraction bits is cut.
    let significand = fraction | 0x80_0000;
    let magnitude = if exponent >= 127 {
        significand << (exponent - 127)
    } else {
        significand.checked_shr((127 - exponent) as u32).unwrap_or(0)
    } as i32;
    // A number with a fraction is negated by its complement, which is a unit less.
    let fixed = match (negative, magnitude & 0x7f_ffff) {
        (false, _) => magnitude,
        (true, 0) => -magnitude,
        (true, _) => !magnitude,
    };
    let whole = fixed >> 23;
    if !(-126..128).contains(&whole) {
        return beyond;
    }
    f32::from_bits(((whole + 127) as u32) << 23 | EXP2.significand(fixed as u32 & 0x7f_ffff) & 0x7f_ffff)
}

fn log2_unit(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    match exponent {
        0 => return f32::NEG_INFINITY,
        0xff if fraction != 0 => return NAN,
        _ if sign != 0 => return NAN,
        0xff => return f32::INFINITY,
        // The one power of two whose logarithm is made exact.
        127 if fraction == 0 => return 0.0,
        _ => {}
    }
    // Units of 2^-24 with a fraction become the fixed point; what is below it is cut.
    let logarithm = LOG2.sum(fraction) >> (24 + super::interpolator::FRACTION - LOG_BITS);
    let value = (i64::from(exponent - 127) << LOG_BITS) + logarithm;
    let (sign, magnitude) = if value < 0 { (SIGN, !value) } else { (0, value) };
    let top = magnitude.ilog2();
    let significand = if top > 23 { magnitude >> (top - 23) } else { magnitude << (23 - top) } as u32;
    f32::from_bits(sign | (127 + top - LOG_BITS) << 23 | significand & 0x7f_ffff)
}

pub(super) fn exp2<const FLUSH: bool>(x: f32) -> f32 {
    if !FLUSH && x < -126.0 {
        let half = exp2_unit(x * 0.5);
        half * half
    } else {
        exp2_unit(x)
    }
}

pub(super) fn log2<const FLUSH: bool>(x: f32) -> f32 {
    let small = !FLUSH && x.abs() < f32::MIN_POSITIVE;
    if small { log2_unit(scaled(x)) - 24.0 } else { log2_unit(x) }
}
