// A thread computes one bin of one channel.
struct Side {
    W start, bin;
    u32 samples;
};

DEVICE Side side(W low, W high, u32 bins) {
    const W start = fma(low, (W)SCALE, -(W)HALF), end = fma(high, (W)SCALE, -(W)HALF);
    W size = end - start;
#if AT_LEAST_ONE
    size = size < (W)1 ? (W)1 : size;
#endif
    Side result = {start, size / (W)bins, SAMPLES};
#if SAMPLES == 0
    result.samples = result.bin <= (W)0 ? 0u : result.bin < (W)MOST_SAMPLES ? (u32)CEIL(result.bin) : MOST_SAMPLES;
#endif
    return result;
}

DEVICE bool between(Side side, u32 bin, u32 sample, i32 extent, i32* first, i32* second, W* weight) {
    W place = side.start + (W)bin * side.bin + ((W)sample + (W)0.5) * side.bin / (W)side.samples;
    if (!(place >= (W)-1 && place <= (W)extent)) return false;
    place = place < (W)0 ? (W)0 : place;
    const i32 low = (i32)place;
    const bool last = low >= extent - 1;
    *first = last ? extent - 1 : low;
    *second = last ? extent - 1 : low + 1;
    *weight = last ? (W)0 : place - (W)low;
    return true;
}

extern "C" __global__ void __launch_bounds__(BLOCK) roi_align(const T* __restrict__ input, const G* __restrict__ regions,
                                                              const i64* __restrict__ batch, T* __restrict__ output) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * BLOCK + threadIdx.x;
    zero_lanes(output, thread, gridDim.x * BLOCK);
    if (thread >= ELEMENTS) return;
    const u32 j = thread % COLUMNS, i = thread / COLUMNS % ROWS;
    const u32 channel = thread / (COLUMNS * ROWS) % CHANNELS, region = thread / (COLUMNS * ROWS * CHANNELS);
    const Side y = side(CORNER(regions[regions_at(region, 1)]), CORNER(regions[regions_at(region, 3)]), ROWS);
    const Side x = side(CORNER(regions[regions_at(region, 0)]), CORNER(regions[regions_at(region, 2)]), COLUMNS);
    i64 image = batch[batch_at(region)];
    image = image < 0 ? 0 : image >= IMAGES ? IMAGES - 1 : image;
    W sum = (W)0, largest = (W)0;
    bool any = false;
    for (u32 a = 0; a < y.samples; ++a) {
        i32 top, bottom;
        W v;
        const bool row = between(y, i, a, HEIGHT, &top, &bottom, &v);
        for (u32 b = 0; b < x.samples; ++b) {
            i32 left, right;
            W u, parts[4] = {(W)0, (W)0, (W)0, (W)0};
            if (between(x, j, b, WIDTH, &left, &right, &u) && row) {
                parts[0] = ((W)1 - v) * ((W)1 - u) * widen(input[input_at(image, channel, top, left)]);
                parts[1] = ((W)1 - v) * u * widen(input[input_at(image, channel, top, right)]);
                parts[2] = v * ((W)1 - u) * widen(input[input_at(image, channel, bottom, left)]);
                parts[3] = v * u * widen(input[input_at(image, channel, bottom, right)]);
            }
            sum += parts[0] + parts[1] + parts[2] + parts[3];
            W best = parts[0];
            for (i32 n = 1; n < 4; ++n) best = parts[n] > best ? parts[n] : best;
            largest = any && largest > best ? largest : best;
            any = true;
        }
    }
    const u32 samples = y.samples * x.samples;
    output[output_at(region, channel, i, j)] = store_as<T>(MAXIMUM ? largest : sum / (W)(samples > 0 ? samples : 1u));
}
