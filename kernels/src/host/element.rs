//! The element types as Rust types, with the conversions of ONNX `Cast`.

use super::cpu;
use crate::{DType, KernelError};
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

/// A byte that is 0 or 1 in memory; any other byte reads as true.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(crate) struct Boolean(pub u8);

impl PartialEq for Boolean {
    fn eq(&self, other: &Self) -> bool {
        (self.0 != 0) == (other.0 != 0)
    }
}

impl PartialOrd for Boolean {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        (self.0 != 0).partial_cmp(&(other.0 != 0))
    }
}

/// An element type in memory and its conversions: floats to integers truncate towards zero and saturate (NaN gives 0),
/// integers wrap, anything to bool is `≠ 0`.
#[allow(dead_code)]
pub(crate) trait Element: Pod {
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
    fn to_f64(self) -> f64;
    fn from_f64(value: f64) -> Self;
    /// `u64` gives its bit pattern.
    fn to_i64(self) -> i64;
    fn from_i64(value: i64) -> Self;
    fn from_u64(value: u64) -> Self;
    /// Of integers of at most 16 bits.
    #[inline(always)]
    fn to_words(from: [Self; 8]) -> [i16; 8] {
        from.map(|x| x.to_i64() as i16)
    }
    /// As [`Element::to_f32`].
    #[inline(always)]
    fn to_floats(from: [Self; 8]) -> [f32; 8] {
        from.map(Self::to_f32)
    }
    /// As [`Element::from_f32`].
    #[inline(always)]
    fn from_floats(from: [f32; 8]) -> [Self; 8] {
        from.map(Self::from_f32)
    }
    /// As [`Element::to_words`], the first of each pair.
    #[inline(always)]
    fn firsts_to_words(from: [[Self; 2]; 8]) -> [i16; 8] {
        Self::to_words(from.map(|[x, _]| x))
    }
}

/// Rounds to odd: rounding the result again to f16 or bf16 then gives what rounding `x` once would have given
/// (Boldo and Melquiond, "When double rounding is odd", 2005).
pub(crate) fn to_f32_odd(x: f64) -> f32 {
    let nearest = x as f32;
    if f64::from(nearest) == x || x.is_nan() {
        return nearest;
    }
    // Towards zero, then the last bit set.
    let bits = nearest.to_bits();
    let truncated = if f64::from(nearest).abs() > x.abs() { bits - 1 } else { bits };
    f32::from_bits(truncated | 1)
}

macro_rules! number {
    ($($t:ty: $from_f32:expr $(; widened $signed:literal)?),* $(,)?) => {$(
        impl Element for $t {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                $from_f32(value)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                value as Self
            }
            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                value as Self
            }
            $(
                #[inline(always)]
                fn to_words(from: [Self; 8]) -> [i16; 8] {
                    cpu::widen::<$signed>(bytemuck::cast(from))
                }
                #[inline(always)]
                fn to_floats(from: [Self; 8]) -> [f32; 8] {
                    cpu::to_floats(Self::to_words(from))
                }
                #[inline(always)]
                fn from_floats(from: [f32; 8]) -> [Self; 8] {
                    bytemuck::cast(cpu::to_bytes::<$signed>(from))
                }
                #[inline(always)]
                fn firsts_to_words(from: [[Self; 2]; 8]) -> [i16; 8] {
                    cpu::widen_firsts::<$signed>(bytemuck::cast(from))
                }
            )?
        }
    )*};
}

number!(
    f32: |x| x, f64: |x| x as f64,
    // By way of i32, so that loops vectorise.
    i8: |x| (x as i32).clamp(-128, 127) as Self; widened true,
    i16: |x| (x as i32).clamp(-32_768, 32_767) as Self,
    i32: |x| x as i32, i64: |x| x as i64,
    u8: |x| (x as i32).clamp(0, 255) as Self; widened false,
    u16: |x| (x as i32).clamp(0, 65_535) as Self,
    u32: |x| x as u32, u64: |x| x as u64
);

/// Floats narrower than f32, which goes between them and all other types: with their own `to_f32` and `from_f32`.
macro_rules! narrow_float {
    ($t:ty $(, $($generics:tt)+)?) => {
        impl$(<$($generics)+>)? Element for $t {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                Self::to_f32(self)
            }
            #[inline(always)]
            fn from_f32(value: f32) -> Self {
                Self::from_f32(value)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                Self::to_f32(self).into()
            }
            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                // Not `half`'s own conversion, which rounds twice or drops bits, depending on the processor.
                Self::from_f32(to_f32_odd(value))
            }
            #[inline(always)]
            fn to_i64(self) -> i64 {
                Self::to_f32(self) as i64
            }
            #[inline(always)]
            fn from_i64(value: i64) -> Self {
                <Self as Element>::from_f64(value as f64)
            }
            #[inline(always)]
            fn from_u64(value: u64) -> Self {
                <Self as Element>::from_f64(value as f64)
            }
        }
    };
}
pub(crate) use narrow_float;

narrow_float!(f16);
narrow_float!(bf16);

impl Element for Boolean {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from(self.0 != 0)
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        Self(u8::from(value != 0.0))
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self.0 != 0)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        Self(u8::from(value != 0.0))
    }
    #[inline(always)]
    fn to_i64(self) -> i64 {
        i64::from(self.0 != 0)
    }
    #[inline(always)]
    fn from_i64(value: i64) -> Self {
        Self(u8::from(value != 0))
    }
    #[inline(always)]
    fn from_u64(value: u64) -> Self {
        Self(u8::from(value != 0))
    }
}

/// Evaluates an expression with `$t` standing for the type beside the variant that a [`crate::DType`] is.
macro_rules! match_type {
    ($dtype:expr, $t:ident => $body:expr, { $($variant:ident: $type:ty),* } $(else $other:expr)?) => {
        match $dtype {
            $($crate::DType::$variant => {
                type $t = $type;
                $body
            })*
            $(_ => $other,)?
        }
    };
}
pub(crate) use match_type;

/// Evaluates an expression with `$t` standing for the Rust type of any [`crate::DType`], for what moves and converts elements:
/// `with_element!(view.dtype, T => copy::<T>(…))`.
macro_rules! with_element {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::host::match_type!($dtype, $t => $body, {
            F32: f32, F16: half::f16, Bf16: half::bf16, F64: f64,
            I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64,
            Bool: $crate::host::Boolean,
            F8E4M3: $crate::narrow::F8E4M3, F8E4M3Fnuz: $crate::narrow::F8E4M3Fnuz,
            F8E5M2: $crate::narrow::F8E5M2, F8E5M2Fnuz: $crate::narrow::F8E5M2Fnuz,
            I4: $crate::narrow::I4, U4: $crate::narrow::U4
        })
    };
}
pub(crate) use with_element;

/// As [`with_element`], for what computes in the type: a [narrow](crate::narrow) one, which a family's check has refused before,
/// makes the function return an error.
macro_rules! with_plain {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::host::match_type!($dtype, $t => $body, {
            F32: f32, F16: half::f16, Bf16: half::bf16, F64: f64,
            I8: i8, I16: i16, I32: i32, I64: i64, U8: u8, U16: u16, U32: u32, U64: u64,
            Bool: $crate::host::Boolean
        } else return Err($crate::host::NARROW))
    };
}
pub(crate) use with_plain;

/// As [`with_element`], for factors of a product of f32, of floats of 8 bits or of integers of at most 16 bits; other types make
/// the function return an error.
macro_rules! with_factor {
    ($dtype:expr, $t:ident => $body:expr) => {
        $crate::host::match_type!($dtype, $t => $body, {
            F32: f32, F16: half::f16, Bf16: half::bf16, I8: i8, U8: u8, I16: i16,
            F8E4M3: $crate::narrow::F8E4M3, F8E5M2: $crate::narrow::F8E5M2
        } else return Err($crate::KernelError::Type("factors")))
    };
}
pub(crate) use with_factor;

/// What a family says of an operand of a [narrow](crate::narrow) type.
pub(crate) const NARROW: KernelError = KernelError::Type("8-bit floats and 4-bit integers");

/// Refuses a [narrow](crate::narrow) type.
pub(crate) fn check_plain(dtype: DType) -> Result<(), KernelError> {
    if dtype.is_narrow() { Err(NARROW) } else { Ok(()) }
}
