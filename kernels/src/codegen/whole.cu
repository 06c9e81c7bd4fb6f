#ifndef WHOLE_NUMBERS
#define WHOLE_NUMBERS
// Whole numbers in f32 without conversions, of which a multiprocessor does one where it does eight additions: next to
// 1.5 · 2^23 floats are the whole numbers, so that a sum with it rounds, half to even, and ends in the number's bits.
constexpr f32 WHOLE = 12582912.0f;
// x rounded, for |x| up to 2^22, as WHOLE more than it.
DEVICE f32 above_whole(f32 x) { return __fadd_rn(x, WHOLE); }
DEVICE f32 round_bounded(f32 x) { return __fsub_rn(__fadd_rn(x, WHOLE), WHOLE); }
// The last byte of a whole number, as 8-bit integers have it.
DEVICE u32 low_byte(f32 above) { return __float_as_uint(above) & 255u; }
// x / by for what is rounded next, where neither is an infinity nor gives one (codegen/quotient.rs).
DEVICE f32 quotient_bounded(f32 x, f32 by, f32 reciprocal) {
    const f32 near = __fmul_rn(x, reciprocal);
    return fmaf(fmaf(-near, by, x), reciprocal, near);
}
DEVICE f32 value_of_u8(u32 byte) { return __fsub_rn(__uint_as_float(0x4b000000u | byte), 8388608.0f); }
DEVICE f32 value_of_i8(u32 byte) { return __fsub_rn(__uint_as_float(0x4b000000u | (byte ^ 0x80u)), 8388736.0f); }
// Byte j of a word.
DEVICE f32 element_of_u8(u32 word, int j) {
    return __fsub_rn(__uint_as_float(__byte_perm(word, 0x4b000000u, 0x7650 | j)), 8388608.0f);
}
DEVICE f32 element_of_i8(u32 word, int j) {
    return __fsub_rn(__uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7650 | j)), 8388736.0f);
}
// The last bytes of four words.
DEVICE u32 pack_bytes(const u32* y) {
    return __byte_perm(__byte_perm(y[0], y[1], 0x0040), __byte_perm(y[2], y[3], 0x0040), 0x5410);
}
#endif
