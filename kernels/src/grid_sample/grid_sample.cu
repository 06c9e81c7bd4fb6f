// A thread computes one element of the output.
DEVICE W reflected(W x, W low, W high) {
    const W range = high - low;
    if (range <= (W)0) return low;
    if (x >= low && x <= high) return x;
    const W distance = x < low ? low - x : x - high;
    const W times = FLOOR(distance / range);
    const W rest = FMA(-times, range, distance);
    const bool even = (i64)times % 2 == 0;
    return (x < low) == even ? low + rest : high - rest;
}

struct Taps {
    i32 index[TAPS];  // −1 where there is none.
    W weight[TAPS];
};

DEVICE Taps taps(W coordinate, i32 extent) {
    const W count = (W)extent;
#if COORDINATES == 1
    W x = (coordinate + (W)1) * (W)0.5 * (count - (W)1);
    const W low = (W)0, high = count - (W)1;
#else
#if COORDINATES == 0
    W x = ((coordinate + (W)1) * count - (W)1) * (W)0.5;
#else
    W x = coordinate;
#endif
    const W low = (W)-0.5, high = count - (W)0.5;
#endif
    x = x > (W)1e9 ? (W)1e9 : x;
    x = x > (W)-1e9 ? x : (W)-1e9;
#if TAPS == 1
    x = NEAREST(x);
#endif
#if TAPS == 4
    // Each pixel is treated by itself.
#elif OUTSIDE == 1
    x = x < low ? (W)0 : x > high ? count - (W)1 : x;
#elif OUTSIDE == 2
    x = reflected(x, low, high);
#endif
    const W base = FLOOR(x);
    const W t = x - base;
    Taps result;
#if TAPS == 1
    result.weight[0] = (W)1;
    const i64 first = (i64)base;
#elif TAPS == 2
    result.weight[0] = (W)1 - t;
    result.weight[1] = t;
    const i64 first = (i64)base;
#else
    // Said as fma: the compiler turns the constant's sign, and would leave the contraction to the driver.
    const W a = (W)-0.75, s = (W)1 - t, u = t + (W)1, v = s + (W)1;
    result.weight[0] = FMA(FMA(FMA(a, u, (W)-5 * a), u, (W)8 * a), u, (W)-4 * a);
    result.weight[1] = ((a + (W)2) * t - (a + (W)3)) * t * t + (W)1;
    result.weight[2] = ((a + (W)2) * s - (a + (W)3)) * s * s + (W)1;
    result.weight[3] = FMA(FMA(FMA(a, v, (W)-5 * a), v, (W)8 * a), v, (W)-4 * a);
    const i64 first = (i64)base - 1;
#endif
#pragma unroll
    for (i32 tap = 0; tap < TAPS; ++tap) {
        i64 index = first + tap;
        const bool inside = index >= 0 && index < extent;
#if OUTSIDE == 2
        if (!inside) index = (i64)reflected((W)index, low, high);
#endif
        index = index < 0 ? 0 : index >= extent ? extent - 1 : index;
        result.index[tap] = inside || OUTSIDE != 0 ? (i32)index : -1;
    }
    return result;
}

extern "C" __global__ void __launch_bounds__(BLOCK) grid_sample(const T* __restrict__ input, const G* __restrict__ grid,
                                                                T* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const G* const at = grid + grid_at(thread);
    const Taps x = taps(COORDINATE(at[0]), WIDTH), y = taps(COORDINATE(at[GRID_STEP]), HEIGHT);
    const T* const from = input + input_at(thread);
    W sum = (W)0;
#if DEPTH > 0
    const Taps z = taps(COORDINATE(at[2 * GRID_STEP]), DEPTH);
    for (i32 k = 0; k < TAPS; ++k) {
        if (z.index[k] < 0) continue;
        const T* const slice = from + (offset_t)z.index[k] * SLICE_STRIDE;
        const W a = z.weight[k];
#else
    {
        const T* const slice = from;
        const W a = (W)1;
#endif
#pragma unroll
        for (i32 j = 0; j < TAPS; ++j) {
            if (y.index[j] < 0) continue;
#pragma unroll
            for (i32 i = 0; i < TAPS; ++i) {
                if (x.index[i] < 0) continue;
                const T pixel = slice[(offset_t)y.index[j] * ROW_STRIDE + (offset_t)x.index[i] * COLUMN_STRIDE];
                sum += a * y.weight[j] * x.weight[i] * widen(pixel);
            }
        }
    }
    output[output_at(thread)] = store_as<T>(sum);
}
