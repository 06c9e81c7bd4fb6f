// A block looks at TILE elements. The first launch counts those that are not zero, the second puts their indices where the
// counts of the blocks before say; columns that are left over are filled by the blocks that leave them over.
#define WARPS (THREADS / 32u)

DEVICE bool is_set(const T* input, u32 i) {
    return i < ELEMENTS && widen(input[input_at(i)]) != (W)0;
}

extern "C" __global__ void __launch_bounds__(THREADS) non_zero_count(const T* __restrict__ input, u32* counts) {
    wait_for_inputs();
    u32 count = 0;
    for (u32 start = blockIdx.x * TILE; start < (blockIdx.x + 1) * TILE; start += THREADS) {
        count += __syncthreads_count(is_set(input, start + threadIdx.x));
    }
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

extern "C" __global__ void __launch_bounds__(THREADS) non_zero_write(const T* __restrict__ input, const u32* counts,
                                                                     i64* indices, i64* count) {
    __shared__ u32 warps[2][WARPS];
    wait_for_inputs();
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 sums[2] = {0, 0};  // Of the blocks before, of all.
    for (u32 other = threadIdx.x; other < TILES; other += THREADS) {
        sums[0] += other < blockIdx.x ? counts[other] : 0;
        sums[1] += counts[other];
    }
#pragma unroll
    for (u32 s = 0; s < 2; ++s) {
        for (u32 mask = 16; mask > 0; mask /= 2) sums[s] += __shfl_xor_sync(0xffffffffu, sums[s], mask);
        if (lane == 0) warps[s][warp] = sums[s];
    }
    __syncthreads();
    u32 before = 0, total = 0;
    for (u32 w = 0; w < WARPS; ++w) {
        before += warps[0][w];
        total += warps[1][w];
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) count[COUNT_OFFSET] = (i64)total;
    const u32 first = blockIdx.x * TILE;
    u32 unused = total + first - before;
    for (u32 start = first; start < first + TILE && start < ELEMENTS; start += THREADS) {
        const u32 i = start + threadIdx.x;
        const bool set = is_set(input, i);
        const u32 mask = __ballot_sync(0xffffffffu, set);
        __syncthreads();
        if (lane == 0) warps[0][warp] = __popc(mask);
        __syncthreads();
        u32 place = __popc(mask & ((1u << lane) - 1u)), found = 0;
        for (u32 w = 0; w < WARPS; ++w) {
            place += w < warp ? warps[0][w] : 0;
            found += warps[0][w];
        }
        if (i < ELEMENTS) {
            // Of those that are zero there are as many before this one as are not among the set ones.
            const u32 column = set ? before + place : unused + (threadIdx.x - place);
            write_index(indices, column, i, set);
        }
        before += found;
        unused += THREADS - found;
    }
}
