//! The vector units of the CPU, found at run time.
//!
//! A vectorised loop is a type with one generic method ([`Vectorised`]); [`dispatch`] instantiates it once for each
//! instruction set, inside a function compiled for it. The method must be `#[inline(always)]`, and so must all that it
//! calls, so that the whole loop is compiled with the wider registers. This is the only module of the reference kernels with
//! `unsafe` code.

/// A loop that profits from wide registers.
pub(crate) trait Vectorised {
    /// What the loop returns.
    type Output;
    /// The loop; `#[inline(always)]`.
    fn run<V: Vector>(self, vector: V) -> Self::Output;
}

/// Two neighbouring terms of a sum of integer products.
pub(crate) type Pair = [i16; 2];

/// Vector registers and their fused arithmetic. Values of an implementing type prove that the CPU has it.
pub(crate) trait Vector: Copy {
    /// A register of f32.
    type Register: Copy;
    /// A register of [`Pair`]s, as many as f32.
    type Pairs: Copy;
    /// A register of i32, as many as f32.
    type Sums: Copy;
    /// f32 lanes of a register, at most 16.
    const LANES: usize;
    /// Most rows of a strip of a matrix tile, two registers wide: its sums fit the register file, and are enough that no
    /// multiply-add waits for the one before it.
    const ROWS: usize;
    /// All lanes `value`.
    fn splat(self, value: f32) -> Self::Register;
    /// The first `LANES` elements from `at` on.
    fn load(self, from: &[f32], at: usize) -> Self::Register;
    /// Writes `LANES` elements from `at` on.
    fn store(self, value: Self::Register, to: &mut [f32], at: usize);
    /// `a · b + c`, rounded once where the CPU can.
    fn multiply_add(self, a: Self::Register, b: Self::Register, c: Self::Register) -> Self::Register;
    /// As [`Vector::splat`].
    fn splat_pair(self, value: Pair) -> Self::Pairs;
    /// As [`Vector::load`].
    fn load_pairs(self, from: &[Pair], at: usize) -> Self::Pairs;
    /// As [`Vector::load`].
    fn load_sums(self, from: &[i32], at: usize) -> Self::Sums;
    /// As [`Vector::store`].
    fn store_sums(self, value: Self::Sums, to: &mut [i32], at: usize);
    /// `a₀ · b₀ + a₁ · b₁ + c`, wrapping.
    fn multiply_add_pairs(self, a: Self::Pairs, b: Self::Pairs, c: Self::Sums) -> Self::Sums;
}

/// Registers of plain Rust: whatever the compilation target guarantees.
#[allow(dead_code, reason = "where all processors have better ones, tests compare with these")]
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Vector for Baseline {
    type Register = [f32; 4];
    type Pairs = [Pair; 4];
    type Sums = [i32; 4];
    const LANES: usize = 4;
    const ROWS: usize = 4;

    #[inline(always)]
    fn splat(self, value: f32) -> [f32; 4] {
        [value; 4]
    }

    #[inline(always)]
    fn load(self, from: &[f32], at: usize) -> [f32; 4] {
        let from = &from[at..at + 4];
        [from[0], from[1], from[2], from[3]]
    }

    #[inline(always)]
    fn store(self, value: [f32; 4], to: &mut [f32], at: usize) {
        to[at..at + 4].copy_from_slice(&value);
    }

    #[inline(always)]
    fn multiply_add(self, a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        core::array::from_fn(|i| a[i] * b[i] + c[i])
    }

    #[inline(always)]
    fn splat_pair(self, value: Pair) -> [Pair; 4] {
        [value; 4]
    }

    #[inline(always)]
    fn load_pairs(self, from: &[Pair], at: usize) -> [Pair; 4] {
        let from = &from[at..at + 4];
        [from[0], from[1], from[2], from[3]]
    }

    #[inline(always)]
    fn load_sums(self, from: &[i32], at: usize) -> [i32; 4] {
        let from = &from[at..at + 4];
        [from[0], from[1], from[2], from[3]]
    }

    #[inline(always)]
    fn store_sums(self, value: [i32; 4], to: &mut [i32], at: usize) {
        to[at..at + 4].copy_from_slice(&value);
    }

    #[inline(always)]
    fn multiply_add_pairs(self, a: [Pair; 4], b: [Pair; 4], c: [i32; 4]) -> [i32; 4] {
        core::array::from_fn(|i| {
            let product = |k: usize| i32::from(a[i][k]) * i32::from(b[i][k]);
            c[i].wrapping_add(product(0)).wrapping_add(product(1))
        })
    }
}

/// Runs a loop with the widest registers of this CPU.
#[inline]
pub(crate) fn dispatch<T: Vectorised>(loops: T) -> T::Output {
    #[cfg(target_arch = "x86_64")]
    return x86::dispatch(loops);
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    return loops.run(neon::Neon);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon"))))]
    loops.run(Baseline)
}

/// Rows of a square of 32-bit elements as columns: by shuffles of registers, where the compiler would move one element at a time.
#[inline(always)]
pub(crate) fn transpose<T: bytemuck::Pod>(square: [[T; 4]; 4]) -> [[T; 4]; 4] {
    const { assert!(size_of::<T>() == 4) };
    #[cfg(target_arch = "x86_64")]
    {
        // Not by `map`, which is not always inlined.
        let [a, b, c, d] = square;
        let [a, b, c, d] = x86::transpose([bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c), bytemuck::cast(d)]);
        [bytemuck::cast(a), bytemuck::cast(b), bytemuck::cast(c), bytemuck::cast(d)]
    }
    #[cfg(not(target_arch = "x86_64"))]
    core::array::from_fn(|column| square.map(|row| row[column]))
}

/// Eight bytes as integers of 16 bits, signed or not. This and the next five are few instructions on registers, as [`transpose`].
#[inline(always)]
pub(crate) fn widen<const SIGNED: bool>(bytes: [u8; 8]) -> [i16; 8] {
    #[cfg(target_arch = "x86_64")]
    return bytemuck::cast(x86::widen::<SIGNED>(bytes));
    #[cfg(not(target_arch = "x86_64"))]
    bytes.map(|byte| if SIGNED { i16::from(byte as i8) } else { i16::from(byte) })
}

/// The first byte of each pair, as [`widen`].
#[inline(always)]
pub(crate) fn widen_firsts<const SIGNED: bool>(bytes: [[u8; 2]; 8]) -> [i16; 8] {
    #[cfg(target_arch = "x86_64")]
    return bytemuck::cast(x86::widen_firsts::<SIGNED>(bytemuck::cast(bytes)));
    #[cfg(not(target_arch = "x86_64"))]
    widen::<SIGNED>(bytes.map(|[first, _]| first))
}

/// The first float of each pair.
#[inline(always)]
pub(crate) fn firsts(pairs: [[f32; 2]; 8]) -> [f32; 8] {
    #[cfg(target_arch = "x86_64")]
    return bytemuck::cast(x86::firsts(bytemuck::cast(pairs)));
    #[cfg(not(target_arch = "x86_64"))]
    pairs.map(|[first, _]| first)
}

/// One of `a` and one of `b`, in turn.
#[inline(always)]
pub(crate) fn zip(a: [i16; 8], b: [i16; 8]) -> [Pair; 8] {
    #[cfg(target_arch = "x86_64")]
    return bytemuck::cast(x86::zip(bytemuck::cast(a), bytemuck::cast(b)));
    #[cfg(not(target_arch = "x86_64"))]
    core::array::from_fn(|i| [a[i], b[i]])
}

/// Integers as floats.
#[inline(always)]
pub(crate) fn to_floats(words: [i16; 8]) -> [f32; 8] {
    #[cfg(target_arch = "x86_64")]
    return bytemuck::cast(x86::to_floats(bytemuck::cast(words)));
    #[cfg(not(target_arch = "x86_64"))]
    words.map(f32::from)
}

/// Floats as bytes, signed or not: truncated towards zero and saturated; NaN gives 0.
#[inline(always)]
pub(crate) fn to_bytes<const SIGNED: bool>(floats: [f32; 8]) -> [u8; 8] {
    #[cfg(target_arch = "x86_64")]
    return x86::to_bytes::<SIGNED>(bytemuck::cast(floats));
    #[cfg(not(target_arch = "x86_64"))]
    floats.map(|x| if SIGNED { x as i8 as u8 } else { x as u8 })
}

/// Register types of `core::arch` as a [`Vector`]. Values of `$name` must prove that the CPU has the instructions.
#[allow(unused_macros, reason = "other processors have plain registers alone")]
macro_rules! vector {
    ($name:ident: $lanes:literal lanes, $rows:literal rows;
     $register:ident: $splat:ident, $load:ident, $store:ident, ($a:ident, $b:ident, $c:ident) => $multiply_add:expr;
     $pairs:ident: ($pair:ident) => $splat_pair:expr, $load_pairs:ident;
     $sums:ident: $load_sums:ident, $store_sums:ident, ($x:ident, $y:ident, $z:ident) => $multiply_add_pairs:expr;) => {
        impl Vector for $name {
            type Register = $register;
            type Pairs = $pairs;
            type Sums = $sums;
            const LANES: usize = $lanes;
            const ROWS: usize = $rows;

            #[inline(always)]
            fn splat(self, value: f32) -> $register {
                // SAFETY: `self` proves that the CPU has the instruction.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            fn load(self, from: &[f32], at: usize) -> $register {
                let from = &from[at..at + $lanes];
                // SAFETY: as above; the instruction reads these `$lanes` elements, whatever their alignment.
                unsafe { $load(from.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store(self, value: $register, to: &mut [f32], at: usize) {
                let to = &mut to[at..at + $lanes];
                // SAFETY: as above; the instruction writes these `$lanes` elements, whatever their alignment.
                unsafe { $store(to.as_mut_ptr().cast(), value) }
            }

            #[inline(always)]
            fn multiply_add(self, $a: $register, $b: $register, $c: $register) -> $register {
                // SAFETY: `self` proves that the CPU has the instruction.
                unsafe { $multiply_add }
            }

            #[inline(always)]
            fn splat_pair(self, $pair: Pair) -> $pairs {
                // SAFETY: as above.
                unsafe { $splat_pair }
            }

            #[inline(always)]
            fn load_pairs(self, from: &[Pair], at: usize) -> $pairs {
                let from = &from[at..at + $lanes];
                // SAFETY: as above; the instruction reads these `$lanes` elements, whatever their alignment.
                unsafe { $load_pairs(from.as_ptr().cast()) }
            }

            #[inline(always)]
            fn load_sums(self, from: &[i32], at: usize) -> $sums {
                let from = &from[at..at + $lanes];
                // SAFETY: as above; the instruction reads these `$lanes` elements, whatever their alignment.
                unsafe { $load_sums(from.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store_sums(self, value: $sums, to: &mut [i32], at: usize) {
                let to = &mut to[at..at + $lanes];
                // SAFETY: as above; the instruction writes these `$lanes` elements, whatever their alignment.
                unsafe { $store_sums(to.as_mut_ptr().cast(), value) }
            }

            #[inline(always)]
            fn multiply_add_pairs(self, $x: $pairs, $y: $pairs, $z: $sums) -> $sums {
                // SAFETY: `self` proves that the CPU has the instruction.
                unsafe { $multiply_add_pairs }
            }
        }
    };
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon {
    use super::{Pair, Vector};
    use core::arch::aarch64::{
        float32x4_t, int16x4x2_t, int32x4_t, vdup_n_s16, vdupq_n_f32, vfmaq_f32, vld1q_f32, vld1q_s32, vld2_s16,
        vmlal_s16, vst1q_f32, vst1q_s32,
    };

    /// NEON, which this compilation target guarantees.
    #[derive(Clone, Copy)]
    pub(super) struct Neon;

    vector!(Neon: 4 lanes, 12 rows;
        float32x4_t: vdupq_n_f32, vld1q_f32, vst1q_f32, (a, b, c) => vfmaq_f32(c, a, b);
        int16x4x2_t: (pair) => int16x4x2_t(vdup_n_s16(pair[0]), vdup_n_s16(pair[1])), vld2_s16;
        int32x4_t: vld1q_s32, vst1q_s32, (a, b, c) => vmlal_s16(vmlal_s16(c, a.0, b.0), a.1, b.1););
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Baseline, Pair, Vector, Vectorised};
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m128, __m128i, __m256, __m256i, __m512, __m512i, _mm_and_ps, _mm_cmpord_ps,
        _mm_cvtepi32_ps, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm_cvttps_epi32, _mm_max_ps, _mm_min_ps, _mm_movehl_ps,
        _mm_movelh_ps, _mm_packs_epi16, _mm_packs_epi32, _mm_packus_epi16, _mm_set1_ps, _mm_shuffle_ps, _mm_slli_epi16,
        _mm_srai_epi16, _mm_srai_epi32, _mm_srli_epi16, _mm_unpackhi_epi16, _mm_unpackhi_ps, _mm_unpacklo_epi8,
        _mm_unpacklo_epi16, _mm_unpacklo_ps, _mm256_add_epi32, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_loadu_si256,
        _mm256_madd_epi16, _mm256_set1_epi32, _mm256_set1_ps, _mm256_storeu_ps, _mm256_storeu_si256, _mm512_add_epi32,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_madd_epi16, _mm512_set1_epi32, _mm512_set1_ps,
        _mm512_storeu_ps, _mm512_storeu_si512, _xgetbv,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

    /// [`super::transpose`], with instructions that every such processor has.
    #[inline(always)]
    pub(super) fn transpose([a, b, c, d]: [__m128; 4]) -> [__m128; 4] {
        // SAFETY: x86-64 has SSE.
        unsafe {
            let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
            let (ab_high, cd_high) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
            [
                _mm_movelh_ps(ab, cd),
                _mm_movehl_ps(cd, ab),
                _mm_movelh_ps(ab_high, cd_high),
                _mm_movehl_ps(cd_high, ab_high),
            ]
        }
    }

    /// [`super::widen`].
    #[inline(always)]
    pub(super) fn widen<const SIGNED: bool>(bytes: [u8; 8]) -> __m128i {
        // SAFETY: x86-64 has SSE2, here and below.
        unsafe {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(bytes));
            let twice = _mm_unpacklo_epi8(bytes, bytes);
            if SIGNED { _mm_srai_epi16::<8>(twice) } else { _mm_srli_epi16::<8>(twice) }
        }
    }

    /// [`super::widen_firsts`].
    #[inline(always)]
    pub(super) fn widen_firsts<const SIGNED: bool>(bytes: __m128i) -> __m128i {
        // SAFETY: as above.
        unsafe {
            let high = _mm_slli_epi16::<8>(bytes);
            if SIGNED { _mm_srai_epi16::<8>(high) } else { _mm_srli_epi16::<8>(high) }
        }
    }

    /// [`super::firsts`].
    #[inline(always)]
    pub(super) fn firsts([a, b, c, d]: [__m128; 4]) -> [__m128; 2] {
        // SAFETY: as above.
        unsafe { [_mm_shuffle_ps::<0b10_00_10_00>(a, b), _mm_shuffle_ps::<0b10_00_10_00>(c, d)] }
    }

    /// [`super::zip`].
    #[inline(always)]
    pub(super) fn zip(a: __m128i, b: __m128i) -> [__m128i; 2] {
        // SAFETY: as above.
        unsafe { [_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)] }
    }

    /// [`super::to_floats`].
    #[inline(always)]
    pub(super) fn to_floats(words: __m128i) -> [__m128; 2] {
        // SAFETY: as above.
        unsafe {
            [_mm_unpacklo_epi16(words, words), _mm_unpackhi_epi16(words, words)]
                .map(|twice| _mm_cvtepi32_ps(_mm_srai_epi32::<16>(twice)))
        }
    }

    /// [`super::to_bytes`].
    #[inline(always)]
    pub(super) fn to_bytes<const SIGNED: bool>(floats: [__m128; 2]) -> [u8; 8] {
        let [least, most] = if SIGNED { [-128.0, 127.0] } else { [0.0, 255.0] };
        // SAFETY: as above.
        unsafe {
            let [low, high] = floats.map(|x| {
                let number = _mm_and_ps(x, _mm_cmpord_ps(x, x));
                _mm_cvttps_epi32(_mm_min_ps(_mm_max_ps(number, _mm_set1_ps(least)), _mm_set1_ps(most)))
            });
            let words = _mm_packs_epi32(low, high);
            let bytes = if SIGNED { _mm_packs_epi16(words, words) } else { _mm_packus_epi16(words, words) };
            _mm_cvtsi128_si64(bytes).to_le_bytes()
        }
    }

    const UNKNOWN: u8 = 0;
    const BASELINE: u8 = 1;
    const AVX2: u8 = 2;
    const AVX512: u8 = 3;

    /// What [`detect`] found; CPUID traps under a hypervisor, so it is asked once.
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    pub(super) fn dispatch<T: Vectorised>(loops: T) -> T::Output {
        let mut level = LEVEL.load(Ordering::Relaxed);
        if level == UNKNOWN {
            level = detect();
            LEVEL.store(level, Ordering::Relaxed);
        }
        match level {
            // SAFETY: `detect` found AVX-512F, AVX2 and FMA and that the operating system saves their registers.
            AVX512 => unsafe { with_avx512(loops) },
            // SAFETY: `detect` found AVX2 and FMA and that the operating system saves their registers.
            AVX2 => unsafe { with_avx2(loops) },
            _ => loops.run(Baseline),
        }
    }

    #[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")]
    fn with_avx512<T: Vectorised>(loops: T) -> T::Output {
        loops.run(Avx512(()))
    }

    #[target_feature(enable = "avx2,fma")]
    fn with_avx2<T: Vectorised>(loops: T) -> T::Output {
        loops.run(Avx2(()))
    }

    /// Intel SDM volume 1, 13.2 (XGETBV) and volume 2, CPUID leaves 1 and 7.
    fn detect() -> u8 {
        const FMA: u32 = 1 << 12;
        const OSXSAVE: u32 = 1 << 27;
        const AVX: u32 = 1 << 28;
        const LEAF7_AVX2: u32 = 1 << 5;
        const LEAF7_AVX512: u32 = 1 << 16 | 1 << 17 | 1 << 30 | 1 << 31; // F, DQ, BW, VL
        const XMM_YMM: u64 = 0b110;
        const ZMM: u64 = 0b1110_0000;
        // Miri knows neither CPUID nor most of the instructions.
        if cfg!(miri) || __cpuid(0).eax < 7 {
            return BASELINE;
        }
        let (leaf1, leaf7) = (__cpuid(1).ecx, __cpuid_count(7, 0).ebx);
        let needed = FMA | OSXSAVE | AVX;
        if leaf1 & needed != needed || leaf7 & LEAF7_AVX2 == 0 {
            return BASELINE;
        }
        // SAFETY: OSXSAVE says that XGETBV exists and is enabled.
        let saved = unsafe { _xgetbv(0) };
        if saved & XMM_YMM != XMM_YMM {
            BASELINE
        } else if leaf7 & LEAF7_AVX512 != LEAF7_AVX512 || saved & ZMM != ZMM {
            AVX2
        } else {
            AVX512
        }
    }

    /// Proof of AVX-512; made in [`with_avx512`] only.
    #[derive(Clone, Copy)]
    pub(super) struct Avx512(());

    /// Proof of AVX2 and FMA; made in [`with_avx2`] only.
    #[derive(Clone, Copy)]
    pub(super) struct Avx2(());

    vector!(Avx512: 16 lanes, 12 rows;
        __m512: _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, (a, b, c) => _mm512_fmadd_ps(a, b, c);
        __m512i: (pair) => _mm512_set1_epi32(bytemuck::cast(pair)), _mm512_loadu_si512;
        __m512i: _mm512_loadu_si512, _mm512_storeu_si512, (a, b, c) => _mm512_add_epi32(_mm512_madd_epi16(a, b), c););
    vector!(Avx2: 8 lanes, 6 rows;
        __m256: _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, (a, b, c) => _mm256_fmadd_ps(a, b, c);
        __m256i: (pair) => _mm256_set1_epi32(bytemuck::cast(pair)), _mm256_loadu_si256;
        __m256i: _mm256_loadu_si256, _mm256_storeu_si256, (a, b, c) => _mm256_add_epi32(_mm256_madd_epi16(a, b), c););
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffles_move_what_they_say() {
        let bytes: [u8; 8] = [0, 1, 127, 128, 129, 200, 254, 255];
        assert_eq!(widen::<true>(bytes), bytes.map(|byte| i16::from(byte as i8)));
        assert_eq!(widen::<false>(bytes), bytes.map(i16::from));
        let pairs = bytes.map(|byte| [byte, byte ^ 0x5a]);
        assert_eq!(widen_firsts::<true>(pairs), widen::<true>(bytes));
        assert_eq!(widen_firsts::<false>(pairs), widen::<false>(bytes));
        let (a, b) = (widen::<true>(bytes), [i16::MIN, -2, -1, 0, 1, 2, 3, i16::MAX]);
        assert_eq!(zip(a, b), core::array::from_fn(|i| [a[i], b[i]]));
        let floats = b.map(f32::from);
        assert_eq!(to_floats(b), floats);
        assert_eq!(firsts(floats.map(|x| [x, x + 0.5])), floats);
    }

    #[test]
    fn floats_become_bytes_as_casts_make_them() {
        let ends = [-0.9, 127.9, -128.9, 128.0, 255.9, 256.0, -129.0, 2.5];
        let far = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 3e9, -3e9, 1e38, -f32::NAN, -0.0];
        for floats in [ends, far] {
            assert_eq!(to_bytes::<true>(floats), floats.map(|x| x as i8 as u8));
            assert_eq!(to_bytes::<false>(floats), floats.map(|x| x as u8));
        }
    }
}
