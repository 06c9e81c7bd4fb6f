// A thread computes one bin of one channel: the largest of the pixels that it covers.
struct Side {
    i64 start;
    f32 bin;
};

DEVICE i64 pixel(G corner) {
    const f32 place = roundf(__fmul_rn((f32)to_f64(corner), SCALE));
    return place != place ? 0 : (i64)(place < -1e9f ? -1e9f : place > 1e9f ? 1e9f : place);
}

DEVICE Side side(G low, G high, u32 bins) {
    const i64 start = pixel(low), size = pixel(high) - start + 1;
    return {start, __fdiv_rn((f32)(size < 1 ? 1 : size), (f32)bins)};
}

DEVICE i64 inside(f32 pixel, i64 start, i64 extent) {
    const i64 place = (i64)pixel + start;
    return place < 0 ? 0 : place > extent ? extent : place;
}

extern "C" __global__ void __launch_bounds__(BLOCK) roi_cells(const T* __restrict__ input, const G* __restrict__ regions,
                                                              const i64* __restrict__ batch, T* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const u32 j = thread % COLUMNS, i = thread / COLUMNS % ROWS;
    const u32 channel = thread / (COLUMNS * ROWS) % CHANNELS, region = thread / (COLUMNS * ROWS * CHANNELS);
    const Side y = side(regions[regions_at(region, 1)], regions[regions_at(region, 3)], ROWS);
    const Side x = side(regions[regions_at(region, 0)], regions[regions_at(region, 2)], COLUMNS);
    i64 image = batch[batch_at(region)];
    image = image < 0 ? 0 : image >= IMAGES ? IMAGES - 1 : image;
    const i64 bottom = inside(ceilf(__fmul_rn((f32)(i + 1), y.bin)), y.start, HEIGHT);
    const i64 left = inside(floorf(__fmul_rn((f32)j, x.bin)), x.start, WIDTH);
    const i64 right = inside(ceilf(__fmul_rn((f32)(j + 1), x.bin)), x.start, WIDTH);
    W largest = (W)0;
    bool any = false;
    for (i64 row = inside(floorf(__fmul_rn((f32)i, y.bin)), y.start, HEIGHT); row < bottom; ++row) {
        for (i64 column = left; column < right; ++column) {
            const W value = widen(input[input_at(image, channel, row, column)]);
            largest = !any || value > largest ? value : largest;
            any = true;
        }
    }
    output[output_at(region, channel, i, j)] = store_as<T>(largest);
}
