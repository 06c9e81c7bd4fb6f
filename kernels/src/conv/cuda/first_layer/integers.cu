// Convolution of one to four channels of 8-bit integers: the first layer of a quantised network, straight from its input.
//
// The input under a tile lies in shared memory as a word of four channels a pixel, what stands outside of it included. In a step of 32 bytes the
// lane t of four multiplies the words of place t of two parts. Without tensor cores a thread multiplies the words of eight columns itself.

#if TENSOR_CORES
struct Weights {
    // Of two columns, a place in each of two parts.
    DEVICE static uint4 load(const Operands& o, const int (&columns)[2], int step, int t) {
        u32 of[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int part = step * 2 + i % 2;
            bool exists;
            const u32* const from = weights_at(o, columns[i / 2], part / PARTS, part % PARTS * 4 + t, exists);
            of[i] = exists ? *from : 0;
        }
        return make_uint4(of[0], of[1], of[2], of[3]);
    }
};

struct Reader {
    // The lane's place in a part, and in the last part of a row: there the row's last tap where it has none of its own, since what
    // has no weight may be anything.
    const u32 *own, *last;
    DEVICE explicit Reader(const unsigned char* pixels) {
        const int t = threadIdx.x % 4;
        own = (const u32*)pixels + own_pixel() + t * DILATION_W;
        last = (const u32*)pixels + own_pixel() + min(t, TAPS_W - PLACES + 3) * DILATION_W;
    }
    DEVICE u32 word(int part, int pixel) const {
        const int row = min(part / PARTS, TAPS_H - 1), in_row = part % PARTS;
        return (in_row == PARTS - 1 ? last : own)[pixel + row * DILATION_H * PITCH + in_row * 4 * DILATION_W];
    }
    DEVICE uint2 read(int step, int pixel) const { return make_uint2(word(step * 2, pixel), word(step * 2 + 1, pixel)); }
};

DEVICE void first_layer(const Operands& o) { first_layer<Pixels, Weights, Reader>(o, AElement()); }
#else
constexpr int VECTORS_OF_ROW = BN / 8;  // Of eight columns, one of which a thread finishes.
constexpr int PASSES = (TILE_H * TILE_W * VECTORS_OF_ROW + THREADS - 1) / THREADS;
static_assert(THREADS % VECTORS_OF_ROW == 0, "tile");

DEVICE void first_layer(const Operands& o) {
    extern __shared__ __align__(16) unsigned char shared[];
    u32* const weights = (u32*)shared;
    if (!CONSTANT_WEIGHTS) wait_for_inputs();
    const int vector = threadIdx.x % VECTORS_OF_ROW, column = column_of_block() + vector * 8;
    Bias bias[8];
    load_bias(o, bias, column, 0);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    const auto prepare = [&] {
        for (int i = threadIdx.x; i < BN * TAPS; i += THREADS) {
            const int of_column = column_of_block() + i / TAPS;
            weights[i] = of_column < N ? *(const u32*)(o.b + of_column * B_N + i % TAPS * 4) : 0;
        }
    };
    walk_tiles<Pixels>(o, shared + (BN * TAPS * 4 + 15) / 16 * 16, prepare, [&](const Tile& t, const unsigned char* pixels) {
#pragma unroll
        for (int i = 0; i < PASSES; i++) {
            const int local = (i * THREADS + (int)threadIdx.x) / VECTORS_OF_ROW;
            const int h = t.h + local / TILE_W, w = t.w + local % TILE_W;
            if (local >= TILE_H * TILE_W || h >= OUTPUT_H || w >= OUTPUT_W || column >= N_STORED) continue;
            Vectored sum[8];
#pragma unroll
            for (int j = 0; j < 8; j++) sum[j] = 0;
            const u32* const at = (const u32*)pixels + local / TILE_W * STEP_H * PITCH + local % TILE_W * STEP_W + LEAD;
#pragma unroll 7
            for (int tap = 0; tap < TAPS; tap++) {
                const u32 pixel = at[tap / TAPS_W * DILATION_H * PITCH + tap % TAPS_W * DILATION_W];
#pragma unroll
                for (int j = 0; j < 8; j++) sum[j] = multiply_add_4(pixel, weights[(vector * 8 + j) * TAPS + tap], sum[j]);
            }
            const int row = (t.n * OUTPUT_H + h) * OUTPUT_W + w;
            finish_vector(o, sum, bias, load_extras(o, row, column, 0), row, column, 0);
        }
    });
}
#endif
