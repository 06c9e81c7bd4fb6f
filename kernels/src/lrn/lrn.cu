// A thread computes one element; neighbours in memory are neighbouring threads and share the window through the cache.
extern "C" __global__ void __launch_bounds__(BLOCK) lrn(const T* __restrict__ input, T* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const i32 channel = (i32)elements_2(thread);
    const T* from = input + INPUT_OFFSET + elements_0(thread);
    const i32 first = channel < BEFORE ? -channel : -BEFORE;
    const i32 last = CHANNELS - 1 - channel < AFTER ? CHANNELS - 1 - channel : AFTER;
    W squares = 0;
    for (i32 c = first; c <= last; ++c) {
        const W x = widen(from[(offset_t)c * INPUT_CHANNEL]);
        squares += x * x;
    }
    output[OUTPUT_OFFSET + elements_1(thread)] = store_as<T>(widen(*from) / raised((W)BIAS + (W)SCALE * squares));
}
