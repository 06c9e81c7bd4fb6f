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

/// A vector register of f32 and its fused arithmetic. Values of an implementing type prove that the CPU has it.
pub(crate) trait Vector: Copy {
    /// The register.
    type Register: Copy;
    /// Its f32 lanes, at most 16.
    const LANES: usize;
    /// Rows of a matrix tile, two registers wide, whose accumulators fit the register file.
    const ROWS: usize;
    /// All lanes `value`.
    fn splat(self, value: f32) -> Self::Register;
    /// The first `LANES` elements from `at` on.
    fn load(self, from: &[f32], at: usize) -> Self::Register;
    /// Writes `LANES` elements from `at` on.
    fn store(self, value: Self::Register, to: &mut [f32], at: usize);
    /// `a · b + c`, rounded once where the CPU can.
    fn multiply_add(self, a: Self::Register, b: Self::Register, c: Self::Register) -> Self::Register;
}

/// Registers of plain Rust: whatever the compilation target guarantees.
#[allow(dead_code, reason = "where all processors have better ones, tests compare with these")]
#[derive(Clone, Copy)]
pub(crate) struct Baseline;

impl Vector for Baseline {
    type Register = [f32; 4];
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

/// A register type of `core::arch` as a [`Vector`]. Values of `$name` must prove that the CPU has the instructions.
#[allow(unused_macros, reason = "other processors have plain registers alone")]
macro_rules! vector {
    ($name:ident, $register:ident, $lanes:literal, $rows:literal, $splat:ident, $load:ident, $store:ident,
     ($a:ident, $b:ident, $c:ident) => $multiply_add:expr) => {
        impl Vector for $name {
            type Register = $register;
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
                unsafe { $load(from.as_ptr()) }
            }

            #[inline(always)]
            fn store(self, value: $register, to: &mut [f32], at: usize) {
                let to = &mut to[at..at + $lanes];
                // SAFETY: as above; the instruction writes these `$lanes` elements, whatever their alignment.
                unsafe { $store(to.as_mut_ptr(), value) }
            }

            #[inline(always)]
            fn multiply_add(self, $a: $register, $b: $register, $c: $register) -> $register {
                // SAFETY: `self` proves that the CPU has the instruction.
                unsafe { $multiply_add }
            }
        }
    };
}

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon {
    use super::Vector;
    use core::arch::aarch64::{float32x4_t, vdupq_n_f32, vfmaq_f32, vld1q_f32, vst1q_f32};

    /// NEON, which this compilation target guarantees.
    #[derive(Clone, Copy)]
    pub(super) struct Neon;

    vector!(Neon, float32x4_t, 4, 8, vdupq_n_f32, vld1q_f32, vst1q_f32, (a, b, c) => vfmaq_f32(c, a, b));
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Baseline, Vector, Vectorised};
    use core::arch::x86_64::{
        __cpuid, __cpuid_count, __m256, __m512, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_set1_ps, _mm256_storeu_ps,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps, _xgetbv,
    };
    use core::sync::atomic::{AtomicU8, Ordering};

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
        if __cpuid(0).eax < 7 {
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

    vector!(Avx512, __m512, 16, 8, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps,
        (a, b, c) => _mm512_fmadd_ps(a, b, c));
    vector!(Avx2, __m256, 8, 4, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps,
        (a, b, c) => _mm256_fmadd_ps(a, b, c));
}
