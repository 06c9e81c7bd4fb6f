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
// Next to zero floats are whole numbers times 2^-149 and their bits are these numbers: x rounded, half to even, and `more` added, which is
// even; and the same and one more (codegen/whole/saturated.rs).
DEVICE u32 whole_bits(f32 x, f32 more) { return __float_as_uint(fmaf(x, __uint_as_float(1u), more)); }
DEVICE u32 odd_bits(f32 x, f32 more) {
    return __float_as_uint(__fadd_rn(fmaf(x, __uint_as_float(1u), more), __uint_as_float(1u)));
}
// Such numbers bounded to 0 and 255: one, and four as bytes.
DEVICE u32 saturated_byte(u32 bits) {
    u32 byte;
    asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %1;" : "=r"(byte) : "r"(0), "r"(bits));
    return byte;
}
DEVICE u32 saturated_word(const u32* bits) {
    u32 word;
    asm("{\n.reg .b32 high;\ncvt.pack.sat.u8.s32.b32 high, %4, %3, 0;\ncvt.pack.sat.u8.s32.b32 %0, %2, %1, high;\n}"
        : "=r"(word)
        : "r"(bits[0]), "r"(bits[1]), "r"(bits[2]), "r"(bits[3]));
    return word;
}
// Four bytes bounded to 127: those with a sign bit become it. `__byte_perm` cannot replicate signs.
DEVICE u32 positive_word(u32 word) {
    u32 signs;
    asm("prmt.b32 %0, %1, %1, 0xba98;" : "=r"(signs) : "r"(word));
    return (word | signs) & 0x7f7f7f7fu;
}
// The last bytes of four words.
DEVICE u32 pack_bytes(const u32* y) {
    return __byte_perm(__byte_perm(y[0], y[1], 0x0040), __byte_perm(y[2], y[3], 0x0040), 0x5410);
}
#endif
