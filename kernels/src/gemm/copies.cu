// Copies of a tiled product on tensor cores: implicit-GEMM convolution and matrix product.
//
// A is gathered: row m of A is an output position, its K elements the channels under each tap of the window. The tiles of
// A (BM×BK) and B (BN×BK) come in 16-byte chunks of K through a ring of STAGES buffers filled by cp.async; chunks are
// swizzled by XOR so that neither the copies nor the readers meet bank conflicts.
constexpr int CHUNK = 16 / (int)sizeof(AElement);  // Elements of a chunk.
constexpr int CHUNKS = BK / CHUNK;              // Chunks in a row of a tile.
constexpr int LINES = THREADS / CHUNKS;         // Rows that all threads copy at once.
constexpr bool WHOLE_LINES = THREADS % CHUNKS == 0;  // Threads beyond whole lines copy nothing.
constexpr int A_COPIES = (BM + LINES - 1) / LINES;
// A tile of a patch lies under one tap, whose channels are so many of them. What the last has more than the tap is zeros.
constexpr int PIECES = (CHANNELS + BK - 1) / BK;
constexpr bool FILLED = PATCH && CHANNELS % BK != 0;
constexpr int K_TILES = PATCH ? TAPS * PIECES : (K + BK - 1) / BK;
static_assert(!FILLED || PIECES == 1, "a tile that is filled up has all channels");
constexpr int A_BYTES = PATCH ? 0 : BM * CHUNKS * 16;
constexpr int STAGE_BYTES = A_BYTES + BN * CHUNKS * 16;
static_assert(PATCH || WHOLE_LINES, "tile");

// Byte offset of a chunk in a tile whose rows have WIDTH chunks: 128 bytes hold all 32 banks, so that the eight rows
// of a matrix must differ in the low three bits of their chunk address. Rows that begin at multiples of POWER chunks do, if
// chunks of as many are exchanged.
template <int WIDTH> DEVICE u32 swizzled(int row, int chunk) {
    constexpr int POWER = WIDTH % 8 == 0 ? 8 : WIDTH & -WIDTH;
    return (u32)(row * WIDTH + (chunk ^ (row / (8 / POWER) & POWER - 1))) * 16;
}

// The address of the chunk that is `pairs` pairs of chunks behind the one at `first`, in a row of WIDTH. Where rows are no power of two
// long, the swizzle exchanges neighbours alone.
template <int WIDTH> DEVICE u32 pairs_behind(u32 first, int pairs) {
    static_assert((WIDTH & WIDTH - 1) == 0 || WIDTH % 4 == 2, "tile");
    return (WIDTH & WIDTH - 1) == 0 ? first ^ pairs * 32 : first + pairs * 32;
}

#if B_COLUMNS_CONTIGUOUS
// Threads beyond whole lines copy nothing.
constexpr int B_CHUNKS = BN / 8, B_LINES = THREADS / B_CHUNKS, B_COPIES = (BK + B_LINES - 1) / B_LINES;
#else
constexpr int B_COPIES = (BN + LINES - 1) / LINES;
#endif

// Whether no step writes B, nor the bias where there is one.
constexpr bool CONSTANT_WEIGHTS = (~CONSTANT_INPUTS & (HAS_BIAS ? 6u : 2u)) == 0;

// A row of A as the copies see it: its element under tap 0 and, a bit for each tap, whether the tap is inside of the
// input, so that a copy costs one test and one addition. Windows with more taps compare places instead.
constexpr bool MASKED = TAPS <= 32;
struct CopyRow {
    Row at;
    u32 taps;
};
DEVICE CopyRow copy_row(int m, int batch) {
    CopyRow row = {row_of_a(m < M ? m : 0, batch), 0};
    // A row past the end is outside of the input for every tap.
    if (!MASKED) row.taps = m < M;
#pragma unroll
    for (int tap = 0; MASKED && tap < TAPS; tap++)
        row.taps |= m < M && inside_of_a(row.at, tap_of_a(tap * CHANNELS)) ? 1u << tap : 0u;
    return row;
}

// A chunk of A, or the padding value where it lies outside: the zero point of integers. The barrier that covers the copies covers
// its store.
template <bool CACHED> DEVICE void copy_or_pad(u32 to, const AElement* from, bool inside) {
#if OUTSIDE_WORD
    if (!inside) return store_chunk(to, OUTSIDE_WORD);
#endif
    copy_async<CACHED>(to, from, inside);
}

// What a thread copies: the same chunk of rows line, line + LINES, … of each tile.
struct Copies {
    u32 ring;  // Address of the ring in shared memory.
    int chunk, line, column;
    const BElement* b_lines;
    const AElement* a_chunk;
#if EVEN_ROWS
    int rows_left;  // From the first row that the thread copies.
#else
    CopyRow rows[ROWS_IN_TABLE ? 1 : A_COPIES];
    const int2* first_row;  // In the table of rows.
#endif

    // GUARDED copies are made where `run` is true, without a branch.
    template <bool GUARDED, bool CACHED = false> DEVICE static void copy(bool run, u32 to, const void* from, bool inside) {
        if (GUARDED)
            copy_async_if(run, to, from, inside);
        else
            copy_async<CACHED>(to, from, inside);
    }

#if B_COLUMNS_CONTIGUOUS
    DEVICE void find_b(const Operands& o, const Tile& t) {
        column = t.column + (int)threadIdx.x % B_CHUNKS * 8;
        b_lines = o.b + batch_of_b(t.batch) + (int)threadIdx.x / B_CHUNKS * B_K + column;
    }
    template <bool GUARDED = false> DEVICE void copy_b(int k_tile, int stage, int begin = 0, int end = B_COPIES, bool run = true) const {
        const int b_chunk = (int)threadIdx.x % B_CHUNKS, b_line = (int)threadIdx.x / B_CHUNKS;
        const u32 to = ring + stage * STAGE_BYTES + A_BYTES;
        const BElement* from = b_lines + k_tile * BK * B_K;
        const bool mine = THREADS % B_CHUNKS == 0 || b_line < B_LINES;
        if (!GUARDED && !mine) return;
#pragma unroll
        for (int i = begin; i < end; i++) {
            const int row = b_line + i * B_LINES;
            const bool exists = (i + 1) * B_LINES <= BK || row < BK;
            if (!GUARDED && !exists) break;
            const bool inside = (K % BK == 0 || k_tile * BK + row < K) && (N % BN == 0 || column < N);
            copy<GUARDED>(run && mine && exists, to + swizzled<B_CHUNKS>(row, b_chunk), from + i * B_LINES * B_K, inside);
        }
    }
#else
    DEVICE void find_b(const Operands& o, const Tile& t) {
        column = t.column + column_of_line(line);
        b_lines = o.b + batch_of_b(t.batch) + column * B_N + (UNIFORM_TAPS ? chunk * CHUNK : 0);
    }
    // From the column of the thread's first line to that of line number `i`. Places of bits change, so that parts of a number without
    // common bits change on their own.
    DEVICE int columns_to(int i) const {
        const bool parted = (LINES & LINES - 1) == 0 || LINES % 64 == 0;
        return parted ? column_of_line(i * LINES) : column_of_line(line + i * LINES) - column_of_line(line);
    }
    template <bool GUARDED = false> DEVICE void copy_b(int k_tile, int stage, int begin = 0, int end = B_COPIES, bool run = true) const {
        const u32 to = ring + stage * STAGE_BYTES + A_BYTES;
        const int k = FILLED ? k_tile * CHANNELS : k_tile * BK + (UNIFORM_TAPS ? 0 : chunk * CHUNK);
        const bool k_inside = FILLED ? chunk * CHUNK < CHANNELS : K % BK == 0 || k < K;
        const BElement* from = b_lines + k_of_b(k_inside ? k : 0);
#pragma unroll
        for (int i = begin; i < end; i++) {
            const int row = line + i * LINES;
            const bool exists = ((i + 1) * LINES <= BN || row < BN) && (WHOLE_LINES || line < LINES);
            if (!GUARDED && !exists) break;
            const bool inside = k_inside && (N % BN == 0 || column + columns_to(i) < N);
            copy<GUARDED>(run && exists, to + swizzled<CHUNKS>(row, chunk), from + columns_to(i) * B_N, inside);
        }
    }
#endif

#if PATCH
    static constexpr int PATCH_COPIES = (PATCH_PIXELS + LINES - 1) / LINES;
    int y, x;  // Of the first pixel of the patch.
    DEVICE void find_a(const Operands& o, const Tile& t, unsigned char*) {
        y = t.y - PAD_H, x = t.x - PAD_W;
        a_chunk = o.a + A_OFFSET + t.image * A_IMAGE + chunk * CHUNK;
    }
    // The channels of one K tile of every pixel that the tile's windows see: COUNT lines of a thread's, from line number `first` on,
    // into the patch at `buffer`.
    template <int COUNT> DEVICE void copy_patch(int piece, u32 buffer, int first) const {
        const u32 to = ring + PATCH_AT + buffer;
        const AElement* from = opaque(a_chunk + piece * BK);
#pragma unroll
        for (int i = 0; i < COUNT; i++) {
            const int pixel = line + (first + i) * LINES;
            const bool known = COUNT == PATCH_COPIES && (i + 1) * LINES <= PATCH_PIXELS;
            if (!known && pixel >= PATCH_PIXELS || !WHOLE_LINES && line >= LINES) break;
            const int at_y = y + pixel / PATCH_W, at_x = x + pixel % PATCH_W;
            const bool exists = !FILLED || chunk * CHUNK < CHANNELS;
            const bool inside = exists && (u32)at_y < (u32)IN_H && (u32)at_x < (u32)IN_W;
            copy_or_pad<false>(to + pixel * PIXEL_BYTES + chunk * 16, from + at_y * A_H + at_x * A_W, inside);
        }
    }
#elif EVEN_ROWS
    // Rows lie A_ROW elements apart and have one tap: nothing is kept of each.
    DEVICE void find_a(const Operands& o, const Tile& t, unsigned char*) {
        const int row = t.row + line;
        a_chunk = o.a + (UNIFORM_TAPS ? chunk * CHUNK : 0) + row_of_a(0, t.batch).offset + (i64)row * A_ROW;
        rows_left = M - row;
    }
    template <bool GUARDED = false> DEVICE void copy_a(int k_tile, int stage, int begin = 0, int end = A_COPIES, bool run = true) const {
        const u32 to = ring + stage * STAGE_BYTES;
        const int k = k_tile * BK + (UNIFORM_TAPS ? 0 : chunk * CHUNK);
        const bool k_inside = K % BK == 0 || k < K;
        const AElement* from = opaque(a_chunk + tap_of_a(k_inside ? k : 0).offset);
#pragma unroll
        for (int i = begin; i < end; i++) {
            const int row = line + i * LINES;
            const bool exists = (i + 1) * LINES <= BM || row < BM;
            if (!GUARDED && !exists) break;
            const bool inside = k_inside && (M % BM == 0 || i * LINES < rows_left);
            copy<GUARDED, A_CACHED>(run && exists, to + swizzled<CHUNKS>(row, chunk), from + i * LINES * A_ROW, inside);
        }
    }
#else
    DEVICE void find_a(const Operands& o, const Tile& t, unsigned char* shared) {
        a_chunk = o.a + (UNIFORM_TAPS ? chunk * CHUNK : 0);
        if (ROW_TABLE) {
            // Each row is computed once and read by all threads that copy parts of it.
            int2* const table = (int2*)(shared + TABLE_AT);
#pragma unroll 1
            for (int row = threadIdx.x; row < BM; row += THREADS) {
                const CopyRow copied = copy_row(t.row + row, t.batch);
                table[row] = make_int2(copied.at.offset, (int)copied.taps);
            }
            __syncthreads();
            first_row = table + line;
#pragma unroll
            for (int i = 0; !ROWS_IN_TABLE && i < A_COPIES; i++) {
                const int row = line + i * LINES;
                const int2 copied = table[(i + 1) * LINES <= BM || row < BM ? row : 0];
                rows[i].at.offset = copied.x;
                rows[i].taps = (u32)copied.y;
            }
        } else {
#pragma unroll
            for (int i = 0; i < A_COPIES; i++) rows[i] = copy_row(t.row + line + i * LINES, t.batch);
        }
    }
    DEVICE void copy_a(int k_tile, int stage) const {
        const u32 to = ring + stage * STAGE_BYTES;
        // Where a whole tile lies under one tap, the tap is the same for all threads.
        const int k = k_tile * BK + (UNIFORM_TAPS ? 0 : chunk * CHUNK);
        const bool k_inside = K % BK == 0 || k < K;
        const Tap tap = tap_of_a(k_inside ? k : 0);
        const u32 bit = k_inside ? 1u << (MASKED ? k / CHANNELS : 0) : 0u;
        const AElement* from = opaque(a_chunk + tap.offset);
#pragma unroll
        for (int i = 0; i < A_COPIES; i++) {
            const int row = line + i * LINES;
            if ((i + 1) * LINES > BM && row >= BM) break;
            CopyRow copied = rows[ROWS_IN_TABLE ? 0 : i];
            if (ROWS_IN_TABLE) copied.at.offset = first_row[i * LINES].x, copied.taps = (u32)first_row[i * LINES].y;
            const bool inside = ALWAYS_INSIDE || ((copied.taps & bit) != 0 && (MASKED || inside_of_a(copied.at, tap)));
            copy_or_pad<A_CACHED>(to + swizzled<CHUNKS>(row, chunk), from + copied.at.offset, inside);
        }
    }
#endif
};

#if PATCH
// Turns go through the taps of one piece of the channels before the next piece: the K tile of a turn.
DEVICE int k_tile_of(int turn) { return turn % TAPS * PIECES + turn / TAPS; }
#else
DEVICE int k_tile_of(int turn) { return turn; }
#endif

// What a turn of a patched product knows of its number, advanced from turn to turn ahead of its use: divisions behind the barrier would
// hold back the first products of each turn. Gathered rows lose by it.
struct Walk {
#if PATCH
    int piece;   // Of the channels.
    int tap, x;  // Number of the tap, its column.
    int tile;    // The K tile that the turn copies.
    u32 buffer;  // Where the patch lies among those in shared memory.
    u32 patch;   // What patch and tap add to the address of a pixel.

    DEVICE Walk(int turn) {
        piece = turn / TAPS, tap = turn % TAPS, x = tap % TAPS_W, tile = k_tile_of(turn + STAGES - 1);
        buffer = piece % PATCHES * PATCH_BYTES;
        patch = buffer + (tap / TAPS_W * PATCH_W + x) * PIXEL_BYTES;
    }
    DEVICE void advance() {
        const bool last = tap == TAPS - 1, last_of_line = x == TAPS_W - 1;
        buffer = last ? other_buffer() : buffer;
        patch = last ? buffer : patch + (last_of_line ? PATCH_W - TAPS_W + 1 : 1) * PIXEL_BYTES;
        piece += last, tap = last ? 0 : tap + 1, x = last_of_line ? 0 : x + 1;
        // From one tap to the next, or to the next piece of the first.
        tile += tile + PIECES < K_TILES ? PIECES : PIECES - (K_TILES - 1);
        asm volatile("" : "+r"(piece), "+r"(tap), "+r"(x), "+r"(tile), "+r"(buffer), "+r"(patch));
    }
    DEVICE u32 other_buffer() const { return PATCHES > 1 ? PATCH_BYTES - buffer : buffer; }
#else
    static constexpr u32 patch = 0;
    DEVICE Walk(int) {}
    DEVICE void advance() {}
#endif
};

// Starts the copies that a turn on `stage` leaves room for: their buffer was read in the turn before, whose barrier says that all
// warps are through.
DEVICE void copy_ahead(const Copies& copies, const Walk& walk, int turn, int last, int stage) {
    const int ahead = turn + STAGES - 1, to = stage == 0 ? STAGES - 1 : stage - 1;
#if PATCH
    if (ahead < last) copies.copy_b(walk.tile, to);
    // One patch ahead, into the place of the one before this, a part in each turn that leaves time until the next piece.
    constexpr int TURNS = TAPS - STAGES + 2, PART = (Copies::PATCH_COPIES + TURNS - 1) / TURNS;
    static_assert(TURNS > 0, "tile");
    if (PIECES > 1 && walk.tap < TURNS && (walk.piece + 1) * TAPS < last)
        copies.copy_patch<PART>(walk.piece + 1, walk.other_buffer(), walk.tap * PART);
#else
    if (ahead < last) copies.copy_b(ahead, to);
    if (ahead < last) copies.copy_a(ahead, to);
#endif
    copy_async_commit();
}

#if PATCH
// Address of a chunk of what row `row` of the tile reads in the first patch, under tap 0: pixels lie PIXEL_BYTES apart, so that rows on
// one line meet no bank conflicts. Rows without an output read the first one's pixel.
DEVICE u32 pixel_address(u32 ring, int row, int chunk) {
    const int inside = row < TILE_H * TILE_W ? row : 0;
    return ring + PATCH_AT + (inside / TILE_W * PATCH_W + inside % TILE_W) * PIXEL_BYTES + chunk * 16;
}
#endif

// Starts the copies of the first AHEAD tiles of K, a group each, and loads the bias of the thread's columns if EARLY_BIAS.
template <int AHEAD, bool EARLY_BIAS = true>
DEVICE Copies start_copies(const Operands& o, const Tile& t, unsigned char* shared, int first, int last, Bias (&bias)[GROUPS][VECTOR_COLUMNS]) {
    Copies copies;
    copies.ring = shared_address(shared);
    copies.chunk = (int)threadIdx.x % CHUNKS;
    copies.line = (int)threadIdx.x / CHUNKS;
    copies.find_b(o, t);
    // Copies of B come first: they need no division, and constant weights need not wait for the kernel before.
    if (!CONSTANT_WEIGHTS) wait_for_inputs();
#pragma unroll (COMPACT ? 1 : AHEAD)
    for (int s = 0; s < AHEAD; s++)
        if (first + s < last) copies.copy_b(k_tile_of(first + s), s);
    if (EARLY_BIAS) load_biases(o, t, bias);
    copies.find_a(o, t, shared);
    if (CONSTANT_WEIGHTS) wait_for_inputs();
    // What is copied with the first tile is there when the products are.
    epilogue_tables([](void* to, const void* from, int bytes) {
#pragma unroll 1
        for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
            copy_async<false>(shared_address(to) + i, (const u8*)from + i, true);
    });
#if GIVEN_MOMENTS
    GivenMoments given;
    given.begin(o, t);
#endif
#pragma unroll (COMPACT ? 1 : AHEAD)
    for (int s = 0; s < AHEAD; s++) {
#if PATCH
        if (s == 0) copies.copy_patch<Copies::PATCH_COPIES>(first / TAPS, first / TAPS % PATCHES * PATCH_BYTES, 0);
#else
        if (first + s < last) copies.copy_a(first + s, s);
#endif
        copy_async_commit();
    }
#if GIVEN_MOMENTS
    given.take(o, t);
#endif
    return copies;
}

#if SCALED
// What A's columns are scaled by, of a word each.
constexpr int FACTORS = K_TILES * BK * (int)sizeof(AElement) / 4;

// Made while the first tiles are under way, whose barrier covers them.
DEVICE void share_factors(const Operands& o, unsigned char* shared) {
    for (int word = threadIdx.x; word < FACTORS; word += THREADS) {
        const int k = word * 4 / (int)sizeof(AElement);
        ((Factors*)(shared + SCALES_AT))[word] = factors_of(k < K ? *(const u32*)(o.scale + SCALE_OFFSET + k) : 0u);
    }
}

// Those of a lane in a step, whose words lie four apart.
struct StepFactors {
    Factors low, high;
    DEVICE void read(const unsigned char* shared, int k, int lane) {
        const Factors* const from = (const Factors*)(shared + SCALES_AT) + k * (int)sizeof(AElement) / 4 + lane % 4;
        low = from[0], high = from[4];
    }
};
#endif
