// The moments of the tile's rows, which the step that wrote them stored in parts of PART columns. Behind the copies of A they would wait for
// the whole ring, so a thread loads those of its first row before; but where sums take most registers, loops get slower by it. The barriers of
// the K loop cover what it stores.
struct GivenMoments {
    static constexpr int PARTS = NORMALIZED_COLUMNS / PART;
    static constexpr int SUMS = BM * BN / 32 / WM / WN;  // Of a thread.
    static constexpr int EARLY = SUMS > 128 ? 0 : PARTS < 24 ? PARTS : 24;
    Sum2 loaded[EARLY > 0 ? EARLY : 1];

    // Before the copies.
    DEVICE void begin(const Operands& o, const Tile& t) {
        const int row = row_of(t, threadIdx.x);
#pragma unroll
        for (int part = 0; part < EARLY; part++) {
            loaded[part] = Sum2{};
            if (threadIdx.x < BM && row < M) loaded[part] = o.given[part * M + row];
        }
        // Keeps the compiler from moving the loads to where they are added up.
        if (EARLY > 0) __syncwarp();
    }

    DEVICE void take(const Operands& o, const Tile& t) {
#pragma unroll 1
        for (int in_tile = threadIdx.x; in_tile < BM; in_tile += THREADS) {
            const int row = row_of(t, in_tile);
            if (row >= M) break;
            Sum2 of_row = {};
#pragma unroll
            for (int part = 0; part < EARLY; part++) {
                const Sum2 of_part = BM <= THREADS || in_tile < THREADS ? loaded[part] : o.given[part * M + row];
                of_row.x += of_part.x, of_row.y += of_part.y;
            }
#pragma unroll 24
            for (int part = EARLY; part < PARTS; part++) {
                const Sum2 of_part = o.given[part * M + row];
                of_row.x += of_part.x, of_row.y += of_part.y;
            }
            *moments_of_row(in_tile, 0) = normaliser(of_row.x, of_row.y);
        }
    }
};
