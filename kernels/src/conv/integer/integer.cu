// A thread computes one element of the output.
extern "C" __global__ void __launch_bounds__(BLOCK) integer_conv(const T* __restrict__ input, const V* __restrict__ weights,
                                                                 i32* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const u32 image = image_of(thread), map = map_of(thread);
    const u32 place[3] = {place_0_of(thread), place_1_of(thread), place_2_of(thread)};
    const i32 a0 = (i32)place[0] * STRIDE_0 - PAD_0, a1 = (i32)place[1] * STRIDE_1 - PAD_1,
              a2 = (i32)place[2] * STRIDE_2 - PAD_2;
    const T* from = input + INPUT_OFFSET + (offset_t)image * INPUT_IMAGE + (offset_t)(map / MAPS * CHANNELS) * INPUT_CHANNEL;
    const V* weight = weights + WEIGHTS_OFFSET + (offset_t)map * WEIGHTS_MAP;
    u32 sum = 0;
    for (u32 channel = 0; channel < CHANNELS; ++channel, from += INPUT_CHANNEL, weight += WEIGHTS_CHANNEL) {
        for (i32 i = 0; i < TAPS_0; ++i) {
            const i32 x0 = a0 + i * DILATION_0;
            if ((u32)x0 >= EXTENT_0) continue;
            for (i32 j = 0; j < TAPS_1; ++j) {
                const i32 x1 = a1 + j * DILATION_1;
                if ((u32)x1 >= EXTENT_1) continue;
                for (i32 k = 0; k < TAPS_2; ++k) {
                    const i32 x2 = a2 + k * DILATION_2;
                    if ((u32)x2 >= EXTENT_2) continue;
                    const i32 x = (i32)from[(offset_t)x0 * INPUT_0 + (offset_t)x1 * INPUT_1 + (offset_t)x2 * INPUT_2];
                    const i32 w = (i32)weight[(offset_t)i * WEIGHTS_0 + (offset_t)j * WEIGHTS_1 + (offset_t)k * WEIGHTS_2];
                    sum += (u32)x * (u32)w;
                }
            }
        }
    }
    output[output_at(thread)] = (i32)sum;
}
