//! `rcp.approx`, and the divisions that multiply by it.

use super::tables::RECIPROCAL;
use super::{INFINITY, NAN, SIGN, fields, flushed, scaled};

/// 2^126: the reciprocal of a larger number is subnormal.
const LARGE: f32 = f32::from_bits((126 + 127) << 23);

/// The instruction. Subnormal numbers count as zero, and results are never subnormal.
fn unit(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    let bits = match exponent {
        0xff if fraction != 0 => return NAN,
        0xff => sign,
        0 => sign | INFINITY,
        _ => {
            let significand = RECIPROCAL.significand(fraction);
            // The reciprocal of a power of two has a bit more.
            let exponent = 253 - exponent + (significand >> 24) as i32;
            if exponent < 1 { sign } else { sign | (exponent as u32) << 23 | significand & 0x7f_ffff }
        }
    };
    f32::from_bits(bits)
}

pub(super) fn reciprocal<const FLUSH: bool>(x: f32) -> f32 {
    if !FLUSH && x.abs() > LARGE {
        unit(x * 0.25) * 0.25
    } else if !FLUSH && x.abs() < f32::MIN_POSITIVE {
        unit(scaled(x)) * 16_777_216.0
    } else {
        unit(x)
    }
}

/// `div.approx`: of a divisor above 2^126 nothing is left.
pub(in super::super) fn quick_quotient<const FLUSH: bool>(a: f32, b: f32) -> f32 {
    if !FLUSH && b.abs() < f32::MIN_POSITIVE { scaled(a) * unit(scaled(b)) } else { a * unit(b) }
}

/// `div.full`
pub(in super::super) fn quotient<const FLUSH: bool>(a: f32, b: f32) -> f32 {
    if b.abs() > LARGE {
        let (a, b) = (a * 0.25, b * 0.25);
        if FLUSH { flushed(a) * unit(flushed(b)) } else { a * unit(b) }
    } else {
        quick_quotient::<FLUSH>(a, b)
    }
}

/// `rcp.approx.ftz.f64`: the upper half of the result from the operand's, 20 bits of the significand. The lower half is zero.
pub(in super::super) fn upper(x: f64) -> f64 {
    let bits = (x.to_bits() >> 32) as u32;
    let (sign, exponent, fraction) = (bits & SIGN, (bits >> 20 & 0x7ff) as i32, bits & 0xf_ffff);
    let bits = match exponent {
        0x7ff if fraction != 0 => return super::UPPER_NAN,
        0x7ff => sign,
        0 => sign | 0x7ff0_0000,
        _ => {
            let significand = RECIPROCAL.significand(fraction << 3) >> 3;
            let exponent = 2045 - exponent + (significand >> 21) as i32;
            if exponent < 1 { sign } else { sign | (exponent as u32) << 20 | significand & 0xf_ffff }
        }
    };
    f64::from_bits(u64::from(bits) << 32)
}
