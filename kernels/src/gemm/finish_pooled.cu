// The way out of tiled products whose results are pooled: a thread finishes the results of a window one after the other and stores the
// largest. Rows of C are windows; POOLED rows of the tile that follow each other are one, or a rectangle of a patch.
constexpr int WINDOWS = BM / POOLED;
constexpr int WINDOW_PASSES = (WINDOWS + ROWS_OF_PASS - 1) / ROWS_OF_PASS;
static_assert(BM % POOLED == 0 && SPLIT == 1, "tile");
#if PATCH
constexpr int WINDOWS_W = TILE_W / POOL_W, WINDOWS_H = TILE_H / POOL_H, POOLED_W = OUT_W / POOL_W, POOLED_H = OUT_H / POOL_H;
static_assert(TILE_W % POOL_W == 0 && TILE_H % POOL_H == 0, "patch");
#endif

// The row, in the tile, of result `member` of a window, and the number of that result in its image.
struct Member { int in_tile, in_image; };
DEVICE Member member_of(const Tile& t, int window, int member) {
#if PATCH
    const int y = window / WINDOWS_W * POOL_H + member / POOL_W, x = window % WINDOWS_W * POOL_W + member % POOL_W;
    const int in_tile = y * TILE_W + x;
    return Member{in_tile, row_of(t, in_tile)};
#else
    const int in_tile = window * POOLED + member;
    return Member{in_tile, row_in_image(t.row + in_tile)};
#endif
}

// The row of C that a window of the tile is; M / POOLED or more where there is none.
DEVICE int row_of_window(const Tile& t, int window) {
#if PATCH
    const int y = t.y / POOL_H + window / WINDOWS_W, x = t.x / POOL_W + window % WINDOWS_W;
    return window < WINDOWS_H * WINDOWS_W && y < POOLED_H && x < POOLED_W ? (t.image * POOLED_H + y) * POOLED_W + x : M / POOLED;
#else
    return t.row / POOLED + window;
#endif
}

// The stage is written and a block barrier has passed.
DEVICE void finish_tile(const Operands& o, const Tile& t, const Sum* stage, const Bias (&bias)[8], const Extras (&)[BATCH]) {
    const int column = t.column + column_in_tile(), first = (int)threadIdx.x / VECTORS_OF_ROW;
    if (FINISHERS < THREADS && (int)threadIdx.x >= FINISHERS || column >= N_STORED) return;
    launch_dependents();
#pragma unroll (COMPACT ? 1 : WINDOW_PASSES)
    for (int pass = 0; pass < WINDOW_PASSES; pass++) {
        const int window = first + pass * ROWS_OF_PASS, row = row_of_window(t, window);
        if (WINDOWS % ROWS_OF_PASS != 0 && window >= WINDOWS || row >= M / POOLED) continue;
        Largest<sizeof(Packed) / 4> largest;
#pragma unroll
        for (int member = 0; member < POOLED; member++) {
            const Member at = member_of(t, window, member);
            const Extras extras = load_extras(o, at.in_image, column, t.batch);
            Sum sum[8];
            add_staged(sum, stage, staged_vector(at.in_tile, column_in_tile()), 0, true);
            const Packed results = finished_vector(sum, bias, extras, column);
            largest.take((const u32*)&results);
        }
        Packed result;
        largest.give((u32*)&result);
        *(Packed*)(o.output + (row_of_output(row, t.batch) + column * OUT_COLUMN)) = result;
    }
}
