// What first layers of floats and of bytes have in common: tiles, the pixels under them, products and the way out.
//
// A block computes TILE_H × 16 outputs by BN columns. The input under them lies in shared memory with four channels a pixel.
// K runs over the places of the window's rows, four to a part, each with four channels; what has no tap has no weight. Weights
// are the rows of an instruction and pixels its columns: then what a lane multiplies of a pixel lies side by side, and
// weights are stored as the instruction takes them.
constexpr int TILE_W = 16;
constexpr int BM = TILE_H * TILE_W;
constexpr int PARTS = (TAPS_W + 3) / 4, PLACES = PARTS * 4;
constexpr int STEPS = (TAPS_H * PARTS + PARTS_OF_STEP - 1) / PARTS_OF_STEP;
constexpr int HALO_H = (TILE_H - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STEP_W + (TAPS_W - 1) * DILATION_W + 1;
// Vectors of pixels begin at multiples of their width, so that each lies inside of a row or outside: LEAD pixels before the first tap.
constexpr int LEAD = (LOADED - PAD_W % LOADED) % LOADED;
constexpr int PITCH = (LEAD + HALO_W + LOADED - 1) / LOADED * LOADED, PIXELS = HALO_H * PITCH;
constexpr int VECTORS = PIXELS / LOADED;
constexpr int LOADS = (VECTORS + THREADS - 1) / THREADS;  // Of a thread.
static_assert(TILE_W * STEP_W % LOADED == 0 && (LOADED == 1 || INPUT_W % LOADED == 0), "vectors");
constexpr int VECTORS_OF_ROW = BN / 8;  // Of eight columns, one of which a thread finishes.
constexpr int PASSES = (BM * VECTORS_OF_ROW + THREADS - 1) / THREADS;
constexpr int STAGE_PITCH = BN + 4;     // Free of bank conflicts.
static_assert(THREADS % VECTORS_OF_ROW == 0, "tile");
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

struct Tile {
    int column, n, h, w;  // First output column, image, and first output.
};

DEVICE Tile this_tile() {
    const int tile = blockIdx.x / N_TILES;
    return {(int)blockIdx.x % N_TILES * BN, tile / (TILES_W * TILES_H), tile / TILES_W % TILES_H * TILE_H, tile % TILES_W * TILE_W};
}

// Copies the pixels under a tile to shared memory: HELD loads of a thread before the first store, with `beside` between them. Pixels stay
// as they were loaded until then, since a load behind arithmetic would wait for what the arithmetic waits for. What is stored is held in
// registers, so that the store alone depends on a condition: the compiler moves loads behind a branch before them.
template <typename Pixels, typename Beside>
DEVICE void copy_pixels(const Operands& o, const Tile& t, unsigned char* to, Beside beside) {
    typedef typename Pixels::Element Element;
    typedef Vector<u32, Pixels::WORDS> Stored;
    constexpr int AT_ONCE = LOADS < HELD ? LOADS : HELD;
    const Element* const image = (const Element*)o.a + A_OFFSET + t.n * A_N;
#pragma unroll 1
    for (int first = 0; first < LOADS; first += AT_ONCE) {
        Pixels loaded[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int vector = (first + i) * THREADS + (int)threadIdx.x;
            const int h = t.h * STEP_H - PAD_H + vector / (PITCH / LOADED);
            const int w = t.w * STEP_W - PAD_W - LEAD + vector % (PITCH / LOADED) * LOADED;
            loaded[i].load(image + (h * A_H + w * A_W), vector < VECTORS && (u32)h < INPUT_H && (u32)w < INPUT_W);
        }
        if (first == 0) beside();
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int vector = (first + i) * THREADS + (int)threadIdx.x;
            Stored pixels = loaded[i].pixels();
#pragma unroll
            for (int word = 0; word < Pixels::WORDS; word++) asm volatile("" : "+r"(pixels.v[word]));
            if (vector < VECTORS) ((Stored*)to)[vector] = pixels;
        }
    }
}

#if TENSOR_CORES
// Fragments of a warp: 16 columns or 8 pixels each, two of those to a row of the tile.
constexpr int OWN_COLUMNS = BN / 16 / WN, OWN_PIXELS = BM / 8 / WM;
static_assert(THREADS == 32 * WM * WN && OWN_COLUMNS > 0 && OWN_PIXELS > 0 && OWN_PIXELS % 2 == 0, "warps");

// The first word of a place's weights, and whether it has any: the tap `place` of row `row`, column `column` of the output.
DEVICE const u32* weights_at(const Operands& o, int column, int row, int place, bool& exists) {
    exists = row < TAPS_H && place < TAPS_W && column < N;
    return (const u32*)(o.b + column * B_N + (row * TAPS_W + place) * 4);
}

// Weights on their way to shared memory as fragments: 16 bytes a lane, those of 16 columns after each other, then steps.
template <typename Weights> struct Fragments {
    static constexpr int ALL = STEPS * (BN / 16), WARPS = THREADS / 32, OWN = (ALL + WARPS - 1) / WARPS;
    uint4 loaded[OWN];
    DEVICE Fragments(const Operands& o, const Tile& t) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int fragment = i * WARPS + (int)threadIdx.x / 32;
            const int column = t.column + fragment % (BN / 16) * 16 + lane / 4;
            loaded[i] = Weights::load(o, column, fragment / (BN / 16), lane % 4);
        }
    }
    DEVICE void store(uint4* to) const {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int at = i * THREADS + (int)threadIdx.x;
            if (at < ALL * 32) to[at] = loaded[i];
        }
    }
};

// Sums of the warp's columns and pixels. `pixels` reads what a lane multiplies of one in a step.
template <typename Reader, typename Factor> DEVICE void multiply_tile(
    const Reader& pixels, const uint4* weights, Sum (&sums)[OWN_COLUMNS][OWN_PIXELS][4], Factor factor) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint4* const own = weights + warp / WM * OWN_COLUMNS * 32 + lane;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        u32 a[OWN_COLUMNS][4];
#pragma unroll
        for (int i = 0; i < OWN_COLUMNS; i++) {
            const uint4 w = own[(step * (BN / 16) + i) * 32];
            a[i][0] = w.x, a[i][1] = w.y, a[i][2] = w.z, a[i][3] = w.w;
        }
#pragma unroll
        for (int j = 0; j < OWN_PIXELS; j++) {
            const uint2 b = pixels.read(step, j / 2 * STEP_H * PITCH + j % 2 * 8 * STEP_W);
#pragma unroll
            for (int i = 0; i < OWN_COLUMNS; i++) multiply_add(sums[i][j], a[i], b.x, b.y, factor);
        }
    }
}

// Pixel of the shared memory under a lane's first output.
DEVICE int own_pixel() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return warp % WM * (OWN_PIXELS / 2) * STEP_H * PITCH + lane / 4 * STEP_W + LEAD;
}

// Sums go through shared memory so that a thread gets eight neighbouring columns.
DEVICE void stage(const Sum (&sums)[OWN_COLUMNS][OWN_PIXELS][4], Sum* staged) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    Sum* const own = staged + (warp % WM * OWN_PIXELS * 8 + lane % 4 * 2) * STAGE_PITCH + warp / WM * OWN_COLUMNS * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < OWN_COLUMNS; i++)
#pragma unroll
        for (int j = 0; j < OWN_PIXELS; j++)
#pragma unroll
            for (int r = 0; r < 4; r++) own[(j * 8 + r % 2) * STAGE_PITCH + i * 16 + r / 2 * 8] = sums[i][j][r];
}
#endif

// Finishes the block's vectors of eight columns. `sum_of` gives the sums of one: number `vector` of output `local` of the tile.
template <typename SumOf> DEVICE void finish_tile(const Operands& o, const Tile& t, const Bias (&bias)[8], SumOf sum_of) {
    const int vector = threadIdx.x % VECTORS_OF_ROW, column = t.column + vector * 8;
#pragma unroll
    for (int i = 0; i < PASSES; i++) {
        const int local = (i * THREADS + (int)threadIdx.x) / VECTORS_OF_ROW;
        const int h = t.h + local / TILE_W, w = t.w + local % TILE_W;
        if (local >= BM || h >= OUTPUT_H || w >= OUTPUT_W || column >= N_STORED) continue;
        Vectored sum[8];
        sum_of(local, vector, sum);
        const int row = (t.n * OUTPUT_H + h) * OUTPUT_W + w;
        finish_vector(o, sum, bias, load_extras(o, row, column, 0), row, column, 0);
    }
}

#if TENSOR_CORES
DEVICE void finish_staged(const Operands& o, const Tile& t, const Bias (&bias)[8], const Sum* staged) {
    finish_tile(o, t, bias, [&](int local, int vector, Vectored (&sum)[8]) {
        const Sum* const from = staged + local * STAGE_PITCH + vector * 8;
        const Sum4 low = *(const Sum4*)from, high = *(const Sum4*)(from + 4);
        sum[0] = low.x, sum[1] = low.y, sum[2] = low.z, sum[3] = low.w;
        sum[4] = high.x, sum[5] = high.y, sum[6] = high.z, sum[7] = high.w;
    });
}
#endif
