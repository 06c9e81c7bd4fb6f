// What tiled products share after their K loop: sums of partial tiles in a fixed order, epilogue, 16-byte stores.
//
// The accumulators lie in shared memory as STAGED tiles of BM rows, STAGE_PITCH sums each; a *vector* is eight
// neighbouring columns of a row. The vectors of a thread lie in one column, in every ROWS_OF_PASS-th row: what differs from one to the
// next is known when compiling.
#if TURNED
constexpr int STAGE_PITCH = BN + 4;  // The 4 keeps fragment stores free of bank conflicts.
#else
constexpr int STAGE_PITCH = BN + 8;  // So does the 8.
#endif
constexpr int STAGE = BM * STAGE_PITCH;
constexpr int VECTORS_OF_ROW = BN / 8;
constexpr int VECTORS = BM * VECTORS_OF_ROW;
constexpr int SHARES = SPLIT_IN_CLUSTER ? SPLIT : 1;  // Blocks that finish one tile together.
constexpr int OWNED_ROWS = BM / SHARES;               // Rows that this block finishes.
constexpr int OWNED = VECTORS / SHARES;               // Their vectors.
constexpr int ROWS_OF_PASS = THREADS / VECTORS_OF_ROW, FINISHERS = ROWS_OF_PASS * VECTORS_OF_ROW;
constexpr int PASSES = (OWNED_ROWS + ROWS_OF_PASS - 1) / ROWS_OF_PASS;
static_assert(BM % SHARES == 0, "tile");
// Whether each part of K leaves its sums in memory, where the last block of a tile adds them up.
constexpr bool PARTS = SPLIT > 1 && !SPLIT_IN_CLUSTER;
// Passes whose residuals, or parts of sums, are read together: a store of one would hold back the loads of the next.
constexpr int ROOM = EXTRA_REGISTERS == 0 || PARTS ? 4 : EXTRA_REGISTERS > 16 ? 1 : 16 / EXTRA_REGISTERS;
constexpr int BATCH = EXTRA_REGISTERS == 0 && !PARTS ? 1 : ROOM < PASSES ? ROOM : PASSES;
// The first of them are under way before the sums are there: before the K loop where they are all, else behind it, where fragments leave
// registers. With parts most blocks of a tile read none.
constexpr bool READS_AHEAD = EXTRA_REGISTERS > 0 && !PARTS, BEFORE_LOOP = READS_AHEAD && BATCH == PASSES;
// Many passes are a loop, and a few where COMPACT: their code would come from memory once for each line of it.
constexpr int UNROLLED = COMPACT ? (BATCH == 1 ? 2 : 1) : PASSES <= 8 ? (PASSES + BATCH - 1) / BATCH : BATCH < 4 ? 4 / BATCH : 1;

// The row, in the tile, of a thread's vector, and its first column.
DEVICE int row_of_pass(const Tile& t, int pass) {
    return (SPLIT_IN_CLUSTER ? t.slice * OWNED_ROWS : 0) + (int)threadIdx.x / VECTORS_OF_ROW + pass * ROWS_OF_PASS;
}
DEVICE int column_in_tile() { return (int)threadIdx.x % VECTORS_OF_ROW * 8; }

DEVICE bool vector_exists(const Tile& t, int pass) {
    const int row = row_of(t, row_of_pass(t, pass));
    const bool finishes = FINISHERS == THREADS || (int)threadIdx.x < FINISHERS;
    const bool owned = OWNED_ROWS % ROWS_OF_PASS == 0 || (int)threadIdx.x / VECTORS_OF_ROW + pass * ROWS_OF_PASS < OWNED_ROWS;
    return finishes && owned && t.column + column_in_tile() < N_STORED && row < M && row_exists(row, t.batch);
}

DEVICE constexpr int column_of_line(int line) { return line; }  // Lines of B's tile in shared memory are in order.
constexpr int GROUPS = 1;  // Vectors side by side whose biases a thread has.
DEVICE void load_biases(const Operands& o, const Tile& t, Bias (&bias)[GROUPS][VECTOR_COLUMNS]) {
    load_bias(o, bias[0], t.column + column_in_tile(), t.batch);
}

// Residuals of the passes from `first` on.
DEVICE void read_extras(const Operands& o, const Tile& t, int first, Extras (&extras)[BATCH]) {
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        if (first + i < PASSES && vector_exists(t, first + i))
            extras[i] = load_extras(o, row_of(t, row_of_pass(t, first + i)), t.column + column_in_tile(), t.batch);
    }
}

// Where a column lies in a staged row: of 64 columns the upper half has its fours exchanged, so that eight threads that each read
// eight neighbours meet no bank conflict.
DEVICE int staged_column(int column) { return column ^ column >> 3 & 4; }

// Adds to the sums of a vector, or is the first of them: a zero to add to would be an instruction a sum.
DEVICE void add(Sum (&sum)[8], Sum4 low, Sum4 high, bool is_first) {
    const Sum of[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int j = 0; j < 8; j++) sum[j] = is_first ? of[j] : sum[j] + of[j];
}

// Where the fours of a vector lie in a stage.
struct StagedVector { int low, high; };
DEVICE StagedVector staged_vector(int row, int column) {
    const int low = staged_column(column);
    return StagedVector{row * STAGE_PITCH + low, row * STAGE_PITCH + (low ^ 4)};
}

// This block's sum for the vector `rows` rows behind `first`: its partial tiles in order.
DEVICE void add_staged(Sum (&sum)[8], const Sum* stage, StagedVector first, int rows, bool is_first) {
    stage += rows * STAGE_PITCH;
#pragma unroll
    for (int k = 0; k < STAGED; k++, stage += STAGE)
        add(sum, *(const Sum4*)(stage + first.low), *(const Sum4*)(stage + first.high), is_first && k == 0);
}

// Every block of a tile writes its partial sums; the last one to arrive returns true and finishes the tile.
DEVICE bool last_to_arrive(const Operands& o, const Tile& t, const Sum* stage) {
    Sum* const mine = o.partials + ((size_t)t.number * SPLIT + t.slice) * (VECTORS * 8);
    for (int pass = 0; pass < PASSES; pass++) {
        if (!vector_exists(t, pass)) continue;
        Sum sum[8];
        add_staged(sum, stage, staged_vector(row_of_pass(t, pass), column_in_tile()), 0, true);
        Sum* const to = mine + row_of_pass(t, pass) * BN + column_in_tile();
        __stcg((Sum4*)to, Sum4{sum[0], sum[1], sum[2], sum[3]});
        __stcg((Sum4*)(to + 4), Sum4{sum[4], sum[5], sum[6], sum[7]});
    }
    return arrives_last(o, t);
}

#if SPLIT_IN_CLUSTER
// Shared memory after RECEIVED_AT: a barrier, and at 16 bytes what the blocks of the cluster send, SPLIT times OWNED
// vectors.
DEVICE void expect_partials(u32 received) {
    if (threadIdx.x == 0) init_arrival(received, (SPLIT - 1) * OWNED * 32);
    cluster_arrive();
}

// Sends this block's sums to the blocks that own them.
DEVICE void send_partials(const Tile& t, const Sum* stage, u32 received) {
    cluster_wait();  // All blocks of the cluster run and their barriers are ready.
    for (int vector = threadIdx.x; vector < VECTORS; vector += THREADS) {
        const int owner = vector / OWNED;
        if (owner == t.slice) continue;
        Sum sum[8];
        add_staged(sum, stage, staged_vector(vector / VECTORS_OF_ROW, vector % VECTORS_OF_ROW * 8), 0, true);
        const u32 there = address_in_block(received, owner), to = there + 16 + (t.slice * OWNED + vector % OWNED) * 32;
        send(to, there, Sum4{sum[0], sum[1], sum[2], sum[3]});
        send(to + 16, there, Sum4{sum[4], sum[5], sum[6], sum[7]});
    }
}
#endif

#if AVERAGED
DEVICE void store_means(const Operands& o, const Tile& t, Sum* stage, const Left& sums);
#endif

#if !POOLED
// The stage is written and a block barrier has passed; `next` holds the residuals of the first passes if READS_AHEAD.
DEVICE void finish_tile(const Operands& o, const Tile& t, Sum* stage, const Bias (&bias)[8], Extras (&next)[BATCH]) {
#if SPLIT_IN_CLUSTER
    extern __shared__ __align__(128) unsigned char shared[];
    send_partials(t, stage, shared_address(shared) + RECEIVED_AT);
    wait_for_arrival(shared_address(shared) + RECEIVED_AT);
    const Sum* const received = (const Sum*)(shared + RECEIVED_AT + 16);
#else
    if (SPLIT > 1 && !last_to_arrive(o, t, stage)) return;
#endif
    if (EXTRA_REGISTERS > 0 && !READS_AHEAD) read_extras(o, t, 0, next);
    launch_dependents();
    const int column = t.column + column_in_tile();
#if AVERAGED
    Left sums_of_results = {};
#endif
    StagedVector staged = staged_vector(row_of_pass(t, 0), column_in_tile());
    // Kept in registers, not computed anew in each pass.
    asm volatile("" : "+r"(staged.low), "+r"(staged.high));
#pragma unroll UNROLLED
    for (int first = 0; first < PASSES; first += BATCH) {
        Extras extras[BATCH];
#pragma unroll
        for (int i = 0; i < BATCH; i++) extras[i] = next[i];
        if (EXTRA_REGISTERS > 0 && first + BATCH < PASSES) read_extras(o, t, first + BATCH, next);
        Sum sums[BATCH][8];
        Left left[BATCH] = {};
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            if (first + i >= PASSES || !vector_exists(t, first + i)) continue;
            const int row = row_of_pass(t, first + i);
            // The slices of K in order, whoever computed them.
#pragma unroll
            for (int slice = 0; slice < SPLIT; slice++) {
                if (SPLIT == 1 || (SPLIT_IN_CLUSTER && slice == t.slice)) {
                    add_staged(sums[i], stage, staged, (first + i) * ROWS_OF_PASS, slice == 0);
                    continue;
                }
#if SPLIT_IN_CLUSTER
                const Sum* from = received + ((slice - t.slice) * OWNED_ROWS + row) * BN + column_in_tile();
                add(sums[i], *(const Sum4*)from, *(const Sum4*)(from + 4), slice == 0);
#else
                const Sum* from = o.partials + ((size_t)t.number * SPLIT + slice) * (VECTORS * 8) + row * BN + column_in_tile();
                add(sums[i], __ldcg((const Sum4*)from), __ldcg((const Sum4*)(from + 4)), slice == 0);
#endif
            }
#if NORMALIZED
            normalize(sums[i], bias, row);
#endif
#if NORMALIZED_EXTRA
            extras[i].of_row = *moments_of_row(row, 0);
#endif
            if (!PARTS) left[i] = finish_vector(o, sums[i], bias, extras[i], row_of(t, row), column, t.batch);
        }
#pragma unroll
        for (int i = 0; PARTS && i < BATCH; i++) {
            if (first + i >= PASSES || !vector_exists(t, first + i)) continue;
            left[i] = finish_vector(o, sums[i], bias, extras[i], row_of(t, row_of_pass(t, first + i)), column, t.batch);
        }
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
#if AVERAGED
            sums_of_results.add(left[i]);
#else
            const bool exists = first + i < PASSES && vector_exists(t, first + i);
            leave_moments(o, left[i], exists, row_of(t, row_of_pass(t, first + i)), column);
#endif
        }
    }
#if AVERAGED
    store_means(o, t, stage, sums_of_results);
#endif
}
#endif
