// The sums of a warp's lanes, and of the WK warps that share its columns; lane i of their first has sum i. Their order depends on
// nothing but the shape.
template <int COUNT, typename T> DEVICE T add_up(T (&sums)[COUNT]) {
    static_assert(COUNT <= 32, "a lane for each sum");
    __shared__ T partial[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_k = warp % WK;
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], distance);
    T sum = 0;
#pragma unroll
    for (int i = 0; i < COUNT; i++) sum = lane == i ? sums[i] : sum;
    if (WK > 1) {
        partial[warp][lane] = sum;
        __syncthreads();
        for (int k = 1; warp_k == 0 && k < WK; k++) sum += partial[warp + k][lane];
    }
    return sum;
}
