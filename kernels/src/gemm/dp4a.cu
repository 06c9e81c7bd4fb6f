// One BM×BN tile of C = A·Bᵀ of 8-bit integers on CUDA cores: four products an instruction (sm_61 and later).
//
// Both tiles are kept in shared memory as words of four elements with K outermost, in two buffers: while one is
// multiplied, the next comes from global memory into registers. A thread computes TM×TN elements.
constexpr int WORDS = BK / 4;                      // Words of a row of a tile.
constexpr int A_WIDTH = BM + 4, B_WIDTH = BN + 4;  // Words of a line of K, padded against bank conflicts.
constexpr int BUFFER = WORDS * (A_WIDTH + B_WIDTH);
constexpr int K_TILES = (K + BK - 1) / BK;
constexpr int PIECES_OF_ROW = WORDS / VECTOR;      // Loads of VECTOR words.
constexpr int A_PIECES = BM * PIECES_OF_ROW, B_PIECES = BN * PIECES_OF_ROW;
constexpr int A_LOADS = (A_PIECES + THREADS - 1) / THREADS, B_LOADS = (B_PIECES + THREADS - 1) / THREADS;
static_assert(BM / TM * (BN / TN) == THREADS && TM % 4 == 0 && TN % 4 == 0 && WORDS % VECTOR == 0, "tile");

DEVICE void dp4a_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    u32* const buffers = (u32*)shared;
    const Tile t = this_tile();
    const int thread = threadIdx.x;
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
    const int row = thread / (BN / TN) * TM, column = thread % (BN / TN) * TN;

    Row rows[A_LOADS];
#pragma unroll
    for (int i = 0; i < A_LOADS; i++) {
        const int m = t.row + (thread + i * THREADS) / PIECES_OF_ROW;
        rows[i] = row_of_a(m < M ? m : 0, t.batch);
        rows[i].outside = m >= M;
    }
    const int b_batch = batch_of_b(t.batch);

    Vector<u32, VECTOR> next_a[A_LOADS], next_b[B_LOADS];
    auto load = [&](int k_tile) {
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + piece % PIECES_OF_ROW * VECTOR * 4;
            const Tap tap = tap_of_a(k < K ? k : 0);
#pragma unroll
            for (int j = 0; j < VECTOR; j++) next_a[i].v[j] = OUTSIDE_WORD;
            if (piece < A_PIECES && k < K && !rows[i].outside && inside_of_a(rows[i], tap))
                next_a[i] = *(const Vector<u32, VECTOR>*)(o.a + rows[i].offset + tap.offset);
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + piece % PIECES_OF_ROW * VECTOR * 4;
            const int n = t.column + piece / PIECES_OF_ROW;
            next_b[i] = Vector<u32, VECTOR>{};
            if (piece < B_PIECES && k < K && n < N)
                next_b[i] = *(const Vector<u32, VECTOR>*)(o.b + b_batch + n * B_N + k_of_b(k));
        }
    };
    auto keep = [&](int buffer) {
        u32 *const a = buffers + buffer * BUFFER, *const b = a + WORDS * A_WIDTH;
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS;
            if (A_PIECES % THREADS != 0 && piece >= A_PIECES) break;
            u32* const to = a + piece % PIECES_OF_ROW * VECTOR * A_WIDTH + piece / PIECES_OF_ROW;
#pragma unroll
            for (int j = 0; j < VECTOR; j++) to[j * A_WIDTH] = next_a[i].v[j];
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS;
            if (B_PIECES % THREADS != 0 && piece >= B_PIECES) break;
            u32* const to = b + piece % PIECES_OF_ROW * VECTOR * B_WIDTH + piece / PIECES_OF_ROW;
#pragma unroll
            for (int j = 0; j < VECTOR; j++) to[j * B_WIDTH] = next_b[i].v[j];
        }
    };

    u32 sums[TM][TN] = {};
    if (first < last) load(first), keep(0);
    __syncthreads();
    Extras extras[PASSES];
    prefetch_extras(o, t, extras);
    int buffer = 0;
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        if (k_tile + 1 < last) load(k_tile + 1);
        const u32 *a = buffers + buffer * BUFFER + row, *b = buffers + buffer * BUFFER + WORDS * A_WIDTH + column;
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            u32 va[TM], vb[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) *(uint4*)(va + i) = *(const uint4*)(a + k * A_WIDTH + i);
#pragma unroll
            for (int j = 0; j < TN; j += 4) *(uint4*)(vb + j) = *(const uint4*)(b + k * B_WIDTH + j);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sums[i][j] = multiply_add_4(va[i], vb[j], sums[i][j]);
        }
        buffer ^= 1;
        if (k_tile + 1 < last) keep(buffer);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            *(uint4*)(buffers + (row + i) * STAGE_PITCH + staged_column(column + j)) =
                make_uint4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
    __syncthreads();
    Bias bias[8];
    load_bias(o, bias, t.column + vector_of_pass(t, 0) % VECTORS_OF_ROW * 8, t.batch);
    finish_tile(o, t, buffers, bias, extras);
}
