//! Rounding to narrower formats, and sums whose rounding error is kept.

/// Rounding of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// To nearest, ties to even (`.rn`, `.rni`).
    Nearest,
    /// To nearest, ties away from zero (`.rna`).
    NearestAway,
    /// Towards zero (`.rz`, `.rzi`).
    Zero,
    /// Towards minus infinity (`.rm`, `.rmi`).
    Down,
    /// Towards plus infinity (`.rp`, `.rpi`).
    Up,
}

/// A binary format narrower than f64.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    /// Bits of the significand, the hidden one included.
    pub precision: i32,
    /// Exponent of the smallest normal number.
    pub lowest: i32,
    /// Largest finite number.
    pub largest: f64,
}

pub(super) const F16: Format = Format { precision: 11, lowest: -14, largest: 65504.0 };
pub(super) const BF16: Format = Format { precision: 8, lowest: -126, largest: 3.389_531_389_251_535_5e38 };
pub(super) const TF32: Format = Format { precision: 11, lowest: -126, largest: 3.401_162_134_214_653e38 };
pub(super) const F32: Format = Format { precision: 24, lowest: -126, largest: f32::MAX as f64 };
pub(super) const E4M3: Format = Format { precision: 4, lowest: -6, largest: 448.0 };
pub(super) const E5M2: Format = Format { precision: 3, lowest: -14, largest: 57344.0 };

/// Rounds to an integer.
#[inline(always)]
pub(super) fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => libm::rint(value),
        Rounding::NearestAway => libm::round(value),
        Rounding::Zero => libm::trunc(value),
        Rounding::Down => libm::floor(value),
        Rounding::Up => libm::ceil(value),
    }
}

/// `2^exponent` for exponents of normal numbers.
#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// Rounds to a format; what is too large becomes infinite, or the largest number where the rounding points away from
/// infinity. The result is a number of the format, as f64.
pub(super) fn narrow(value: f64, format: Format, rounding: Rounding) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let exponent = ((value.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(format.lowest);
    let unit = exponent - (format.precision - 1);
    let rounded = integral(value * power(-unit), rounding) * power(unit);
    let rounded = if rounded == 0.0 { 0.0_f64.copysign(value) } else { rounded };
    if rounded.abs() <= format.largest {
        return rounded;
    }
    let towards_zero = match rounding {
        Rounding::Zero => true,
        Rounding::Down => value > 0.0,
        Rounding::Up => value < 0.0,
        Rounding::Nearest | Rounding::NearestAway => false,
    };
    if towards_zero { format.largest.copysign(value) } else { f64::INFINITY.copysign(value) }
}

/// Returns `a + b` rounded to odd: rounding it again to a format of at most 51 bits is as good as rounding the exact sum.
#[inline(always)]
pub(super) fn sum_to_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let others = sum - a;
    let error = (a - (sum - others)) + (b - others);
    let bits = sum.to_bits();
    if error == 0.0 || !sum.is_finite() || bits & 1 == 1 {
        return sum;
    }
    // The exact sum lies between this number and its neighbour, which is odd.
    let outwards = (error > 0.0) == (sum > 0.0);
    f64::from_bits(if outwards { bits + 1 } else { bits - 1 })
}

/// NaN as the hardware makes it in f32.
pub(super) const NAN: f32 = f32::from_bits(0x7fff_ffff);

/// A NaN of f64 as the hardware passes it on: sign and fraction stay, and it is quiet.
#[inline(always)]
pub(super) fn quiet(nan: f64) -> f64 {
    f64::from_bits(nan.to_bits() | 1 << 51)
}

/// Makes every NaN the one that the hardware makes.
#[inline(always)]
pub(super) fn canonical(value: f32) -> f32 {
    // By its bits: to the optimiser one NaN is as good as another, so that it may drop a choice between floats.
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { NAN.to_bits() } else { bits })
}

/// Makes subnormal numbers zero, the sign kept.
#[inline(always)]
pub(super) fn flush(value: f32) -> f32 {
    let bits = value.to_bits();
    if bits & 0x7f80_0000 == 0 { f32::from_bits(bits & 0x8000_0000) } else { value }
}

/// Limits to 0 to 1; NaN becomes 0.
#[inline(always)]
pub(super) fn saturate(value: f32) -> f32 {
    if value > 0.0 { if value < 1.0 { value } else { 1.0 } } else { 0.0 }
}

/// f16 to f32, exact; branch-free, so that it becomes vector instructions. NaN becomes [`NAN`].
#[inline(always)]
pub(super) fn from_f16(half: u16) -> f32 {
    let bits = u32::from(half);
    let magnitude = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((254 - 15) << 23);
    let special = if bits & 0x7fff > 0x7c00 { 0x7fff_ffff } else { 0x7f80_0000 };
    let value = if bits & 0x7c00 == 0x7c00 { special } else { magnitude.to_bits() };
    let sign = if bits & 0x7fff > 0x7c00 { 0 } else { (bits & 0x8000) << 16 };
    f32::from_bits(value | sign)
}

/// f32 to f16, to nearest even; NaN becomes `0x7fff`.
#[inline(always)]
pub(super) fn to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = bits & 0x8000_0000;
    let magnitude = bits ^ sign;
    let special = if magnitude > 0x7f80_0000 { 0x7fff } else { 0x7c00 };
    let small = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let odd = magnitude >> 13 & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < 113 << 23 { small } else { normal };
    let half = if magnitude >= 143 << 23 { special } else { finite };
    let sign = if magnitude > 0x7f80_0000 { 0 } else { sign >> 16 };
    (half | sign) as u16
}

/// bf16 to f32, exact. NaN becomes [`NAN`].
#[inline(always)]
pub(super) fn from_bf16(half: u16) -> f32 {
    canonical(f32::from_bits(u32::from(half) << 16))
}

/// f32 to bf16, to nearest even; NaN becomes `0x7fff`.
#[inline(always)]
pub(super) fn to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    if value.is_nan() { 0x7fff } else { rounded as u16 }
}

/// Bits of a number of a 16-bit format that [`narrow`] gave.
pub(super) fn f16_bits(value: f64) -> u16 {
    // Exact, whichever way it rounds.
    to_f16(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_survives_the_way_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let reference = half::f16::from_bits(bits);
            let value = from_f16(bits);
            if reference.is_nan() {
                assert_eq!((value.to_bits(), to_f16(value)), (0x7fff_ffff, 0x7fff));
            } else {
                assert_eq!(value.to_bits(), reference.to_f32().to_bits(), "{bits:#x}");
                assert_eq!(to_f16(value), bits);
            }
        }
    }

    #[test]
    fn f32_to_f16_agrees_with_rounding_by_definition() {
        // Every exponent, with significands around ties.
        for exponent in 0..=255_u32 {
            for low in [
                0, 1, 0xfff, 0x1000, 0x1001, 0x1fff, 0x2fff, 0x3000, 0x3001, 0x40_0000, 0x7f_efff, 0x7f_f000, 0x7f_ffff,
            ] {
                let value = f32::from_bits(exponent << 23 | low);
                let expected =
                    if value.is_nan() { 0x7fff } else { f16_bits(narrow(f64::from(value), F16, Rounding::Nearest)) };
                assert_eq!(to_f16(value), expected, "{value:e}");
                if !value.is_nan() {
                    assert_eq!(to_f16(-value), expected | 0x8000, "-{value:e}");
                }
            }
        }
    }

    #[test]
    fn directed_rounding_encloses_the_value() {
        for value in [1.0 + f64::EPSILON, -1e-50, 1e300, -65519.9, 65520.001, 3.3e-8, f64::from(f32::MAX) * 1.0001] {
            for format in [F16, BF16, TF32, F32] {
                let (down, up) = (narrow(value, format, Rounding::Down), narrow(value, format, Rounding::Up));
                assert!(down <= value && value <= up && down < up, "{value:e} in {format:?}: {down:e} {up:e}");
                let zero = narrow(value, format, Rounding::Zero);
                assert_eq!(zero, if value > 0.0 { down } else { up });
            }
        }
        assert_eq!(narrow(65520.0, F16, Rounding::Nearest), f64::INFINITY);
        assert_eq!(narrow(65519.999, F16, Rounding::Nearest), 65504.0);
    }

    #[test]
    fn a_sum_rounded_to_odd_decides_ties() {
        // 1 + 2^-11 lies between two f16 numbers, and what is added decides.
        let tie = 1.0 + power(-11);
        for (rest, expected) in [(power(-60), 1.0 + power(-10)), (-power(-60), 1.0)] {
            assert_eq!(narrow(sum_to_odd(tie, rest), F16, Rounding::Nearest), expected);
        }
    }
}
