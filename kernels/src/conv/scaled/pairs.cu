// Two f16 products, rounded.
DEVICE u32 scale_word(u32 pair, u32 by) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(pair), "r"(by));
    return product;
}
