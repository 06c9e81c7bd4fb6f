// sum + the products of four bytes each (A_LETTER, B_LETTER: s or u); sums wrap in 32 bits. sm_61 and later.
DEVICE u32 multiply_add_4(u32 a, u32 b, u32 sum) {
    u32 result;
    asm("dp4a." A_LETTER "32." B_LETTER "32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
    return result;
}
