// What the attention kernels share: the place of a block and the scores. Scores are in units of log₂, so that their
// powers are one instruction.
struct Tile {
    int first;  // First query.
    int head, batch;
    int seen;   // Keys that some query of the tile sees come before this one.
};

// Tiles with most work come first, over all heads, so that multiprocessors end together.
DEVICE Tile this_tile(int rows) {
    const int tiles = (QUERIES + rows - 1) / rows, place = blockIdx.x / ALL_HEADS, head = blockIdx.x % ALL_HEADS;
    const int tile = CAUSAL ? tiles - 1 - place : place;
    int seen = KEYS;
#if CAUSAL
    const int last = (tile + 1) * rows < QUERIES ? (tile + 1) * rows : QUERIES;
    seen = last + CAUSAL_OFFSET < 0 ? 0 : last + CAUSAL_OFFSET < KEYS ? last + CAUSAL_OFFSET : KEYS;
#endif
    return Tile{tile * rows, head % HEADS, head / HEADS, seen};
}

// The score of a product; −∞ where the query does not see the key.
DEVICE f32 score(f32 product, const Tile& tile, int query, int key MASK_FORMAL) {
    const bool seen = key < tile.seen && (!CAUSAL || key <= query + CAUSAL_OFFSET);
    f32 x = __fmul_rn(product, SCALE);  // Not contracted with the mask by some compilers.
#if SOFTCAP
    x = SOFTCAP_FACTOR * tanhf(x);
#endif
#if MASKED
    // Read whether it is seen or not: behind a branch, a lane would wait for one element after another.
    const int row = query < QUERIES ? query : QUERIES - 1, column = key < KEYS ? key : KEYS - 1;
    const Mask m = mask[MASK_AT(tile.batch, tile.head, row) + column * MASK_COLUMN];
#if MASK_HIDES
    x = m.value ? x : LOWEST;
#else
    // Finite masks stay finite, whatever the unit.
    const f32 added = to_f32(m);
    x += added == LOWEST ? LOWEST : fmaxf(added * LOG2_E, -3e38f);
#endif
#endif
    return seen ? x : LOWEST;
}
