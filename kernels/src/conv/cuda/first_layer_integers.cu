// Convolution of one to four channels of 8-bit integers: the first layer of a quantised network, straight from its input.
//
// A block computes TILE_H × 16 outputs by BN columns. The input under them is copied into shared memory as a word of four
// channels a pixel, what stands outside of it included. K runs over taps, a word each: in a step of 32 bytes the thread t of
// a row of four holds the pixels of taps 8·step + t and 8·step + 4 + t, so that a fragment is made of single words, wherever
// the window stands. Without tensor cores a thread multiplies the words of eight columns itself.
constexpr int TILE_W = 16;
constexpr int BM = TILE_H * TILE_W;
constexpr int STEPS = (TAPS + 7) / 8;
constexpr int HALO_H = (TILE_H - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STEP_W + (TAPS_W - 1) * DILATION_W + 1;
constexpr int PIXELS = HALO_H * HALO_W;
constexpr int LOADS = (PIXELS + THREADS - 1) / THREADS;
constexpr int B_PITCH = STEPS * 8 + 4;  // Words of a column of B; an odd multiple of 4 is free of bank conflicts.
constexpr int STAGE_PITCH = BN + 8;
constexpr int VECTORS_OF_ROW = BN / 8;
constexpr int PASSES = (BM * VECTORS_OF_ROW + THREADS - 1) / THREADS;
static_assert(THREADS % VECTORS_OF_ROW == 0 && THREADS % 8 == 0, "tile");
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

DEVICE u32 load_pixel(const AElement* from) {
    u32 word = 0;
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) word |= (u32)(u8)from[c * A_CHANNEL] << c * 8;
    return word;
}

DEVICE void first_layer(const Operands& o) {
    extern __shared__ __align__(16) unsigned char shared[];
    u32 *const pixels = (u32*)shared, *const weights = pixels + (PIXELS + 3) / 4 * 4;
    const int thread = threadIdx.x;
    const int column = blockIdx.x % N_TILES * BN, tile = blockIdx.x / N_TILES;
    const int tile_w = tile % TILES_W * TILE_W, tile_h = tile / TILES_W % TILES_H * TILE_H, n = tile / (TILES_W * TILES_H);

    if (!CONSTANT_WEIGHTS) wait_for_inputs();
#pragma unroll
    for (int i = 0; i < BN; i += THREADS / 8) {
        const int row = i + thread / 8;
        if (BN % (THREADS / 8) != 0 && row >= BN) break;
#pragma unroll
        for (int tap = thread % 8; tap < STEPS * 8; tap += 8) {
            const bool exists = tap < TAPS && column + row < N;
            weights[row * B_PITCH + tap] = exists ? *(const u32*)(o.b + (column + row) * B_N + tap * 4) : 0;
        }
    }
    Bias bias[8];
    const int own_column = column + thread % VECTORS_OF_ROW * 8;
    load_bias(o, bias, own_column, 0);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    const AElement* const image = o.a + A_OFFSET + n * A_N;
    u32 loaded[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int pixel = i * THREADS + thread;
        const int h = tile_h * STEP_H - PAD_H + pixel / HALO_W, w = tile_w * STEP_W - PAD_W + pixel % HALO_W;
        const bool inside = pixel < PIXELS && (u32)h < INPUT_H && (u32)w < INPUT_W;
        loaded[i] = inside ? load_pixel(image + h * A_H + w * A_W) : OUTSIDE_WORD;
    }
#pragma unroll
    for (int i = 0; i < LOADS; i++)
        if (i * THREADS + thread < PIXELS) pixels[i * THREADS + thread] = loaded[i];
    __syncthreads();

#if TENSOR_CORES
    constexpr int FRAGMENTS_M = BM / 16 / WM, FRAGMENTS_N = BN / 8 / WN;
    static_assert(THREADS == 32 * WM * WN && FRAGMENTS_M > 0 && FRAGMENTS_N > 0, "warps");
    const int lane = thread % 32, warp = thread / 32;
    const int fragment_m = warp % WM * FRAGMENTS_M, fragment_n = warp / WM * FRAGMENTS_N;
    u32 sums[FRAGMENTS_M][FRAGMENTS_N][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        // Weights of taps that do not exist are zero, whatever lies under them.
        const int first = min(step * 8 + lane % 4, TAPS - 1), second = min(step * 8 + 4 + lane % 4, TAPS - 1);
        const int under_first = first / TAPS_W * DILATION_H * HALO_W + first % TAPS_W * DILATION_W;
        const int under_second = second / TAPS_W * DILATION_H * HALO_W + second % TAPS_W * DILATION_W;
        u32 fa[FRAGMENTS_M][4];
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++) {
            // A fragment is one row of 16 outputs.
            const u32* const at = pixels + (fragment_m + i) * STEP_H * HALO_W + lane / 4 * STEP_W;
            fa[i][0] = at[under_first], fa[i][1] = at[under_first + 8 * STEP_W];
            fa[i][2] = at[under_second], fa[i][3] = at[under_second + 8 * STEP_W];
        }
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            const u32* const fb = weights + ((fragment_n + j) * 8 + lane / 4) * B_PITCH + step * 8 + lane % 4;
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++) multiply_add(sums[i][j], fa[i], fb[0], fb[4], AElement());
        }
    }
    // The accumulators go through shared memory so that a thread gets eight neighbouring columns.
    __syncthreads();
    u32* const staged = pixels;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            u32* to = staged + ((fragment_m + i) * 16 + lane / 4) * STAGE_PITCH + (fragment_n + j) * 8 + lane % 4 * 2;
            *(uint2*)to = make_uint2(sums[i][j][0], sums[i][j][1]);
            *(uint2*)(to + 8 * STAGE_PITCH) = make_uint2(sums[i][j][2], sums[i][j][3]);
        }
    __syncthreads();
#endif
#pragma unroll
    for (int i = 0; i < PASSES; i++) {
        const int local = (i * THREADS + thread) / VECTORS_OF_ROW;
        const int h = tile_h + local / TILE_W, w = tile_w + local % TILE_W;
        if (local >= BM || h >= OUTPUT_H || w >= OUTPUT_W || own_column >= N_STORED) continue;
#if TENSOR_CORES
        const u32* from = staged + local * STAGE_PITCH + thread % VECTORS_OF_ROW * 8;
        const uint4 low = *(const uint4*)from, high = *(const uint4*)(from + 4);
        const u32 sum[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#else
        u32 sum[8] = {};
        const u32* const at = pixels + local / TILE_W * STEP_H * HALO_W + local % TILE_W * STEP_W;
#pragma unroll 7
        for (int tap = 0; tap < TAPS; tap++) {
            const u32 pixel = at[tap / TAPS_W * DILATION_H * HALO_W + tap % TAPS_W * DILATION_W];
#pragma unroll
            for (int j = 0; j < 8; j++)
                sum[j] = multiply_add_4(pixel, weights[(thread % VECTORS_OF_ROW * 8 + j) * B_PITCH + tap], sum[j]);
        }
#endif
        const int row = (n * OUTPUT_H + h) * OUTPUT_W + w;
        finish_vector(o, sum, bias, load_extras(o, row, own_column, 0), row, own_column, 0);
    }
}
