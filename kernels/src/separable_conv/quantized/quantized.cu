// A depthwise convolution over a band of rows with all channels, and the pointwise one that reads it, in 8-bit integers.
//
// A lane has sums of four channels at four neighbouring outputs, a run. Requantised they are a word for each output, as an instruction
// wants a row of A, so that what the depthwise convolution makes is multiplied where it lies. Product r of a tile of 16 runs has the
// r-th output of each as its rows.
constexpr int FILTER_WORDS = TAPS_W > 4 ? 2 : 1;  // Of a row of taps.
constexpr int BAND_WORDS = ((RUN - 1) * STEP_W + TAPS_W + 3) / 4;  // Of a line, that a run reads.
// Eight lanes read 16 bytes each at once: four neighbours at one run, and as many at another one that is so far away that they meet in no
// bank.
constexpr int APART = STEP_W % 4 == 0 ? 1 : STEP_W % 2 == 0 ? 2 : 4;
DEVICE int run_of(int group) { return group / (2 * APART) * (2 * APART) + group / 2 % APART + group % 2 * APART; }

// Words of four channels side by side.
struct Four { u32 of[4]; };
DEVICE Four load_four(const void* from) {
    const uint4 x = *(const uint4*)from;
    return Four{{x.x, x.y, x.z, x.w}};
}

// Filters, biases and factors in shared memory.
struct Shared {
    u32 filters[TAPS_H][FILTER_WORDS][CH], filter_bias[CH];
    f32 filter_factor[CH];
    u32 bias[COLUMN_TILES * 16];
    f32 factor[COLUMN_TILES * 16];
};

DEVICE void copy_parameters(const Operands& o, Shared& to) {
#pragma unroll 1
    for (int i = threadIdx.x; i < TAPS_H * FILTER_WORDS * CH; i += THREADS) {
        const int row = i / (FILTER_WORDS * CH), word = i / CH % FILTER_WORDS, c = i % CH;
        to.filters[0][0][i] = c < LANES ? ((const u32*)o.filters)[(row * LANES + c) * 2 + word] : 0u;
    }
#pragma unroll 1
    for (int c = threadIdx.x; c < CH; c += THREADS) {
        to.filter_bias[c] = FILTER_BIAS && c < CHANNELS ? o.filter_bias[c] : 0u;
        to.filter_factor[c] = FILTER_FACTOR && c < CHANNELS ? o.filter_factor[c] : 0.0f;
    }
#pragma unroll 1
    for (int c = threadIdx.x; c < COLUMN_TILES * 16; c += THREADS) {
        to.bias[c] = BIAS && c < COLUMNS ? o.bias[c] : 0u;
        to.factor[c] = FACTOR && c < COLUMNS ? o.factor[c] : 0.0f;
    }
}

// Adds the products of a row of taps of a channel to the sum of output `r` of a run. Two runs share what is moved of filters, and so
// words of the band are moved only where that saves a product.
DEVICE void add_row(u32& sum, const u32 (&x)[BAND_WORDS], u32 low, u32 high, int r) {
    const int first = r * STEP_W / 4, moved = r * STEP_W % 4;
    if (moved + TAPS_W > 4 && TAPS_W <= 4) {
        sum = dot(__byte_perm(x[first], x[first + 1], 0x3210 + 0x1111 * moved), low, sum);
        return;
    }
    const u64 filter = ((u64)high << 32 | low) << (moved * 8);
    sum = dot(x[first], (u32)filter, sum);
    if (moved + TAPS_W > 4) sum = dot(x[first + 1], (u32)(filter >> 32), sum);
}

// Rows `r` of A: outputs `r` of 16 runs, of 32 channels.
struct Middle { u32 of[RUN][4]; };

// `from` are what both runs of a lane read, and `channel` the first of its eight.
DEVICE void depthwise_step(Middle& middle, const Shared& shared, const u32* const (&from)[2], int channel) {
#pragma unroll
    for (int v = 0; v < 2; v++, channel += 16) {
        Four filters[TAPS_H][FILTER_WORDS];
#pragma unroll
        for (int h = 0; h < TAPS_H; h++)
#pragma unroll
            for (int w = 0; w < FILTER_WORDS; w++) filters[h][w] = load_four(&shared.filters[h][w][channel]);
        const Four bias = load_four(&shared.filter_bias[channel]), factor = load_four(&shared.filter_factor[channel]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            Four sums[RUN];
#pragma unroll
            for (int r = 0; r < RUN; r++) sums[r] = bias;
#pragma unroll
            for (int h = 0; h < TAPS_H; h++) {
                Four x[BAND_WORDS];
#pragma unroll
                for (int w = 0; w < BAND_WORDS; w++) x[w] = load_four(from[half] + (h * DILATION_H * QUADS + w) * PITCH + channel);
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    u32 line[BAND_WORDS];
#pragma unroll
                    for (int w = 0; w < BAND_WORDS; w++) line[w] = x[w].of[c];
#pragma unroll
                    for (int r = 0; r < RUN; r++)
                        add_row(sums[r].of[c], line, filters[h][0].of[c], FILTER_WORDS > 1 ? filters[h][FILTER_WORDS - 1].of[c] : 0u, r);
                }
            }
#pragma unroll
            for (int r = 0; r < RUN; r++) {
                u32 parts[4];
#pragma unroll
                for (int c = 0; c < 4; c++) parts[c] = depthwise_part((f32)(i32)sums[r].of[c], __uint_as_float(factor.of[c]));
                middle.of[r][v * 2 + half] = depthwise_word(parts);
            }
        }
    }
}

DEVICE void quantized_separable_conv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint4* const weights = (uint4*)memory;
    Shared& shared = *(Shared*)(weights + WEIGHTS);
    u32* const band = (u32*)(&shared + 1);
    const Place p = this_place();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    // Weights, biases and factors that no step writes need not wait for the kernel before.
    if (!CONSTANT_PARAMETERS) wait_for_inputs();
    all_tables(CopyTable());
    copy_weights(o.weights, weights);
    copy_async_commit();
    copy_parameters(o, shared);
    fill_band(o.image, p, band);
    copy_async_wait<0>();
    __syncthreads();

    const u32 of_lane = weights_of_lane(weights, lane);
    // A lane's channels: of eight in a step, and of four in a column tile.
    const int channel = lane % 4 * 4;
    const int lines = OUT_ROWS - p.row < ROWS ? OUT_ROWS - p.row : ROWS, runs = lines * RUNS;
    Output* const output = o.output + OUT_OFFSET + (offset_t)p.image * OUT_IMAGE;
#pragma unroll 1
    for (int tile = warp * 16; tile < runs; tile += WARPS * 16) {
        const int own = tile + run_of(lane / 4);
        const u32* from[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int run = own + half * 8 < runs ? own + half * 8 : 0;
            from[half] = band + (run / RUNS * STEP_H * QUADS + run % RUNS * STEP_W) * PITCH;
        }
        u32 sums[RUN][COLUMN_TILES][2][4];
#pragma unroll
        for (int t = 0; t < COLUMN_TILES; t++) {
            const Four bias = load_four(&shared.bias[t * 16 + channel]);
#pragma unroll
            for (int r = 0; r < RUN; r++)
#pragma unroll
                for (int i = 0; i < 8; i++) sums[r][t][i / 4][i % 4] = bias.of[i / 4 * 2 + i % 2];
        }
#pragma unroll 1
        for (int step = 0; step < K_STEPS; step++) {
            Middle middle;
            depthwise_step(middle, shared, from, step * 32 + channel);
#pragma unroll
            for (int t = 0; t < COLUMN_TILES; t++) {
                u32 b[4];
                load_weights(b, of_lane, t, step);
#pragma unroll
                for (int r = 0; r < RUN; r++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        multiply_add(sums[r][t][half], middle.of[r], b[half * 2], b[half * 2 + 1], AElement());
            }
        }
        if (tile + WARPS * 16 >= runs) launch_dependents();
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int run = own + half * 8;
            const Pixel first{p.image, p.row + run / RUNS, run % RUNS * RUN};
            if (run >= runs) continue;
            Output* const to = output + (first.row * OUT_LINE + first.column * OUT_PIXEL);
#pragma unroll
            for (int t = 0; t < COLUMN_TILES; t++) {
                const int column = t * 16 + channel;
                if (OUT_LANES % 16 != 0 && column >= OUT_LANES) continue;
                const Four factor = load_four(&shared.factor[column]);
#pragma unroll
                for (int r = 0; r < RUN; r++) {
                    if (OUT_COLUMNS % RUN != 0 && first.column + r >= OUT_COLUMNS) continue;
                    const Extras extras = load_extras(o, Pixel{first.image, first.row, first.column + r}, column);
                    u32 parts[4];
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        const f32 sum = (f32)(i32)sums[r][t][c / 2][half * 2 + c % 2];
                        parts[c] = COLUMNS == COLUMN_TILES * 16 || column + c < COLUMNS
                                       ? finished(sum, __uint_as_float(factor.of[c]), extras, c)
                                       : pointwise_program_ZERO;
                    }
                    *(u32*)(to + r * OUT_PIXEL + column) = pointwise_program_word(parts);
                }
            }
        }
    }
}
