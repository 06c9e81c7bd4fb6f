// Attention of one head over a tile of QUERY_ROWS queries on the CUDA cores, in f32. LANES threads share a query: each
// takes every LANES-th key of a tile of BN keys for the scores, then every LANES-th column of the values.
constexpr int LANES = 8, QUERY_ROWS = THREADS / LANES;
constexpr int K_PITCH = SIZE + 1, V_PITCH = VALUE_SIZE + 1;
constexpr int COLUMNS = (VALUE_SIZE + LANES - 1) / LANES, SCORES = BN / LANES;

extern "C" __global__ void __launch_bounds__(THREADS, 4) attention_cuda_core(
    const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value, MASK_PARAMETER
    T* __restrict__ output) {
    wait_for_inputs();
    extern __shared__ f32 shared[];
    f32* const q_tile = shared;
    f32* const k_tile = q_tile + QUERY_ROWS * K_PITCH;
    f32* const v_tile = k_tile + BN * K_PITCH;
    f32* const weights = v_tile + BN * V_PITCH;
    const Tile tile = this_tile(QUERY_ROWS);
    const int r = threadIdx.x / LANES, lane = threadIdx.x % LANES, row = tile.first + r;
    const T* const queries = query + QUERY_AT(tile.batch, tile.head, tile.first);
    const T* const keys = key + KEY_AT(tile.batch, tile.head / GROUP, 0);
    const T* const values = value + VALUE_AT(tile.batch, tile.head / GROUP, 0);
    for (int i = threadIdx.x; i < QUERY_ROWS * SIZE; i += THREADS) {
        const int line = i / SIZE, column = i % SIZE;
        q_tile[line * K_PITCH + column] =
            tile.first + line < QUERIES ? to_f32(queries[line * QUERY_ROW + column * QUERY_COLUMN]) : 0.0f;
    }
    f32 top = LOWEST, total = 0.0f, sums[COLUMNS] = {};
#pragma unroll 1
    for (int first = 0; first < tile.seen; first += BN) {
        __syncthreads();
        for (int i = threadIdx.x; i < BN * SIZE; i += THREADS) {
            const int line = i / SIZE, column = i % SIZE;
            const bool inside = first + line < tile.seen;
            k_tile[line * K_PITCH + column] = inside ? to_f32(keys[(first + line) * KEY_ROW + column * KEY_COLUMN]) : 0.0f;
        }
        for (int i = threadIdx.x; i < BN * VALUE_SIZE; i += THREADS) {
            const int line = i / VALUE_SIZE, column = i % VALUE_SIZE;
            const bool inside = first + line < tile.seen;
            v_tile[line * V_PITCH + column] =
                inside ? to_f32(values[(first + line) * VALUE_ROW + column * VALUE_COLUMN]) : 0.0f;
        }
        __syncthreads();
        f32 scores[SCORES] = {};
#pragma unroll 4
        for (int d = 0; d < SIZE; ++d) {
            const f32 q = q_tile[r * K_PITCH + d];
#pragma unroll
            for (int j = 0; j < SCORES; ++j) scores[j] += q * k_tile[(j * LANES + lane) * K_PITCH + d];
        }
        f32 best = top;
#pragma unroll
        for (int j = 0; j < SCORES; ++j) {
            scores[j] = score(scores[j], tile, row, first + j * LANES + lane MASK_ARGUMENT);
            best = fmaxf(best, scores[j]);
        }
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
        // Where no key has been seen yet, every power is 0 whatever is subtracted.
        const f32 shift = best == LOWEST ? 0.0f : best, factor = exp2f(top - shift);
        top = best;
        total *= factor;
#pragma unroll
        for (int j = 0; j < SCORES; ++j) {
            const f32 weight = exp2f(scores[j] - shift);
            total += weight;
            weights[r * BN + j * LANES + lane] = weight;
        }
        __syncwarp();
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) sums[c] *= factor;
#pragma unroll 4
        for (int j = 0; j < BN; ++j) {
            const f32 weight = weights[r * BN + j];
#pragma unroll
            for (int c = 0; c < COLUMNS; ++c)
                if (VALUE_SIZE % LANES == 0 || c * LANES + lane < VALUE_SIZE)
                    sums[c] += weight * v_tile[j * V_PITCH + c * LANES + lane];
        }
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) total += __shfl_xor_sync(~0u, total, step);
    if (row >= QUERIES) return;
    T* const to = output + OUTPUT_AT(tile.batch, tile.head, row);
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
        const int column = c * LANES + lane;
        if (column < VALUE_SIZE) to[column * OUTPUT_COLUMN] = store_as<T>(sums[c] / total);
    }
}
