// A thread looks through one window.
extern "C" __global__ void __launch_bounds__(BLOCK) pool_indices(const T* __restrict__ input, i64* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const T* const from = input + INPUT_OFFSET + from_of(thread);
    const i32 a0 = (i32)place_0_of(thread) * STRIDE_0 - PAD_0, a1 = (i32)place_1_of(thread) * STRIDE_1 - PAD_1,
              a2 = (i32)place_2_of(thread) * STRIDE_2 - PAD_2;
    W largest = (W)0;
    i64 number = 0;
    bool any = false;
    for (i32 i = 0; i < WINDOW_0; ++i) {
        const i32 x0 = a0 + i * DILATION_0;
        if ((u32)x0 >= EXTENT_0) continue;
        for (i32 j = 0; j < WINDOW_1; ++j) {
            const i32 x1 = a1 + j * DILATION_1;
            if ((u32)x1 >= EXTENT_1) continue;
            for (i32 k = 0; k < WINDOW_2; ++k) {
                const i32 x2 = a2 + k * DILATION_2;
                if ((u32)x2 >= EXTENT_2) continue;
                const W x = widen(from[(offset_t)x0 * INPUT_0 + (offset_t)x1 * INPUT_1 + (offset_t)x2 * INPUT_2]);
                if (any && !(x > largest || (x != x && largest == largest))) continue;
                largest = x;
                number = base_of(thread) + (i64)x0 * NUMBER_0 + (i64)x1 * NUMBER_1 + (i64)x2 * NUMBER_2;
                any = true;
            }
        }
    }
    output[OUTPUT_OFFSET + to_of(thread)] = number;
}
