// A block computes a tile of the output. What it needs of the frame is read once, in vectors, into shared memory; then
// rows of pixels are converted and resampled along their columns, and at last along the rows. Slots are the rows of the
// frame that a tile needs: all between the first and the last, or (GATHERED) those of one row of the output after another.
// Weights are whole numbers, as in taps.rs.
struct Taps { i32 first, last; };

// Rounded down; d is positive.
DEVICE i32 floor_divide(i32 n, i32 d) { return n >= 0 ? n / d : -((d - 1 - n) / d); }

template <i32 SOURCE, i32 TARGET, i32 RADIUS> struct Axis {
    static DEVICE Taps taps(i32 i) {
        const i32 centre = (2 * i + 1) * SOURCE;
        if (RADIUS == 0) return Taps{centre / (2 * TARGET), centre / (2 * TARGET)};
        const i32 first = floor_divide(centre - 2 * RADIUS - TARGET, 2 * TARGET) + 1;
        const i32 last = floor_divide(centre + 2 * RADIUS - TARGET - 1, 2 * TARGET);
        return Taps{first > 0 ? first : 0, last < SOURCE - 1 ? last : SOURCE - 1};
    }
    static DEVICE i32 weight(i32 i, i32 x) {
        const i32 distance = (2 * x + 1) * TARGET - (2 * i + 1) * SOURCE;
        return RADIUS == 0 ? 1 : 2 * RADIUS - (distance < 0 ? -distance : distance);
    }
};
typedef Axis<CROP_H, WINDOW_H, RADIUS_H> Rows;
typedef Axis<CROP_W, WINDOW_W, RADIUS_W> Columns;

DEVICE f32 clamp(f32 x) { return x < 0.0f ? 0.0f : x > 255.0f ? 255.0f : x; }

struct Pixel { f32 v[RESAMPLED]; };

#if VIDEO || BAYER
DEVICE f32 code(const u8* sample) { return SAMPLE_BYTES == 2 ? (f32)(*(const u16*)sample >> SHIFT) : (f32)*sample; }
#endif

#if BAYER
// Beyond the frame it is mirrored.
DEVICE i32 before(i32 at) { return at == 0 ? 1 : at - 1; }
DEVICE i32 after(i32 at, i32 extent) { return at == extent - 1 ? at - 1 : at + 1; }

// Pixel x of row y; `rows` are the bytes of the rows before, at and after it, which start at byte `start`.
DEVICE Pixel demosaic(const u8* const (&rows)[3], i32 y, i32 x, i32 start) {
    const i32 columns[3] = {before(x), x, after(x, FRAME_W)};
    f32 site[3][3];
#pragma unroll
    for (i32 i = 0; i < 9; ++i) site[i / 3][i % 3] = code(rows[i / 3] + (columns[i % 3] * BYTES_PER_PIXEL - start));
    const f32 own = site[1][1], beside = 0.5f * (site[1][0] + site[1][2]), above = 0.5f * (site[0][1] + site[2][1]);
    const f32 cross = 0.5f * (beside + above);
    const f32 corners = 0.25f * ((site[0][0] + site[0][2]) + (site[2][0] + site[2][2]));
    const bool row = ((y ^ RED_Y) & 1) == 0, column = ((x ^ RED_X) & 1) == 0;
    f32 colours[3] = {row ? (column ? own : beside) : (column ? above : corners), row == column ? cross : own,
                      row ? (column ? corners : above) : (column ? beside : own)};
    Pixel p;
#pragma unroll
    for (i32 k = 0; k < 3; ++k) {
        const f32 scaled = BAYER_SCALE * colours[k];
        colours[k] = scaled < 255.0f ? scaled : 255.0f;
    }
#if RESAMPLED == 1
    p.v[0] = 0.299f * colours[0] + 0.587f * colours[1] + 0.114f * colours[2];
#else
    p.v[0] = colours[0], p.v[1] = colours[1], p.v[2] = colours[2];
#endif
    return p;
}
#endif

#if VIDEO
// Pixel x of a row from its bytes and from those of its chroma, which start at bytes `start` and `chroma_start` of their rows.
DEVICE Pixel video(const u8* bytes, const u8* cb_row, const u8* cr_row, i32 x, i32 start, i32 chroma_start) {
    Pixel p;
    const f32 y = LUMA_FACTOR * (code(bytes + (x * LUMA_STEP + LUMA_FIRST - start)) - BLACK);
#if RESAMPLED == 1
    p.v[0] = clamp(y);
#else
    const i32 at = x / 2 * PAIR - chroma_start;
#if PAIR == 2
    const uchar2 pair = *(const uchar2*)(cb_row + at);
    const f32 cb = (f32)(CB == 0 ? pair.x : pair.y) - CENTRE, cr = (f32)(CB == 0 ? pair.y : pair.x) - CENTRE;
#else
    const f32 cb = code(cb_row + at + CB) - CENTRE, cr = code(cr_row + at + CR) - CENTRE;
#endif
    p.v[0] = clamp(fmaf(RED_CR, cr, y));
    p.v[1] = clamp(fmaf(GREEN_CR, cr, fmaf(GREEN_CB, cb, y)));
    p.v[2] = clamp(fmaf(BLUE_CB, cb, y));
#endif
    return p;
}
#endif

#if !VIDEO && !BAYER
// Pixel x of a row from its bytes, which start at byte `start` of the row.
DEVICE Pixel packed(const u8* bytes, i32 x, i32 start) {
    Pixel p;
    const u8* const from = bytes + (x * BYTES_PER_PIXEL - start);
#if LUMA
    p.v[0] = 0.299f * (f32)from[RED] + 0.587f * (f32)from[1] + 0.114f * (f32)from[2 - RED];
#elif RESAMPLED == 1
    p.v[0] = (f32)from[0];
#else
    p.v[0] = (f32)from[RED];
    p.v[1] = (f32)from[1];
    p.v[2] = (f32)from[2 - RED];
#if RESAMPLED == 4
    p.v[3] = (f32)from[3];
#endif
#endif
    return p;
}
#endif

// Where a tile lies on the window, and the rows and bytes of the frame that it needs.
struct Tile {
    i32 top, bottom, left, right;  // Of the window.
    i32 row, rows;                 // First row of the frame and number of slots.
    i32 start, end;                // Bytes of a row.

    // Row of the frame in a slot, −1 where there is none.
    DEVICE i32 source(i32 slot) const {
#if GATHERED
        if (top + slot / SLOTS_OF_ROW >= bottom) return -1;
        const Taps taps = Rows::taps(top + slot / SLOTS_OF_ROW);
        const i32 y = taps.first + slot % SLOTS_OF_ROW;
        return y <= taps.last ? CROP_TOP + y : -1;
#else
        return slot < rows ? row + slot : -1;
#endif
    }
    // Slot of row number t of those that row i of the window is made of, the first of which is y.
    DEVICE i32 slot(i32 i, i32 y, i32 t) const {
        return GATHERED ? (i - top) * SLOTS_OF_ROW + t : CROP_TOP + y + t - row;
    }
    // Slot of the chroma of a slot that holds row y of the frame, and that row of chroma.
    DEVICE i32 chroma_slot(i32 slot, i32 y) const {
#if GATHERED
        const i32 first = slot / SLOTS_OF_ROW * SLOTS_OF_ROW;
        return first + (y / 2 - (y - (slot - first)) / 2);
#else
        return y / 2 - row / 2;
#endif
    }
};

// Bytes `start` to `end` of a row, one read of them.
DEVICE void read(const u8* __restrict__ row, u8* to, i32 start, i32 end, i32 at) {
    const i32 byte = start + at * (i32)sizeof(Read);
    if (byte < end) *(Read*)(to + at * sizeof(Read)) = *(const Read*)(row + byte);
}

extern "C" __global__ void __launch_bounds__(BLOCK) frame(const u8* __restrict__ input, T* __restrict__ output) {
    extern __shared__ __align__(16) u8 shared[];
    u8* const luma = shared;
    u8* const chroma = luma + SLOTS * PITCH;
    f32* const resampled = (f32*)(chroma + CHROMA_SLOTS * PITCH);
    const i32 thread = threadIdx.x;
    const i32 tile_x = blockIdx.x % TILES_X * TILE_W, tile_y = blockIdx.x / TILES_X % TILES_Y * TILE_H;
    const i32 n = blockIdx.x / (TILES_X * TILES_Y);
    Tile tile;
    tile.top = tile_y > WINDOW_TOP ? tile_y - WINDOW_TOP : 0;
    tile.left = tile_x > WINDOW_LEFT ? tile_x - WINDOW_LEFT : 0;
    tile.bottom = tile_y + TILE_H - WINDOW_TOP < WINDOW_H ? tile_y + TILE_H - WINDOW_TOP : WINDOW_H;
    tile.right = tile_x + TILE_W - WINDOW_LEFT < WINDOW_W ? tile_x + TILE_W - WINDOW_LEFT : WINDOW_W;

    wait_for_inputs();
    if (tile.top < tile.bottom && tile.left < tile.right) {
        const i32 top = CROP_TOP + Rows::taps(tile.top).first, bottom = CROP_TOP + Rows::taps(tile.bottom - 1).last;
        i32 first = CROP_LEFT + Columns::taps(tile.left).first, last = CROP_LEFT + Columns::taps(tile.right - 1).last;
        tile.row = top, tile.rows = bottom + 1 - top;
#if BAYER
        // With the neighbours, as far as there are any.
        tile.row = top > 0 ? top - 1 : 0, tile.rows = (bottom + 1 < HEIGHT ? bottom + 2 : HEIGHT) - tile.row;
        first = first > 0 ? first - 1 : 0, last = last + 1 < FRAME_W ? last + 1 : last;
#endif
        tile.start = first * BYTES_PER_PIXEL / ALIGNMENT * ALIGNMENT;
        tile.end = VIDEO ? (last / 2 + 1) * 2 * BYTES_PER_PIXEL : (last + 1) * BYTES_PER_PIXEL;
        // Where Cb and Cr have planes, their rows have half the bytes, and two of them are one row of the frame.
        const i32 chroma_start = tile.start / CHROMA_PLANES, chroma_end = tile.end / CHROMA_PLANES;
        const u8* const image = input + (INPUT_OFFSET + (offset_t)n * INPUT_N);
        constexpr i32 READS = PITCH / (i32)sizeof(Read);
#pragma unroll 4
        for (i32 i = thread; i < SLOTS * READS; i += BLOCK) {
            const i32 slot = i / READS, y = tile.source(slot);
            if (y < 0) continue;
            read(image + (offset_t)y * INPUT_ROW, luma + slot * PITCH, tile.start, tile.end, i % READS);
#if CHROMA_SLOTS > 0
            // The first of the slots that share a row of chroma reads it.
            const i32 own = tile.chroma_slot(slot, y);
            const bool shares = slot > 0 && tile.source(slot - 1) == y - 1 && tile.chroma_slot(slot - 1, y - 1) == own;
            if (!shares) {
                const u8* const from = image + (offset_t)HEIGHT * INPUT_ROW + (offset_t)(y / 2) * (INPUT_ROW / CHROMA_PLANES);
                read(from, chroma + own * PITCH, chroma_start, chroma_end, i % READS);
#if CHROMA_PLANES == 2
                read(from + (offset_t)(HEIGHT / 2) * (INPUT_ROW / 2), chroma + (own + CHROMA_SLOTS / 2) * PITCH, chroma_start, chroma_end,
                     i % READS);
#endif
            }
#endif
        }
        __syncthreads();
        for (i32 i = thread; i < SLOTS * TILE_W; i += BLOCK) {
            const i32 slot = i / TILE_W, column = i % TILE_W, x = tile_x + column - WINDOW_LEFT, y = tile.source(slot);
            if (y < 0 || x < tile.left || x >= tile.right) continue;
            const u8* const row = luma + slot * PITCH;
#if BAYER
            if (y < top || y > bottom) continue;
            const u8* const rows[3] = {row + (before(y) - y) * PITCH, row, row + (after(y, HEIGHT) - y) * PITCH};
#elif CHROMA_SLOTS > 0
            const u8* const cb = chroma + tile.chroma_slot(slot, y) * PITCH;
            const u8* const cr = cb + (CHROMA_PLANES == 2 ? CHROMA_SLOTS / 2 * PITCH : 0);
#elif VIDEO
            const u8 *const cb = row, *const cr = row;
#endif
            const Taps taps = Columns::taps(x);
            Pixel sum = {};
            i32 total = 0;
            for (i32 source = taps.first; source <= taps.last; ++source) {
                const i32 weight = Columns::weight(x, source);
                total += weight;
#if BAYER
                const Pixel p = demosaic(rows, y, CROP_LEFT + source, tile.start);
#elif VIDEO
                const Pixel p = video(row, cb, cr, CROP_LEFT + source, tile.start, chroma_start);
#else
                const Pixel p = packed(row, CROP_LEFT + source, tile.start);
#endif
#pragma unroll
                for (i32 k = 0; k < RESAMPLED; ++k) sum.v[k] += (f32)weight * p.v[k];
            }
#pragma unroll
            for (i32 k = 0; k < RESAMPLED; ++k) resampled[(slot * RESAMPLED + k) * TILE_W + column] = sum.v[k] / (f32)total;
        }
        __syncthreads();
    }
    for (i32 i = thread; i < TILE_H * TILE_W; i += BLOCK) {
        const i32 y = tile_y + i / TILE_W, x = tile_x + i % TILE_W, row = y - WINDOW_TOP, column = x - WINDOW_LEFT;
        if (y >= OUTPUT_H || x >= OUTPUT_W) continue;
        T result[STORED] = {};
        if (row >= tile.top && row < tile.bottom && column >= tile.left && column < tile.right) {
            const Taps taps = Rows::taps(row);
            Pixel sum = {};
            i32 total = 0;
            for (i32 t = 0; t <= taps.last - taps.first; ++t) {
                const i32 weight = Rows::weight(row, taps.first + t);
                total += weight;
                const f32* const from = resampled + tile.slot(row, taps.first, t) * RESAMPLED * TILE_W + i % TILE_W;
#pragma unroll
                for (i32 k = 0; k < RESAMPLED; ++k) sum.v[k] += (f32)weight * from[k * TILE_W];
            }
#pragma unroll
            for (i32 k = 0; k < RESAMPLED; ++k) sum.v[k] /= (f32)total;
            FINISH
        } else {
            PADDING
        }
        T* const to = output + (OUTPUT_OFFSET + (offset_t)n * OUTPUT_N + (offset_t)y * OUTPUT_ROW + (offset_t)x * OUTPUT_COLUMN);
#if WIDTH > 1
#pragma unroll
        for (i32 c = 0; c < STORED; c += WIDTH) {
            Vector<T, WIDTH> vector;
#pragma unroll
            for (i32 v = 0; v < WIDTH; ++v) vector.v[v] = result[c + v];
            *(Vector<T, WIDTH>*)(to + c) = vector;
        }
#else
#pragma unroll
        for (i32 c = 0; c < STORED; ++c) to[c * OUTPUT_CHANNEL] = result[c];
#endif
    }
}
