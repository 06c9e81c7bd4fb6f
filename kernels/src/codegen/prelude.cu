// Included before every generated kernel. NVRTC alone compiles it: no header is used.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;
// Storage types; arithmetic happens in f32, f64, i64 or u64.
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct boolean { u8 value; };

// N neighbours in memory, loaded and stored 16 bytes at a time (operands are aligned to no more).
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vector { T v[N]; };

#define DEVICE __device__ __forceinline__

// N neighbours by one load of words: the compiler takes a vector apart that is read through a pointer to it.
template <int N, typename T> DEVICE Vector<T, N> load_vector(const T* from) {
    constexpr int BYTES = N * sizeof(T);
    Vector<T, N> y;
    if constexpr (BYTES == 16) *(uint4*)&y = *(const uint4*)from;
    else if constexpr (BYTES == 8) *(uint2*)&y = *(const uint2*)from;
    else if constexpr (BYTES == 4) *(u32*)&y = *(const u32*)from;
    else y = *(const Vector<T, N>*)from;
    return y;
}

// First statement of every kernel. Where a graph's edge lets a kernel start while the one before it still runs
// (programmatic dependent launch, sm_90 and later), this waits until all that it wrote is visible. Constants may be read
// before it: bit i of CONSTANT_INPUTS says that no step of the plan writes input i.
#ifndef CONSTANT_INPUTS
#define CONSTANT_INPUTS 0
#endif
#if __CUDA_ARCH__ >= 900
#define __restrict__  // Loads of what is read-only for the whole kernel could move above the wait.
DEVICE void wait_for_inputs() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
// Lets the next kernel start once all blocks have come here or have ended; with STARTS_LATE, only once they have ended. It belongs right
// before a block's last stores: blocks that start earlier crowd on the multiprocessors that happen to be free (TUNING.md, sections 5 and 65).
DEVICE void launch_dependents() {
#ifndef STARTS_LATE
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
#else
DEVICE void wait_for_inputs() {}
DEVICE void launch_dependents() {}
#endif

// f16 and bf16 as bits ----------------------------------------------------------------------------------------------
DEVICE f32 f16_to_f32(u16 h) { f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
DEVICE u16 f32_to_f16(f32 f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
DEVICE f32 bf16_to_f32(u16 b) { return __uint_as_float((u32)b << 16); }
DEVICE u16 f32_to_bf16(f32 f) {  // Half to even; NaN stays NaN.
    const u32 u = __float_as_uint(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)(u >> 16 | 0x40u);
    return (u16)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
// Two f16 in one register; `low` lies first in memory.
DEVICE u32 pack_f16(f32 low, f32 high) { return (u32)f32_to_f16(low) | (u32)f32_to_f16(high) << 16; }
// Rounds to odd, so that rounding again to f16 or bf16 gives the correctly rounded result.
DEVICE f32 f64_to_f32_odd(f64 d) {
    const f32 f = __double2float_rz(d);
    return (f64)f == d || d != d ? f : __uint_as_float(__float_as_uint(f) | 1u);
}

// Element to register -----------------------------------------------------------------------------------------------
template <typename T> DEVICE f32 to_f32(T x) { return (f32)x; }
template <> DEVICE f32 to_f32(f16 x) { return f16_to_f32(x.bits); }
template <> DEVICE f32 to_f32(bf16 x) { return bf16_to_f32(x.bits); }
template <> DEVICE f32 to_f32(boolean x) { return x.value ? 1.0f : 0.0f; }
template <typename T> DEVICE f64 to_f64(T x) { return (f64)x; }
template <> DEVICE f64 to_f64(f16 x) { return (f64)f16_to_f32(x.bits); }
template <> DEVICE f64 to_f64(bf16 x) { return (f64)bf16_to_f32(x.bits); }
template <> DEVICE f64 to_f64(boolean x) { return x.value ? 1.0 : 0.0; }
template <typename T> DEVICE i64 to_i64(T x) { return (i64)x; }
template <> DEVICE i64 to_i64(boolean x) { return x.value ? 1 : 0; }
template <typename T> DEVICE u64 to_u64(T x) { return (u64)x; }
template <> DEVICE u64 to_u64(boolean x) { return x.value ? 1u : 0u; }

// Register to element: floats round half to even; floats to integers truncate and saturate, NaN gives 0; integers wrap.
template <typename T> struct Store;
#define STORE_INTEGER(T, LOW, HIGH)                                                          \
    template <> struct Store<T> {                                                            \
        static DEVICE T from(f32 x) {                                                        \
            /* The conversion to i32 saturates. */                                           \
            return sizeof(T) < 4 ? (T)min(max(__float2int_rz(x), (i32)(LOW)), (i32)(HIGH)) : from((f64)x); \
        }                                                                                    \
        static DEVICE T from(f64 x) {                                                        \
            return x != x ? (T)0 : x <= (f64)(LOW) ? (T)(LOW) : x >= (f64)(HIGH) ? (T)(HIGH) : (T)x; \
        }                                                                                    \
        static DEVICE T from(i64 x) { return (T)x; }                                         \
        static DEVICE T from(u64 x) { return (T)x; }                                         \
    };
STORE_INTEGER(i8, -128, 127)
STORE_INTEGER(u8, 0, 255)
STORE_INTEGER(i16, -32768, 32767)
STORE_INTEGER(u16, 0, 65535)
STORE_INTEGER(i32, -2147483647 - 1, 2147483647)
STORE_INTEGER(u32, 0u, 4294967295u)
STORE_INTEGER(i64, -9223372036854775807LL - 1, 9223372036854775807LL)
STORE_INTEGER(u64, 0ull, 18446744073709551615ull)
template <> struct Store<boolean> {
    template <typename R> static DEVICE boolean from(R x) { return boolean{(u8)(x != (R)0)}; }
};
template <> struct Store<f32> {
    template <typename R> static DEVICE f32 from(R x) { return (f32)x; }
};
template <> struct Store<f64> {
    template <typename R> static DEVICE f64 from(R x) { return (f64)x; }
};
template <> struct Store<f16> {
    template <typename R> static DEVICE f16 from(R x) { return f16{f32_to_f16((f32)x)}; }
    static DEVICE f16 from(f64 x) { return f16{f32_to_f16(f64_to_f32_odd(x))}; }
};
template <> struct Store<bf16> {
    template <typename R> static DEVICE bf16 from(R x) { return bf16{f32_to_bf16((f32)x)}; }
    static DEVICE bf16 from(i64 x) { return from((f64)x); }
    static DEVICE bf16 from(u64 x) { return from((f64)x); }
    static DEVICE bf16 from(f64 x) { return bf16{f32_to_bf16(f64_to_f32_odd(x))}; }
};
template <typename T, typename R> DEVICE T store_as(R x) { return Store<T>::from(x); }

// Arithmetic of pointwise programs ----------------------------------------------------------------------------------
template <typename R> DEVICE R minimum(R a, R b) { return a < b || a != a ? a : b; }
template <typename R> DEVICE R maximum(R a, R b) { return a > b || a != a ? a : b; }
template <typename R> DEVICE R sign(R x) { return x > (R)0 ? (R)1 : x < (R)0 ? (R)-1 : x; }
template <typename R> DEVICE R relu(R x) { return x < (R)0 ? (R)0 : x; }
#if __CUDA_ARCH__ >= 800
// One instruction, where a comparison and a choice are two or three.
DEVICE f32 minimum(f32 a, f32 b) { f32 y; asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEVICE f32 maximum(f32 a, f32 b) { f32 y; asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEVICE f32 relu(f32 x) { return maximum(x, 0.0f); }
#endif
DEVICE f32 sigmoid(f32 x) { return 1.0f / (1.0f + expf(-x)); }
DEVICE f64 sigmoid(f64 x) { return 1.0 / (1.0 + exp(-x)); }
DEVICE f32 softplus(f32 x) { return x > 0.0f ? x + log1pf(expf(-x)) : log1pf(expf(x)); }
DEVICE f64 softplus(f64 x) { return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
// The same for results that are stored in sixteen bits: relative errors below 2^-18, without branches. Subnormal f32 are 0.
DEVICE f32 exp2_16(f32 x) { f32 y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 reciprocal_16(f32 x) { f32 y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 divide_16(f32 a, f32 b) { f32 y; asm("div.full.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b)); return y; }
DEVICE f32 sqrt_16(f32 x) { f32 y; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 rsqrt_16(f32 x) { f32 y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
DEVICE f32 exp_16(f32 x) { return exp2_16(x * 1.4426950408889634f); }
DEVICE f32 sigmoid_16(f32 x) { return reciprocal_16(1.0f + exp2_16(x * -1.4426950408889634f)); }
DEVICE f32 tanh_16(f32 x) {
    const f32 s = x * x;
    const f32 near = x + x * s * (-0.33333333f + s * (0.13333333f - s * 0.053968254f));
    const f32 far = 1.0f - 2.0f * reciprocal_16(1.0f + exp2_16(fabsf(x) * 2.8853900817779268f));
    return fabsf(x) < 0.3f ? near : copysignf(far, x);
}
// The instruction for it: within 2^-16 of the result on an H200, where PTX promises 2^-11. What multiplies another operand or is added to
// one may use it, since that error is then one of the other operand.
DEVICE f32 tanh_approx(f32 x) {
#if __CUDA_ARCH__ >= 750
    f32 y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return tanh_16(x);
#endif
}
// erf(s x), s a positive constant, as tanh of an odd polynomial, fitted for the least error of GELU: times |x| / 2, at most 3.1e-6 for
// s = 1/√2.
DEVICE f32 erf_approx(f32 x, f32 s) {
    const f32 x2 = x * x, s1 = 1.41421356f * s, s2 = s1 * s1;
    f32 p = fmaf(x2, 1.11908304e-6f * (s1 * s2 * s2 * s2 * s2), -3.05810211e-5f * (s1 * s2 * s2 * s2));
    p = fmaf(p, x2, -1.24861562e-4f * (s1 * s2 * s2));
    p = fmaf(p, x2, 3.64687908e-2f * (s1 * s2));
    p = fmaf(p, x2, 7.97828136e-1f * s1);
    return tanh_approx(x * p);
}
// x sigmoid(y).
DEVICE f32 times_sigmoid(f32 x, f32 y) {
    const f32 half = 0.5f * x;
    return fmaf(half, tanh_approx(0.5f * y), half);
}
DEVICE f32 modulo(f32 a, f32 b) {  // Sign of the divisor.
    const f32 r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}
DEVICE f64 modulo(f64 a, f64 b) {
    const f64 r = fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}
DEVICE i64 divide(i64 a, i64 b) { return b == 0 ? 0 : b == -1 ? (i64)(0 - (u64)a) : a / b; }
DEVICE u64 divide(u64 a, u64 b) { return b == 0 ? 0 : a / b; }
DEVICE i64 remainder_of(i64 a, i64 b) { return b == 0 || b == -1 ? 0 : a % b; }
DEVICE u64 remainder_of(u64 a, u64 b) { return b == 0 ? 0 : a % b; }
DEVICE i64 modulo(i64 a, i64 b) {
    const i64 r = remainder_of(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
DEVICE u64 modulo(u64 a, u64 b) { return remainder_of(a, b); }
DEVICE u64 power(u64 base, u64 exponent) {
    u64 result = 1;
    for (; exponent; exponent >>= 1, base *= base) result *= exponent & 1 ? base : 1;
    return result;
}
DEVICE i64 power(i64 base, i64 exponent) {  // Negative exponents truncate: only ±1 has a non-zero reciprocal.
    if (exponent >= 0) return (i64)power((u64)base, (u64)exponent);
    return base == 1 ? 1 : base == -1 ? (exponent & 1 ? -1 : 1) : 0;
}
// x / by for what is rounded next: the remainder of the reciprocal's product corrects it (codegen/quotient.rs).
DEVICE f32 quotient(f32 x, f32 by, f32 reciprocal) {
    const f32 near = __fmul_rn(x, reciprocal);
    const f32 refined = fmaf(fmaf(-near, by, x), reciprocal, near);
    return refined == refined ? refined : near;  // Infinities have no remainder.
}
template <typename R> DEVICE R shift_left(R a, R b) { return (u64)b < 64 ? (R)((u64)a << (u64)b) : (R)0; }
template <typename R> DEVICE R shift_right(R a, R b) { return (u64)b < 64 ? a >> (u64)b : (R)0; }
