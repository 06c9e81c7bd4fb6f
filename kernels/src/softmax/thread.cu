// A thread owns a row: for rows whose elements lie far apart and whose neighbours are other rows.
DEVICE W exponential(W x) { return EXP(x); }

extern "C" __global__ void __launch_bounds__(BLOCK) softmax_thread(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= ROWS) return;
    const T* from = input + INPUT_OFFSET + rows_0(row);
    U* to = output + OUTPUT_OFFSET + rows_1(row);
    W top = LOWEST;
    for (u32 i = 0; i < COUNT; ++i) top = maximum(top, widen(from[(offset_t)i * INPUT_STRIDE]));
    W total = 0;
    for (u32 i = 0; i < COUNT; ++i) total += exponential(widen(from[(offset_t)i * INPUT_STRIDE]) - top);
    const W logarithm = LOG(total);
    for (u32 i = 0; i < COUNT; ++i) {
        const W x = widen(from[(offset_t)i * INPUT_STRIDE]) - top;
        to[(offset_t)i * OUTPUT_STRIDE] = store_as<U>(LOGARITHM ? x - logarithm : exponential(x) / total);
    }
}
