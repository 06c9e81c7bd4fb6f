// Channels-last instance normalisation: threads side by side own WIDTH neighbouring channels each, which are sets of
// their own; ROW_THREADS of them split the positions.
#define THREADS (COLUMN_THREADS * ROW_THREADS)

// Sum over the row threads of each column, for all of them.
DEVICE void total(W (&sum)[WIDTH], W (&partial)[ROW_THREADS][WIDTH][COLUMN_THREADS], u32 tx, u32 ty) {
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) partial[ty][v][tx] = sum[v];
    __syncthreads();
#pragma unroll
    for (u32 step = ROW_THREADS / 2; step > 0; step /= 2) {
        if (ty < step) {
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) partial[ty][v][tx] += partial[ty + step][v][tx];
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) sum[v] = partial[0][v][tx];
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS)
    normalize_columns(const T* __restrict__ input, SCALE_PARAMETER SHIFT_PARAMETER U* __restrict__ output) {
    wait_for_inputs();
    __shared__ W partial[ROW_THREADS][WIDTH][COLUMN_THREADS];
    zero_lanes(output, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    const u32 tx = threadIdx.x % COLUMN_THREADS, ty = threadIdx.x / COLUMN_THREADS;
    const u32 vector = blockIdx.x % COLUMN_BLOCKS * COLUMN_THREADS + tx, batch = blockIdx.x / COLUMN_BLOCKS;
    const u32 rows = vector < VECTORS ? COUNT : 0, column = vector * WIDTH;
    const T* from = input + INPUT_OFFSET + (offset_t)batch * INPUT_BATCH + column;
    U* to = output + OUTPUT_OFFSET + (offset_t)batch * OUTPUT_BATCH + column;
    W mean[WIDTH] = {}, sum[WIDTH] = {}, gain[WIDTH], bias[WIDTH];
#if CENTER
#pragma unroll 4
    for (u32 row = ty; row < rows; row += ROW_THREADS) {
        const Vector<T, WIDTH> x = *(const Vector<T, WIDTH>*)(from + positions_0(row));
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) sum[v] += widen(x.v[v]);
    }
    total(sum, partial, tx, ty);
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) mean[v] = sum[v] / (W)COUNT, sum[v] = 0;
#endif
#pragma unroll 4
    for (u32 row = ty; row < rows; row += ROW_THREADS) {
        const Vector<T, WIDTH> in = *(const Vector<T, WIDTH>*)(from + positions_0(row));
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            const W x = widen(in.v[v]) - mean[v];
            sum[v] += x * x;
        }
    }
    total(sum, partial, tx, ty);
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v) {
        // A channel is a set, and all its elements share a parameter.
        const bool channel = column + v < CHANNELS;
        const u32 p = channel ? PARAMETER(batch * CHANNELS + column + v, 0) : 0;
        (void)p;
        const W inverse = 1 / SQRT(sum[v] / (W)COUNT + (W)EPSILON);
        gain[v] = channel ? (W)(SCALE_VALUE(p)) * inverse : (W)0;
        bias[v] = channel ? (W)(SHIFT_VALUE(p)) : (W)0;
    }
#pragma unroll 4
    for (u32 row = ty; row < rows; row += ROW_THREADS) {
        const Vector<T, WIDTH> x = *(const Vector<T, WIDTH>*)(from + positions_0(row));
        Vector<U, WIDTH> y;
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            y.v[v] = column + v < CHANNELS ? store_as<U>((widen(x.v[v]) - mean[v]) * gain[v] + bias[v]) : U{};
        }
        *(Vector<U, WIDTH>*)(to + positions_1(row)) = y;
    }
}
