// Expansion, depthwise convolution and averages of 8 * CHUNK_VECTORS channels over a band of rows.
//
// The band of the depthwise convolution's input lies in shared memory: for each vector of eight channels a plane of BAND_ROWS
// lines of BAND_COLUMNS pixels, with the padding around them. It is copied there, all at once, or computed there by tensor
// cores from the image. What neighbouring outputs read lies side by side, so that eight lanes' 16 bytes meet in no bank: with
// steps of two, even columns of a line come before odd ones.
typedef Vector<Element, 8> Chunk;
typedef Vector<f32, 8> Weights;  // Converted once, not for each output.
constexpr int CHUNKS = (LANES / 8 + CHUNK_VECTORS - 1) / CHUNK_VECTORS;
constexpr int BANDS = (OUT_ROWS + ROWS - 1) / ROWS;
constexpr int BLOCKS = CHUNKS * BANDS;  // Of one image.
constexpr int RUNS = (ROWS + RUN - 1) / RUN;  // Of a column of outputs: a thread computes RUN neighbours.
constexpr int PITCH = STEP_W * PART;
constexpr int TAPS = TAPS_H * TAPS_W;
// Vectors of a pixel that neighbouring lanes have: together they write a whole sector of 32 bytes.
constexpr int PAIR = CHUNK_VECTORS < 2 ? CHUNK_VECTORS : 2;
constexpr int PAIRS = CHUNK_VECTORS / PAIR;
constexpr int WARPS = THREADS / 32;
constexpr bool CONSTANT_PARAMETERS = (~CONSTANT_INPUTS & PARAMETER_INPUTS) == 0;

struct Place {
    int image, band, vector;  // Vector: the first of the block's.
    int row, top;             // First row of outputs; first row of the band, in the input.
};

DEVICE Place this_place() {
    Place p;
    p.image = blockIdx.x / BLOCKS;
    const int block = blockIdx.x % BLOCKS;
    p.band = block / CHUNKS;
    p.vector = block % CHUNKS * CHUNK_VECTORS;
    p.row = p.band * ROWS;
    p.top = p.row * STEP_H - PAD_H;
    return p;
}

// Where a pixel of the band lies in its plane.
DEVICE int place_of(int row, int column) { return row * PITCH + column % STEP_W * PART + column / STEP_W; }

DEVICE bool inside(int row, int column) { return (u32)row < (u32)IN_ROWS && (u32)column < (u32)IN_COLUMNS; }

#if EXPAND
constexpr int GROUPS = (DEPTH + 31) / 32;  // Each 32 channels of the image are two K steps.

struct Fragment { uint4 low[GROUPS], high[GROUPS]; };  // Rows g and g + 8 of a 16-row tile, eight channels a thread.

// Columns of the band beside the image.
constexpr int RIGHT = BAND_COLUMNS - PAD_W - IN_COLUMNS;
constexpr int BESIDE = (PAD_W < BAND_COLUMNS ? PAD_W : BAND_COLUMNS) + (RIGHT > 0 ? RIGHT : 0);

DEVICE void clear(Chunk* band, int row, int column) {
#pragma unroll
    for (int v = 0; v < CHUNK_VECTORS; v++) band[v * PLANE + place_of(row, column)] = Chunk{};
}

DEVICE uint4 image_vector(const Element* from, int pixel, int pixels, int channel) {
    if (pixel < pixels && (DEPTH % 32 == 0 || channel < DEPTH))
        return *(const uint4*)(from + (offset_t)pixel * PIXEL + channel);
    return make_uint4(0, 0, 0, 0);
}

DEVICE Fragment image_fragment(const Element* from, int tile, int pixels, int lane) {
    Fragment f;
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        f.low[k] = image_vector(from, tile * 16 + lane / 4, pixels, k * 32 + lane % 4 * 8);
        f.high[k] = image_vector(from, tile * 16 + lane / 4 + 8, pixels, k * 32 + lane % 4 * 8);
    }
    return f;
}

// The pixels of the band that exist, 16 at a time. Which channel is which K of a step is free as long as both factors
// agree: a thread takes eight neighbouring channels of both, straight from memory.
DEVICE void fill_band(const Element* image, const Element* weights, const f32* bias, const Place& p, Chunk* band) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = p.top < 0 ? 0 : p.top;
    const int end = p.top + BAND_ROWS < IN_ROWS ? p.top + BAND_ROWS : IN_ROWS;
    const int pixels = (end - first) * IN_COLUMNS, tiles = (pixels + 15) / 16;
    const Element* const from = image + IMAGE_OFFSET + (offset_t)p.image * IMAGE + (offset_t)first * IN_COLUMNS * PIXEL;

    uint4 b[CHUNK_VECTORS][GROUPS];
    f32 biases[CHUNK_VECTORS][2];
#pragma unroll
    for (int v = 0; v < CHUNK_VECTORS; v++) {
        const int channel = (p.vector + v) * 8;
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
            b[v][k] = channel < LANES ? *(const uint4*)(weights + (channel + lane / 4) * (GROUPS * 32) + k * 32 + lane % 4 * 8)
                                      : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int c = channel + lane % 4 * 2 + i;
            biases[v][i] = EXPAND_BIAS && c < CHANNELS ? bias[c] : 0.0f;
        }
    }
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    Fragment next = image_fragment(from, warp, pixels, lane);
    // What lies outside of the image: lines above and below it, then columns beside it.
    const int inner = end > first ? end - first : 0;
    for (int i = threadIdx.x; i < (BAND_ROWS - inner) * BAND_COLUMNS; i += THREADS) {
        const int line = i / BAND_COLUMNS;
        clear(band, p.top + line < first ? line : line + inner, i % BAND_COLUMNS);
    }
    for (int i = threadIdx.x; i < inner * BESIDE; i += THREADS) {
        const int column = i % (BESIDE > 0 ? BESIDE : 1);
        clear(band, first - p.top + i / (BESIDE > 0 ? BESIDE : 1), column < PAD_W ? column : column + IN_COLUMNS);
    }
#pragma unroll 1
    for (int tile = warp; tile < tiles; tile += WARPS) {
        const Fragment a = next;
        if (tile + WARPS < tiles) next = image_fragment(from, tile + WARPS, pixels, lane);
        f32 sums[CHUNK_VECTORS][4];
#pragma unroll
        for (int v = 0; v < CHUNK_VECTORS; v++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[v][i] = biases[v][i % 2];
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const u32 step_0[4] = {a.low[k].x, a.high[k].x, a.low[k].y, a.high[k].y};
            const u32 step_1[4] = {a.low[k].z, a.high[k].z, a.low[k].w, a.high[k].w};
#pragma unroll
            for (int v = 0; v < CHUNK_VECTORS; v++) {
                multiply_add(sums[v], step_0, b[v][k].x, b[v][k].y, Element());
                multiply_add(sums[v], step_1, b[v][k].z, b[v][k].w, Element());
            }
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int pixel = tile * 16 + lane / 4 + half * 8;
            if (pixel >= pixels) continue;
            const int row = first - p.top + pixel / IN_COLUMNS, column = pixel % IN_COLUMNS + PAD_W;
            // Columns that no window reaches have no place in the band.
            if (column >= BAND_COLUMNS) continue;
            Chunk* const to = band + place_of(row, column);
#pragma unroll
            for (int v = 0; v < CHUNK_VECTORS; v++) {
                Vector<Element, 2> pair;
                pair.v[0] = store_as<Element>(expand_program(sums[v][half * 2]));
                pair.v[1] = store_as<Element>(expand_program(sums[v][half * 2 + 1]));
                *(Vector<Element, 2>*)&to[v * PLANE].v[lane % 4 * 2] = pair;
            }
        }
    }
}
#else
DEVICE void fill_band(const Element* image, const Element*, const f32*, const Place& p, Chunk* band) {
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    const Element* const from = image + IMAGE_OFFSET + (offset_t)p.image * IMAGE + p.vector * 8;
    constexpr int OF_PAIR = BAND_ROWS * BAND_COLUMNS * PAIR;
    for (int i = threadIdx.x; i < OF_PAIR * PAIRS; i += THREADS) {
        const int v = i / OF_PAIR * PAIR + i % PAIR, pixel = i % OF_PAIR / PAIR;
        const int line = pixel / BAND_COLUMNS, place = pixel % BAND_COLUMNS;
        const int row = p.top + line, column = place - PAD_W;
        const bool exists = inside(row, column) && p.vector + v < LANES / 8;
        const Element* at = from + (exists ? ((offset_t)row * IN_COLUMNS + column) * PIXEL + v * 8 : 0);
        copy_async<true>(shared_address(band + v * PLANE + place_of(line, place)), at, exists);
    }
    copy_async_commit();
}
#endif

DEVICE void mbconv(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Weights* const filters = (Weights*)shared;  // [tap][vector]
    Chunk* const band = (Chunk*)(filters + TAPS * CHUNK_VECTORS);
    const Place p = this_place();
    const int thread = threadIdx.x;
    // Weights and biases that no step writes need not wait for the kernel before.
    if (!CONSTANT_PARAMETERS) wait_for_inputs();

    for (int i = thread; i < TAPS * CHUNK_VECTORS; i += THREADS) {
        const int v = p.vector + i % CHUNK_VECTORS;
        const Chunk filter = v < LANES / 8 ? *(const Chunk*)(o.filters + i / CHUNK_VECTORS * LANES + v * 8) : Chunk{};
#pragma unroll
        for (int c = 0; c < 8; c++) filters[i].v[c] = to_f32(filter.v[c]);
    }
    fill_band(o.image, o.expand, o.expand_bias, p, band);

    // Every thread stays with one vector of channels.
    const int v = thread / (THREADS / PAIRS) * PAIR + thread % PAIR, channel = (p.vector + v) * 8;
    f32 bias[8];
#pragma unroll
    for (int c = 0; c < 8; c++) bias[c] = FILTER_BIAS && channel + c < CHANNELS ? o.filter_bias[channel + c] : 0.0f;
#if GATE
    const GateAhead ahead = begin_gate(o.gate, p.vector);
#endif
#if !EXPAND
    copy_async_wait<0>();
#endif
    __syncthreads();

    f32 totals[8] = {};
#pragma unroll 1
    for (int i = thread % (THREADS / PAIRS) / PAIR; i < RUNS * OUT_COLUMNS; i += THREADS / CHUNK_VECTORS) {
        const int line = i / OUT_COLUMNS * RUN, column = i % OUT_COLUMNS, row = p.row + line;
        if (row >= OUT_ROWS || channel >= LANES) break;
        const Chunk* const from = band + v * PLANE + line * STEP_H * PITCH + column;
        f32 sums[RUN][8];
#pragma unroll
        for (int r = 0; r < RUN; r++)
#pragma unroll
            for (int c = 0; c < 8; c++) sums[r][c] = bias[c];
#pragma unroll TAP_COLUMNS_AT_ONCE
        for (int w = 0; w < TAPS_W; w++) {
            Weights filter[TAPS_H];
#pragma unroll
            for (int h = 0; h < TAPS_H; h++) filter[h] = filters[(h * TAPS_W + w) * CHUNK_VECTORS + v];
#pragma unroll
            for (int y = 0; y < (RUN - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1; y++) {
                bool used = false;
#pragma unroll
                for (int r = 0; r < RUN; r++) {
                    const int distance = y - r * STEP_H;
                    used |= distance >= 0 && distance % DILATION_H == 0 && distance / DILATION_H < TAPS_H;
                }
                if (!used) continue;
                const Chunk input = from[place_of(y, w * DILATION_W)];
#pragma unroll
                for (int r = 0; r < RUN; r++) {
                    const int distance = y - r * STEP_H;
                    if (distance < 0 || distance % DILATION_H != 0 || distance / DILATION_H >= TAPS_H) continue;
#pragma unroll
                    for (int c = 0; c < 8; c++)
                        sums[r][c] = fmaf(to_f32(input.v[c]), filter[distance / DILATION_H].v[c], sums[r][c]);
                }
            }
        }
        Element* const to = o.output + OUT_OFFSET + (offset_t)p.image * OUT_IMAGE + (offset_t)row * OUT_LINE +
                            column * OUT_PIXEL + channel;
#pragma unroll
        for (int r = 0; r < RUN; r++) {
            if (row + r >= OUT_ROWS || (ROWS % RUN != 0 && line + r >= ROWS)) break;
            Chunk y;
#pragma unroll
            for (int c = 0; c < 8; c++) {
                y.v[c] = store_as<Element>(channel + c < CHANNELS ? depthwise_program(sums[r][c]) : 0.0f);
                if (GATE) totals[c] += to_f32(y.v[c]);
            }
            *(Chunk*)(to + r * OUT_LINE) = y;
        }
    }
#if GATE
    // Averages: lanes with the same channels first, then their warps in order.
    __shared__ f32 of_warps[WARPS][PAIR * 8];
    __shared__ f32 means[CHUNK_VECTORS * 8];
#pragma unroll
    for (int mask = 16; mask >= PAIR; mask /= 2)
#pragma unroll
        for (int c = 0; c < 8; c++) totals[c] += __shfl_xor_sync(0xffffffffu, totals[c], mask);
    if (thread % 32 < PAIR)
#pragma unroll
        for (int c = 0; c < 8; c++) of_warps[thread / 32][thread % 32 * 8 + c] = totals[c];
    __syncthreads();
    if (thread < CHUNK_VECTORS * 8) {
        f32 sum = 0;
        const int first = thread / (PAIR * 8) * (WARPS / PAIRS);
        for (int w = 0; w < WARPS / PAIRS; w++) sum += of_warps[first + w][thread % (PAIR * 8)];
        means[thread] = sum / (f32)(OUT_ROWS * OUT_COLUMNS);
    }
    __syncthreads();
    finish_gate(o.gate, ahead, means, p.vector, p.image, blockIdx.x % BLOCKS);
#endif
}
