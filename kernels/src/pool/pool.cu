// A thread computes WIDTH neighbouring channels of one output position. CLAMPED: a tap outside of the image reads the nearest
// inside, which its window has as well, so that no load waits for a condition.
DEVICE i32 place(i32 i, u32 extent) { return CLAMPED ? min(max(i, 0), (i32)extent - 1) : i; }

typedef Vector<T, WIDTH> Channels;

#if PACKED
struct Results {
    Largest<sizeof(Channels) / 4> largest;
    DEVICE void take(const Channels& in) { largest.take((const u32*)&in); }
    DEVICE Channels of(u32) const {
        Channels out;
        largest.give((u32*)&out);
        return out;
    }
};
#else
struct Results {
    R result[WIDTH];
    DEVICE Results() {
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) result[v] = MAXIMUM ? (R)(LOWEST) : (R)0;
    }
    DEVICE void take(const Channels& in) {
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) {
            const R x = (R)widen(in.v[v]);
            result[v] = MAXIMUM ? maximum(result[v], x) : result[v] + x;
        }
    }
    // `count` taps of an average.
    DEVICE Channels of(u32 count) const {
        Channels out;
#pragma unroll
        for (u32 v = 0; v < WIDTH; ++v) out.v[v] = store_as<T>((W)(MAXIMUM ? result[v] : count > 0 ? result[v] / (R)count : (R)0));
        return out;
    }
};
#endif

extern "C" __global__ void __launch_bounds__(BLOCK) pool(const T* __restrict__ input, T* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= VECTORS) return;
    DECODE
    const i32 z0 = (i32)o0 * STRIDE_0 - PAD_0, y0 = (i32)o1 * STRIDE_1 - PAD_1, x0 = (i32)o2 * STRIDE_2 - PAD_2;
    Results results;
    UNROLL
    for (i32 kz = 0; kz < WINDOW_0; ++kz) {
        const i32 z = place(z0 + kz * DILATION_0, EXTENT_0);
        if (!CLAMPED && (u32)z >= EXTENT_0) continue;
        UNROLL
        for (i32 ky = 0; ky < WINDOW_1; ++ky) {
            const i32 y = place(y0 + ky * DILATION_1, EXTENT_1);
            if (!CLAMPED && (u32)y >= EXTENT_1) continue;
            UNROLL
            for (i32 kx = 0; kx < WINDOW_2; ++kx) {
                const i32 x = place(x0 + kx * DILATION_2, EXTENT_2);
                if (!CLAMPED && (u32)x >= EXTENT_2) continue;
                results.take(load_vector<WIDTH>(
                    input + from + (offset_t)z * INPUT_0 + (offset_t)y * INPUT_1 + (offset_t)x * INPUT_2));
            }
        }
    }
    u32 count = 0;
#if !MAXIMUM
    // Taps that count: those from FIRST_d up to LIMIT_d along each dimension.
    u32 count_z = 0, count_y = 0, count_x = 0;
    for (i32 k = 0; k < WINDOW_0; ++k) count_z += z0 + k * DILATION_0 >= FIRST_0 && z0 + k * DILATION_0 < LIMIT_0;
    for (i32 k = 0; k < WINDOW_1; ++k) count_y += y0 + k * DILATION_1 >= FIRST_1 && y0 + k * DILATION_1 < LIMIT_1;
    for (i32 k = 0; k < WINDOW_2; ++k) count_x += x0 + k * DILATION_2 >= FIRST_2 && x0 + k * DILATION_2 < LIMIT_2;
    count = count_z * count_y * count_x;
#endif
    launch_dependents();
    Channels out = results.of(count);
#pragma unroll
    for (u32 v = 0; v < WIDTH; ++v)
        if (channel + v >= CHANNELS) out.v[v] = T{};
    *(Channels*)(output + to) = out;
}
