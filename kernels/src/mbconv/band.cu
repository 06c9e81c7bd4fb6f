// A band of rows of a depthwise convolution's input in shared memory, of 8 * CHUNK_VECTORS channels, and its products with the taps.
//
// For each vector of eight channels a plane of BAND_ROWS lines of BAND_COLUMNS pixels, with the padding around them. It is copied
// there, all at once, or computed there by tensor cores from the image. What neighbouring outputs read lies side by side, so that
// eight lanes' 16 bytes meet in no bank: with steps of two, even columns of a line come before odd ones.
//
// The depthwise products are the tensor cores' too: A has what 16 outputs read under a tap, eight channels each, and B the tap's
// weights on its diagonal. Seven of eight products are with zeros, but nothing is converted, and sums have 32 bits. An element
// that is infinite or NaN makes the other seven channels of its vector NaN.
typedef Vector<Element, 8> Chunk;
constexpr int CHUNKS = (LANES / 8 + CHUNK_VECTORS - 1) / CHUNK_VECTORS;
constexpr int BANDS = (OUT_ROWS + ROWS - 1) / ROWS;
constexpr int BLOCKS = CHUNKS * BANDS;  // Of one image.
constexpr int LAST_ROWS = OUT_ROWS - (BANDS - 1) * ROWS;  // Of the last band.
constexpr int SPAN = (RUN - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;  // Rows that an item reads.
constexpr int PITCH = STEP_W * PART;
constexpr int TAPS = TAPS_H * TAPS_W;
// Vectors of a pixel that neighbouring lanes copy: together a whole sector of 32 bytes.
constexpr int PAIR = CHUNK_VECTORS < 2 ? CHUNK_VECTORS : 2;
constexpr int WARPS = THREADS / 32;
constexpr int FILTERS = (TAPS * CHUNK_VECTORS + 7) / 8 * 8;  // Places of the taps' weights in front of the band.
// Pairs of columns of taps whose weights a warp has in registers: all, unless it reads them for each tile.
constexpr int PAIRS_KEPT = TAPS <= 50 ? (TAPS_W + 1) / 2 : 1;
constexpr bool ALL_KEPT = PAIRS_KEPT * 2 >= TAPS_W;
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

// The fragment whose first row is `pixel`, at `from`, for a thread of eight channels from `channel` on of each 32.
DEVICE Fragment image_fragment(const Element* from, int pixel, int pixels, int channel) {
    Fragment f;
    const uint4 zeros = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int k = 0; k < GROUPS; k++) {
        const bool exists = DEPTH % 32 == 0 || k * 32 + channel < DEPTH;
        f.low[k] = pixel < pixels && exists ? *(const uint4*)(from + k * 32) : zeros;
        f.high[k] = pixel + 8 < pixels && exists ? *(const uint4*)(from + 8 * PIXEL + k * 32) : zeros;
    }
    return f;
}

// The pixels of the band that exist, 16 at a time. Which channel is which K of a step is free as long as both factors
// agree: a thread takes eight neighbouring channels of both, straight from memory.
DEVICE void fill_band(const Element* image, const Element* weights, const f32* bias, const Place& p, Chunk* band) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = p.top < 0 ? 0 : p.top;
    const int end = p.top + BAND_ROWS < IN_ROWS ? p.top + BAND_ROWS : IN_ROWS;
    const int pixels = (end - first) * IN_COLUMNS;
    // A lane's pixel of a tile, the other one being eight behind it, and its channels.
    int pixel = warp * 16 + lane / 4;
    const Element* from = image + IMAGE_OFFSET + (offset_t)p.image * IMAGE + ((offset_t)first * IN_COLUMNS + pixel) * PIXEL + lane % 4 * 8;

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
    Fragment next = image_fragment(from, pixel, pixels, lane % 4 * 8);
    // What lies outside of the image: lines above and below it, then columns beside it. No thread does it often, and each instruction is
    // fetched from memory for a launch.
    const int inner = end > first ? end - first : 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < (BAND_ROWS - inner) * BAND_COLUMNS; i += THREADS) {
        const int line = i / BAND_COLUMNS;
        clear(band, p.top + line < first ? line : line + inner, i % BAND_COLUMNS);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < inner * BESIDE; i += THREADS) {
        const int column = i % (BESIDE > 0 ? BESIDE : 1);
        clear(band, first - p.top + i / (BESIDE > 0 ? BESIDE : 1), column < PAD_W ? column : column + IN_COLUMNS);
    }
#pragma unroll 1
    for (int tile = warp * 16; tile < pixels; tile += WARPS * 16, pixel += WARPS * 16) {
        const Fragment a = next;
        from += WARPS * 16 * PIXEL;
        next = image_fragment(from, pixel + WARPS * 16, pixels, lane % 4 * 8);
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
            const int own = pixel + half * 8;
            const int row = first - p.top + own / IN_COLUMNS, column = own % IN_COLUMNS + PAD_W;
            // Columns that no window reaches have no place in the band. Only stores depend on it, so that the halves overlap.
            const bool exists = own < pixels && column < BAND_COLUMNS;
            Chunk* const to = band + place_of(row, column);
#pragma unroll
            for (int v = 0; v < CHUNK_VECTORS; v++) {
                Vector<Element, 2> pair;
                pair.v[0] = store_as<Element>(expand_program(sums[v][half * 2]));
                pair.v[1] = store_as<Element>(expand_program(sums[v][half * 2 + 1]));
                if (exists) *(Vector<Element, 2>*)&to[v * PLANE].v[lane % 4 * 2] = pair;
            }
        }
    }
}
#else
DEVICE void fill_band(const Element* image, const Element*, const f32*, const Place& p, Chunk* band) {
    if (CONSTANT_PARAMETERS) wait_for_inputs();
    const Element* const from = image + IMAGE_OFFSET + (offset_t)p.image * IMAGE + p.vector * 8;
    // Lines of both vectors of a pair; where a thread is in them is counted on, not divided anew.
    constexpr int LINE = BAND_COLUMNS * PAIR, LINES_ON = THREADS / LINE, PLACES_ON = THREADS % LINE;
#pragma unroll
    for (int first = 0; first < CHUNK_VECTORS; first += PAIR) {
        int line = threadIdx.x / LINE, place = threadIdx.x % LINE;
        while (line < BAND_ROWS) {
            const int v = first + place % PAIR, column = place / PAIR, row = p.top + line;
            const bool exists = inside(row, column - PAD_W) && p.vector + v < LANES / 8;
            const Element* at = from + (exists ? ((offset_t)row * IN_COLUMNS + column - PAD_W) * PIXEL + v * 8 : 0);
            copy_async<true>(shared_address(band + v * PLANE + place_of(line, column)), at, exists);
            line += LINES_ON, place += PLACES_ON;
            if (PLACES_ON > 0 && place >= LINE) place -= LINE, line++;
        }
        copy_async_commit();  // A group for each pair: the first may be used while the others are on their way.
    }
}
#endif

// Weights of the taps, `[tap][vector]`.
DEVICE void copy_filters(const Element* from, const Place& p, Chunk* filters) {
#pragma unroll 1
    for (int i = threadIdx.x; i < TAPS * CHUNK_VECTORS; i += THREADS) {
        const int v = p.vector + i % CHUNK_VECTORS;
        const bool exists = v < LANES / 8;
        copy_async<true>(shared_address(filters + i), from + (exists ? i / CHUNK_VECTORS * LANES + v * 8 : 0), exists);
    }
}

// Two columns of taps, or one: each tap a diagonal, of which a lane holds rows lane % 4 * 2 and the next in column lane / 4.
template <int COLUMNS> DEVICE void read_filters(u32 (&to)[TAPS_H][2], const u16* filters, int w, int lane) {
    const u32 bytes = lane / 8 != lane % 4 ? 0x4444 : lane / 4 % 2 == 0 ? 0x4410 : 0x1044;
#pragma unroll
    for (int h = 0; h < TAPS_H; h++)
#pragma unroll
        for (int i = 0; i < COLUMNS; i++)
            to[h][i] = __byte_perm(filters[(h * TAPS_W + w + i) * (CHUNK_VECTORS * 8) + lane / 4], 0, bytes);
}

// Where lanes read columns `w` and the next: lanes 0 to 15 the first, those from 16 on the second, of which `from` knows already how
// far behind the first it is in columns 0 and 1.
DEVICE u32 columns_at(u32 from, int w, int lane) {
    const int first = place_of(0, w * DILATION_W), second = place_of(0, (w + 1) * DILATION_W) - place_of(0, DILATION_W);
    return from + (first == second || lane < 16 ? first : second) * 16;
}

// Adds two columns of taps, or one, to the sums of 16 items.
template <int COLUMNS> DEVICE void add_columns(f32 (&sums)[RUN][4], const u32 (&filter)[TAPS_H][2], u32 from) {
#pragma unroll
    for (int y = 0; y < SPAN; y++) {
        u32 a[4];
        if (COLUMNS == 2)
            load_matrices(a, from + y * PITCH * 16);
        else
            load_two_matrices(a, from + y * PITCH * 16);
#pragma unroll
        for (int r = 0; r < RUN; r++) {
            const int distance = y - r * STEP_H, h = distance / DILATION_H;
            if (distance < 0 || distance % DILATION_H != 0 || h >= TAPS_H) continue;
            if (COLUMNS == 2)
                multiply_add(sums[r], a, filter[h][0], filter[h][1], Element());
            else
                multiply_add(sums[r], a[0], a[1], filter[h][0], Element());
        }
    }
}

// The taps' weights of a vector that a warp keeps in registers.
struct Filters {
    u32 of[PAIRS_KEPT][TAPS_H][2];

    DEVICE void read(const u16* filters, int lane) {
#pragma unroll
        for (int w = 0; ALL_KEPT && w < TAPS_W; w += 2)
            w + 1 < TAPS_W ? read_filters<2>(of[w / 2], filters, w, lane) : read_filters<1>(of[w / 2], filters, w, lane);
    }
};

// Adds all taps to the sums of 16 items.
DEVICE void add_taps(f32 (&sums)[RUN][4], Filters& kept, const u16* filters, u32 from, int lane) {
#pragma unroll (PAIRS_KEPT)
    for (int w = 0; w + 1 < TAPS_W; w += 2) {
        if (!ALL_KEPT) read_filters<2>(kept.of[0], filters, w, lane);
        add_columns<2>(sums, kept.of[ALL_KEPT ? w / 2 : 0], columns_at(from, w, lane));
    }
    if (TAPS_W % 2 == 1) {
        if (!ALL_KEPT) read_filters<1>(kept.of[0], filters, TAPS_W - 1, lane);
        add_columns<1>(sums, kept.of[ALL_KEPT ? TAPS_W / 2 : 0], columns_at(from, TAPS_W - 1, lane));
    }
}
