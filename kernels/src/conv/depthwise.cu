// Depthwise convolution, channels last: a thread computes eight channels of RUN neighbouring positions of a row, so
// that it loads and converts every input element under them once a row of taps. Weights are [tap][channel].
constexpr int CHANNEL_VECTORS = N_STORED / 8;
constexpr int RUNS = (ROW_LENGTH + RUN - 1) / RUN;  // Threads along a row of outputs.
constexpr int SPAN = (RUN - 1) * STEP + (TAPS_W - 1) * DILATION + 1;
constexpr int OUTPUTS = M / ROW_LENGTH * RUNS * CHANNEL_VECTORS;

DEVICE void depthwise(const Operands& o) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= OUTPUTS) return;
    const int channel = i % CHANNEL_VECTORS * 8, run = i / CHANNEL_VECTORS;
    const int m = run / RUNS * ROW_LENGTH + run % RUNS * RUN;
    const int count = ROW_LENGTH - run % RUNS * RUN;  // Positions left in the row.

    const Row row = row_of_a(m, 0);
    Extras extras[RUN];
    if (PREFETCH) {
#pragma unroll
        for (int p = 0; p < RUN; p++)
            if (p < count) extras[p] = load_extras(o, m + p, channel, 0);
    }
    Vectored sums[RUN][8] = {};
#pragma unroll UNROLL
    for (int line = 0; line < TAPS / TAPS_W; line++) {
        const Tap tap = tap_of_a(line * TAPS_W);
        Vector<BElement, 8> weights[TAPS_W];
#pragma unroll
        for (int w = 0; w < TAPS_W; w++)
            weights[w] = *(const Vector<BElement, 8>*)(o.b + (line * TAPS_W + w) * N_STORED + channel);
#pragma unroll
        for (int x = 0; x < SPAN; x++) {
            Tap at = tap;
            at.w += x;
            Vector<AElement, 8> input;
#pragma unroll
            for (int c = 0; c < 8; c++) input.v[c] = outside();
            if (inside_of_a(row, at)) input = *(const Vector<AElement, 8>*)(o.a + row.offset + tap.offset + x * PIXEL + channel);
#pragma unroll
            for (int p = 0; p < RUN; p++) {
                const int distance = x - p * STEP;
                if (distance < 0 || distance % DILATION != 0 || distance / DILATION >= TAPS_W) continue;
#pragma unroll
                for (int c = 0; c < 8; c++)
                    add_product(sums[p][c], input.v[c], weights[distance / DILATION].v[c]);
            }
        }
    }
    launch_dependents();
    Bias bias[8];
    load_bias(o, bias, channel, 0);
#pragma unroll
    for (int p = 0; p < RUN; p++)
        if (p < count)
            finish_vector(o, sums[p], bias, PREFETCH ? extras[p] : load_extras(o, m + p, channel, 0), m + p, channel, 0);
}
