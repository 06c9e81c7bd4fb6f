// Expansion and depthwise convolution of CH channels over a band of rows, in 8-bit integers.
//
// The band of the depthwise convolution's input lies in shared memory as words of four neighbouring columns of a channel:
// BAND_ROWS lines of QUADS words, PITCH channels side by side. What stands outside of the image is there as the zero point. So
// a dot product of four bytes takes four taps of a row.
constexpr int CH = VECTORS * 16;
constexpr int RUN = 4;                  // Neighbouring outputs of a thread.
constexpr int RUNS = (OUT_COLUMNS + RUN - 1) / RUN;
constexpr int BAND_ROWS = (ROWS - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int QUADS = ((RUNS * RUN - 1) * STEP_W + TAPS_W + 3) / 4;
constexpr int ALL_QUADS = BAND_ROWS * QUADS;
// Words of a line that have a column of the image.
constexpr int FIRST_QUAD = PAD_W / 4 < QUADS ? PAD_W / 4 : QUADS - 1;
constexpr int END_QUAD = (IN_COLUMNS - 1 + PAD_W) / 4 + 1 < QUADS ? (IN_COLUMNS - 1 + PAD_W) / 4 + 1 : QUADS;
constexpr int INNER_QUADS = END_QUAD - FIRST_QUAD;
constexpr bool CONSTANT_PARAMETERS = (~CONSTANT_INPUTS & PARAMETER_INPUTS) == 0;
constexpr u32 OUTSIDE_WORD = (u32)(u8)OUTSIDE * 0x01010101u;
static_assert(TAPS_W <= 5, "taps of a row, moved by three columns, fit into two words");

struct Place {
    int image, channel;  // Channel: the first of the block's.
    int row, top;        // First row of outputs; first row of the band, in the input.
    int first, end;      // Rows of the band that the image has.
};

DEVICE Place this_place() {
    Place p;
    p.image = blockIdx.x / BLOCKS;
    const int block = blockIdx.x % BLOCKS;
    p.channel = block % CHUNKS * CH;
    p.row = block / CHUNKS * ROWS;
    p.top = p.row * STEP_H - PAD_H;
    p.end = p.top + BAND_ROWS < 0 ? 0 : min(p.top + BAND_ROWS, IN_ROWS);
    p.first = min(max(p.top, 0), p.end);
    return p;
}

DEVICE bool inside(int row, int column) { return (u32)row < (u32)IN_ROWS && (u32)column < (u32)IN_COLUMNS; }

// The bytes of four columns from `column` on that lie in the image.
DEVICE constexpr u32 inside_mask(int column) {
    const int before = -column, past = column + 4 - IN_COLUMNS;
    const u32 first = before <= 0 ? 0xffffffffu : before >= 4 ? 0u : 0xffffffffu << (before * 8);
    const u32 last = past <= 0 ? 0xffffffffu : past >= 4 ? 0u : 0xffffffffu >> (past * 8);
    return first & last;
}
constexpr u32 FIRST_INSIDE = inside_mask(FIRST_QUAD * 4 - PAD_W), LAST_INSIDE = inside_mask((END_QUAD - 1) * 4 - PAD_W);

// A place in lines of LENGTH that follow each other.
template <int LENGTH>
struct Cursor {
    int line, place;

    DEVICE Cursor(int first, int n) : line(first + n / LENGTH), place(n % LENGTH) {}

    // Without a division, where `n` is known when compiling. Returns whether the place begins anew beside what `n` / LENGTH counts.
    DEVICE bool advance(int n) {
        line += n / LENGTH;
        place += n % LENGTH;
        const bool anew = place >= LENGTH;
        if (anew) place -= LENGTH, line++;
        return anew;
    }
};

#if EXPAND
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
DEVICE void fill_band(const Operands& o, const Place& p, u32* band) {
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
#else
// Words of four columns from four pixels, 16 channels at a time.
DEVICE void fill_band(const Operands& o, const Place& p, u32* band) {
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    const u8* const from = (const u8*)o.image + IMAGE_OFFSET + (offset_t)p.image * IMAGE;
#pragma unroll 1
    for (int i = threadIdx.x; i < ALL_QUADS * (CH / 16); i += THREADS) {
        const int quad = i / (CH / 16), channel = i % (CH / 16) * 16;
        const int row = p.top + quad / QUADS, first = quad % QUADS * 4 - PAD_W;
        uint4 x[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const bool exists = inside(row, first + j) && p.channel + channel < LANES;
            x[j] = exists ? *(const uint4*)(from + ((offset_t)row * IN_COLUMNS + first + j) * PIXEL + p.channel + channel)
                          : make_uint4(OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD, OUTSIDE_WORD);
        }
        auto turn = [](u32 a, u32 b, u32 c, u32 d) {
            const u32 ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
            const u32 ef = __byte_perm(a, b, 0x7362), gh = __byte_perm(c, d, 0x7362);
            return make_uint4(__byte_perm(ab, cd, 0x5410), __byte_perm(ab, cd, 0x7632), __byte_perm(ef, gh, 0x5410),
                              __byte_perm(ef, gh, 0x7632));
        };
        uint4* const to = (uint4*)(band + quad * PITCH + channel);
        to[0] = turn(x[0].x, x[1].x, x[2].x, x[3].x);
        to[1] = turn(x[0].y, x[1].y, x[2].y, x[3].y);
        to[2] = turn(x[0].z, x[1].z, x[2].z, x[3].z);
        to[3] = turn(x[0].w, x[1].w, x[2].w, x[3].w);
    }
}
#endif

DEVICE u32 dot(u32 x, u32 w, u32 sum) {
    u32 result;
    asm("dp4a." WIDE_LETTER "32." FILTER_LETTER "32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
}

DEVICE void quantized_mbconv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    u32* const band = (u32*)shared;
    const Place p = this_place();
    // Weights and biases that no step writes need not wait for the kernel before.
    if (!CONSTANT_PARAMETERS) wait_for_inputs();
    all_tables([](void* to, const void* from, int bytes) {
#pragma unroll 1
        for (int i = threadIdx.x; i < bytes / 4; i += THREADS) ((u32*)to)[i] = ((const u32*)from)[i];
    });
    // Every thread stays with one channel.
    const int own = threadIdx.x % CH, channel = p.channel + own;
    u64 taps[TAPS_H];
#pragma unroll
    for (int h = 0; h < TAPS_H; h++) taps[h] = channel < LANES ? ((const u64*)o.filters)[h * LANES + channel] : 0ull;
    const u32 bias = FILTER_BIAS && channel < CHANNELS ? o.filter_bias[channel] : 0u;
    const f32 factor = FILTER_FACTOR && channel < CHANNELS ? o.filter_factor[channel] : 0.0f;
    fill_band(o, p, band);
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
