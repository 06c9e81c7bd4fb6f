// Where tiles of a product lie in C.
struct Tile {
    int row, column;  // First row and column of the tile.
    int slice;        // Which part of K.
    int batch;
    int number;       // Of the tile, over all batches.
#if PATCH
    int image, y, x;  // First output.
#endif
};

DEVICE Tile this_tile() {
    const int slice = blockIdx.x % SPLIT, number = blockIdx.x / SPLIT;
    const int batch = number / (M_TILES * N_TILES), in_batch = number % (M_TILES * N_TILES);
    Tile t{in_batch / N_TILES * BM, in_batch % N_TILES * BN, slice, batch, number};
#if PATCH
    const int place = in_batch / N_TILES;
    t.x = place % TILES_W * TILE_W, t.y = place / TILES_W % TILES_H * TILE_H, t.image = place / (TILES_W * TILES_H);
#endif
    return t;
}

// The row of C that row `in_tile` of the tile is; M where there is none.
DEVICE int row_of(const Tile& t, int in_tile) {
#if PATCH
    const int y = t.y + in_tile / TILE_W, x = t.x + in_tile % TILE_W;
    return in_tile < TILE_H * TILE_W && y < OUT_H && x < OUT_W ? (t.image * OUT_H + y) * OUT_W + x : M;
#else
    return t.row + in_tile;
#endif
}

// Whether the sums of this block's part of K are the last of the tile's to arrive in memory, where all threads have left theirs.
DEVICE bool arrives_last(const Operands& o, const Tile& t) {
    // The barrier orders all stores of the block before the fence of thread 0, and its fence before the others' loads.
    __syncthreads();
    int last = 0;
    if (threadIdx.x == 0) {
        __threadfence();
        last = atomicAdd(o.counters + t.number, 1u) == SPLIT - 1;
        if (last) o.counters[t.number] = 0;  // Ready for the next replay.
        __threadfence();
    }
    return __syncthreads_or(last);
}
