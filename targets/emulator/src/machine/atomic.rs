//! What atomics do to a word.

use super::reader::Result;
use super::rounding::{canonical, from_f16, to_f16};
use crate::ptx::Type;

/// An atomic operation on 4 or 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    Add,
    AddF32,
    AddF64,
    AddHalves,
    MinUnsigned,
    MaxUnsigned,
    Min32,
    Max32,
    Min64,
    Max64,
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Increment,
    Decrement,
}

impl Operation {
    pub fn new(name: &str, r#type: Type) -> Result<Self> {
        use Type::{B32, B64, F16x2, F32, F64, S32, S64, U32, U64};
        Ok(match (name, r#type) {
            ("add", U32 | S32 | U64 | S64) => Self::Add,
            ("add", F32) => Self::AddF32,
            ("add", F64) => Self::AddF64,
            ("add", F16x2) => Self::AddHalves,
            ("min", U32 | U64) => Self::MinUnsigned,
            ("max", U32 | U64) => Self::MaxUnsigned,
            ("min", S32) => Self::Min32,
            ("max", S32) => Self::Max32,
            ("min", S64) => Self::Min64,
            ("max", S64) => Self::Max64,
            ("and", B32 | B64) => Self::And,
            ("or", B32 | B64) => Self::Or,
            ("xor", B32 | B64) => Self::Xor,
            ("exch", B32 | B64 | U32 | U64 | F32) => Self::Exchange,
            ("cas", B32 | B64 | U32 | U64) => Self::CompareAndSwap,
            ("inc", U32) => Self::Increment,
            ("dec", U32) => Self::Decrement,
            _ => return Err(format!("atomic {name} of {type:?}")),
        })
    }

    /// What memory holds afterwards; the upper half counts for 8 bytes only.
    pub fn apply(self, old: u64, b: u64, c: u64) -> u64 {
        let (low, operand) = (old as u32, b as u32);
        match self {
            Self::Add => old.wrapping_add(b),
            Self::AddF32 => u64::from(canonical(f32::from_bits(low) + f32::from_bits(operand)).to_bits()),
            Self::AddF64 => (f64::from_bits(old) + f64::from_bits(b)).to_bits(),
            Self::AddHalves => {
                let half = |at: u32| {
                    let sum = from_f16((low >> at) as u16) + from_f16((operand >> at) as u16);
                    u64::from(to_f16(sum)) << at
                };
                half(0) | half(16)
            }
            Self::MinUnsigned => old.min(b),
            Self::MaxUnsigned => old.max(b),
            Self::Min32 => u64::from((low as i32).min(operand as i32) as u32),
            Self::Max32 => u64::from((low as i32).max(operand as i32) as u32),
            Self::Min64 => (old as i64).min(b as i64) as u64,
            Self::Max64 => (old as i64).max(b as i64) as u64,
            Self::And => old & b,
            Self::Or => old | b,
            Self::Xor => old ^ b,
            Self::Exchange => b,
            Self::CompareAndSwap => {
                if old == b {
                    c
                } else {
                    old
                }
            }
            Self::Increment => {
                if low >= operand {
                    0
                } else {
                    u64::from(low + 1)
                }
            }
            Self::Decrement => {
                if low == 0 || low > operand {
                    b
                } else {
                    u64::from(low - 1)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_counters_wrap_where_the_isa_says() {
        assert_eq!(Operation::Increment.apply(4, 5, 0), 5);
        assert_eq!(Operation::Increment.apply(5, 5, 0), 0);
        assert_eq!(Operation::Increment.apply(9, 5, 0), 0);
        assert_eq!(Operation::Decrement.apply(0, 5, 0), 5);
        assert_eq!(Operation::Decrement.apply(9, 5, 0), 5);
        assert_eq!(Operation::Decrement.apply(3, 5, 0), 2);
    }

    #[test]
    fn signs_count_where_they_should() {
        assert_eq!(Operation::Min32.apply(0xffff_ffff, 1, 0), 0xffff_ffff);
        assert_eq!(Operation::MinUnsigned.apply(0xffff_ffff, 1, 0), 1);
        assert_eq!(Operation::CompareAndSwap.apply(7, 7, 9), 9);
        assert_eq!(Operation::CompareAndSwap.apply(7, 8, 9), 7);
        assert_eq!(Operation::AddHalves.apply(0x3c00_4000, 0x3c00_3c00, 0), 0x4000_4200);
    }
}
