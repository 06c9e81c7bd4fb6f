// One BM×BN tile of C = A·Bᵀ on tensor cores by `mma.sync`: each warp multiplies fragments that it loads from the ring.
constexpr int WARP_ROWS = BM / WM, WARP_COLUMNS = BN / WN;
constexpr int FRAGMENTS_M = WARP_ROWS / 16, FRAGMENTS_N = WARP_COLUMNS / 16;
constexpr int STEPS = CHUNKS / 2 / WK;          // K steps of a warp in one tile, two chunks each.
static_assert(WARP_ROWS % 16 == 0 && WARP_COLUMNS % 16 == 0 && STEPS > 0, "tile");

#if SCALED
// Two f16 products, rounded.
DEVICE u32 multiply_pairs(u32 a, u32 b) {
    u32 product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
    return product;
}
#endif

DEVICE void tensor_core_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
#if SPLIT_IN_CLUSTER
    expect_partials(base + RECEIVED_AT);
#endif
    Bias bias[8];
    const Copies copies = start_copies<STAGES - 1>(o, t, shared, first, last, bias);
    Extras extras[PASSES];
    prefetch_extras(o, t, extras);

    Sum sums[FRAGMENTS_M][FRAGMENTS_N][2][4] = {};
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
#if SCALED
            const u32* const scales = (const u32*)(shared + SCALES_AT) + (k_tile * BK + k_chunk * 8) / 2 + lane % 4;
            const u32 low = scales[0], high = scales[4];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
                for (int r = 0; r < 4; r++) fa[i][r] = multiply_pairs(fa[i][r], r < 2 ? low : high);
#endif
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
                if (next < last) copies.copy_b(next, to), copies.copy_a(next, to);
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
    Sum* const staged = (Sum*)shared;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N * 2; j++) {
            const Sum(&c)[4] = sums[i][j / 2][j % 2];
            Sum* to = staged + warp_k * STAGE + (warp_row + i * 16 + lane / 4) * STAGE_PITCH + warp_column + j * 8 +
                      lane % 4 * 2;
            *(Sum2*)to = Sum2{c[0], c[1]};
            *(Sum2*)(to + 8 * STAGE_PITCH) = Sum2{c[2], c[3]};
        }
    __syncthreads();
    finish_tile(o, t, staged, bias, extras);
}
