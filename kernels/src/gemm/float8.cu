// Products of floats of 8 bits. Each of their numbers is exact in f16, and tensor cores multiply them as such.
struct Halves { u32 low, high; };  // Four f16, the first lowest.

// An E5M2 is the upper half of an f16.
DEVICE Halves halves_of(u32 word, f8e5m2) { return Halves{__byte_perm(word, 0, 0x1404), __byte_perm(word, 0, 0x3424)}; }

#if __CUDA_ARCH__ >= 890
DEVICE u32 two_halves(u32 pair) {
    u32 halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)pair));
    return halves;
}
DEVICE Halves halves_of(u32 word, f8e4m3) { return Halves{two_halves(word), two_halves(word >> 16)}; }
#else
// From two numbers in the upper bytes of halves. Their exponent's bias is 8 less than an f16's, which a product with 2⁸ makes up,
// exactly. NaN gets all bits of the exponent.
DEVICE u32 two_halves(u32 codes) {
    const u32 magnitudes = codes & 0x7f007f00u, nans = (magnitudes + 0x01000100u) & 0x80008000u;
    const u32 scaled = (magnitudes | nans) >> 1 | (codes & 0x80008000u);
    u32 halves;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(halves) : "r"(scaled), "r"(0x5c005c00u));
    return halves;
}
DEVICE Halves halves_of(u32 word, f8e4m3) {
    return Halves{two_halves(__byte_perm(word, 0, 0x1404)), two_halves(__byte_perm(word, 0, 0x3424))};
}
#endif

template <> DEVICE f32 to_f32(f8e4m3 x) { return f16_to_f32((u16)halves_of(x.bits, x).low); }
template <> DEVICE f32 to_f32(f8e5m2 x) { return f16_to_f32((u16)halves_of(x.bits, x).low); }

// Four numbers, rounded, as a word.
template <typename T> DEVICE u32 pack_floats(const f32* y) {
    return (u32)store_as<T>(y[0]).bits | (u32)store_as<T>(y[1]).bits << 8 | (u32)store_as<T>(y[2]).bits << 16 | (u32)store_as<T>(y[3]).bits << 24;
}
