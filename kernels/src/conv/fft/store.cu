// Outputs of SEQUENCES = PAIRS_OF_BLOCK × COLUMNS_OF_BLOCK transformed sequences, through the epilogue.
DEVICE void store_blocks(const Operands& o, const Complex* data, int first_pair, int first_column) {
    for (int i = threadIdx.x; i < SEQUENCES * POINTS; i += THREADS) {
        int sequence, point;
        split<OUT_COLUMN == 1>(i, sequence, point);
        const int y = point / LENGTH_W, x = point % LENGTH_W;
        const int column = first_column + sequence % COLUMNS_OF_BLOCK;
        if (y >= VALID_H || x >= VALID_W || column >= N_STORED) continue;
        const Complex value = data[place(sequence * POINTS + point)];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int block = 2 * (first_pair + sequence / COLUMNS_OF_BLOCK) + half;
            const Origin origin = origin_of(block);
            if (block >= BLOCKS || origin.y + y >= OUT_HEIGHT || origin.x + x >= OUT_WIDTH) continue;
            const int row = (origin.n * OUT_HEIGHT + origin.y + y) * OUT_WIDTH + origin.x + x;
            finish_one(o, half ? value.im : value.re, row, column, 0);
        }
    }
}
