// A block computes one row, BLOCK elements at a time: sums within warps by shuffles, over warps in shared memory.
DEVICE W shifted(W x, u32 distance) {
    if (sizeof(W) == 4) return __int_as_float(__shfl_up_sync(~0u, __float_as_int((f32)x), distance));
    union { W value; u64 bits; } pack;
    pack.value = x;
    const u32 low = __shfl_up_sync(~0u, (u32)pack.bits, distance);
    const u32 high = __shfl_up_sync(~0u, (u32)(pack.bits >> 32), distance);
    pack.bits = (u64)high << 32 | low;
    return pack.value;
}

extern "C" __global__ void __launch_bounds__(BLOCK) cumulative_block(const T* __restrict__ input, T* __restrict__ output) {
    __shared__ W sums[BLOCK / 32];
    wait_for_inputs();
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const T* const from = input + INPUT_OFFSET + rows_0(blockIdx.x);
    T* const to = output + OUTPUT_OFFSET + rows_1(blockIdx.x);
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    W carry = NEUTRAL;
    for (u32 start = 0; start < COUNT; start += BLOCK) {
        const u32 step = start + threadIdx.x;
        const u32 i = REVERSE ? COUNT - 1u - step : step;
        W sum = step < COUNT ? widen(from[(offset_t)i * INPUT_STRIDE]) : NEUTRAL;
        for (u32 distance = 1; distance < 32; distance *= 2) {
            const W other = shifted(sum, distance);
            if (lane >= distance) sum = JOIN(other, sum);
        }
        W before = shifted(sum, 1);
        if (lane == 0) before = NEUTRAL;
        if (lane == 31) sums[warp] = sum;
        __syncthreads();
        W earlier = carry;
        for (u32 w = 0; w < BLOCK / 32; ++w) {
            if (w == warp) {
                sum = JOIN(earlier, sum);
                before = JOIN(earlier, before);
            }
            earlier = JOIN(earlier, sums[w]);
        }
        carry = earlier;
        if (step < COUNT) to[(offset_t)i * OUTPUT_STRIDE] = store_as<T>(EXCLUSIVE ? before : sum);
        __syncthreads();
    }
}
