// A block eliminates a matrix, which it has copied to f64.
extern "C" __global__ void __launch_bounds__(BLOCK) determinant(const T* __restrict__ input, f64* matrices,
                                                                T* __restrict__ output) {
    __shared__ u32 shared_best;
    wait_for_inputs();
    f64* const matrix = matrices + (u64)blockIdx.x * N * N;
    for (u32 i = threadIdx.x; i < N * N; i += BLOCK) matrix[i] = to_f64(input[input_at(blockIdx.x, i / WIDTH, i % WIDTH)]);
    f64 product = 1.0;
    for (u32 k = 0; k < N; ++k) {
        __syncthreads();
        if (threadIdx.x == 0) {
            u32 best = k;
            for (u32 row = k + 1; row < N; ++row) {
                if (fabs(matrix[row * N + k]) > fabs(matrix[best * N + k])) best = row;
            }
            shared_best = best;
        }
        __syncthreads();
        const u32 best = shared_best;
        const f64 pivot = matrix[best * N + k];
        product *= best == k ? pivot : -pivot;
        if (pivot == 0.0) continue;
        __syncthreads();
        for (u32 column = k + threadIdx.x; column < N; column += BLOCK) {
            const f64 held = matrix[k * N + column];
            matrix[k * N + column] = matrix[best * N + column];
            matrix[best * N + column] = held;
        }
        __syncthreads();
        const u32 rest = N - k - 1;
        for (u32 i = threadIdx.x; i < rest * rest; i += BLOCK) {
            const u32 row = k + 1 + i / rest, column = k + 1 + i % rest;
            const f64 factor = matrix[row * N + k] / pivot;
            matrix[row * N + column] = __dsub_rn(matrix[row * N + column], __dmul_rn(factor, matrix[k * N + column]));
        }
    }
    if (threadIdx.x == 0) output[output_at(blockIdx.x)] = store_as<T>(product);
}
