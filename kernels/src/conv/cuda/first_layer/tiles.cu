// What first layers of floats and of bytes have in common: tiles, the pixels under them, products and the way out.
//
// A tile is TILE_H × 16 outputs by BN columns. The input under them lies in shared memory with four channels a pixel.
// K runs over the places of the window's rows, four to a part, each with four channels; what has no tap has no weight. A block
// computes one tile after the other with the same weights, and loads the pixels of the next while it multiplies.
constexpr int TILE_W = 16;
constexpr int PARTS = (TAPS_W + 3) / 4, PLACES = PARTS * 4;
constexpr int STEPS = (TAPS_H * PARTS + PARTS_OF_STEP - 1) / PARTS_OF_STEP;
constexpr int HALO_H = (TILE_H - 1) * STEP_H + (TAPS_H - 1) * DILATION_H + 1;
constexpr int HALO_W = (TILE_W - 1) * STEP_W + (TAPS_W - 1) * DILATION_W + 1;
// Vectors of pixels begin at multiples of their width, so that each lies inside of a row or outside: LEAD pixels before the first tap.
constexpr int LEAD = (LOADED - PAD_W % LOADED) % LOADED;
constexpr int PITCH = (LEAD + HALO_W + LOADED - 1) / LOADED * LOADED, PIXELS = HALO_H * PITCH;
constexpr int VECTORS = PIXELS / LOADED;
constexpr int LOADS = (VECTORS + THREADS - 1) / THREADS;  // Of a thread.
constexpr int AT_ONCE = LOADS < HELD ? LOADS : HELD;      // Of them, those that are under way while a tile is multiplied.
static_assert(TILE_W * STEP_W % LOADED == 0 && (LOADED == 1 || INPUT_W % LOADED == 0), "vectors");
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

struct Tile {
    int n, h, w;  // Image, and first output.
};
DEVICE Tile tile_of(int number) { return {number / (TILES_W * TILES_H), number / TILES_W % TILES_H * TILE_H, number % TILES_W * TILE_W}; }
DEVICE int column_of_block() { return (int)blockIdx.x % N_TILES * BN; }

// Vectors of pixels from `first` on that a thread loads before it stores the first of them. They stay as they were loaded until then, since
// a load behind arithmetic would wait for what the arithmetic waits for.
template <typename Pixels> struct Loads {
    typedef typename Pixels::Element Element;
    typedef Vector<u32, Pixels::WORDS> Stored;
    Pixels loaded[AT_ONCE];

    DEVICE void load(const Operands& o, const Tile& t, int first) {
        const Element* const image = (const Element*)o.a + A_OFFSET + t.n * A_N;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int vector = (first + i) * THREADS + (int)threadIdx.x;
            const int h = t.h * STEP_H - PAD_H + vector / (PITCH / LOADED);
            const int w = t.w * STEP_W - PAD_W - LEAD + vector % (PITCH / LOADED) * LOADED;
            loaded[i].load(image + (h * A_H + w * A_W), vector < VECTORS && (u32)h < INPUT_H && (u32)w < INPUT_W);
        }
    }

    // What is stored is held in registers, so that the store alone depends on a condition: the compiler moves loads behind a branch before
    // them.
    DEVICE void store(unsigned char* to, int first) const {
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int vector = (first + i) * THREADS + (int)threadIdx.x;
            Stored pixels = loaded[i].pixels();
#pragma unroll
            for (int word = 0; word < Pixels::WORDS; word++) asm volatile("" : "+r"(pixels.v[word]));
            if (vector < VECTORS) ((Stored*)to)[vector] = pixels;
        }
    }
};

// Computes the block's tiles. `buffers` has room for the pixels of one tile, of two where a block has several. `prepare` comes while the first
// pixels are under way; `compute` finishes a tile whose pixels are there.
template <typename Pixels, typename Prepare, typename Compute>
DEVICE void walk_tiles(const Operands& o, unsigned char* buffers, Prepare prepare, Compute compute) {
    constexpr int BUFFER = (PIXELS * (int)sizeof(Vector<u32, Pixels::WORDS>) / LOADED + 15) / 16 * 16;
    int number = (int)blockIdx.x / N_TILES;
    unsigned char* pixels = buffers;
    Loads<Pixels> loads;
    loads.load(o, tile_of(number), 0);
    prepare();
    while (true) {
        const Tile t = tile_of(number);
        loads.store(pixels, 0);
#pragma unroll 1
        for (int first = AT_ONCE; first < LOADS; first += AT_ONCE) {
            loads.load(o, t, first);
            loads.store(pixels, first);
        }
        __syncthreads();
        number += WALKERS;
        const bool more = TILES > WALKERS && number < TILES;
        if (more) loads.load(o, tile_of(number), 0);
        compute(t, pixels);
        if (!more) break;
        pixels = pixels == buffers ? buffers + BUFFER : buffers;
    }
}

#if TENSOR_CORES
// Fragments of a warp: 16 columns, and rows of 16 pixels.
constexpr int OWN_COLUMNS = BN / 16 / WN, OWN_ROWS = TILE_H / WM;
static_assert(THREADS == 32 * WM * WN && OWN_COLUMNS > 0 && OWN_ROWS > 0, "warps");
// Columns that a lane has of VECTOR_COLUMNS / 4 fragments are neighbours.
constexpr int OWN_VECTORS = OWN_COLUMNS * 4 / VECTOR_COLUMNS, COLUMNS_OF_VECTORS = VECTOR_COLUMNS * 4;

// The column, within a tile, that line `line` of half `half` of fragment `fragment` multiplies.
DEVICE int column_of_line(int fragment, int half, int line) {
    constexpr int FRAGMENTS = VECTOR_COLUMNS / 4;
    return fragment / FRAGMENTS * COLUMNS_OF_VECTORS + line / 2 * VECTOR_COLUMNS + fragment % FRAGMENTS * 4 + half * 2 + line % 2;
}

// The first word of a place's weights, and whether it has any: the tap `place` of row `row`, column `column` of the output.
DEVICE const u32* weights_at(const Operands& o, int column, int row, int place, bool& exists) {
    exists = row < TAPS_H && place < TAPS_W && column < N;
    return (const u32*)(o.b + column * B_N + (row * TAPS_W + place) * 4);
}

// Weights on their way to shared memory as fragments: 16 bytes a lane, those of 16 columns after each other, then steps.
template <typename Weights> struct Fragments {
    static constexpr int ALL = STEPS * (BN / 16), WARPS = THREADS / 32, OWN = (ALL + WARPS - 1) / WARPS;
    uint4 loaded[OWN];
    DEVICE explicit Fragments(const Operands& o) {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const int fragment = i * WARPS + (int)threadIdx.x / 32;
            int columns[2];
#pragma unroll
            for (int half = 0; half < 2; half++) columns[half] = column_of_block() + column_of_line(fragment % (BN / 16), half, lane / 4);
            loaded[i] = Weights::load(o, columns, fragment / (BN / 16), lane % 4);
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

// Sums of a warp: of each row's 16 pixels by 16 columns, two halves of eight columns.
typedef Sum Sums[OWN_COLUMNS][OWN_ROWS][2][4];

// Sums of the warp's columns and pixels. `pixels` reads what a lane multiplies of one in a step.
template <typename Reader, typename Factor>
DEVICE void multiply_tile(const Reader& pixels, const uint4* weights, Sums& sums, Factor factor) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint4* const own = weights + warp / WM * OWN_COLUMNS * 32 + lane;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        uint4 b[OWN_COLUMNS];
#pragma unroll
        for (int i = 0; i < OWN_COLUMNS; i++) b[i] = own[(step * (BN / 16) + i) * 32];
#pragma unroll
        for (int j = 0; j < OWN_ROWS; j++) {
            const uint2 low = pixels.read(step, j * STEP_H * PITCH), high = pixels.read(step, j * STEP_H * PITCH + 8 * STEP_W);
            const u32 a[4] = {low.x, high.x, low.y, high.y};
#pragma unroll
            for (int i = 0; i < OWN_COLUMNS; i++) {
                multiply_add(sums[i][j][0], a, b[i].x, b[i].y, factor);
                multiply_add(sums[i][j][1], a, b[i].z, b[i].w, factor);
            }
        }
    }
}

// Pixel of the shared memory under a lane's first output.
DEVICE int own_pixel() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    return warp % WM * OWN_ROWS * STEP_H * PITCH + lane / 4 * STEP_W + LEAD;
}

// The biases of a lane's columns.
typedef Bias Biases[OWN_VECTORS][VECTOR_COLUMNS];
DEVICE int own_column() {
    return column_of_block() + (int)threadIdx.x / 32 / WM * OWN_COLUMNS * 16 + (int)threadIdx.x % 4 * VECTOR_COLUMNS;
}
DEVICE void load_biases(const Operands& o, Biases& biases) {
#pragma unroll
    for (int i = 0; i < OWN_VECTORS; i++) load_bias(o, biases[i], own_column() + i * COLUMNS_OF_VECTORS, 0);
}

// A lane finishes what it multiplied.
DEVICE void finish_tile(const Operands& o, const Tile& t, const Sums& sums, const Biases& biases) {
    const int first_h = t.h + (int)threadIdx.x / 32 % WM * OWN_ROWS, first_w = t.w + (int)threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < OWN_ROWS * 2; i++) {
        const int h = first_h + i / 2, w = first_w + i % 2 * 8, row = (t.n * OUTPUT_H + h) * OUTPUT_W + w;
        if (h >= OUTPUT_H || w >= OUTPUT_W) continue;
#pragma unroll
        for (int vector = 0; vector < OWN_VECTORS; vector++) {
            const int column = own_column() + vector * COLUMNS_OF_VECTORS;
            if (column >= N_STORED) continue;
            Vectored sum[VECTOR_COLUMNS];
#pragma unroll
            for (int j = 0; j < VECTOR_COLUMNS; j++)
                sum[j] = sums[(vector * VECTOR_COLUMNS + j) / 4][i / 2][j / 2 % 2][i % 2 * 2 + j % 2];
            finish_vector(o, sum, biases[vector], load_extras(o, row, column, 0), row, column, 0);
        }
    }
}

// The whole kernel, with the pixels behind the weights in shared memory.
template <typename Pixels, typename Weights, typename Reader, typename Factor> DEVICE void first_layer(const Operands& o, Factor factor) {
    extern __shared__ __align__(16) unsigned char shared[];
    uint4* const weights = (uint4*)shared;
    if (!CONSTANT_WEIGHTS) wait_for_inputs();
    const Fragments<Weights> fragments(o);
    Biases biases;
    load_biases(o, biases);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    const auto prepare = [&] { fragments.store(weights); };
    walk_tiles<Pixels>(o, shared + STEPS * BN * 32, prepare, [&](const Tile& t, const unsigned char* pixels) {
        Sums sums = {};
        multiply_tile(Reader(pixels), weights, sums, factor);
        finish_tile(o, t, sums, biases);
    });
}
#endif
