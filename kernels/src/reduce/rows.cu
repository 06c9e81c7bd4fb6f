// GROUP threads join the elements behind each output.
extern "C" __global__ void __launch_bounds__(BLOCK) reduce_rows(const T* __restrict__ input, U* __restrict__ output) {
    wait_for_inputs();
    __shared__ State partial[BLOCK / 32];
    zero_lanes(output, blockIdx.x * BLOCK + threadIdx.x, gridDim.x * BLOCK);
    const u32 mine = blockIdx.x * (BLOCK / GROUP) + threadIdx.x / GROUP;
    // Threads without an output repeat the last one, since all of a warp take part in the exchange.
    const u32 row = mine < OUTPUTS ? mine : OUTPUTS - 1;
    const T* from = input + INPUT_OFFSET + outer_0(row);
    State state = identity();
#pragma unroll 4
    for (u32 i = threadIdx.x % GROUP * WIDTH; i < COUNT; i += GROUP * WIDTH) {
        const Vector<T, WIDTH> x = load_vector<WIDTH>(from + inner_0(i));
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) add(state, widen(x.v[v]), i + v);
    }
    state = join_group<GROUP>(state, Join{}, partial);
    launch_dependents();
    if (threadIdx.x % GROUP == 0 && mine < OUTPUTS) output[OUTPUT_OFFSET + outer_1(row)] = store_as<U>(finish(state));
}
