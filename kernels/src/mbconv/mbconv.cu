// Expansion, depthwise convolution and averages of 8 * CHUNK_VECTORS channels over a band of rows.
static_assert(WARPS % CHUNK_VECTORS == 0, "a warp stays with one vector");

DEVICE void mbconv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Chunk* const filters = (Chunk*)shared;  // [tap][vector]
    Chunk* const band = filters + FILTERS;
    const Place p = this_place();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Weights and biases that no step writes need not wait for the kernel before.
    if (!CONSTANT_PARAMETERS) wait_for_inputs();

    copy_filters(o.filters, p, filters);
    fill_band(o.image, o.expand, o.expand_bias, p, band);

    const int v = warp % CHUNK_VECTORS, channel = (p.vector + v) * 8;
    f32 bias[2];
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int own = channel + lane % 4 * 2 + c;
        bias[c] = FILTER_BIAS && own < CHANNELS ? o.filter_bias[own] : 0.0f;
    }
#if GATE
    const GateAhead ahead = begin_gate(o.gate, p.vector);
#endif
    copy_async_commit();
    copy_async_wait<0>();
    __syncthreads();

    const u16* const of_vector = (const u16*)(filters + v);
    Filters kept;
    kept.read(of_vector, lane);
    const u32 of_lane = shared_address(band + v * PLANE + lane / 16 * place_of(0, DILATION_W));
    // An item is RUN outputs, one below the other.
    const int outputs = LAST_ROWS == ROWS || p.band < BANDS - 1 ? ROWS : LAST_ROWS, items = (outputs + RUN - 1) / RUN * OUT_COLUMNS;
    f32 totals[2] = {};
#pragma unroll 1
    for (int tile = warp / CHUNK_VECTORS * 16; tile < items && channel < LANES; tile += WARPS / CHUNK_VECTORS * 16) {
        const int own = tile + lane % 16, item = own < items ? own : tile;
        const u32 from = of_lane + (item / OUT_COLUMNS * (RUN * STEP_H * PITCH) + item % OUT_COLUMNS) * 16;
        f32 sums[RUN][4];
#pragma unroll
        for (int r = 0; r < RUN; r++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[r][i] = bias[i % 2];
        add_taps(sums, kept, of_vector, from, lane);
        if (!GATE && tile + WARPS / CHUNK_VECTORS * 16 >= items) launch_dependents();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int done = tile + lane / 4 + half * 8;
            const int line = done / OUT_COLUMNS * RUN;
            Element* const to = o.output + OUT_OFFSET + (offset_t)p.image * OUT_IMAGE + (offset_t)(p.row + line) * OUT_LINE +
                                done % OUT_COLUMNS * OUT_PIXEL + channel + lane % 4 * 2;
#pragma unroll
            for (int r = 0; r < RUN; r++) {
                const bool is_output = done < items && line + r < outputs;
                Vector<Element, 2> y;
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    const bool exists = channel + lane % 4 * 2 + c < CHANNELS;
                    y.v[c] = store_as<Element>(exists ? depthwise_program(sums[r][half * 2 + c]) : 0.0f);
                    if (GATE && is_output) totals[c] += to_f32(y.v[c]);
                }
                if (is_output) *(Vector<Element, 2>*)(to + r * OUT_LINE) = y;
            }
        }
    }
#if GATE
    // Averages: lanes with the same channels first, then warps with the same vector in order.
    __shared__ f32 of_warps[WARPS][8];
    __shared__ f32 means[CHUNK_VECTORS * 8];
#pragma unroll
    for (int mask = 16; mask >= 4; mask /= 2)
#pragma unroll
        for (int c = 0; c < 2; c++) totals[c] += __shfl_xor_sync(0xffffffffu, totals[c], mask);
    if (lane < 4)
#pragma unroll
        for (int c = 0; c < 2; c++) of_warps[warp][lane * 2 + c] = totals[c];
    __syncthreads();
    if (threadIdx.x < CHUNK_VECTORS * 8) {
        f32 sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w += CHUNK_VECTORS) sum += of_warps[w + threadIdx.x / 8][threadIdx.x % 8];
        means[threadIdx.x] = sum / (f32)(OUT_ROWS * OUT_COLUMNS);
    }
    __syncthreads();
    finish_gate(o.gate, ahead, means, p.vector, p.image, blockIdx.x % BLOCKS);
#endif
}
