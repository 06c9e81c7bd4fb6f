// One BM×BN tile of C = A·Bᵀ on tensor cores by `mma.sync`. Each warp multiplies fragments that it loads from the ring, a
// step ahead: while the products of one step run, the fragments of the next are on their way, across tiles of K too.
constexpr int WARP_ROWS = BM / WM, WARP_COLUMNS = BN / WN;
constexpr int FRAGMENTS_M = WARP_ROWS / 16, FRAGMENTS_N = WARP_COLUMNS / 16;
constexpr int STEPS = CHUNKS / 2 / WK;          // K steps of a warp in one tile, two chunks each.
// Loaded before the products, the bias costs no time but eight registers, which the largest warp tiles do not have.
constexpr bool EARLY_BIAS = FRAGMENTS_M * FRAGMENTS_N < 16;
static_assert(WARP_ROWS % 16 == 0 && WARP_COLUMNS % 16 == 0 && STEPS > 0, "tile");

// What a warp multiplies in one step.
struct Fragments {
    u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][4];
#if SCALED
    StepFactors factors;
#endif
};

// Where a lane reads its fragments: the chunks of a step differ from those of step 0 in bits that the swizzle keeps apart,
// so that a step costs an exclusive or, and a fragment a constant.
struct Reader {
    u32 b;  // Address in stage 0 at step 0.
#if PATCH
    u32 a[FRAGMENTS_M];
#else
    u32 a;
#endif

    DEVICE Reader(u32 ring, int lane, int warp_row, int warp_column, int warp_k) {
        const int k_chunk = warp_k * STEPS * 2;
#if PATCH
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++) {
            a[i] = pixel_address(ring, warp_row + i * 16 + lane % 16, k_chunk + lane / 16);
            asm volatile("" : "+r"(a[i]));
        }
#else
        a = ring + swizzled<CHUNKS>(warp_row + lane % 16, k_chunk + lane / 16);
        asm volatile("" : "+r"(a));
#endif
#if B_COLUMNS_CONTIGUOUS
        b = ring + A_BYTES + swizzled<B_CHUNKS>(k_chunk * 8 + lane % 16, warp_column / 8 + lane / 16);
#else
        b = ring + A_BYTES + swizzled<CHUNKS>(warp_column + lane % 8 + lane / 16 * 8, k_chunk + lane / 8 % 2);
#endif
        // Kept in registers, not computed anew in each turn.
        asm volatile("" : "+r"(b));
    }
    // `patch` is what the turn's patch and tap add.
    DEVICE void read(Fragments& to, int stage, int step, u32 patch) const {
#if PATCH
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++) load_matrices(to.a[i], a[i] + patch + step * 32);
#else
        const u32 a_step = pairs_behind<CHUNKS>(a + stage * STAGE_BYTES, step);
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; i++) load_matrices(to.a[i], a_step + i * (16 * CHUNKS * 16));
#endif
#if B_COLUMNS_CONTIGUOUS
        const u32 b_step = b + stage * STAGE_BYTES + step * (16 * B_CHUNKS * 16);
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) load_matrices_transposed(to.b[j], pairs_behind<B_CHUNKS>(b_step, j));
#else
        const u32 b_step = pairs_behind<CHUNKS>(b + stage * STAGE_BYTES, step);
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) load_matrices(to.b[j], b_step + j * (16 * CHUNKS * 16));
#endif
    }
};

DEVICE void multiply(Sum (&sums)[FRAGMENTS_M][FRAGMENTS_N][2][4], Fragments& f) {
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++) {
#if SCALED
#pragma unroll
        for (int r = 0; r < 4; r++) f.a[i][r] = scale_word(f.a[i][r], r < 2 ? f.factors.low : f.factors.high);
#endif
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; j++) {
            multiply_add(sums[i][j][0], f.a[i], f.b[j][0], f.b[j][1], AElement());
            multiply_add(sums[i][j][1], f.a[i], f.b[j][2], f.b[j][3], AElement());
        }
    }
}

DEVICE void tensor_core_tile(const Operands& o) {
    extern __shared__ __align__(256) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
#if SPLIT_IN_CLUSTER
    expect_partials(base + RECEIVED_AT);
#endif
    Bias bias[GROUPS][VECTOR_COLUMNS];
    const Copies copies = start_copies<STAGES - 1, EARLY_BIAS>(o, t, shared, first, last, bias);
#if !LANES
    Extras extras[BATCH] = {};
    if (BEFORE_LOOP) read_extras(o, t, 0, extras);
#endif

    const Reader reader(base, lane, warp_row, warp_column, warp_k);
#if SCALED
    share_factors(o, shared);
    constexpr int STEP = 32 / (int)sizeof(AElement);
#endif
    Sum sums[FRAGMENTS_M][FRAGMENTS_N][2][4] = {};
#if MOMENTS
    Moments moments[FRAGMENTS_M][2] = {};
#endif
    Fragments next;
    copy_async_wait<STAGES - 2>();
    __syncthreads();
    Walk walk(first);
    reader.read(next, 0, 0, walk.patch);
    int stage = 0, k_next = first * BK;  // Of the tile that `next` belongs to.
#if SCALED
    next.factors.read(shared, k_next + warp_k * STEPS * STEP, lane);
#endif
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        u32 patch = walk.patch;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            Fragments now = next;
            if (step == 0 && STEPS == 1) copy_ahead(copies, walk, k_tile, last, stage), walk.advance();
            if (step == STEPS - 1) {
                copy_async_wait<STAGES - 2>();
                __syncthreads();
                // After the last tile there is none: then the reads are of this tile, for nobody.
                const bool more = k_tile + 1 < last;
                stage = !more ? stage : stage == STAGES - 1 ? 0 : stage + 1;
                k_next = more ? k_next + BK : k_next;
                patch = walk.patch;
            }
            reader.read(next, stage, (step + 1) % STEPS, patch);
            if (step == 0 && STEPS > 1) copy_ahead(copies, walk, k_tile, last, stage), walk.advance();
#if SCALED
            next.factors.read(shared, k_next + (warp_k * STEPS + (step + 1) % STEPS) * STEP, lane);
#endif
            multiply(sums, now);
#if MOMENTS
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; i++)
                if ((step * FRAGMENTS_M + i) % WN == warp / WM % WN)
#pragma unroll
                    for (int r = 0; r < 4; r++) moments[i][r % 2].add(now.a[i][r]);
#endif
        }
    }

    if (!EARLY_BIAS) load_biases(o, t, bias);
#if !LANES
    if (READS_AHEAD && !BEFORE_LOOP) read_extras(o, t, 0, extras);
    copy_async_wait<0>();
    __syncthreads();
#endif
#if MOMENTS
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M * 2; i++) leave_moments(moments[i / 2][i % 2], warp_row + i * 8 + lane / 4, warp / WM);
#endif
#if LANES
    if (MOMENTS) __syncthreads();
    finish_lanes(o, t, sums, bias);
#else
    // The accumulators go through shared memory so that a thread gets eight neighbouring columns.
    Sum* const staged = (Sum*)shared;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; i++)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N * 2; j++) {
            const Sum(&c)[4] = sums[i][j / 2][j % 2];
            Sum* to = staged + warp_k * STAGE + (warp_row + i * 16 + lane / 4) * STAGE_PITCH +
                      staged_column(warp_column + j * 8 + lane % 4 * 2);
            *(Sum2*)to = Sum2{c[0], c[1]};
            *(Sum2*)(to + 8 * STAGE_PITCH) = Sum2{c[2], c[3]};
        }
    __syncthreads();
    finish_tile(o, t, staged, bias[0], extras);
#endif
}
