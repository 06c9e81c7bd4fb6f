// c += a·b for a 16×32, b 32×8, of floats of 8 bits, accumulated in f32. In bytes their fragments lie as those of 16-bit elements do:
// the lower halves of all words are one product of f16, the upper halves another.
DEVICE void multiply_add(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1, AElement) {
    const Halves rows[4] = {halves_of(a[0], AElement()), halves_of(a[1], AElement()), halves_of(a[2], AElement()), halves_of(a[3], AElement())};
    const Halves columns[2] = {halves_of(b0, BElement()), halves_of(b1, BElement())};
    const u32 low[4] = {rows[0].low, rows[1].low, rows[2].low, rows[3].low};
    const u32 high[4] = {rows[0].high, rows[1].high, rows[2].high, rows[3].high};
    multiply_add(c, low, columns[0].low, columns[1].low, f16());
    multiply_add(c, high, columns[0].high, columns[1].high, f16());
}
