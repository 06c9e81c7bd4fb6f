// One warp a set of COUNT neighbours, kept in registers. Each thread has STEPS vectors of WIDTH elements and their scale
// and shift, which are loaded while the kernels before this one still run where no step writes them.
constexpr bool EARLY = (CONSTANT_INPUTS & PARAMETER_INPUTS) == PARAMETER_INPUTS;

// `values[i…]` of this thread, or `otherwise` where there are none.
DEVICE void load_parameters(f32 (&to)[STEPS][WIDTH], const f32* values, u32 lane, f32 otherwise) {
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * 32 + lane) * WIDTH;
        Vector<f32, WIDTH> loaded;
        if (values && i < COUNT) loaded = *(const Vector<f32, WIDTH>*)(values + i);
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) to[s][v] = values && i < COUNT ? loaded.v[v] : otherwise;
    }
}

DEVICE f32 mean_of(f32 sum) {
#pragma unroll
    for (u32 mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
    return sum / COUNT;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    normalize_rows(const T* __restrict__ input, SCALE_PARAMETER SHIFT_PARAMETER U* __restrict__ output) {
    if (!EARLY) wait_for_inputs();
    const u32 set = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    f32 scales[STEPS][WIDTH], shifts[STEPS][WIDTH], x[STEPS][WIDTH], mean = 0, sum = 0;
    load_parameters(scales, SCALE_POINTER, lane, 1);
    load_parameters(shifts, SHIFT_POINTER, lane, 0);
    if (EARLY) wait_for_inputs();
    if (set >= SETS) return;
    const T* const from = input + INPUT_OFFSET + sets_0(set);
    U* const to = output + OUTPUT_OFFSET + sets_1(set);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * 32 + lane) * WIDTH;
        Vector<T, WIDTH> in{};
        if (i < COUNT) in = load_vector<WIDTH>(from + i);
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) sum += x[s][v] = to_f32(in.v[v]);
    }
#if CENTER
    mean = mean_of(sum);
#endif
    sum = 0;
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v)
            if ((s * 32 + lane) * WIDTH < COUNT) sum += (x[s][v] - mean) * (x[s][v] - mean);
    }
    launch_dependents();
    const f32 inverse = 1 / sqrtf(mean_of(sum) + EPSILON);
#pragma unroll
    for (u32 s = 0; s < STEPS; ++s) {
        const u32 i = (s * 32 + lane) * WIDTH;
        Vector<U, WIDTH> out;
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v)
            out.v[v] = store_as<U>((x[s][v] - mean) * (scales[s][v] * inverse) + shifts[s][v]);
        if (i < COUNT) *(Vector<U, WIDTH>*)(to + i) = out;
    }
}
