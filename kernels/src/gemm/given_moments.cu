// The moments of the tile's rows, which the step that wrote them stored in parts of PART columns; the barriers of the K loop cover them.
DEVICE void take_moments(const Operands& o, const Tile& t) {
#pragma unroll 1
    for (int in_tile = threadIdx.x; in_tile < BM; in_tile += THREADS) {
        const int row = row_of(t, in_tile);
        if (row >= M) break;
        Sum2 of_row = {};
#pragma unroll 24
        for (int part = 0; part < NORMALIZED_COLUMNS / PART; part++) {
            const Sum2 of_part = o.given[part * M + row];
            of_row.x += of_part.x, of_row.y += of_part.y;
        }
        *moments_of_row(in_tile, 0) = normaliser(of_row.x, of_row.y);
    }
}
