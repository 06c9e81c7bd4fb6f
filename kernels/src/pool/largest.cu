// The largest of vectors of WORDS words, element by element.
#if PACKED_BYTES
// Bytes, signed ones moved up by 128: two of them, in the lower bytes of a word's halves, are compared at once as f16, whose small positive
// values are ordered as their bits are.
template <int WORDS> struct Largest {
    u32 even[WORDS] = {}, odd[WORDS] = {};
    DEVICE static u32 larger(u32 a, u32 b) {
        u32 y;
        asm("max.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
        return y;
    }
    DEVICE void take(const u32* vector) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) {
            const u32 word = vector[i] ^ SIGNS;
            even[i] = larger(even[i], word & 0x00ff00ffu);
            odd[i] = larger(odd[i], word >> 8 & 0x00ff00ffu);
        }
    }
    DEVICE void give(u32* vector) const {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) vector[i] = (even[i] | odd[i] << 8) ^ SIGNS;
    }
};
#else
// Floats of 16 bits, two at once; a NaN stays one, as in `maximum`.
template <int WORDS> struct Largest {
    u32 pairs[WORDS];
    DEVICE Largest() {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) pairs[i] = LOWEST_PAIR;
    }
    DEVICE void take(const u32* vector) {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) asm("max.NaN." PACKED_HALVES " %0, %0, %1;" : "+r"(pairs[i]) : "r"(vector[i]));
    }
    DEVICE void give(u32* vector) const {
#pragma unroll
        for (int i = 0; i < WORDS; ++i) vector[i] = pairs[i];
    }
};
#endif
