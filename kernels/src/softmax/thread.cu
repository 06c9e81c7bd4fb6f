// A thread owns a row: for rows whose elements lie far apart and whose neighbours are other rows, and for short ones, which it keeps in
// registers.
DEVICE W exponential(W x) { return EXP(x); }

extern "C" __global__ void __launch_bounds__(BLOCK) softmax_thread(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= ROWS) return;
    const T* from = input + INPUT_OFFSET + rows_0(row);
    U* to = output + OUTPUT_OFFSET + rows_1(row);
    W top = LOWEST, total = 0;
#if IN_REGISTERS
    W x[COUNT];
#pragma unroll
    for (u32 i = 0; i < COUNT; i += LOADED) {
        const Vector<T, LOADED> in = *(const Vector<T, LOADED>*)(from + (offset_t)i * INPUT_STRIDE);
#pragma unroll
        for (u32 v = 0; v < LOADED; ++v) top = maximum(top, x[i + v] = widen(in.v[v]));
    }
#pragma unroll
    for (u32 i = 0; i < COUNT; ++i) {
        x[i] -= top;
        const W e = exponential(x[i]);
        total += e;
#if !LOGARITHM
        x[i] = e;
#endif
    }
    const W logarithm = LOG(total);
#pragma unroll
    for (u32 i = 0; i < COUNT; i += STORED) {
        Vector<U, STORED> out;
#pragma unroll
        for (u32 v = 0; v < STORED; ++v) out.v[v] = store_as<U>(LOGARITHM ? x[i + v] - logarithm : x[i + v] / total);
        *(Vector<U, STORED>*)(to + (offset_t)i * OUTPUT_STRIDE) = out;
    }
#else
    for (u32 i = 0; i < COUNT; ++i) top = maximum(top, widen(from[(offset_t)i * INPUT_STRIDE]));
    for (u32 i = 0; i < COUNT; ++i) total += exponential(widen(from[(offset_t)i * INPUT_STRIDE]) - top);
    const W logarithm = LOG(total);
    for (u32 i = 0; i < COUNT; ++i) {
        const W x = widen(from[(offset_t)i * INPUT_STRIDE]) - top;
        to[(offset_t)i * OUTPUT_STRIDE] = store_as<U>(LOGARITHM ? x - logarithm : exponential(x) / total);
    }
#endif
}
