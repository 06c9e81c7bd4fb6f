// Threads side by side own WIDTH neighbouring columns each; ROW_THREADS of them split the rows of a column. Then LANES threads join what
// those found of one column, which takes one barrier.
constexpr u32 BLOCK = COLUMN_THREADS * ROW_THREADS, COLUMNS_OF_BLOCK = COLUMN_THREADS * WIDTH;
constexpr u32 LANES = BLOCK > COLUMNS_OF_BLOCK ? BLOCK / COLUMNS_OF_BLOCK : 1;
constexpr u32 TURNS = (COUNT + ROW_THREADS - 1) / ROW_THREADS, AT_ONCE = TURNS < 4 ? TURNS : 4;  // Of a thread.

extern "C" __global__ void __launch_bounds__(BLOCK)
    reduce_columns(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    __shared__ State partial[WIDTH][BLOCK + 1];  // Free of bank conflicts for states of a word.
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 tx = threadIdx.x % COLUMN_THREADS, ty = threadIdx.x / COLUMN_THREADS;
    const u32 first = blockIdx.x % COLUMN_BLOCKS * COLUMN_THREADS, outer = blockIdx.x / COLUMN_BLOCKS;
    State state[WIDTH];
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) state[v] = identity();
    if (first + tx < VECTORS) {
        const T* from = input + INPUT_OFFSET + outer_0(outer) + (offset_t)(first + tx) * WIDTH;
#pragma unroll AT_ONCE
        for (u32 row = ty; row < COUNT; row += ROW_THREADS) {
            const Vector<T, WIDTH> x = load_vector<WIDTH>(from + inner_0(row));
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) add(state[v], widen(x.v[v]), row);
        }
    }
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) partial[v][threadIdx.x] = state[v];
    __syncthreads();
    launch_dependents();
#pragma unroll
    for (u32 some = 0; some < COLUMNS_OF_BLOCK; some += BLOCK / LANES) {
        const u32 own = some + threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const State* const of_column = partial[own % WIDTH] + own / WIDTH;
        State joined = of_column[lane * COLUMN_THREADS];
#pragma unroll
        for (u32 row = LANES; row < ROW_THREADS; row += LANES)
            joined = Join{}(joined, of_column[(row + lane) * COLUMN_THREADS]);
        joined = join_group<LANES>(joined, Join{}, (State*)nullptr);
        const u32 column = first * WIDTH + own;
        if (lane == 0 && column < VECTORS * WIDTH)
            output[OUTPUT_OFFSET + outer_1(outer) + (offset_t)column * OUTPUT_STRIDE] =
                column < COLUMNS ? store_as<U>(finish(joined)) : U{};
    }
}
