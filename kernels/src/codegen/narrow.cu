// Behind the prelude where a kernel touches such elements: floats of 8 bits and integers of 4 (narrow.rs has their formats).
template <int MANTISSA, bool ONE_ZERO> struct Float8 {
    u8 bits;
    static constexpr u32 BIAS = (1u << (6 - MANTISSA)) - 1u + (ONE_ZERO ? 1u : 0u);
    static constexpr u32 DROPPED = 23 - MANTISSA;
    static constexpr u32 LARGEST = ONE_ZERO ? 0x7fu : MANTISSA == 3 ? 0x7eu : 0x7bu;
    DEVICE operator f32() const {
        const u32 sign = (bits & 0x80u) << 24, code = bits & 0x7fu;
        const f32 magnitude = __fmul_rn(__uint_as_float(code << DROPPED), __uint_as_float((254u - BIAS) << 23));
        const bool infinite = MANTISSA == 2 && !ONE_ZERO && code == LARGEST + 1u;
        const bool number = ONE_ZERO ? bits != 0x80u : code <= LARGEST;
        return __uint_as_float((number ? __float_as_uint(magnitude) : infinite ? 0x7f800000u : 0x7fc00000u) | sign);
    }
};
template <bool SIGNED> struct Integer4 {
    u8 bits;  // Only the lower half counts.
    DEVICE operator i32() const { return SIGNED ? (i32)((u32)bits << 28) >> 28 : (i32)(bits & 15u); }
};
typedef Float8<3, false> f8e4m3;
typedef Float8<3, true> f8e4m3fnuz;
typedef Float8<2, false> f8e5m2;
typedef Float8<2, true> f8e5m2fnuz;
typedef Integer4<true> i4;
typedef Integer4<false> u4;

// Half to even; beyond the largest number lies infinity, or NaN where there is none.
template <int MANTISSA, bool ONE_ZERO> struct Store<Float8<MANTISSA, ONE_ZERO>> {
    typedef Float8<MANTISSA, ONE_ZERO> T;
    static DEVICE T from(f32 x) {
        const u32 magnitude = __float_as_uint(x) & 0x7fffffffu, sign = __float_as_uint(x) >> 24 & 0x80u;
        const u32 overflow = ONE_ZERO ? 0x80u : T::LARGEST + 1u;
        const u32 nan = ONE_ZERO ? 0x80u : MANTISSA == 3 ? 0x7fu : 0x7eu;
        u32 code;
        if (magnitude > 0x7f800000u) {
            code = nan;
        } else if (magnitude >= (128u - T::BIAS) << 23) {
            const u32 even = magnitude >> T::DROPPED & 1u;
            code = ((magnitude + (1u << (T::DROPPED - 1)) - 1u + even) >> T::DROPPED) - ((127u - T::BIAS) << MANTISSA);
            if (code > T::LARGEST) code = overflow;
        } else {
            // The last bit of the sum with this number has the value of the smallest subnormal number.
            const u32 aligner = (128u - T::BIAS + T::DROPPED) << 23;
            code = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), __uint_as_float(aligner))) - aligner;
        }
        return T{(u8)(ONE_ZERO && (code & 0x7fu) == 0u ? code : code | sign)};
    }
    static DEVICE T from(f64 x) { return from(f64_to_f32_odd(x)); }
    static DEVICE T from(i64 x) { return from((f64)x); }
    static DEVICE T from(u64 x) { return from((f64)x); }
};
template <bool SIGNED> struct Store<Integer4<SIGNED>> {
    typedef Integer4<SIGNED> T;
    static DEVICE T from(f32 x) { return T{(u8)min(max(__float2int_rz(x), SIGNED ? -8 : 0), SIGNED ? 7 : 15)}; }
    static DEVICE T from(f64 x) { return T{(u8)min(max(__double2int_rz(x), SIGNED ? -8 : 0), SIGNED ? 7 : 15)}; }
    static DEVICE T from(u64 x) { return T{(u8)(i32)T{(u8)x}}; }
    static DEVICE T from(i64 x) { return from((u64)x); }
};
