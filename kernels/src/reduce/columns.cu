// Threads side by side own WIDTH neighbouring columns each; ROW_THREADS of them split the rows of a column.
extern "C" __global__ void __launch_bounds__(COLUMN_THREADS* ROW_THREADS)
    reduce_columns(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    __shared__ State partial[ROW_THREADS][WIDTH][COLUMN_THREADS];
    zero_lanes(output, blockIdx.x * COLUMN_THREADS * ROW_THREADS + threadIdx.x, gridDim.x * COLUMN_THREADS * ROW_THREADS);
    const u32 tx = threadIdx.x % COLUMN_THREADS, ty = threadIdx.x / COLUMN_THREADS;
    const u32 vector = blockIdx.x % COLUMN_BLOCKS * COLUMN_THREADS + tx, outer = blockIdx.x / COLUMN_BLOCKS;
    const bool inside = vector < VECTORS;
    State state[WIDTH];
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) state[v] = identity();
    if (inside) {
        const T* from = input + INPUT_OFFSET + outer_0(outer) + (offset_t)vector * WIDTH;
#pragma unroll 4
        for (u32 row = ty; row < COUNT; row += ROW_THREADS) {
            const Vector<T, WIDTH> x = *(const Vector<T, WIDTH>*)(from + inner_0(row));
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) add(state[v], widen(x.v[v]), row);
        }
    }
#pragma unroll
    for (u32 step = ROW_THREADS / 2; step > 0; step /= 2) {
        if (ty >= step && ty < 2 * step) {
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) partial[ty][v][tx] = state[v];
        }
        __syncthreads();
        if (ty < step) {
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) state[v] = Join{}(state[v], partial[ty + step][v][tx]);
        }
    }
    if (inside && ty == 0) {
        U* to = output + OUTPUT_OFFSET + outer_1(outer) + (offset_t)vector * WIDTH * OUTPUT_STRIDE;
        Vector<U, WIDTH> y;
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            y.v[v] = vector * WIDTH + v < COLUMNS ? store_as<U>(finish(state[v])) : U{};
        }
#if VECTOR_STORE
        *(Vector<U, WIDTH>*)to = y;
#else
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) to[(offset_t)v * OUTPUT_STRIDE] = y.v[v];
#endif
    }
}
