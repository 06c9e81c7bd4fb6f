//! Reproducible random contents for inputs.

use floe_kernels::DType;
use half::{bf16, f16};

/// SplitMix64 (Steele, Lea, Flood 2014): the whole state is one number, so any seed is as good as any other.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// A generator for one named thing: the same seed gives different but reproducible numbers for each name.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a of the name.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed ^ hash)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [-1, 1), a multiple of 2⁻²³: exact in f32.
    pub fn signed_unit(&mut self) -> f32 {
        ((self.bits() >> 40) as f32) / 8_388_608.0 - 1.0
    }

    /// Uniform in `0..bound`, for bounds far below 2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound.max(1)
    }

    /// Fills a buffer with elements: floats uniform in [-1, 1), those of 8 bits below 2, integers and booleans 0 or 1, which are valid as
    /// indices, tokens and flags of any model.
    pub fn fill(&mut self, dtype: DType, bytes: &mut [u8]) {
        for element in bytes.chunks_exact_mut(dtype.size()) {
            match dtype {
                DType::F32 => element.copy_from_slice(&self.signed_unit().to_le_bytes()),
                DType::F16 => element.copy_from_slice(&f16::from_f32(self.signed_unit()).to_le_bytes()),
                DType::Bf16 => element.copy_from_slice(&bf16::from_f32(self.signed_unit()).to_le_bytes()),
                DType::F64 => element.copy_from_slice(&f64::from(self.signed_unit()).to_le_bytes()),
                // The exponent's highest bit is clear: below 2 in all four formats, and no NaN.
                float if float.is_float8() => element.fill((self.bits() >> 56) as u8 & 0xbf | 1),
                _ => {
                    element.fill(0);
                    element[0] = (self.bits() >> 63) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_depend_on_seed_and_name_only() {
        let make = |seed, name| {
            let mut bytes = [0; 64];
            Generator::new(seed, name).fill(DType::F32, &mut bytes);
            bytes
        };
        assert_eq!(make(1, "x"), make(1, "x"));
        assert_ne!(make(1, "x"), make(2, "x"));
        assert_ne!(make(1, "x"), make(1, "y"));
    }

    #[test]
    fn floats_cover_their_range_and_integers_are_flags() {
        let mut generator = Generator::new(7, "");
        let numbers: Vec<f32> = (0..10_000).map(|_| generator.signed_unit()).collect();
        assert!(numbers.iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(numbers.iter().sum::<f32>().abs() < 200.0);
        let mut bytes = [9; 80];
        generator.fill(DType::I64, &mut bytes);
        let integers: Vec<i64> = bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect();
        assert!(integers.contains(&0) && integers.contains(&1) && integers.iter().all(|i| (0..2).contains(i)));
    }
}
