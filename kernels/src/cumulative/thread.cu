// A thread computes one row.
extern "C" __global__ void __launch_bounds__(BLOCK) cumulative_thread(const T* __restrict__ input, T* __restrict__ output) {
    wait_for_inputs();
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, row, gridDim.x * BLOCK);
    if (row >= ROWS) return;
    const T* const from = input + INPUT_OFFSET + rows_0(row);
    T* const to = output + OUTPUT_OFFSET + rows_1(row);
    W total = NEUTRAL;
    for (u32 step = 0; step < COUNT; ++step) {
        const u32 i = REVERSE ? COUNT - 1u - step : step;
        const W next = JOIN(total, widen(from[(offset_t)i * INPUT_STRIDE]));
        to[(offset_t)i * OUTPUT_STRIDE] = store_as<T>(EXCLUSIVE ? total : next);
        total = next;
    }
}
