// A depthwise convolution over a band of rows with all channels, and the pointwise one that reads it.
//
// The lanes of a warp have sums of two vectors of channels at 16 outputs as an instruction wants 16 rows of A with 16 of K, so that
// what the depthwise convolution makes is multiplied where it lies (as in FlashAttention; Dao et al., 2022).

// Rows `r` of A: 16 outputs of the depthwise convolution, of channels 2 * step and 2 * step + 1 in eights.
struct Middle { u32 of[RUN][4]; };
DEVICE void depthwise_step(Middle& middle, const u16* filters, const f32* biases, u32 from, int channel, int lane) {
#pragma unroll
    for (int v = 0; v < 2; v++) {
        Filters kept;
        kept.read(filters + v * 8, lane);
        const float2 bias = *(const float2*)(biases + v * 8);
        f32 sums[RUN][4];
#pragma unroll
        for (int r = 0; r < RUN; r++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[r][i] = i % 2 ? bias.y : bias.x;
        add_taps(sums, kept, filters + v * 8, from + v * (PLANE * 16), lane);
#pragma unroll
        for (int r = 0; r < RUN; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                Vector<Element, 2> pair;
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const bool exists = channel + v * 8 + c < CHANNELS;
                    pair.v[c] = store_as<Element>(exists ? depthwise_program(sums[r][half * 2 + c]) : 0.0f);
                }
                middle.of[r][v * 2 + half] = *(const u32*)&pair;
            }
    }
}

DEVICE void separable_conv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Chunk* const filters = (Chunk*)shared;  // [tap][vector]
    uint4* const weights = (uint4*)(filters + FILTERS);
    f32* const biases = (f32*)(weights + WEIGHTS);
    Chunk* const band = (Chunk*)(biases + CHUNK_VECTORS * 8);
    const Place p = this_place();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (!CONSTANT_PARAMETERS) wait_for_inputs();

    copy_filters(o.filters, p, filters);
    copy_weights(o.weights, weights);
    for (int i = threadIdx.x; i < CHUNK_VECTORS * 8; i += THREADS) biases[i] = FILTER_BIAS && i < CHANNELS ? o.filter_bias[i] : 0.0f;
    // A lane's columns of a tile of 16, from the first on.
    const int column = lane % 4 * 4;
    f32 bias[COLUMN_TILES][4];
#pragma unroll
    for (int t = 0; t < COLUMN_TILES; t++)
#pragma unroll
        for (int c = 0; c < 4; c++) bias[t][c] = BIAS && t * 16 + column + c < COLUMNS ? o.bias[t * 16 + column + c] : 0.0f;
    fill_band(o.image, nullptr, nullptr, p, band);

    const u32 of_lane = shared_address(band + lane / 16 * place_of(0, DILATION_W));
    const u32 weights_at = weights_of_lane(weights, lane);
    // An item is RUN outputs, one below the other.
    const int outputs = LAST_ROWS == ROWS || p.band < BANDS - 1 ? ROWS : LAST_ROWS, items = (outputs + RUN - 1) / RUN * OUT_COLUMNS;
    int tile = warp * 16;
    bool landed = false;  // Whether the band and all weights are there.
#pragma unroll 1
    do {
        const int own = tile + lane % 16, item = own < items ? own : 0;
        const u32 from = of_lane + (item / OUT_COLUMNS * (RUN * STEP_H * PITCH) + item % OUT_COLUMNS) * 16;
        f32 sums[RUN][COLUMN_TILES][2][4] = {};
#pragma unroll 1
        for (int step = 0; step < K_STEPS; step++) {
            if (!landed) {
                if (step == 0) copy_async_wait<K_STEPS - 1>(); else copy_async_wait<0>();
                __syncthreads();
                landed = step > 0 || K_STEPS == 1;
            }
            Middle middle;
            const int channel = step * 16 + lane % 4 * 2;
            depthwise_step(middle, (const u16*)(filters + step * 2), biases + channel, from + step * (PLANE * 32), channel, lane);
#pragma unroll
            for (int t = 0; t < COLUMN_TILES; t++) {
                u32 b[4];
                load_weights(b, weights_at, t, step);
#pragma unroll
                for (int r = 0; r < RUN; r++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        multiply_add(sums[r][t][half], middle.of[r], b[half * 2], b[half * 2 + 1], Element());
            }
        }
        if (tile + WARPS * 16 >= items) launch_dependents();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int done = tile + lane / 4 + half * 8;
            const int line = done / OUT_COLUMNS * RUN;
            const Pixel first{p.image, p.row + line, done % OUT_COLUMNS};
#pragma unroll
            for (int r = 0; r < RUN; r++) {
                if (done >= items || line + r >= outputs) continue;
                const Pixel at{first.image, first.row + r, first.column};
                Element* const to = o.output + OUT_OFFSET + (offset_t)at.image * OUT_IMAGE + (offset_t)at.row * OUT_LINE + at.column * OUT_PIXEL;
#pragma unroll
                for (int t = 0; t < COLUMN_TILES; t++) {
                    const int channel = t * 16 + column;
                    if (OUT_LANES % 16 != 0 && channel >= OUT_LANES) continue;
                    const Extras extras = load_extras(o, at, channel);
                    Vector<Element, 4> y;
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        const f32 sum = sums[r][t][c / 2][half * 2 + c % 2] + bias[t][c];
                        y.v[c] = store_as<Element>(channel + c < COLUMNS ? finished(sum, extras, c) : 0.0f);
                    }
                    *(Vector<Element, 4>*)(to + channel) = y;
                }
            }
        }
        tile += WARPS * 16;
    } while (tile < items);
}
