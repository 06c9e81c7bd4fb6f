// GROUP threads own a set; its elements stay in registers, STEPS vectors a thread, or are read again where STEPS is 0.
struct Moments {
    W* partial;
    DEVICE W mean(W sum) const { return join_group<GROUP>(sum, Plus{}, partial) / (W)COUNT; }
};

DEVICE W normalized(W x, W mean, W inverse, u32 set, u32 i, SCALE_PARAMETER SHIFT_PARAMETER int) {
    const u32 p = PARAMETER(set, i);
    (void)p;
    return (x - mean) * ((W)(SCALE_VALUE(p)) * inverse) + (W)(SHIFT_VALUE(p));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    normalize_group(const T* __restrict__ input, SCALE_PARAMETER SHIFT_PARAMETER U* __restrict__ output) {
    wait_for_inputs();
    __shared__ W partial[BLOCK / 32];
    const Moments moments{partial};
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 mine = blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP, lane = threadIdx.x % GROUP;
    // Threads without a set repeat the last one, since all of a warp take part in the exchange.
    const u32 set = mine < SETS ? mine : SETS - 1;
    const T* from = input + INPUT_OFFSET;
    U* to = output + OUTPUT_OFFSET;
    W mean = 0, sum = 0;
#if STEPS > 0
    W x[STEPS][WIDTH];
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * GROUP + lane) * WIDTH;
        if (i < COUNT) {
            const Vector<T, WIDTH> in = *(const Vector<T, WIDTH>*)(from + INPUT_AT(set, i));
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) sum += x[s][v] = widen(in.v[v]);
        }
    }
#if CENTER
    mean = moments.mean(sum);
#endif
    sum = 0;
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            if ((s * GROUP + lane) * WIDTH < COUNT) sum += (x[s][v] - mean) * (x[s][v] - mean);
        }
    }
    const W inverse = 1 / SQRT(moments.mean(sum) + (W)EPSILON);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * GROUP + lane) * WIDTH;
        if (i < COUNT && mine < SETS) {
            Vector<U, WIDTH> out;
#pragma unroll
            for (u32 v = 0; v < WIDTH; ++v) {
                out.v[v] = store_as<U>(normalized(x[s][v], mean, inverse, set, i + v, SCALE_GIVEN SHIFT_GIVEN 0));
            }
            *(Vector<U, WIDTH>*)(to + OUTPUT_AT(set, i)) = out;
        }
    }
#else
#if CENTER
    for (u32 i = lane; i < COUNT; i += GROUP) sum += widen(from[INPUT_AT(set, i)]);
    mean = moments.mean(sum);
#endif
    sum = 0;
    for (u32 i = lane; i < COUNT; i += GROUP) {
        const W x = widen(from[INPUT_AT(set, i)]) - mean;
        sum += x * x;
    }
    const W inverse = 1 / SQRT(moments.mean(sum) + (W)EPSILON);
    if (mine < SETS) {
        for (u32 i = lane; i < COUNT; i += GROUP) {
            const W x = widen(from[INPUT_AT(set, i)]);
            to[OUTPUT_AT(set, i)] = store_as<U>(normalized(x, mean, inverse, set, i, SCALE_GIVEN SHIFT_GIVEN 0));
        }
    }
#endif
}
