// Convolution of one to four channels of 8-bit integers: the first layer of a quantised network, straight from its input.
//
// The input under a tile lies in shared memory as a word of four channels a pixel, what stands outside of it included. In a step of 32 bytes the lane t of four multiplies the words of place t of two parts. Without tensor cores a thread multiplies the
// words of eight columns itself.

#if TENSOR_CORES
struct Weights {
    // Of two columns, eight apart, a place in each of two parts.
    DEVICE static uint4 load(const Operands& o, int column, int step, int t) {
        u32 of[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int part = step * 2 + i / 2;
            bool exists;
            const u32* const from = weights_at(o, column + i % 2 * 8, part / PARTS, part % PARTS * 4 + t, exists);
            of[i] = exists ? *from : 0;
        }
        return make_uint4(of[0], of[1], of[2], of[3]);
    }
};

struct Reader {
    // The lane's place in a part, and in the last part of a row: there the row's last tap where it has none of its own, since what
    // has no weight may be anything.
    const u32 *own, *last;
    DEVICE Reader(const u32* pixels) {
        const int t = threadIdx.x % 4;
        own = pixels + own_pixel() + t * DILATION_W;
        last = pixels + own_pixel() + min(t, TAPS_W - PLACES + 3) * DILATION_W;
    }
    DEVICE u32 word(int part, int pixel) const {
        const int row = min(part / PARTS, TAPS_H - 1), in_row = part % PARTS;
        return (in_row == PARTS - 1 ? last : own)[pixel + row * DILATION_H * PITCH + in_row * 4 * DILATION_W];
    }
    DEVICE uint2 read(int step, int pixel) const { return make_uint2(word(step * 2, pixel), word(step * 2 + 1, pixel)); }
};
#endif

DEVICE void first_layer(const Operands& o) {
    extern __shared__ __align__(16) unsigned char shared[];
    u32 *const pixels = (u32*)shared, *const weights = pixels + (PIXELS + 3) / 4 * 4;
    const Tile t = this_tile();
    if (!CONSTANT_WEIGHTS) wait_for_inputs();
#if TENSOR_CORES
    const Fragments<Weights> fragments(o, t);
    const auto beside = [&] { fragments.store((uint4*)weights); };
#else
    for (int i = threadIdx.x; i < BN * TAPS; i += THREADS) {
        const int column = t.column + i / TAPS;
        weights[i] = column < N ? *(const u32*)(o.b + column * B_N + i % TAPS * 4) : 0;
    }
    const auto beside = [] {};
#endif
    Bias bias[8];
    load_bias(o, bias, t.column + threadIdx.x % VECTORS_OF_ROW * 8, 0);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    copy_pixels<Pixels>(o, t, shared, beside);
    __syncthreads();

#if TENSOR_CORES
    Sum sums[OWN_COLUMNS][OWN_PIXELS][4] = {};
    multiply_tile(Reader(pixels), (const uint4*)weights, sums, AElement());
    __syncthreads();
    stage(sums, pixels);
    __syncthreads();
    finish_staged(o, t, bias, pixels);
#else
    finish_tile(o, t, bias, [&](int local, int vector, Vectored (&sum)[8]) {
#pragma unroll
        for (int j = 0; j < 8; j++) sum[j] = 0;
        const u32* const at = pixels + local / TILE_W * STEP_H * PITCH + local % TILE_W * STEP_W + LEAD;
#pragma unroll 7
        for (int tap = 0; tap < TAPS; tap++) {
            const u32 pixel = at[tap / TAPS_W * DILATION_H * PITCH + tap % TAPS_W * DILATION_W];
#pragma unroll
            for (int j = 0; j < 8; j++) sum[j] = multiply_add_4(pixel, weights[(vector * 8 + j) * TAPS + tap], sum[j]);
        }
    });
#endif
}
