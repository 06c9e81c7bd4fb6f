// The way out of tiled products that passes shared memory by: a lane finishes the results that it multiplied. The lines of B's tile lie in
// such an order (`column_of_line`) that columns of a lane are neighbours: in each of LANE_ROWS rows it has GROUPS vectors of VECTOR_COLUMNS.
#if TURNED
constexpr int LANES_OF_ROW = 8;  // Lanes whose vectors lie side by side.
#else
constexpr int LANES_OF_ROW = 4;
#endif
constexpr int GROUP = LANES_OF_ROW * VECTOR_COLUMNS, GROUPS = BN / WN / GROUP;  // Columns that they have together.
constexpr int LANE_ROWS = BM / WM * LANES_OF_ROW / 32;
// Instructions leave the results of a lane as squares of two rows and two columns.
constexpr int ROW_PAIRS = LANE_ROWS / 2, COLUMN_PAIRS = GROUPS * VECTOR_COLUMNS / 2;
// Warps that shared K would finish a part of the rows each, by code of their own, which costs more than it saves.
static_assert(WK == 1 && BN / WN % GROUP == 0, "tile");

// Rows whose residuals are read together, behind the K loop: a store of one would hold back the loads of the next.
constexpr int ROOM = EXTRA_REGISTERS == 0 ? 1 : 16 / (EXTRA_REGISTERS * GROUPS);
constexpr int BATCH = ROOM < 1 ? 1 : ROOM < LANE_ROWS ? ROOM : LANE_ROWS;

// Which column of the tile a line of B's tile in shared memory is.
DEVICE constexpr int column_of_line(int line) {
#if TURNED
    return line / GROUP * GROUP + line % 8 * VECTOR_COLUMNS + line / 8 % VECTOR_COLUMNS;
#else
    return line / GROUP * GROUP + line / 2 % 4 * VECTOR_COLUMNS + line / 8 % (VECTOR_COLUMNS / 2) * 2 + line % 2;
#endif
}

// The results of a lane.
#if TURNED
typedef Sum Sums[COLUMN_PAIRS][ROW_PAIRS][4];
DEVICE Sum (&square_of(Sums& sums, int rows, int columns))[4] { return sums[columns][rows]; }
DEVICE constexpr int in_square(int row, int column) { return column % 2 * 2 + row % 2; }
DEVICE constexpr int lane_row(int row) { return row / 2 * 8 + row % 2; }
#else
typedef Sum Sums[ROW_PAIRS][COLUMN_PAIRS / 2][2][4];
DEVICE Sum (&square_of(Sums& sums, int rows, int columns))[4] { return sums[rows][columns / 2][columns % 2]; }
DEVICE constexpr int in_square(int row, int column) { return row % 2 * 2 + column % 2; }
DEVICE constexpr int lane_row(int row) { return row * 8; }
#endif

// Where the first of a lane's results lies in the tile.
struct Lane { int row, column; };
DEVICE Lane this_lane() {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = warp % WM * (BM / WM), column = warp / WM * (BN / WN);
#if TURNED
    return Lane{row + lane % 4 * 2, column + lane / 4 * VECTOR_COLUMNS};
#else
    return Lane{row + lane / 4, column + lane % 4 * VECTOR_COLUMNS};
#endif
}

DEVICE void load_biases(const Operands& o, const Tile& t, Bias (&bias)[GROUPS][VECTOR_COLUMNS]) {
    const Lane lane = this_lane();
#pragma unroll
    for (int group = 0; group < GROUPS; group++) load_bias(o, bias[group], t.column + lane.column + group * GROUP, t.batch);
}

DEVICE bool vector_exists(const Tile& t, int row, int column) {
    return (N_STORED % BN == 0 || column < N_STORED) && row < M && row_exists(row, t.batch);
}

// Residuals of the lane's rows from `first` on.
DEVICE void read_extras(const Operands& o, const Tile& t, const Lane& lane, int first, Extras (&extras)[BATCH][GROUPS]) {
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        const int row = row_of(t, lane.row + lane_row(first + i));
#pragma unroll
        for (int group = 0; group < GROUPS; group++) {
            const int column = t.column + lane.column + group * GROUP;
            if (first + i < LANE_ROWS && vector_exists(t, row, column)) extras[i][group] = load_extras(o, row, column, t.batch);
        }
    }
}

// Where a square of part `slice` of K lies in memory.
DEVICE Sum4* partial_square(const Operands& o, const Tile& t, int slice, int rows, int columns) {
    const int square = rows * COLUMN_PAIRS + columns;
    return (Sum4*)o.partials + (((size_t)t.number * SPLIT + slice) * (ROW_PAIRS * COLUMN_PAIRS) + square) * THREADS + threadIdx.x;
}

// Every block of a tile writes its partial sums; the last one to arrive returns true, with those of all blocks added up in order.
DEVICE bool last_to_arrive(const Operands& o, const Tile& t, Sums& sums) {
#pragma unroll
    for (int i = 0; i < ROW_PAIRS * COLUMN_PAIRS; i++) {
        const Sum(&s)[4] = square_of(sums, i / COLUMN_PAIRS, i % COLUMN_PAIRS);
        __stcg(partial_square(o, t, t.slice, i / COLUMN_PAIRS, i % COLUMN_PAIRS), Sum4{s[0], s[1], s[2], s[3]});
    }
    if (!arrives_last(o, t)) return false;
#pragma unroll
    for (int i = 0; i < ROW_PAIRS * COLUMN_PAIRS; i++) {
        Sum(&s)[4] = square_of(sums, i / COLUMN_PAIRS, i % COLUMN_PAIRS);
#pragma unroll
        for (int slice = 0; slice < SPLIT; slice++) {
            const Sum4 v = __ldcg(partial_square(o, t, slice, i / COLUMN_PAIRS, i % COLUMN_PAIRS));
            if (slice == 0)
                s[0] = v.x, s[1] = v.y, s[2] = v.z, s[3] = v.w;
            else
                s[0] += v.x, s[1] += v.y, s[2] += v.z, s[3] += v.w;
        }
    }
    return true;
}

// All products of the block are added up.
DEVICE void finish_lanes(const Operands& o, const Tile& t, Sums& sums, const Bias (&bias)[GROUPS][VECTOR_COLUMNS]) {
    const Lane lane = this_lane();
    Extras next[BATCH][GROUPS] = {};
    if (EXTRA_REGISTERS > 0 && SPLIT == 1) read_extras(o, t, lane, 0, next);
    if (SPLIT > 1 && !last_to_arrive(o, t, sums)) return;
    if (EXTRA_REGISTERS > 0 && SPLIT > 1) read_extras(o, t, lane, 0, next);
    launch_dependents();
#pragma unroll
    for (int first = 0; first < LANE_ROWS; first += BATCH) {
        Extras extras[BATCH][GROUPS];
#pragma unroll
        for (int i = 0; i < BATCH * GROUPS; i++) extras[i / GROUPS][i % GROUPS] = next[i / GROUPS][i % GROUPS];
        if (EXTRA_REGISTERS > 0 && first + BATCH < LANE_ROWS) read_extras(o, t, lane, first + BATCH, next);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i >= LANE_ROWS) continue;
            const int in_tile = lane.row + lane_row(first + i), row = row_of(t, in_tile);
            Left left[GROUPS] = {};
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                const int column = t.column + lane.column + group * GROUP;
                if (!vector_exists(t, row, column)) continue;
                Sum vector[VECTOR_COLUMNS];
#pragma unroll
                for (int j = 0; j < VECTOR_COLUMNS; j++)
                    vector[j] = square_of(sums, (first + i) / 2, (group * VECTOR_COLUMNS + j) / 2)[in_square(first + i, j)];
#if NORMALIZED
                normalize(vector, bias[group], in_tile);
#endif
#if NORMALIZED_EXTRA
                extras[i][group].of_row = *moments_of_row(in_tile, 0);
#endif
                left[group] = finish_vector(o, vector, bias[group], extras[i][group], row, column, t.batch);
            }
#pragma unroll
            for (int group = 0; group < GROUPS; group++) {
                const int column = t.column + lane.column + group * GROUP;
                leave_moments(o, left[group], vector_exists(t, row, column), row, column);
            }
        }
    }
}
