//! `tanh.approx`: a table for each binade of the operand.

use super::interpolator::FRACTION;
use super::tables::TANH;
use super::{NAN, fields};

/// For each binade from 2^-8 to 2^2: its first segment in the table, and how many bits of the fraction count.
const BINADES: [(u32, u32); 11] =
    [(0, 17), (1, 17), (2, 17), (3, 18), (5, 18), (7, 19), (11, 19), (15, 19), (19, 20), (27, 21), (43, 20)];

pub(super) fn tangent(x: f32) -> f32 {
    let (sign, exponent, fraction) = fields(x);
    if x.is_nan() {
        return NAN;
    }
    let binade = exponent - (127 - 8);
    let Ok(number) = usize::try_from(binade) else { return x };
    let Some((first, bits)) = BINADES.get(number) else { return 1.0_f32.copysign(x) };
    let sum = TANH.sum((first << TANH.bits) + (fraction >> (23 - bits)));
    // The unit is 2^-24, and in smaller binades the operand's own.
    let unit = 24.max(31 - binade) as u32;
    let top = sum.ilog2();
    let significand = if top > 23 { sum >> (top - 23) } else { sum << (23 - top) } as u32;
    f32::from_bits(sign | (127 + top - unit - FRACTION) << 23 | significand & 0x7f_ffff)
}
