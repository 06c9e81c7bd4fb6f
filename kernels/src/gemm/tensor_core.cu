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

// Whether no step writes B, nor the bias where there is one.
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

// A row of A as the copies see it: its element under tap 0 and, a bit for each tap, whether the tap is inside of the
// input, so that a copy costs one test and one addition. Windows with more taps compare places instead.
constexpr bool MASKED = TAPS <= 32;
struct CopyRow {
    Row at;
    u32 taps;
};
DEVICE CopyRow copy_row(int m, int batch) {
    CopyRow row = {row_of_a(m < M ? m : 0, batch), 0};
    // A row past the end is outside of the input for every tap.
    if (!MASKED) row.taps = m < M;
#pragma unroll
    for (int tap = 0; MASKED && tap < TAPS; tap++)
        row.taps |= m < M && inside_of_a(row.at, tap_of_a(tap * CHANNELS)) ? 1u << tap : 0u;
    return row;
}

DEVICE void tensor_core_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
#if SPLIT_IN_CLUSTER
    expect_partials(base + RECEIVED_AT);
#endif

    // What this thread copies: the same chunk of rows line, line + LINES, … of each tile.
    const int chunk = thread % CHUNKS, line = thread / CHUNKS;
#if B_COLUMNS_CONTIGUOUS
    const int b_chunk = thread % B_CHUNKS, b_line = thread / B_CHUNKS, b_column = t.column + b_chunk * 8;
    const BElement* const b_lines = o.b + batch_of_b(t.batch) + b_line * B_K + b_column;
    auto copy_b = [&](int k_tile, int stage) {
        const u32 to = base + stage * STAGE_BYTES + A_BYTES;
        const BElement* from = b_lines + k_tile * BK * B_K;
#pragma unroll
        for (int i = 0; i < B_COPIES; i++) {
            const int row = b_line + i * B_LINES;
            if (BK % B_LINES != 0 && row >= BK) break;
            const bool inside = (K % BK == 0 || k_tile * BK + row < K) && (N % BN == 0 || b_column < N);
            copy_async<false>(to + swizzled<B_CHUNKS>(row, b_chunk), from + i * B_LINES * B_K, inside);
        }
    };
#else
    const BElement* const b_lines = o.b + batch_of_b(t.batch) + (t.column + line) * B_N + (UNIFORM_TAPS ? chunk * 8 : 0);
    auto copy_b = [&](int k_tile, int stage) {
        const u32 to = base + stage * STAGE_BYTES + A_BYTES;
        const int k = k_tile * BK + (UNIFORM_TAPS ? 0 : chunk * 8);
        const bool k_inside = K % BK == 0 || k < K;
        const BElement* from = b_lines + k_of_b(k_inside ? k : 0);
#pragma unroll
        for (int i = 0; i < B_COPIES; i++) {
            const int row = line + i * LINES;
            if (BN % LINES != 0 && row >= BN) break;
            const bool inside = k_inside && (N % BN == 0 || t.column + row < N);
            copy_async<false>(to + swizzled<CHUNKS>(row, chunk), from + i * LINES * B_N, inside);
        }
    };
#endif
    // Copies of B come first: they need no division, and constant weights need not wait for the kernel before.
    if (!CONSTANT_WEIGHTS) wait_for_inputs();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        if (first + s < last) copy_b(first + s, s);
    f32 bias[8];
    load_bias(o, bias, t.column + vector_of_pass(t, 0) % VECTORS_OF_ROW * 8, t.batch);

    CopyRow rows[A_COPIES];
    if (ROW_TABLE) {
        // Each row is computed once and read by all threads that copy parts of it.
        int2* const table = (int2*)(shared + TABLE_AT);
        for (int row = thread; row < BM; row += THREADS) {
            const CopyRow copied = copy_row(t.row + row, t.batch);
            table[row] = make_int2(copied.at.offset, (int)copied.taps);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < A_COPIES; i++) {
            const int row = line + i * LINES;
            const int2 copied = table[BM % LINES == 0 || row < BM ? row : 0];
            rows[i].at.offset = copied.x;
            rows[i].taps = (u32)copied.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < A_COPIES; i++) rows[i] = copy_row(t.row + line + i * LINES, t.batch);
    }
    const AElement* const a_chunk = o.a + (UNIFORM_TAPS ? chunk * 8 : 0);
    auto copy_a = [&](int k_tile, int stage) {
        const u32 to = base + stage * STAGE_BYTES;
        // Where a whole tile lies under one tap, the tap is the same for all threads.
        const int k = k_tile * BK + (UNIFORM_TAPS ? 0 : chunk * 8);
        const bool k_inside = K % BK == 0 || k < K;
        const Tap tap = tap_of_a(k_inside ? k : 0);
        const u32 bit = k_inside ? 1u << (MASKED ? k / CHANNELS : 0) : 0u;
        const AElement* from = opaque(a_chunk + tap.offset);
#pragma unroll
        for (int i = 0; i < A_COPIES; i++) {
            const int row = line + i * LINES;
            if (BM % LINES != 0 && row >= BM) break;
            const bool inside = ALWAYS_INSIDE || ((rows[i].taps & bit) != 0 && (MASKED || inside_of_a(rows[i].at, tap)));
            copy_async<A_CACHED>(to + swizzled<CHUNKS>(row, chunk), from + rows[i].at.offset, inside);
        }
    };
    if (CONSTANT_WEIGHTS) wait_for_inputs();
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s < last) copy_a(first + s, s);
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
                const int to = stage == 0 ? STAGES - 1 : stage - 1;
                if (next < last) copy_b(next, to), copy_a(next, to);
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
    finish_tile(o, t, staged, bias, extras);
}
