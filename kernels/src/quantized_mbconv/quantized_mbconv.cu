// Expansion and depthwise convolution of CH channels over a band of rows, in 8-bit integers.
#if EXPAND
// The bytes of four columns from `column` on that lie in the image.
DEVICE constexpr u32 inside_mask(int column) {
    const int before = -column, past = column + 4 - IN_COLUMNS;
    const u32 first = before <= 0 ? 0xffffffffu : before >= 4 ? 0u : 0xffffffffu << (before * 8);
    const u32 last = past <= 0 ? 0xffffffffu : past >= 4 ? 0u : 0xffffffffu >> (past * 8);
    return first & last;
}
constexpr u32 FIRST_INSIDE = inside_mask(FIRST_QUAD * 4 - PAD_W), LAST_INSIDE = inside_mask((END_QUAD - 1) * 4 - PAD_W);

constexpr int GROUPS = (DEPTH + 63) / 64;  // Each 64 channels of the image are two K steps.
constexpr int M_TILES = CH / 16;

DEVICE void multiply_add(u32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32." WEIGHT_LETTER "8." IMAGE_LETTER "8.s32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

struct Pixels { uint4 v[2][GROUPS]; };  // Of a thread's pixel in both tiles of eight, 16 channels of each group.

// Tile t of 16 columns is four words; column c of product j is column 2 * j + c % 2 of word c / 2. What lies outside of the
// image is any pixel, and channels past the last are any channels: masks and weights of zero leave nothing of them.
DEVICE void load_pixels(Pixels& x, const u8* from, const Cursor<INNER_QUADS>& quad, int lane) {
    const int first = quad.line * IN_COLUMNS + (FIRST_QUAD + quad.place) * 4 - PAD_W + lane / 4 % 2;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        const u8* const at = from + min((u32)(first + j * 2), (u32)(IN_ROWS * IN_COLUMNS - 1)) * (u32)PIXEL;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const int channel = lane % 4 * 16;
            x.v[j][k] = *(const uint4*)(at + k * 64 + (DEPTH % 64 == 0 || k * 64 + channel < DEPTH ? channel : 0));
        }
    }
}

// Words that have nothing of the image.
DEVICE void fill_outside(const Place& p, u32* band) {
    if (INNER_QUADS == QUADS && p.first == p.top && p.end == p.top + BAND_ROWS) return;
#pragma unroll 1
    for (int i = threadIdx.x; i < ALL_QUADS * (CH / 4); i += THREADS) {
        const int quad = i / (CH / 4), row = p.top + quad / QUADS, place = quad % QUADS;
        if (row < p.first || row >= p.end || place < FIRST_QUAD || place >= END_QUAD)
            ((uint4*)(band + quad * PITCH))[i % (CH / 4)] = make_uint4(OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD);
    }
}

// Channels are rows of the products and columns of the image their columns, so that a thread has four neighbouring columns
// of a channel. Which channel of the image is which K of a step is free as long as both factors agree.
DEVICE void expand_band(const Operands& o, const Place& p, u32* band) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u8* const from = (const u8*)o.image + IMAGE_OFFSET + (offset_t)p.image * IMAGE;
    u32 a[M_TILES][GROUPS * 2][4];
    u32 bias[M_TILES][2];
    f32 factor[M_TILES][2];
#pragma unroll
    for (int m = 0; m < M_TILES; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int channel = p.channel + m * 16 + h * 8 + lane / 4;
#pragma unroll
            for (int k = 0; k < GROUPS; k++) {
                uint4 w = make_uint4(0, 0, 0, 0);
                if (channel < LANES)
                    w = *(const uint4*)((const u8*)o.expand + channel * (GROUPS * 64) + k * 64 + lane % 4 * 16);
                a[m][k * 2][h] = w.x;
                a[m][k * 2][h + 2] = w.y;
                a[m][k * 2 + 1][h] = w.z;
                a[m][k * 2 + 1][h + 2] = w.w;
            }
            bias[m][h] = EXPAND_BIAS && channel < CHANNELS ? o.expand_bias[channel] : 0u;
            factor[m][h] = EXPAND_FACTOR && channel < CHANNELS ? o.expand_factor[channel] : 0.0f;
        }
    fill_outside(p, band);
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    // The tables are there.
    __syncthreads();
    const int tiles = ((p.end - p.first) * INNER_QUADS + 3) / 4;
    // Lines are rows of the image.
    Cursor<INNER_QUADS> loaded(p.first, warp * 4 + lane / 8), stored(p.first, warp * 4 + lane % 4);
    Pixels x;
    load_pixels(x, from, loaded, lane);
    u32* to = band + ((stored.line - p.top) * QUADS + FIRST_QUAD + stored.place) * PITCH + lane / 4;
    constexpr int TOGETHER = 4 * WARPS;  // Words of a turn of all warps.
#pragma unroll 1
    for (int tile = warp; tile < tiles; tile += WARPS) {
        u32 sums[M_TILES][2][4];
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int j = 0; j < 2; j++) {
#pragma unroll
                for (int i = 0; i < 4; i++) sums[m][j][i] = bias[m][i / 2];
#pragma unroll
                for (int k = 0; k < GROUPS; k++) {
                    multiply_add(sums[m][j], a[m][k * 2], x.v[j][k].x, x.v[j][k].y);
                    multiply_add(sums[m][j], a[m][k * 2 + 1], x.v[j][k].z, x.v[j][k].w);
                }
            }
        // The next pixels come while these become bytes.
        loaded.advance(TOGETHER);
        load_pixels(x, from, loaded, lane);
        u32 mask = stored.place == 0 ? FIRST_INSIDE : 0xffffffffu;
        if (stored.place == INNER_QUADS - 1) mask &= LAST_INSIDE;
        const bool exists = stored.line < p.end;
#pragma unroll
        for (int m = 0; m < M_TILES; m++)
#pragma unroll
            for (int h = 0; h < 2; h++) {
                u32 y[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    y[i] = expand_part((f32)(i32)sums[m][i / 2][h * 2 + i % 2], factor[m][h]);
                const u32 word = (expand_word(y) & mask) | (OUTSIDE_WORD & ~mask);
                if (exists) to[m * 16 + h * 8] = word;
            }
        to += (TOGETHER / INNER_QUADS * QUADS + TOGETHER % INNER_QUADS) * PITCH;
        if (stored.advance(TOGETHER)) to += (QUADS - INNER_QUADS) * PITCH;
    }
}
#endif

DEVICE void quantized_mbconv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    u32* const band = (u32*)shared;
    const Place p = this_place();
    // Weights and biases that no step writes need not wait for the kernel before.
    if (!CONSTANT_PARAMETERS) wait_for_inputs();
    all_tables(CopyTable());
    // Every thread stays with one channel.
    const int own = threadIdx.x % CH, channel = p.channel + own;
    u64 taps[TAPS_H];
#pragma unroll
    for (int h = 0; h < TAPS_H; h++) taps[h] = channel < LANES ? ((const u64*)o.filters)[h * LANES + channel] : 0ull;
    const u32 bias = FILTER_BIAS && channel < CHANNELS ? o.filter_bias[channel] : 0u;
    const f32 factor = FILTER_FACTOR && channel < CHANNELS ? o.filter_factor[channel] : 0.0f;
#if EXPAND
    expand_band(o, p, band);
#else
    fill_band(o.image, p, band);
#endif
    __syncthreads();
#if GATE
    const Ahead ahead = begin_average(o.average, p.channel / 16);
    i32 total = 0;
#endif
    Output* const output = o.output + OUT_OFFSET + (offset_t)p.image * OUT_IMAGE + channel;
    const int below = OUT_ROWS - p.row < ROWS ? OUT_ROWS - p.row : ROWS;
    const int lines = channel < LANES ? below : 0;
#pragma unroll 1
    for (Cursor<RUNS> at(0, threadIdx.x / CH); at.line < lines; at.advance(THREADS / CH)) {
        const int column = at.place * RUN;
        const u32* const from = band + (at.line * STEP_H * QUADS + at.place * STEP_W) * PITCH + own;
        u32 sums[RUN];
#pragma unroll
        for (int r = 0; r < RUN; r++) sums[r] = bias;
#pragma unroll
        for (int h = 0; h < TAPS_H; h++) {
            constexpr int WORDS = ((RUN - 1) * STEP_W + TAPS_W + 3) / 4;
            u32 x[WORDS];
#pragma unroll
            for (int w = 0; w < WORDS; w++) x[w] = from[(h * DILATION_H * QUADS + w) * PITCH];
#pragma unroll
            for (int r = 0; r < RUN; r++) {
                const int first = r * STEP_W / 4, moved = r * STEP_W % 4;
                const u64 filter = taps[h] << (moved * 8);
                sums[r] = dot(x[first], (u32)filter, sums[r]);
                if (moved + TAPS_W > 4) sums[r] = dot(x[first + 1], (u32)(filter >> 32), sums[r]);
            }
        }
        Output* const to = output + (u32)((p.row + at.line) * OUT_LINE + column * OUT_PIXEL);
#pragma unroll
        for (int r = 0; r < RUN; r++) {
            if (OUT_COLUMNS % RUN != 0 && column + r >= OUT_COLUMNS) break;
            const u32 y = depthwise_byte((f32)(i32)sums[r], factor);
            const Output stored = (Output)(LANES == CHANNELS || channel < CHANNELS ? y & 255u : 0u);
            to[r * OUT_PIXEL] = stored;
#if GATE
            total += (i32)stored;
#endif
        }
    }
#if GATE
    __shared__ i32 totals[THREADS];
    totals[threadIdx.x] = total;
    __syncthreads();
    auto sum_of = [&](int c) {
        i32 sum = 0;
#pragma unroll
        for (int t = 0; t < THREADS; t += CH) sum += totals[t + c];
        return sum;
    };
    finish_average(o.average, ahead, sum_of, p.channel / 16, p.image, blockIdx.x % BLOCKS);
#endif
}
