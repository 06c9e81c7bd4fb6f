//! Element types of fewer bits than a plain byte has uses for: floats of 8 bits and integers of 4.
//!
//! Nothing computes in them but [products](crate::quantized_conv) of E4M3 and E5M2. Casts convert them from and to other types, and
//! movement moves them as bytes. An element takes one byte in memory, so a 4-bit integer lies alone in it; ONNX's packed pairs are taken apart when a model is read.
//!
//! Formats: "FP8 formats for deep learning" (Micikevicius and others, 2022; OCP's OFP8) for E4M3FN and E5M2, and "8-bit numerical formats
//! for deep neural networks" (Noune and others, 2022) for the two with one zero, as ONNX's page on float8 has them.

use crate::DType;
use crate::host::{Element, narrow_float, to_f32_odd};
use bytemuck::{Pod, Zeroable};

/// E4M3FN: no infinity, and one NaN of either sign.
pub type F8E4M3 = Float8<3, false>;
/// E4M3FNUZ: no infinity, one NaN, and no negative zero.
pub type F8E4M3Fnuz = Float8<3, true>;
/// E5M2: infinities and NaN as in IEEE 754.
pub type F8E5M2 = Float8<2, false>;
/// E5M2FNUZ: no infinity, one NaN, and no negative zero.
pub type F8E5M2Fnuz = Float8<2, true>;
/// A signed integer of 4 bits; the upper half of its byte repeats the sign.
pub type I4 = Integer4<true>;
/// An unsigned integer of 4 bits; the upper half of its byte is 0.
pub type U4 = Integer4<false>;

/// The number that an element of a narrow type stands for; `None` for other types.
pub fn number(dtype: DType, element: u8) -> Option<f64> {
    Some(match dtype {
        DType::F8E4M3 => Float8::<3, false>(element).to_f32().into(),
        DType::F8E4M3Fnuz => Float8::<3, true>(element).to_f32().into(),
        DType::F8E5M2 => Float8::<2, false>(element).to_f32().into(),
        DType::F8E5M2Fnuz => Float8::<2, true>(element).to_f32().into(),
        DType::I4 => Integer4::<true>(element).get().into(),
        DType::U4 => Integer4::<false>(element).get().into(),
        _ => return None,
    })
}

/// The largest finite number of a float of 8 bits; `None` for other types.
pub fn largest(dtype: DType) -> Option<f64> {
    let code = match dtype {
        DType::F8E4M3 => F8E4M3::LARGEST,
        DType::F8E4M3Fnuz => F8E4M3Fnuz::LARGEST,
        DType::F8E5M2 => F8E5M2::LARGEST,
        DType::F8E5M2Fnuz => F8E5M2Fnuz::LARGEST,
        _ => return None,
    };
    number(dtype, code)
}

/// A float of 8 bits, of which `MANTISSA` are a mantissa. With `ONE_ZERO`, the code of −0 is the only NaN and the exponent's
/// bias is larger by 1.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Float8<const MANTISSA: u32, const ONE_ZERO: bool>(pub u8);

impl<const MANTISSA: u32, const ONE_ZERO: bool> Float8<MANTISSA, ONE_ZERO> {
    /// The code of −0, and of NaN where there is one zero.
    const SIGN: u8 = 0x80;
    /// Exponent bias.
    const BIAS: u32 = (1 << (6 - MANTISSA)) - 1 + ONE_ZERO as u32;
    /// Bits of an f32's mantissa that there is no room for.
    const DROPPED: u32 = 23 - MANTISSA;
    /// What becomes of magnitudes beyond [`Self::LARGEST`]: infinity, or NaN where there is none.
    const OVERFLOW: u8 = if ONE_ZERO { Self::SIGN } else { Self::LARGEST + 1 };
    const NAN: u8 = if ONE_ZERO {
        Self::SIGN
    } else if MANTISSA == 3 {
        0x7f
    } else {
        0x7e
    };
    /// The code of the largest finite number.
    pub const LARGEST: u8 = if ONE_ZERO {
        0x7f
    } else if MANTISSA == 3 {
        0x7e
    } else {
        0x7b
    };

    /// The number, exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let sign = u32::from(self.0 & Self::SIGN) << 24;
        let code = self.0 & !Self::SIGN;
        if (ONE_ZERO && self.0 == Self::SIGN)
            || (!ONE_ZERO && code > Self::OVERFLOW)
            || (MANTISSA == 3 && code > Self::LARGEST)
        {
            return f32::from_bits(sign | 0x7fc0_0000);
        }
        if code > Self::LARGEST {
            return f32::from_bits(sign | 0x7f80_0000);
        }
        // A product with a power of two moves the exponent, subnormal numbers' too.
        let magnitude = f32::from_bits(u32::from(code) << Self::DROPPED) * f32::from_bits((254 - Self::BIAS) << 23);
        f32::from_bits(magnitude.to_bits() | sign)
    }

    /// The nearest number, halves to even. What is too large becomes an infinity, or NaN where there is none: saturation is a
    /// clamp to the largest number, before.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let sign = (value.to_bits() >> 24) as u8 & Self::SIGN;
        let magnitude = value.to_bits() & 0x7fff_ffff;
        let code = if magnitude > 0x7f80_0000 {
            Self::NAN
        } else if magnitude >= (128 - Self::BIAS) << 23 {
            let even = magnitude >> Self::DROPPED & 1;
            let rounded = (magnitude + (1 << (Self::DROPPED - 1)) - 1 + even) >> Self::DROPPED;
            let code = rounded - ((127 - Self::BIAS) << MANTISSA);
            if code > u32::from(Self::LARGEST) { Self::OVERFLOW } else { code as u8 }
        } else {
            // The last bit of the sum with this number has the value of the smallest subnormal number.
            let aligner = f32::from_bits((128 - Self::BIAS + Self::DROPPED) << 23);
            ((f32::from_bits(magnitude) + aligner).to_bits() - aligner.to_bits()) as u8
        };
        Self(if ONE_ZERO && code & !Self::SIGN == 0 { code } else { code | sign })
    }
}

narrow_float!(Float8<MANTISSA, ONE_ZERO>, const MANTISSA: u32, const ONE_ZERO: bool);

/// An integer of 4 bits. Only the lower half of a byte that is read counts.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Integer4<const SIGNED: bool>(pub u8);

impl<const SIGNED: bool> Integer4<SIGNED> {
    const RANGE: (i8, i8) = if SIGNED { (-8, 7) } else { (0, 15) };

    /// The number.
    #[inline(always)]
    pub fn get(self) -> i8 {
        if SIGNED { ((self.0 << 4) as i8) >> 4 } else { (self.0 & 15) as i8 }
    }

    /// The number that has the lowest bits of `value`.
    #[inline(always)]
    pub fn wrapping(value: u8) -> Self {
        Self(Self(value).get() as u8)
    }
}

impl<const SIGNED: bool> Element for Integer4<SIGNED> {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self.get().into()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self((value as i8).clamp(Self::RANGE.0, Self::RANGE.1) as u8)
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.get().into()
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self((value as i8).clamp(Self::RANGE.0, Self::RANGE.1) as u8)
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        self.get().into()
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self::wrapping(value as u8)
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self::wrapping(value as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A format by its definition: bits of the mantissa, exponent bias, the codes of NaN and infinity, whether there is a −0.
    struct Format {
        dtype: DType,
        mantissa: u32,
        bias: i32,
        nan: &'static [u8],
        infinity: Option<u8>,
    }

    const FORMATS: [Format; 4] = [
        Format { dtype: DType::F8E4M3, mantissa: 3, bias: 7, nan: &[0x7f], infinity: None },
        Format { dtype: DType::F8E4M3Fnuz, mantissa: 3, bias: 8, nan: &[], infinity: None },
        Format { dtype: DType::F8E5M2, mantissa: 2, bias: 15, nan: &[0x7d, 0x7e, 0x7f], infinity: Some(0x7c) },
        Format { dtype: DType::F8E5M2Fnuz, mantissa: 2, bias: 16, nan: &[], infinity: None },
    ];

    impl Format {
        fn one_zero(&self) -> bool {
            self.nan.is_empty()
        }

        /// The number of a code without its sign.
        fn magnitude(&self, code: u8) -> f64 {
            if self.nan.contains(&code) {
                return f64::NAN;
            }
            if self.infinity == Some(code) {
                return f64::INFINITY;
            }
            let (exponent, fraction) = (i32::from(code >> self.mantissa), code & ((1 << self.mantissa) - 1));
            let (exponent, leading) = if exponent == 0 { (1, 0.0) } else { (exponent, 1.0) };
            (leading + f64::from(fraction) / f64::from(1 << self.mantissa)) * f64::from(exponent - self.bias).exp2()
        }

        /// The code that a number is rounded to, by looking at all of them.
        fn nearest(&self, value: f32) -> f64 {
            let magnitude = f64::from(value).abs();
            let finite = || (0..0x80u8).filter(|&code| self.magnitude(code).is_finite());
            let largest = finite().next_back().unwrap();
            // Half a step beyond the largest is the tie with a number that does not exist and whose code would be odd or even.
            let step = self.magnitude(largest) - self.magnitude(largest - 1);
            let half = self.magnitude(largest) + step / 2.0;
            let beyond = magnitude > half || magnitude == half && largest % 2 == 1;
            let rounded = if value.is_nan() {
                f64::NAN
            } else if beyond {
                if self.infinity.is_some() { f64::INFINITY } else { f64::NAN }
            } else {
                let distance = |code: u8| (self.magnitude(code) - magnitude).abs();
                let best = finite().min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a % 2).cmp(&(b % 2))));
                self.magnitude(best.unwrap())
            };
            if self.one_zero() && rounded == 0.0 { 0.0 } else { rounded.copysign(f64::from(value)) }
        }
    }

    fn nearest(dtype: DType, value: f32) -> u8 {
        match dtype {
            DType::F8E4M3 => F8E4M3::from_f32(value).0,
            DType::F8E4M3Fnuz => F8E4M3Fnuz::from_f32(value).0,
            DType::F8E5M2 => F8E5M2::from_f32(value).0,
            _ => F8E5M2Fnuz::from_f32(value).0,
        }
    }

    fn same(a: f64, b: f64) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    #[test]
    fn every_code_is_the_number_of_its_definition() {
        for format in &FORMATS {
            for code in 0..=255u8 {
                let found = number(format.dtype, code).unwrap();
                let sign = if code >= 0x80 { -1.0 } else { 1.0 };
                let expected = match code {
                    0x80 if format.one_zero() => f64::NAN,
                    _ => format.magnitude(code & 0x7f) * sign,
                };
                assert!(same(found, expected), "{:?} {code:#x} is {found}, expected {expected}", format.dtype);
                // A number's own code, and some code of NaN.
                let back = nearest(format.dtype, found as f32);
                assert!(back == code || found.is_nan() && number(format.dtype, back).unwrap().is_nan(), "{code:#x}");
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        let mut state = 1u32;
        let random = core::iter::repeat_with(move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from_bits(state)
        });
        let halves = (0..=u16::MAX).map(|bits| half::f16::from_bits(bits).to_f32());
        for value in halves.chain(random.take(50_000)) {
            for format in &FORMATS {
                let found = number(format.dtype, nearest(format.dtype, value)).unwrap();
                let expected = format.nearest(value);
                assert!(same(found, expected), "{value:e} as {:?} is {found}, expected {expected}", format.dtype);
            }
        }
    }

    #[test]
    fn doubles_are_rounded_once() {
        // Next to half-way between 1 and 1.125, by less than f32 holds.
        for (value, expected) in [(1.0625, 1.0), (1.0625 + 2f64.powi(-40), 1.125), (1.0625 - 2f64.powi(-40), 1.0)] {
            assert_eq!(F8E4M3::from_f64(value).to_f32(), expected);
        }
        assert_eq!(F8E4M3::from_u64((17 << 36) + 1).0, F8E4M3::OVERFLOW);
        assert_eq!(F8E5M2::from_i64(-((9 << 10) + 1)).to_f32(), -10240.0);
    }

    #[test]
    fn integers_saturate_from_floats_and_wrap_from_integers() {
        for (value, signed, unsigned) in [(7.9, 7, 7), (8.0, 7, 8), (-8.9, -8, 0), (1e9, 7, 15), (f32::NAN, 0, 0)] {
            assert_eq!(I4::from_f32(value).get(), signed);
            assert_eq!(U4::from_f32(value).get(), unsigned);
            assert_eq!(I4::from_f64(value.into()).get(), signed);
        }
        for integer in -40i64..40 {
            assert_eq!(i64::from(I4::from_i64(integer).get()), (integer + 8).rem_euclid(16) - 8);
            assert_eq!(i64::from(U4::from_i64(integer).get()), integer.rem_euclid(16));
        }
        // What lies in the upper half of a byte does not count, and is not kept.
        assert_eq!((number(DType::I4, 0x3f), number(DType::U4, 0xf3)), (Some(-1.0), Some(3.0)));
        assert_eq!((I4::wrapping(0x3f).0, U4::wrapping(0xf3).0), (0xff, 3));
    }
}
