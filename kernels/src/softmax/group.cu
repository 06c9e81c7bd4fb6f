// GROUP threads own a row; its elements stay in registers, STEPS vectors a thread, or are read again where STEPS is 0.
DEVICE W exponential(W x) { return EXP(x); }

extern "C" __global__ void __launch_bounds__(BLOCK) softmax_group(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    __shared__ W partial[BLOCK / 32];
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 mine = blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP, lane = threadIdx.x % GROUP;
    // Threads without a row repeat the last one, since all of a warp take part in the exchange.
    const u32 row = mine < ROWS ? mine : ROWS - 1;
    const T* from = input + INPUT_OFFSET + rows_0(row);
    U* to = output + OUTPUT_OFFSET + rows_1(row);
#if STEPS > 0
    W x[STEPS][WIDTH];
    W top = LOWEST;
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * GROUP + lane) * WIDTH;
        if (i < COUNT) {
            const Vector<T, WIDTH> in = *(const Vector<T, WIDTH>*)(from + (offset_t)i * INPUT_STRIDE);
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) top = maximum(top, x[s][v] = widen(in.v[v]));
        }
    }
    top = join_group<GROUP>(top, Largest{}, partial);
    W total = 0;
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            if ((s * GROUP + lane) * WIDTH < COUNT) {
                x[s][v] -= top;
                const W e = exponential(x[s][v]);
                total += e;
#if !LOGARITHM
                x[s][v] = e;
#endif
            }
        }
    }
    total = join_group<GROUP>(total, Plus{}, partial);
    const W logarithm = LOG(total);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * GROUP + lane) * WIDTH;
        if (i < COUNT && mine < ROWS) {
            Vector<U, WIDTH> out;
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) {
                out.v[v] = store_as<U>(LOGARITHM ? x[s][v] - logarithm : x[s][v] / total);
            }
            *(Vector<U, WIDTH>*)(to + (offset_t)i * OUTPUT_STRIDE) = out;
        }
    }
#else
    W top = LOWEST;
    for (u32 i = lane; i < COUNT; i += GROUP) top = maximum(top, widen(from[(offset_t)i * INPUT_STRIDE]));
    top = join_group<GROUP>(top, Largest{}, partial);
    W total = 0;
    for (u32 i = lane; i < COUNT; i += GROUP) total += exponential(widen(from[(offset_t)i * INPUT_STRIDE]) - top);
    total = join_group<GROUP>(total, Plus{}, partial);
    const W logarithm = LOG(total);
    if (mine < ROWS) {
        for (u32 i = lane; i < COUNT; i += GROUP) {
            const W x = widen(from[(offset_t)i * INPUT_STRIDE]) - top;
            to[(offset_t)i * OUTPUT_STRIDE] = store_as<U>(LOGARITHM ? x - logarithm : exponential(x) / total);
        }
    }
#endif
}
