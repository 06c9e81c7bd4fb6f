// Convolution of one to four channels on tensor cores: the first layer of a network, straight from its input.
//
// A block computes TILE_H × 16 outputs by BN columns. The input under them is converted into shared memory as four
// channels a pixel. K runs over taps, four channels each: in a step of 16 the thread t of a row of four holds the channels
// of tap 4·step + t, so that a fragment is one 8-byte load, wherever the window stands, and no lane but the fourth
// channel and the taps of the last step is padding.
constexpr int TILE_W = 16;
constexpr int BM = TILE_H * TILE_W;
constexpr int STEPS = (TAPS + 3) / 4;
constexpr int HALO_H = (TILE_H - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STEP_W + (TAPS_W - 1) * DILATION_W + 1;
constexpr int PIXELS = HALO_H * HALO_W;
constexpr int B_PITCH = (STEPS | 1) * 32;  // Bytes of a column of B; an odd multiple of 32 is free of bank conflicts.
constexpr int FRAGMENTS_M = BM / 16 / WM, FRAGMENTS_N = BN / 8 / WN;
constexpr int STAGE_PITCH = BN + 8;
constexpr int VECTORS_OF_ROW = BN / 8;
static_assert(THREADS == 32 * WM * WN && FRAGMENTS_M > 0 && FRAGMENTS_N > 0 && THREADS % VECTORS_OF_ROW == 0, "tile");
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

DEVICE uint2 load_pixel(const AElement* from) {
    u16 channel[4] = {};
#pragma unroll
    for (int c = 0; c < CHANNELS; c++) channel[c] = store_as<BElement>(to_f32(from[c * A_CHANNEL])).bits;
    return make_uint2((u32)channel[0] | (u32)channel[1] << 16, (u32)channel[2] | (u32)channel[3] << 16);
}

DEVICE void first_layer(const Operands& o) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned char* const weights = shared + (PIXELS * 8 + 15) / 16 * 16;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int column = blockIdx.x % N_TILES * BN, tile = blockIdx.x / N_TILES;
    const int tile_w = tile % TILES_W * TILE_W, tile_h = tile / TILES_W % TILES_H * TILE_H, n = tile / (TILES_W * TILES_H);

    if (!CONSTANT_WEIGHTS) wait_for_inputs();
#pragma unroll
    for (int i = 0; i < BN; i += THREADS / 16) {
        const int row = i + thread / 16;
        if (BN % (THREADS / 16) != 0 && row >= BN) break;
#pragma unroll
        for (int tap = thread % 16; tap < STEPS * 4; tap += 16) {
            const bool exists = tap < TAPS && column + row < N;
            copy_async_8(shared_address(weights + row * B_PITCH + tap * 8), o.b + (column + row) * B_N + tap * 4, exists);
        }
    }
    copy_async_commit();
    f32 bias[8];
    const int own_column = column + thread % VECTORS_OF_ROW * 8;
    load_bias(o, bias, own_column, 0);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    const AElement* const image = o.a + A_OFFSET + n * A_N;
    uint2 loaded[(PIXELS + THREADS - 1) / THREADS];
#pragma unroll
    for (int i = 0; i < (PIXELS + THREADS - 1) / THREADS; i++) {
        const int pixel = i * THREADS + thread;
        const int h = tile_h * STEP_H - PAD_H + pixel / HALO_W, w = tile_w * STEP_W - PAD_W + pixel % HALO_W;
        const bool inside = pixel < PIXELS && (u32)h < INPUT_H && (u32)w < INPUT_W;
        loaded[i] = inside ? load_pixel(image + h * A_H + w * A_W) : make_uint2(0, 0);
    }
#pragma unroll
    for (int i = 0; i < (PIXELS + THREADS - 1) / THREADS; i++)
        if (i * THREADS + thread < PIXELS) *(uint2*)(shared + (i * THREADS + thread) * 8) = loaded[i];
    copy_async_wait<0>();
    __syncthreads();

    const int fragment_m = warp % WM * FRAGMENTS_M, fragment_n = warp / WM * FRAGMENTS_N;
    f32 sums[FRAGMENTS_M][FRAGMENTS_N][4] = {};
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        const int tap = step * 4 + lane % 4;
        const bool exists = TAPS % 4 == 0 || step + 1 < STEPS || tap < TAPS;
        const int under = exists ? tap / TAPS_W * DILATION_H * HALO_W + tap % TAPS_W * DILATION_W : 0;
        u32 fa[FRAGMENTS_M][4];
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++) {
            // A fragment is one row of 16 outputs.
            const int at = (fragment_m + i) * STEP_H * HALO_W + lane / 4 * STEP_W + under;
            const uint2 low = *(const uint2*)(shared + at * 8), high = *(const uint2*)(shared + (at + 8 * STEP_W) * 8);
            // Zero weights do not silence an infinity.
            fa[i][0] = exists ? low.x : 0, fa[i][1] = exists ? high.x : 0;
            fa[i][2] = exists ? low.y : 0, fa[i][3] = exists ? high.y : 0;
        }
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            const uint2 fb = *(const uint2*)(weights + ((fragment_n + j) * 8 + lane / 4) * B_PITCH + tap * 8);
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++) multiply_add(sums[i][j], fa[i], fb.x, fb.y, BElement());
        }
    }

    // The accumulators go through shared memory so that a thread gets eight neighbouring columns.
    __syncthreads();
    f32* const staged = (f32*)shared;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            f32* to = staged + ((fragment_m + i) * 16 + lane / 4) * STAGE_PITCH + (fragment_n + j) * 8 + lane % 4 * 2;
            *(float2*)to = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2*)(to + 8 * STAGE_PITCH) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < (BM * VECTORS_OF_ROW + THREADS - 1) / THREADS; i++) {
        const int local = (i * THREADS + thread) / VECTORS_OF_ROW;
        const int h = tile_h + local / TILE_W, w = tile_w + local % TILE_W;
        if (local >= BM || h >= OUTPUT_H || w >= OUTPUT_W || own_column >= N_STORED) continue;
        const f32* from = staged + local * STAGE_PITCH + thread % VECTORS_OF_ROW * 8;
        const float4 low = *(const float4*)from, high = *(const float4*)(from + 4);
        const f32 sum[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        const int row = (n * OUTPUT_H + h) * OUTPUT_W + w;
        finish_vector(o, sum, bias, load_extras(o, row, own_column, 0), row, own_column, 0);
    }
}
