// Sums of the elements of a row, and of their squares.
struct Moments {
    f32 sum, squares;
    // Two neighbours.
    DEVICE void add(u32 pair) { add(f16_to_f32((u16)pair), f16_to_f32((u16)(pair >> 16))); }
    DEVICE void add(f32 x, f32 y) {
        if (CENTER) sum += x + y;
        squares = fmaf(x, x, fmaf(y, y, squares));
    }
    // Adds up those of COUNT lanes that lie STEP apart; all lanes of a warp do.
    template <int COUNT, int STEP> DEVICE void join() {
#pragma unroll
        for (int mask = STEP; mask < COUNT * STEP; mask *= 2) {
            if (CENTER) sum += __shfl_xor_sync(~0u, sum, mask);
            squares += __shfl_xor_sync(~0u, squares, mask);
        }
    }
};
