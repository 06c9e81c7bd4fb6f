// One BM×BN tile of C = A·Bᵀ on CUDA cores.
//
// Both tiles are kept in shared memory with K outermost, in two buffers: while one is multiplied, the next comes from
// global memory into registers. A thread computes TM×TN elements.
#ifdef A_LETTER
// Integers of 8 bits: what lies in shared memory are words of four, multiplied by one instruction (sm_61 and later).
typedef u32 AUnit, BUnit;
constexpr int ELEMENTS = 4;
template <int COUNT> DEVICE Vector<u32, COUNT> outside_units() {
    Vector<u32, COUNT> units;
#pragma unroll
    for (int i = 0; i < COUNT; i++) units.v[i] = OUTSIDE_WORD;
    return units;
}
DEVICE u32 unit(u32 x) { return x; }
DEVICE u32 multiply_add(u32 a, u32 b, u32 sum) { return multiply_add_4(a, b, sum); }
#else
// Floats, of any strides: what lies in shared memory is f32.
typedef AElement AUnit;
typedef BElement BUnit;
constexpr int ELEMENTS = 1;
template <int COUNT> DEVICE Vector<AElement, COUNT> outside_units() { return {}; }
template <typename T> DEVICE f32 unit(T x) { return to_f32(x); }
DEVICE f32 multiply_add(f32 a, f32 b, f32 sum) { return fmaf(a, b, sum); }
#endif
constexpr int UNITS = BK / ELEMENTS;               // Of a row of a tile.
constexpr int A_WIDTH = BM + 4, B_WIDTH = BN + 4;  // Units of a line of K, padded against bank conflicts.
constexpr int BUFFER = UNITS * (A_WIDTH + B_WIDTH);
constexpr int K_TILES = (K + BK - 1) / BK;
constexpr int A_PIECES = BM * UNITS / A_VECTOR, B_PIECES = BN * UNITS / B_VECTOR;  // Loads of A_VECTOR units along K.
constexpr int A_LOADS = (A_PIECES + THREADS - 1) / THREADS, B_LOADS = (B_PIECES + THREADS - 1) / THREADS;
static_assert(BM / TM * (BN / TN) == THREADS && TM % 4 == 0 && TN % 4 == 0 && UNITS % A_VECTOR == 0, "tile");

// Place of piece `i` in a tile of ROWS rows: neighbouring threads take what lies together in memory.
template <int ROWS, int VECTOR, bool K_FIRST> DEVICE int row_of_piece(int i) {
    return K_FIRST ? i / (UNITS / VECTOR) : i % ROWS;
}
template <int ROWS, int VECTOR, bool K_FIRST> DEVICE int unit_of_piece(int i) {
    return (K_FIRST ? i % (UNITS / VECTOR) : i / ROWS) * VECTOR;
}

DEVICE void simt_tile(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Sum* const buffers = (Sum*)shared;
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

    Vector<Sum, A_VECTOR> next_a[A_LOADS];
    Vector<Sum, B_VECTOR> next_b[B_LOADS];
    auto load = [&](int k_tile) {
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + unit_of_piece<BM, A_VECTOR, A_K_FIRST>(piece) * ELEMENTS;
            const Tap tap = tap_of_a(k < K ? k : 0);
            Vector<AUnit, A_VECTOR> v = outside_units<A_VECTOR>();
            if (piece < A_PIECES && k < K && !rows[i].outside && inside_of_a(rows[i], tap))
                v = *(const Vector<AUnit, A_VECTOR>*)(o.a + rows[i].offset + tap.offset);
#pragma unroll
            for (int j = 0; j < A_VECTOR; j++) next_a[i].v[j] = unit(v.v[j]);
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS, k = k_tile * BK + unit_of_piece<BN, B_VECTOR, B_K_FIRST>(piece) * ELEMENTS;
            const int n = t.column + row_of_piece<BN, B_VECTOR, B_K_FIRST>(piece);
            Vector<BUnit, B_VECTOR> v = {};
            if (piece < B_PIECES && k < K && n < N)
                v = *(const Vector<BUnit, B_VECTOR>*)(o.b + b_batch + n * B_N + k_of_b(k));
#pragma unroll
            for (int j = 0; j < B_VECTOR; j++) next_b[i].v[j] = unit(v.v[j]);
        }
    };
    auto keep = [&](int buffer) {
        Sum *const a = buffers + buffer * BUFFER, *const b = a + UNITS * A_WIDTH;
#pragma unroll
        for (int i = 0; i < A_LOADS; i++) {
            const int piece = thread + i * THREADS;
            Sum* const to = a + unit_of_piece<BM, A_VECTOR, A_K_FIRST>(piece) * A_WIDTH + row_of_piece<BM, A_VECTOR, A_K_FIRST>(piece);
            if (A_PIECES % THREADS != 0 && piece >= A_PIECES) break;
#pragma unroll
            for (int j = 0; j < A_VECTOR; j++) to[j * A_WIDTH] = next_a[i].v[j];
        }
#pragma unroll
        for (int i = 0; i < B_LOADS; i++) {
            const int piece = thread + i * THREADS;
            Sum* const to = b + unit_of_piece<BN, B_VECTOR, B_K_FIRST>(piece) * B_WIDTH + row_of_piece<BN, B_VECTOR, B_K_FIRST>(piece);
            if (B_PIECES % THREADS != 0 && piece >= B_PIECES) break;
#pragma unroll
            for (int j = 0; j < B_VECTOR; j++) to[j * B_WIDTH] = next_b[i].v[j];
        }
    };

    Sum sums[TM][TN] = {};
    if (first < last) load(first), keep(0);
    __syncthreads();
    Extras extras[BATCH] = {};
    if (BEFORE_LOOP) read_extras(o, t, 0, extras);
    int buffer = 0;
#pragma unroll 1
    for (int k_tile = first; k_tile < last; k_tile++) {
        if (k_tile + 1 < last) load(k_tile + 1);
        const Sum *a = buffers + buffer * BUFFER + row, *b = buffers + buffer * BUFFER + UNITS * A_WIDTH + column;
#pragma unroll
        for (int k = 0; k < UNITS; k++) {
            Sum va[TM], vb[TN];
#pragma unroll
            for (int i = 0; i < TM; i += 4) *(Sum4*)(va + i) = *(const Sum4*)(a + k * A_WIDTH + i);
#pragma unroll
            for (int j = 0; j < TN; j += 4) *(Sum4*)(vb + j) = *(const Sum4*)(b + k * B_WIDTH + j);
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sums[i][j] = multiply_add(va[i], vb[j], sums[i][j]);
        }
        buffer ^= 1;
        if (k_tile + 1 < last) keep(buffer);
        __syncthreads();
    }

    if (READS_AHEAD && !BEFORE_LOOP) read_extras(o, t, 0, extras);
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
        for (int j = 0; j < TN; j += 4)
            *(Sum4*)(buffers + (row + i) * STAGE_PITCH + staged_column(column + j)) =
                Sum4{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
    __syncthreads();
    Bias bias[8];
    load_bias(o, bias, t.column + column_in_tile(), t.batch);
    finish_tile(o, t, buffers, bias, extras);
}
