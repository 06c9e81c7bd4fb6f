// The end of the way out of tiled products whose columns are averaged: each thread has added up the results of its rows, eight columns side
// by side. A thread for each column adds up these sums in order and stores the mean.
static_assert(M_TILES == 1 && !SPLIT_IN_CLUSTER, "tile");

DEVICE void store_means(const Operands& o, const Tile& t, Sum* stage, const Left& sums) {
    constexpr int ROWS = ROWS_OF_PASS < BM ? ROWS_OF_PASS : BM;  // Of sums.
    if ((int)threadIdx.x < ROWS * VECTORS_OF_ROW) {
        // In the place of the thread's first vector, which nobody else reads.
        const StagedVector to = staged_vector(row_of_pass(t, 0), column_in_tile());
        const Sum* const s = sums.of_column;
        *(Sum4*)(stage + to.low) = Sum4{s[0], s[1], s[2], s[3]};
        *(Sum4*)(stage + to.high) = Sum4{s[4], s[5], s[6], s[7]};
    }
    __syncthreads();
#pragma unroll 1
    for (int column = threadIdx.x; column < BN && t.column + column < N_STORED; column += THREADS) {
        Sum sum = 0;
#pragma unroll
        for (int row = 0; row < ROWS; row++) sum += stage[row * STAGE_PITCH + staged_column(column)];
        const int c = t.column + column;
        o.output[row_of_output(0, t.batch) + c * OUT_COLUMN] = c < N ? mean_of(sum) : Output{};
    }
}
