// One BM×BN tile of C = A·Bᵀ on CUDA cores: any strides and element types, arithmetic in f32.
//
// Both tiles are kept in shared memory as f32 with K outermost, in two buffers: while one is multiplied, the next
// comes from global memory into registers. A thread computes TM×TN elements.
constexpr int A_WIDTH = BM + 4, B_WIDTH = BN + 4;  // Floats of a line of K, padded against bank conflicts.
constexpr int BUFFER = BK * (A_WIDTH + B_WIDTH);
constexpr int K_TILES = (K + BK - 1) / BK;
constexpr int A_PIECES = BM * BK / A_VECTOR, B_PIECES = BN * BK / B_VECTOR;  // Loads of A_VECTOR elements along K.
constexpr int A_LOADS = (A_PIECES + THREADS - 1) / THREADS, B_LOADS = (B_PIECES + THREADS - 1) / THREADS;
static_assert(BM / TM * (BN / TN) == THREADS && TM % 4 == 0 && TN % 4 == 0, "tile");

// Place of piece `i` in a tile of ROWS rows: neighbouring threads take what lies together in memory.
template <int ROWS, int VECTOR, bool K_FIRST> DEVICE int row_of_piece(int i) {
    return K_FIRST ? i / (BK / VECTOR) : i % ROWS;
}
template <int ROWS, int VECTOR, bool K_FIRST> DEVICE int k_of_piece(int i) {
    return (K_FIRST ? i % (BK / VECTOR) : i / ROWS) * VECTOR;
}

DEVICE void simt_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    f32* const buffers = (f32*)shared;
    const Tile t = this_tile();
    const int thread = threadIdx.x;
    const int first = t.slice * K_TILES / SPLIT, last = (t.slice + 1) * K_TILES / SPLIT;
    const int row = thread / (BN / TN) * TM, column = thread % (BN / TN) * TN;

    Row rows[A_LOADS];
#pragma unroll
    for (int i = 0; i < A_LOADS; i++) {
        const int m = t.row + row_of_piece<BM, A_VECTOR, A_K_FIRST>(thread + i * THREADS);
        rows[i] = row_of_a(m < M ? m : 0, t.batch);
        rows[i].outside = m >= M;
    }
    const int b_batch = batch_of_b(t.batch);

    f32 next_a[A_LOADS][A_VECTOR], next_b[B_LOADS][B_VECTOR];
    auto load = [&](int k_tile) {
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + k_of_piece<BM, A_VECTOR, A_K_FIRST>(piece);
            const Tap tap = tap_of_a(k < K ? k : 0);
            const bool inside = piece < A_PIECES && k < K && !rows[i].outside && inside_of_a(rows[i], tap);
            Vector<AElement, A_VECTOR> v = {};
            if (inside) v = *(const Vector<AElement, A_VECTOR>*)(o.a + rows[i].offset + tap.offset);
#pragma unroll
            for (int j = 0; j < A_VECTOR; j++) next_a[i][j] = to_f32(v.v[j]);
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + k_of_piece<BN, B_VECTOR, B_K_FIRST>(piece);
            const int n = t.column + row_of_piece<BN, B_VECTOR, B_K_FIRST>(piece);
            Vector<BElement, B_VECTOR> v = {};
            if (piece < B_PIECES && k < K && n < N)
                v = *(const Vector<BElement, B_VECTOR>*)(o.b + b_batch + n * B_N + k_of_b(k));
#pragma unroll
            for (int j = 0; j < B_VECTOR; j++) next_b[i][j] = to_f32(v.v[j]);
        }
    };
    auto keep = [&](int buffer) {
        f32 *const a = buffers + buffer * BUFFER, *const b = a + BK * A_WIDTH;
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS;
            f32* const to = a + k_of_piece<BM, A_VECTOR, A_K_FIRST>(piece) * A_WIDTH + row_of_piece<BM, A_VECTOR, A_K_FIRST>(piece);
            if (A_PIECES % THREADS != 0 && piece >= A_PIECES) break;
#pragma unroll
            for (int j = 0; j < A_VECTOR; j++) to[j * A_WIDTH] = next_a[i][j];
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS;
            f32* const to = b + k_of_piece<BN, B_VECTOR, B_K_FIRST>(piece) * B_WIDTH + row_of_piece<BN, B_VECTOR, B_K_FIRST>(piece);
            if (B_PIECES % THREADS != 0 && piece >= B_PIECES) break;
#pragma unroll
            for (int j = 0; j < B_VECTOR; j++) to[j * B_WIDTH] = next_b[i][j];
        }
    };

    f32 sums[TM][TN] = {};
    if (first < last) load(first), keep(0);
    __syncthreads();
    Extras extras[PASSES];
    prefetch_extras(o, t, extras);
    int buffer = 0;
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        if (k_tile + 1 < last) load(k_tile + 1);
        const f32 *a = buffers + buffer * BUFFER + row, *b = buffers + buffer * BUFFER + BK * A_WIDTH + column;
#pragma unroll
        for (int k = 0; k < BK; k++) {
            f32 va[TM], vb[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) *(float4*)(va + i) = *(const float4*)(a + k * A_WIDTH + i);
#pragma unroll
            for (int j = 0; j < TN; j += 4) *(float4*)(vb + j) = *(const float4*)(b + k * B_WIDTH + j);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sums[i][j] = fmaf(va[i], vb[j], sums[i][j]);
        }
        buffer ^= 1;
        if (k_tile + 1 < last) keep(buffer);
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            *(float4*)(buffers + (row + i) * STAGE_PITCH + staged_column(column + j)) =
                make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
    __syncthreads();
    f32 bias[8];
    load_bias(o, bias, t.column + vector_of_pass(t, 0) % VECTORS_OF_ROW * 8, t.batch);
    finish_tile(o, t, buffers, bias, extras);
}
