//! `rsqrt.approx` and `sqrt.approx`.

use super::tables::{RECIPROCAL_ROOT, ROOT};
use super::{INFINITY, NAN, SIGN, fields, scaled};

/// An exponent, without its bias, as twice one and a rest.
fn halved(exponent: i32) -> (i32, u32) {
    (exponent.div_euclid(2), exponent.rem_euclid(2) as u32)
}

fn reciprocal_unit(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    let bits = match exponent {
        0 => sign | INFINITY,
        0xff if fraction != 0 => return NAN,
        _ if sign != 0 => return NAN,
        0xff => 0,
        _ => match halved(exponent - 127) {
            // The sum is a unit short.
            (half, 0) if fraction == 0 => ((127 - half) as u32) << 23,
            (half, odd) => ((126 - half) as u32) << 23 | RECIPROCAL_ROOT.significand(odd << 23 | fraction) & 0x7f_ffff,
        },
    };
    f32::from_bits(bits)
}

fn unit(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    let bits = match exponent {
        0 => sign,
        0xff if fraction != 0 => return NAN,
        _ if sign != 0 => return NAN,
        0xff => INFINITY,
        _ => {
            let (half, odd) = halved(exponent - 127);
            ((127 + half) as u32) << 23 | ROOT.significand(odd << 23 | fraction) & 0x7f_ffff
        }
    };
    f32::from_bits(bits)
}

pub(super) fn reciprocal_root<const FLUSH: bool>(x: f32) -> f32 {
    let small = !FLUSH && x.abs() < f32::MIN_POSITIVE;
    if small { reciprocal_unit(scaled(x)) * 4096.0 } else { reciprocal_unit(x) }
}

pub(super) fn root<const FLUSH: bool>(x: f32) -> f32 {
    let small = !FLUSH && x.abs() < f32::MIN_POSITIVE;
    if small { unit(scaled(x)) / 4096.0 } else { unit(x) }
}

/// `rsqrt.approx.ftz.f64`: the upper half of the result from the operand's, 20 bits of the significand. The lower half is zero.
pub(in super::super) fn upper(x: f64) -> f64 {
    let bits = (x.to_bits() >> 32) as u32;
    let (sign, exponent, fraction) = (bits & SIGN, (bits >> 20 & 0x7ff) as i32, bits & 0xf_ffff);
    let bits = match exponent {
        0 => sign | 0x7ff0_0000,
        0x7ff if fraction != 0 => return super::UPPER_NAN,
        _ if sign != 0 => return super::UPPER_NAN,
        0x7ff => 0,
        _ => match halved(exponent - 1023) {
            (half, 0) if fraction == 0 => ((1023 - half) as u32) << 20,
            (half, odd) => {
                let significand = RECIPROCAL_ROOT.significand((odd << 20 | fraction) << 3) >> 3;
                ((1022 - half) as u32) << 20 | significand & 0xf_ffff
            }
        },
    };
    f64::from_bits(u64::from(bits) << 32)
}
