// Scales of a pair of channels.
typedef u32 Factors;
DEVICE Factors factors_of(u32 pair) { return pair; }
// Two f16 products, rounded.
DEVICE u32 scale_word(u32 pair, Factors by) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(by));
    return product;
}
