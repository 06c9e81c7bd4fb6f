// c += a·b for a 16×32, b 32×8, of 8-bit integers; sums wrap in 32 bits. A_LETTER and B_LETTER, s or u, are of the product's factors,
// which the instruction takes in the other order where sides are exchanged. In bytes its fragments lie as those of 16-bit elements do,
// so that the same loads serve both.
#if TURNED
#define LETTERS B_LETTER "8." A_LETTER "8"
#else
#define LETTERS A_LETTER "8." B_LETTER "8"
#endif
DEVICE void multiply_add(u32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, AElement) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." LETTERS ".s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
