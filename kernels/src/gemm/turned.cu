// One BM×BN tile of C = A·Bᵀ on tensor cores by `mma.sync` with the sides exchanged: columns of C are the rows of an instruction and
// rows of C its columns, which come in eights. So tiles fit extents such as 197 or 49, and a warp may have more than 64 rows. A
// warp keeps the fragments of its columns for a step and loads those of its rows sixteen at a time, one load ahead.
constexpr int WARP_ROWS = BM / WM, WARP_COLUMNS = BN / WN;
constexpr int EIGHTS = WARP_ROWS / 8, PAIRS = (EIGHTS + 1) / 2, FRAGMENTS = WARP_COLUMNS / 16;
constexpr int STEPS = CHUNKS / 2 / WK;  // K steps of a warp in one tile, two chunks each.
// Loaded before the products, the bias costs no time but eight registers, which the largest warp tiles do not have.
constexpr bool EARLY_BIAS = EIGHTS * FRAGMENTS <= 24;
// Whether a turn's copies lie between its products, a part behind each step's first loads: large warp tiles gain by it, where addresses
// find registers.
#if EVEN_ROWS
constexpr bool SPREAD = EIGHTS * FRAGMENTS > 32 && STEPS <= 2 && A_COPIES + B_COPIES <= 16;
#else
constexpr bool SPREAD = false;
#endif
static_assert(WARP_ROWS % 8 == 0 && WARP_COLUMNS % 16 == 0 && STEPS > 0 && PAIRS > 1, "tile");

// Where a lane reads its fragments: the chunks of a step differ from those of step 0 in bits that the swizzle keeps apart.
struct Reader {
#if PATCH
    u32 rows[PAIRS];  // Addresses at step 0.
#else
    u32 rows;  // The same in stage 0.
#endif
#if B_COLUMNS_CONTIGUOUS
    u32 columns[FRAGMENTS];
#else
    u32 columns;
#endif

    DEVICE Reader(u32 ring, int lane, int warp_row, int warp_column, int warp_k) {
        const int k_chunk = warp_k * STEPS * 2;
        const int row = warp_row + lane % 8 + lane / 16 * 8, chunk = k_chunk + lane / 8 % 2;
        // Kept in registers, not computed anew in each turn.
#if PATCH
#pragma unroll
        for (int pair = 0; pair < PAIRS; pair++) {
            rows[pair] = pixel_address(ring, row + pair * 16, chunk);
            asm volatile("" : "+r"(rows[pair]));
        }
#else
        rows = ring + swizzled<CHUNKS>(row, chunk);
        asm volatile("" : "+r"(rows));
#endif
#if B_COLUMNS_CONTIGUOUS
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j++) {
            columns[j] = ring + A_BYTES + swizzled<B_CHUNKS>(k_chunk * 8 + lane % 8 + lane / 16 * 8, warp_column / 8 + j * 2 + lane / 8 % 2);
            asm volatile("" : "+r"(columns[j]));
        }
#else
        columns = ring + A_BYTES + swizzled<CHUNKS>(warp_column + lane % 16, k_chunk + lane / 16);
        asm volatile("" : "+r"(columns));
#endif
    }
    DEVICE void read_columns(u32 (&to)[FRAGMENTS][4], int stage, int step) const {
#pragma unroll
        for (int j = 0; j < FRAGMENTS; j++) {
#if B_COLUMNS_CONTIGUOUS
            load_matrices_transposed(to[j], columns[j] + stage * STAGE_BYTES + step * (16 * B_CHUNKS * 16));
#else
            load_matrices(to[j], pairs_behind<CHUNKS>(columns + stage * STAGE_BYTES, step) + j * (16 * CHUNKS * 16));
#endif
        }
    }
    // `patch` is what the turn's patch and tap add.
    DEVICE void read_rows(u32 (&to)[4], int stage, int step, int pair, u32 patch) const {
#if PATCH
        const u32 from = rows[pair] + patch + step * 32;
#else
        const u32 from = pairs_behind<CHUNKS>(rows + stage * STAGE_BYTES, step) + pair * (16 * CHUNKS * 16);
#endif
        if (pair * 2 + 1 < EIGHTS)
            load_matrices(to, from);
        else
            load_two_matrices(to, from);
    }
};

// One of the parts of the copies of a turn, STEPS of them. They begin behind the barrier that frees their place, and end before the
// next one.
DEVICE void copy_part(const Copies& copies, int turn, int last, int stage, int part) {
#if EVEN_ROWS
    if (SPREAD) {
        // Computed anew in each part: kept from one to the next, addresses would take the registers of sums.
        asm volatile("" : "+r"(turn));
        const int ahead = turn + STAGES - 1, to = stage == 0 ? STAGES - 1 : stage - 1;
        constexpr int ALL = A_COPIES + B_COPIES;
        const int begin = part * ALL / STEPS, end = (part + 1) * ALL / STEPS;
        copies.copy_b<true>(ahead, to, begin, end < B_COPIES ? end : B_COPIES, ahead < last);
        copies.copy_a<true>(ahead, to, begin > B_COPIES ? begin - B_COPIES : 0, end - B_COPIES, ahead < last);
    }
#endif
}

DEVICE void turned_tile(const Operands& o) {
    extern __shared__ __align__(256) unsigned char shared[];
    const u32 base = shared_address(shared);
    const Tile t = this_tile();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
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
    StepFactors factors_next;
#endif
    Sum sums[FRAGMENTS][EIGHTS][4] = {};
#if MOMENTS
    Moments moments[(PAIRS + WN - 1) / WN][2] = {};
#endif
    u32 columns_next[FRAGMENTS][4], rows_next[4];
    copy_async_wait<STAGES - 2>();
    __syncthreads();
    reader.read_columns(columns_next, 0, 0);
    Walk walk(first);
    reader.read_rows(rows_next, 0, 0, 0, walk.patch);
#if SCALED
    factors_next.read(shared, (first * STEPS * WK + warp_k * STEPS) * STEP, lane);
#endif
    int stage = 0;
    copy_part(copies, first, last, 0, 0);
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        u32 patch = walk.patch;
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            u32 columns[FRAGMENTS][4];
#pragma unroll
            for (int j = 0; j < FRAGMENTS; j++)
#pragma unroll
                for (int r = 0; r < 4; r++) columns[j][r] = columns_next[j][r];
#if SCALED
            const StepFactors factors = factors_next;
#endif
#pragma unroll
            for (int pair = 0; pair < PAIRS; pair++) {
                u32 rows[4] = {rows_next[0], rows_next[1], rows_next[2], rows_next[3]};
                if (pair < PAIRS - 1) {
                    reader.read_rows(rows_next, stage, step, pair + 1, patch);
                } else {
                    if (step == STEPS - 1) {
                        if (SPREAD) copy_async_commit();
                        copy_async_wait<STAGES - 2>();
                        __syncthreads();
                        // After the last tile there is none: then the reads are of this tile, for nobody.
                        const bool more = k_tile + 1 < last;
                        stage = !more ? stage : stage == STAGES - 1 ? 0 : stage + 1;
                        patch = walk.patch;
                    }
                    reader.read_columns(columns_next, stage, (step + 1) % STEPS);
                    reader.read_rows(rows_next, stage, (step + 1) % STEPS, 0, patch);
#if SCALED
                    // After the last tile there are none: then the reads are of this one, for nobody.
                    const int tile = k_tile + (step + 1) / STEPS < last ? k_tile + (step + 1) / STEPS : k_tile;
                    factors_next.read(shared, ((tile * WK + warp_k) * STEPS + (step + 1) % STEPS) * STEP, lane);
#endif
                    copy_part(copies, k_tile + (step + 1) / STEPS, last, stage, (step + 1) % STEPS);
                }
                if (!SPREAD && step == 0 && pair == 0) copy_ahead(copies, walk, k_tile, last, stage), walk.advance();
#if SCALED
#pragma unroll
                for (int r = 0; r < 4; r++)
                    if (pair * 2 + r / 2 < EIGHTS) rows[r] = scale_word(rows[r], r % 2 ? factors.high : factors.low);
#endif
#if MOMENTS
                if (pair % WN == warp / WM % WN)
#pragma unroll
                    for (int r = 0; r < 4; r++)
                        if (pair * 2 + r / 2 < EIGHTS) moments[pair / WN][r / 2].add(rows[r]);
#endif
#pragma unroll
                for (int j = 0; j < FRAGMENTS; j++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        if (pair * 2 + half < EIGHTS)
                            multiply_add(sums[j][pair * 2 + half], columns[j], rows[half * 2], rows[half * 2 + 1], AElement());
            }
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
    for (int e = 0; e < EIGHTS; e++)
        if (e / 2 % WN == warp / WM % WN) leave_moments(moments[e / 2 / WN][e % 2], warp_row + e * 8 + lane / 4, warp_k);
#endif
#if LANES
    if (MOMENTS) __syncthreads();
    finish_lanes(o, t, sums, bias);
#else
    // The accumulators go through shared memory so that a thread gets eight neighbouring columns. Where two warps along K share a place,
    // the second leaves its sums there and the first adds its own.
    constexpr int SHARING = STAGED < WK ? 2 : 1;
    Sum* const staged = (Sum*)shared + warp_k / SHARING * STAGE + (warp_row + lane % 4 * 2) * STAGE_PITCH;
#pragma unroll
    for (int part = SHARING - 1; part >= 0; part--) {
        if (warp_k % SHARING == part) {
#pragma unroll
            for (int j = 0; j < FRAGMENTS; j++)
#pragma unroll
                for (int e = 0; e < EIGHTS; e++)
#pragma unroll
                    for (int r = 0; r < 4; r++) {
                        Sum* to = staged + (e * 8 + r % 2) * STAGE_PITCH + staged_column(warp_column + j * 16 + r / 2 * 8 + lane / 4);
                        *to = SHARING > 1 && part == 0 ? sums[j][e][r] + *to : sums[j][e][r];
                    }
        }
        __syncthreads();
    }
    finish_tile(o, t, (Sum*)shared, bias[0], extras);
#endif
}
