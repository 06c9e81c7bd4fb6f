// One BM×BN tile of normalise(X)·B on tensor cores. The block normalises its BM rows into shared memory, whole, while
// the first tiles of B are on their way, then goes along K as any product. Rows in shared memory are 16 bytes longer than
// their elements, so that ldmatrix meets no bank conflict.
constexpr int K_TILES = (K + BK - 1) / BK;
constexpr int A_PITCH = K_TILES * BK + 8, B_PITCH = BK + 8;  // Elements.
constexpr int A_BYTES = BM * A_PITCH * 2, STAGE_BYTES = BN * B_PITCH * 2;
constexpr int WARPS = THREADS / 32, WARP_ROWS = BM / WM, WARP_COLUMNS = BN / WN;
constexpr int FRAGMENTS_M = WARP_ROWS / 16, FRAGMENTS_N = WARP_COLUMNS / 16, STEPS = BK / 16 / WK;
constexpr int STAGED_PITCH = BN + 8, STAGED = BM * STAGED_PITCH;  // Floats.
constexpr int ROW_VECTORS = (K_TILES * BK / 8 + 31) / 32;  // Vectors of eight that a thread has of a row.
constexpr int ROWS_OF_WARP = BM / WARPS;
constexpr int ROWS_AT_ONCE = ROW_VECTORS >= 3 ? 2 : ROWS_OF_WARP < 4 ? ROWS_OF_WARP : 4;
constexpr bool CONSTANT_PARAMETERS = (~CONSTANT_INPUTS & PARAMETER_INPUTS) == 0;
static_assert(BM % WARPS == 0 && ROWS_OF_WARP % ROWS_AT_ONCE == 0 && STEPS > 0, "tile");

DEVICE f32 mean_of(f32 sum) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    return sum / K;
}

// The parameters of the columns that this thread normalises, or `otherwise`.
DEVICE void load_parameters(f32 (&to)[ROW_VECTORS][8], const f32* values, int lane, f32 otherwise) {
#pragma unroll
    for (int v = 0; v < ROW_VECTORS; ++v) {
        const int column = (v * 32 + lane) * 8;
        const bool given = values && column < K;
        const float4 low = given ? *(const float4*)(values + column) : make_float4(otherwise, otherwise, otherwise, otherwise);
        const float4 high = given ? *(const float4*)(values + column + 4) : low;
        *(float4*)to[v] = low;
        *(float4*)(to[v] + 4) = high;
    }
}

DEVICE void normalized_tile(const Operands& o, const f32* scale, const f32* shift, AElement* kept) {
    extern __shared__ __align__(128) unsigned char shared[];
    const u32 a = shared_address(shared), ring = a + A_BYTES;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int first_row = blockIdx.x / N_TILES * BM, first_column = blockIdx.x % N_TILES * BN;
    const int warp_row = warp % WM * WARP_ROWS, warp_column = warp / WM % WN * WARP_COLUMNS, warp_k = warp / (WM * WN);

    auto copy_b = [&](int k_tile, int stage) {
        constexpr int CHUNKS = BK / 8;
#pragma unroll
        for (int i = thread; i < BN * CHUNKS; i += THREADS) {
            const int n = i / CHUNKS, k = k_tile * BK + i % CHUNKS * 8;
            const bool inside = first_column + n < N && k < K;
            const BElement* from = o.b + (inside ? batch_of_b(0) + (first_column + n) * B_N + k_of_b(k) : 0);
            copy_async<false>(ring + stage * STAGE_BYTES + n * B_PITCH * 2 + i % CHUNKS * 16, from, inside);
        }
    };
    if (!CONSTANT_PARAMETERS) wait_for_inputs();
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < K_TILES) copy_b(s, s);
        copy_async_commit();
    }
    {
        f32 scales[ROW_VECTORS][8], shifts[ROW_VECTORS][8];
        load_parameters(scales, scale, lane, 1);
        load_parameters(shifts, shift, lane, 0);
        if (CONSTANT_PARAMETERS) wait_for_inputs();
#pragma unroll 1
        for (int batch = 0; batch < ROWS_OF_WARP; batch += ROWS_AT_ONCE) {
            uint4 loaded[ROWS_AT_ONCE][ROW_VECTORS];
#pragma unroll
            for (int r = 0; r < ROWS_AT_ONCE; ++r) {
                const int row = first_row + warp * ROWS_OF_WARP + batch + r;
                const AElement* from = o.a + offset_of_a(row < M ? row : M - 1, 0);
#pragma unroll
                for (int v = 0; v < ROW_VECTORS; ++v) {
                    const int column = (v * 32 + lane) * 8;
                    loaded[r][v] = column < K ? *(const uint4*)(from + column) : make_uint4(0, 0, 0, 0);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS_AT_ONCE; ++r) {
                const int line = warp * ROWS_OF_WARP + batch + r, row = first_row + line;
                f32 x[ROW_VECTORS][8], mean = 0, sum = 0;
#pragma unroll
                for (int v = 0; v < ROW_VECTORS; ++v)
#pragma unroll
                    for (int j = 0; j < 8; ++j) sum += x[v][j] = to_f32(AElement{half_of(loaded[r][v], j)});
#if CENTER
                mean = mean_of(sum);
#endif
                sum = 0;
#pragma unroll
                for (int v = 0; v < ROW_VECTORS; ++v)
#pragma unroll
                    for (int j = 0; j < 8; ++j)
                        if ((v * 32 + lane) * 8 < K) sum += (x[v][j] - mean) * (x[v][j] - mean);
                const f32 inverse = 1 / sqrtf(mean_of(sum) + EPSILON);
#pragma unroll
                for (int v = 0; v < ROW_VECTORS; ++v) {
                    const int column = (v * 32 + lane) * 8;
                    if (column >= K_TILES * BK) continue;
                    Vector<AElement, 8> y;
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        const f32 value = (x[v][j] - mean) * (scales[v][j] * inverse) + shifts[v][j];
                        y.v[j] = store_as<AElement>(column < K ? value : 0.0f);
                    }
                    *(Vector<AElement, 8>*)(shared + (line * A_PITCH + column) * 2) = y;
                    if (kept && first_column == 0 && row < M && column < K)
                        *(Vector<AElement, 8>*)(kept + (i64)row * K + column) = y;
                }
            }
        }
    }

    f32 sums[FRAGMENTS_M][FRAGMENTS_N][2][4] = {};
    int stage = 0;
#pragma unroll 1
    for (int k_tile = 0; k_tile < K_TILES; ++k_tile) {
        copy_async_wait<STAGES - 2>();
        __syncthreads();
        const int next = k_tile + STAGES - 1;
        if (next < K_TILES) copy_b(next, stage == 0 ? STAGES - 1 : stage - 1);
        copy_async_commit();
        const u32 b = ring + stage * STAGE_BYTES;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const int k = (warp_k * STEPS + step) * 16;
            u32 fa[FRAGMENTS_M][4], fb[FRAGMENTS_N][4];
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
                load_matrices(fa[i], a + ((warp_row + i * 16 + lane % 16) * A_PITCH + k_tile * BK + k + lane / 16 * 8) * 2);
#pragma unroll
            for (int j = 0; j < FRAGMENTS_N; ++j)
                load_matrices(fb[j], b + ((warp_column + j * 16 + lane % 8 + lane / 16 * 8) * B_PITCH + k + lane / 8 % 2 * 8) * 2);
#pragma unroll
            for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
                for (int j = 0; j < FRAGMENTS_N; ++j) {
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
    for (int i = 0; i < FRAGMENTS_M; ++i)
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N * 2; ++j) {
            const f32(&c)[4] = sums[i][j / 2][j % 2];
            f32* to = staged + warp_k * STAGED + (warp_row + i * 16 + lane / 4) * STAGED_PITCH + warp_column + j * 8 + lane % 4 * 2;
            *(float2*)to = make_float2(c[0], c[1]);
            *(float2*)(to + 8 * STAGED_PITCH) = make_float2(c[2], c[3]);
        }
    __syncthreads();
    constexpr int VECTORS = BN / 8;
    static_assert(THREADS % VECTORS == 0, "a thread's vectors lie in one column");
    const int column = first_column + thread % VECTORS * 8;
    f32 bias[8];
    load_bias(o, bias, column, 0);
    for (int line = thread / VECTORS; line < BM; line += THREADS / VECTORS) {
        const int row = first_row + line;
        if (row >= M || column >= N_STORED) break;
        f32 sum[8] = {};
#pragma unroll
        for (int k = 0; k < WK; ++k)
#pragma unroll
            for (int j = 0; j < 8; ++j) sum[j] += staged[k * STAGED + line * STAGED_PITCH + thread % VECTORS * 8 + j];
        finish_vector(o, sum, bias, load_extras(o, row, column, 0), row, column, 0);
    }
}
