// One BM×BN tile of C = A·Bᵀ on tensor cores: implicit-GEMM convolution and matrix product.
//
// A is gathered: row m of A is an output position, its K elements the channels under each tap of the window. Both
// tiles come in 16-byte chunks (8 elements of K) through a ring of STAGES buffers filled by cp.async; chunks are
// swizzled by XOR so that neither the copies nor ldmatrix meet bank conflicts.
constexpr int CHUNKS = BK / 8;                  // Chunks in a row of a tile.
constexpr int LINES = THREADS / CHUNKS;         // Rows that all threads copy at once.
constexpr int A_COPIES = (BM + LINES - 1) / LINES;
constexpr int K_TILES = (K + BK - 1) / BK;
constexpr int A_BYTES = BM * BK * 2;
constexpr int STAGE_BYTES = A_BYTES + BN * BK * 2;
constexpr int WARP_ROWS = BM / WM, WARP_COLUMNS = BN / WN;
constexpr int FRAGMENTS_M = WARP_ROWS / 16, FRAGMENTS_N = WARP_COLUMNS / 16;
constexpr int STEPS = BK / 16 / WK;             // K steps of a warp in one tile.
static_assert(THREADS % CHUNKS == 0 && WARP_ROWS % 16 == 0 && WARP_COLUMNS % 16 == 0 && STEPS > 0, "tile");

// Byte offset of a chunk in a tile whose rows have WIDTH chunks: 128 bytes hold all 32 banks, so that the eight rows
// of a matrix must differ in the low three bits of their chunk address.
template <int WIDTH> DEVICE u32 swizzled(int row, int chunk) {
    constexpr int ROWS_OF_128_BYTES = WIDTH >= 8 ? 1 : 8 / WIDTH, MASK = WIDTH >= 8 ? 7 : WIDTH - 1;
    return (u32)(row * WIDTH + (chunk ^ (row / ROWS_OF_128_BYTES & MASK))) * 16;
}

#if B_COLUMNS_CONTIGUOUS
constexpr int B_CHUNKS = BN / 8, B_LINES = THREADS / B_CHUNKS, B_COPIES = (BK + B_LINES - 1) / B_LINES;
static_assert(THREADS % B_CHUNKS == 0, "tile");
#else
constexpr int B_COPIES = (BN + LINES - 1) / LINES;
#endif

DEVICE void tensor_core_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;

    // What this thread copies: the same chunk of rows line, line + LINES, … of each tile.
    const int chunk = thread % CHUNKS, line = thread / CHUNKS;
    Row rows[A_COPIES];
#pragma unroll
    for (int i = 0; i < A_COPIES; i++) {
        const int m = t.row + line + i * LINES;
        rows[i] = row_of_a(m < M ? m : 0, t.batch);
        // A row past the end counts as outside of the input for every tap.
        if (m >= M) rows[i].offset = -1, rows[i].outside = true;
    }
    const int b_batch = batch_of_b(t.batch);

    auto copy_tile = [&](int k_tile, int stage) {
        const u32 to = base + stage * STAGE_BYTES;
        const int k = k_tile * BK + chunk * 8;
        const bool k_inside = K % BK == 0 || k < K;
        // Where a whole tile lies under one tap, the tap is the same for all threads.
        const Tap tap = UNIFORM_TAPS ? tap_of_a(k_tile * BK) : tap_of_a(k_inside ? k : 0);
        const int within = UNIFORM_TAPS ? chunk * 8 : 0;
#pragma unroll
        for (int i = 0; i < A_COPIES; i++) {
            const int row = line + i * LINES;
            if (BM % LINES != 0 && row >= BM) break;
            const bool inside = k_inside && (M % BM == 0 || !rows[i].outside) && inside_of_a(rows[i], tap);
            const AElement* from = o.a + (inside ? rows[i].offset + tap.offset + within : 0);
            copy_async<A_CACHED>(to + swizzled<CHUNKS>(row, chunk), from, inside);
        }
#if B_COLUMNS_CONTIGUOUS
        const int b_chunk = thread % B_CHUNKS, b_line = thread / B_CHUNKS;
#pragma unroll
        for (int i = 0; i < B_COPIES; i++) {
            const int row = b_line + i * B_LINES, column = t.column + b_chunk * 8;
            if (BK % B_LINES != 0 && row >= BK) break;
            const bool inside = (K % BK == 0 || k_tile * BK + row < K) && (N % BN == 0 || column < N);
            const BElement* from = o.b + (inside ? b_batch + (k_tile * BK + row) * B_K + column : 0);
            copy_async<false>(to + A_BYTES + swizzled<B_CHUNKS>(row, b_chunk), from, inside);
        }
#else
        const int b_k = UNIFORM_TAPS ? k_of_b(k_tile * BK) + within : k_of_b(k_inside ? k : 0);
#pragma unroll
        for (int i = 0; i < B_COPIES; i++) {
            const int row = line + i * LINES, n = t.column + row;
            if (BN % LINES != 0 && row >= BN) break;
            const bool inside = k_inside && (N % BN == 0 || n < N);
            const BElement* from = o.b + (inside ? b_batch + n * B_N + b_k : 0);
            copy_async<false>(to + A_BYTES + swizzled<CHUNKS>(row, chunk), from, inside);
        }
#endif
    };

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s < last) copy_tile(first + s, s);
        copy_async_commit();
    }
    Extras extras[PASSES];
    prefetch_extras(o, t, extras);

    f32 sums[FRAGMENTS_M][FRAGMENTS_N][2][4] = {};
    int stage = 0;
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        const u32 a = base + stage * STAGE_BYTES, b = a + A_BYTES;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            const int k_chunk = (warp_k * STEPS + step) * 2;
            u32 fa[FRAGMENTS_M][4], fb[FRAGMENTS_N][4];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++)
                load_matrices(fa[i], a + swizzled<CHUNKS>(warp_row + i * 16 + lane % 16, k_chunk + lane / 16));
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; j++) {
#if B_COLUMNS_CONTIGUOUS
                load_matrices_transposed(fb[j], b + swizzled<B_CHUNKS>(k_chunk * 8 + lane % 16,
                                                                       warp_column / 8 + j * 2 + lane / 16));
#else
                load_matrices(fb[j], b + swizzled<CHUNKS>(warp_column + j * 16 + lane % 8 + lane / 16 * 8,
                                                          k_chunk + lane / 8 % 2));
#endif
            }
            if (step == 0) {
                // The buffer that this fills was read in the turn before; the barrier above says that all warps are
                // through. The addresses are computed while the first fragments are on their way.
                const int next = k_tile + STAGES - 1;
                if (next < last) copy_tile(next, stage == 0 ? STAGES - 1 : stage - 1);
                copy_async_commit();
            }
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; j++) {
                    multiply_add(sums[i][j][0], fa[i], fb[j][0], fb[j][1], AElement());
                    multiply_add(sums[i][j][1], fa[i], fb[j][2], fb[j][3], AElement());
                }
        }
        stage = stage == STAGES - 1 ? 0 : stage + 1;
    }

    // The accumulators go through shared memory so that a thread gets eight neighbouring columns.
    copy_async_wait<0>();
    __syncthreads();
    f32* const staged = (f32*)shared;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N * 2; j++) {
            const f32(&c)[4] = sums[i][j / 2][j % 2];
            f32* to = staged + warp_k * STAGE + (warp_row + i * 16 + lane / 4) * STAGE_PITCH + warp_column + j * 8 +
                      lane % 4 * 2;
            *(float2*)to = make_float2(c[0], c[1]);
            *(float2*)(to + 8 * STAGE_PITCH) = make_float2(c[2], c[3]);
        }
    __syncthreads();
    finish_tile(o, t, staged, extras);
}
