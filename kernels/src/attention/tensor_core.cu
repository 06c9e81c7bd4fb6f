// Attention of one head over a tile of 16·MQ·WQ queries on tensor cores, after FlashAttention-2 (Dao, 2023).
//
// The keys are walked in rounds of WK tiles of BN keys. Warp (q, k) multiplies its MQ times 16 queries with tile k of each round, for all
// of which it loads keys and values once, and keeps a running maximum, sum and weighted mean of the values; WK partial results, where there
// are several, are joined at the end in a fixed order. Rows in shared memory are 16 bytes longer than a head, so that ldmatrix meets no
// bank conflict.
constexpr int THREADS = 32 * WQ * WK;
constexpr int ROWS = 16 * MQ, BM = ROWS * WQ;  // Queries of a warp and of a block.
constexpr int ROUND = WK * BN;
constexpr int K_STEPS = SIZE_PADDED / 16, V_STEPS = VALUE_SIZE_PADDED / 16;
constexpr int K_PITCH = SIZE_PADDED + 8, V_PITCH = VALUE_SIZE_PADDED + 8;  // Elements.
constexpr int K_BYTES = ROUND * K_PITCH * 2, STAGE_BYTES = K_BYTES + ROUND * V_PITCH * 2;
constexpr int O_PITCH = VALUE_SIZE_PADDED + 4;  // Floats.
constexpr bool QUERY_IN_REGISTERS = SIZE_PADDED * MQ <= 128;
// Whether a tile may hold keys that nobody sees.
constexpr bool PARTIAL = CAUSAL || KEYS % BN != 0;
// Whether a warp has no more than one tile of keys, whose scores nothing rescales.
constexpr bool ONCE = KEYS <= ROUND;
// Sums stay in the scale of a former maximum until a score exceeds that by more than this, which is rare (as in FlashAttention-4).
constexpr f32 RISE = 8.0f;

// Copies COLUMNS elements of `rows` rows to shared memory; zeros up to PADDED elements, and up to a multiple of FILL rows, of MOST at most.
// A thread copies the same chunk of rows that lie evenly where there are whole lines of chunks for all threads.
template <int MOST, int FILL, int COLUMNS, int PADDED, int WIDTH, int COLUMN_STRIDE, int ROW_STRIDE>
DEVICE void copy_rows(u32 to, const T* from, int rows) {
    constexpr int CHUNKS = PADDED / 8, PITCH_BYTES = (PADDED + 8) * 2, COPIES = (MOST * CHUNKS + THREADS - 1) / THREADS;
    constexpr bool EVEN = THREADS % CHUNKS == 0;
    const int filled = (rows + FILL - 1) / FILL * FILL, line = (int)threadIdx.x / CHUNKS, column = (int)threadIdx.x % CHUNKS;
    const T* const first = opaque(from + line * ROW_STRIDE + column * 8 * COLUMN_STRIDE);
    const u32 first_to = to + line * PITCH_BYTES + column * 16;
#pragma unroll
    for (int copy = 0; copy < COPIES; ++copy) {
        const int i = copy * THREADS + (int)threadIdx.x, down = copy * (THREADS / CHUNKS);
        const int row = EVEN ? line + down : i / CHUNKS, chunk = EVEN ? column : i % CHUNKS;
        const bool run = row < filled && (MOST * CHUNKS % THREADS == 0 || row < MOST);
        const u32 address = EVEN ? first_to + down * PITCH_BYTES : to + row * PITCH_BYTES + chunk * 16;
        const T* source = EVEN ? first + down * ROW_STRIDE : from + row * ROW_STRIDE + chunk * 8 * COLUMN_STRIDE;
        if (WIDTH == 8) {
            copy_async_if(run, address, source, row < rows && (COLUMNS == PADDED || chunk * 8 < COLUMNS));
        } else if (run) {
            u32 packed[4];
#pragma unroll
            for (int pair = 0; pair < 4; ++pair) {
                u32 bits[2];
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int column = pair * 2 + half;
                    const bool inside = row < rows && chunk * 8 + column < COLUMNS;
                    bits[half] = inside ? (u32)source[column * COLUMN_STRIDE].bits : 0;
                }
                packed[pair] = bits[0] | bits[1] << 16;
            }
            asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(packed[0]), "r"(packed[1]),
                         "r"(packed[2]), "r"(packed[3])
                         : "memory");
        }
    }
}

DEVICE u32 pack(f32 low, f32 high, f16) { return pack_f16(low, high); }
DEVICE u32 pack(f32 low, f32 high, bf16) {
    u32 packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

// Pairs of ones.
DEVICE u32 ones(f16) { return 0x3c003c00u; }
DEVICE u32 ones(bf16) { return 0x3f803f80u; }

// Stores a row's columns `first` to `first` + 15, of which a lane has two in `low` and two, eight columns on, in `high`. Lanes
// exchange halves, so that a lane stores four neighbouring columns and four lanes a whole sector.
DEVICE void store_columns(T* row, int first, bool run, const f32* low, const f32* high, f32 scale) {
    if (OUTPUT_WIDTH == 8) {
        const bool odd = threadIdx.x % 2;
        const u32 left = pack(low[0] * scale, low[1] * scale, T()), right = pack(high[0] * scale, high[1] * scale, T());
        const u32 other = __shfl_xor_sync(~0u, odd ? left : right, 1);
        const int column = first + (odd ? 8 : 0) + (int)threadIdx.x % 4 / 2 * 4;
        if (run && column < VALUE_SIZE) *(uint2*)(row + column) = odd ? make_uint2(other, right) : make_uint2(left, other);
    } else {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const int column = first + v / 2 * 8 + (int)threadIdx.x % 4 * 2 + v % 2;
            if (run && column < VALUE_SIZE) row[column * OUTPUT_COLUMN] = store_as<T>((v < 2 ? low : high)[v % 2] * scale);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention_tensor_core(
    const T* __restrict__ query, const T* __restrict__ key, const T* __restrict__ value, MASK_PARAMETER
    T* __restrict__ output) {
    wait_for_inputs();
    extern __shared__ __align__(128) unsigned char shared[];
    const Tile tile = this_tile(BM);
    // By a shuffle the compiler knows that a warp's lanes agree, and prepares no shuffle of lanes that have parted.
    const int lane = threadIdx.x % 32, warp = __shfl_sync(~0u, (int)threadIdx.x / 32, 0), warp_q = warp % WQ, warp_k = warp / WQ;
    const int rounds = (tile.seen + ROUND - 1) / ROUND;
    const T* const queries = query + QUERY_AT(tile.batch, tile.head, tile.first);
    const T* const keys = key + KEY_AT(tile.batch, tile.head / GROUP, 0);
    const T* const values = value + VALUE_AT(tile.batch, tile.head / GROUP, 0);
    const u32 stages = shared_address(shared), query_tile = stages + STAGES * STAGE_BYTES;

    auto copy_keys = [&](int round, int stage) {
        copy_rows<ROUND, 16, SIZE, SIZE_PADDED, KEY_WIDTH, KEY_COLUMN, KEY_ROW>(
            stages + stage * STAGE_BYTES, keys + round * ROUND * KEY_ROW, tile.seen - round * ROUND);
    };
    auto copy_values = [&](int round, int stage) {
        copy_rows<ROUND, 16, VALUE_SIZE, VALUE_SIZE_PADDED, VALUE_WIDTH, VALUE_COLUMN, VALUE_ROW>(
            stages + stage * STAGE_BYTES + K_BYTES, values + round * ROUND * VALUE_ROW, tile.seen - round * ROUND);
    };
    copy_rows<BM, ROWS, SIZE, SIZE_PADDED, QUERY_WIDTH, QUERY_COLUMN, QUERY_ROW>(query_tile, queries, QUERIES - tile.first);
    copy_keys(0, 0);
    copy_async_commit();
    copy_values(0, 0);
    copy_async_commit();
    copy_async_wait<1>();
    __syncthreads();

    // A thread's rows of sixteen are lane / 4 and lane / 4 + 8.
    const int row = tile.first + warp_q * ROWS + lane / 4;
    const u32 q_rows = query_tile + (warp_q * ROWS + lane % 16) * K_PITCH * 2 + lane / 16 * 16;
    const u32 k_rows = stages + (warp_k * BN + lane % 8 + lane / 16 * 8) * K_PITCH * 2 + lane / 8 % 2 * 16;
    const u32 v_rows = stages + K_BYTES + (warp_k * BN + lane % 16) * V_PITCH * 2 + lane / 16 * 16;
    const bool busy = tile.first + warp_q * ROWS < QUERIES;  // A warp without queries has nothing to do.
    // Totals are sums of a column of ones, so that they are those of the rounded powers. All columns of a tile are the same.
    f32 top[MQ][2], total[MQ][4] = {}, sums[MQ][V_STEPS * 2][4] = {};
    u32 fq[MQ][QUERY_IN_REGISTERS ? K_STEPS : 1][4];
#pragma unroll
    for (int m = 0; m < MQ; ++m) {
        top[m][0] = top[m][1] = LOWEST;
#pragma unroll
        for (int step = 0; QUERY_IN_REGISTERS && step < K_STEPS; ++step)
            if (busy) load_matrices(fq[m][step], q_rows + m * 16 * K_PITCH * 2 + step * 32);
    }
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        const int stage = STAGES == 2 ? round % 2 : 0;
        if (round > 0) {
            copy_async_wait<0>();
            __syncthreads();
        }
        // Every warp is past the round before, whose place is free.
        if (STAGES == 2 && round + 1 < rounds) {
            copy_keys(round + 1, stage ^ 1);
            copy_values(round + 1, stage ^ 1);
        }
        copy_async_commit();
        const int first_key = round * ROUND + warp_k * BN;
        const int left = tile.seen - first_key;  // Keys from here on that some query sees.
        const bool seen = left > 0 && busy, full = !PARTIAL || left >= BN;
        u32 weights[MQ][BN / 16][4];  // Fragments of A.
        const auto weigh = [&](bool whole) {
            f32 scores[MQ][BN / 8][4] = {};
#pragma unroll
            for (int step = 0; step < K_STEPS; ++step) {
#pragma unroll
                for (int m = 0; !QUERY_IN_REGISTERS && m < MQ; ++m)
                    load_matrices(fq[m][0], q_rows + m * 16 * K_PITCH * 2 + step * 32);
#pragma unroll
                for (int j = 0; j < BN / 16; ++j) {
                    if (!whole && j * 16 >= left) continue;
                    u32 b[4];
                    load_matrices(b, k_rows + stage * STAGE_BYTES + j * 16 * K_PITCH * 2 + step * 32);
#pragma unroll
                    for (int m = 0; m < MQ; ++m) {
                        const u32(&a)[4] = fq[m][QUERY_IN_REGISTERS ? step : 0];
                        multiply_add(scores[m][j * 2], a, b[0], b[1], T());
                        multiply_add(scores[m][j * 2 + 1], a, b[2], b[3], T());
                    }
                }
            }
#pragma unroll
            for (int m = 0; m < MQ; ++m) {
                f32 highest[2] = {LOWEST, LOWEST};
#pragma unroll
                for (int j = 0; j < BN / 8; ++j)
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const int at = first_key + j * 8 + lane % 4 * 2 + e % 2;
                        f32& x = scores[m][j][e];
                        if (!PLAIN)
                            x = score(x, tile, row + m * 16 + e / 2 * 8, at MASK_ARGUMENT);
                        else if (!whole && at >= tile.seen)
                            x = LOWEST;
                        highest[e / 2] = fmaxf(highest[e / 2], x);
                    }
                bool rises = false;
#pragma unroll
                for (int half = 0; half < 2; ++half) rises |= highest[half] * UNIT > top[m][half] + RISE;
                // Where no key has been seen yet, every power is 0 whatever is subtracted.
                const auto shift = [&](int half) { return top[m][half] == LOWEST ? 0.0f : top[m][half]; };
                if (ONCE || __any_sync(~0u, rises)) {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        f32 best = highest[half];
                        best = fmaxf(best, __shfl_xor_sync(~0u, best, 1));
                        best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
                        const f32 before = top[m][half];
                        top[m][half] = fmaxf(before, best * UNIT);
                        if (ONCE) continue;
                        const f32 factor = exp2_16(before - shift(half));
                        total[m][half * 2] *= factor;
#pragma unroll
                        for (int i = 0; i < V_STEPS * 4; ++i) sums[m][i / 2][half * 2 + i % 2] *= factor;
                    }
                }
#pragma unroll
                for (int i = 0; i < BN / 4; ++i) {
                    const int half = i % 2;
                    const f32* const x = scores[m][i / 2] + half * 2;
                    const f32 low = exp2_16(fmaf(x[0], UNIT, -shift(half))), high = exp2_16(fmaf(x[1], UNIT, -shift(half)));
                    weights[m][i / 4][i % 4] = pack(low, high, T());
                }
            }
        };
        const auto mix = [&](bool whole) {
#pragma unroll
            for (int step = 0; step < BN / 16; ++step) {
                if (!whole && step * 16 >= left) break;
#pragma unroll
                for (int m = 0; m < MQ; ++m) multiply_add(total[m], weights[m][step], ones(T()), ones(T()), T());
#pragma unroll
                for (int j = 0; j < V_STEPS; ++j) {
                    u32 b[4];
                    load_matrices_transposed(b, v_rows + stage * STAGE_BYTES + step * 16 * V_PITCH * 2 + j * 32);
#pragma unroll
                    for (int m = 0; m < MQ; ++m) {
                        multiply_add(sums[m][j * 2], weights[m][step], b[0], b[1], T());
                        multiply_add(sums[m][j * 2 + 1], weights[m][step], b[2], b[3], T());
                    }
                }
            }
        };
        if (seen && full) weigh(true);
        if (seen && !full) weigh(false);
        if (round == 0) {
            copy_async_wait<1>();
            __syncthreads();
        }
        if (seen && full) mix(true);
        if (seen && !full) mix(false);
        if (STAGES == 1 && round + 1 < rounds) {
            __syncthreads();
            copy_keys(round + 1, 0);
            copy_values(round + 1, 0);
            copy_async_commit();
        }
    }

    launch_dependents();
    if (WK == 1) {  // A warp has whole rows, which its lanes store.
#pragma unroll
        for (int i = 0; i < MQ * 2; ++i) {
            const int m = i / 2, half = i % 2, r = row + i * 8;
            T* const to = output + OUTPUT_AT(tile.batch, tile.head, r);
            const f32 scale = reciprocal_16(total[m][half * 2]);
#pragma unroll
            for (int j = 0; j < V_STEPS; ++j)
                store_columns(to, j * 16, r < QUERIES, sums[m][j * 2] + half * 2, sums[m][j * 2 + 1] + half * 2, scale);
        }
        return;
    }
    copy_async_wait<0>();
    __syncthreads();

    // Partial results of all warps in shared memory: WK of BM rows, then maxima, then totals.
    f32* const partial = (f32*)shared;
    f32* const tops = partial + WK * BM * O_PITCH;
    f32* const totals = tops + WK * BM;
#pragma unroll
    for (int i = 0; i < MQ * 2; ++i) {
        const int m = i / 2, half = i % 2, here = warp_k * BM + warp_q * ROWS + lane / 4 + i * 8;
        if (lane % 4 == 0) {
            tops[here] = top[m][half];
            totals[here] = total[m][half * 2];
        }
#pragma unroll
        for (int j = 0; j < V_STEPS * 2; ++j)
            *(float2*)(partial + here * O_PITCH + j * 8 + lane % 4 * 2) = make_float2(sums[m][j][half * 2], sums[m][j][half * 2 + 1]);
    }
    __syncthreads();
    constexpr int VECTORS = (VALUE_SIZE + 7) / 8;
    for (int i = threadIdx.x; i < BM * VECTORS; i += THREADS) {
        const int r = i / VECTORS, column = i % VECTORS * 8;
        if (tile.first + r >= QUERIES) break;
        f32 best = LOWEST, sum = 0.0f, mean[8] = {};
#pragma unroll
        for (int k = 0; k < WK; ++k) best = fmaxf(best, tops[k * BM + r]);
#pragma unroll
        for (int k = 0; k < WK; ++k) {
            const f32 factor = tops[k * BM + r] == LOWEST ? 0.0f : exp2_16(tops[k * BM + r] - best);
            sum += factor * totals[k * BM + r];
            const f32* from = partial + (k * BM + r) * O_PITCH + column;
#pragma unroll
            for (int v = 0; v < 8; ++v) mean[v] += factor * from[v];
        }
        const f32 scale = reciprocal_16(sum);
        T* const to = output + OUTPUT_AT(tile.batch, tile.head, tile.first + r) + column * OUTPUT_COLUMN;
        Vector<T, 8> result;
#pragma unroll
        for (int v = 0; v < 8; ++v) result.v[v] = store_as<T>(mean[v] * scale);
        if (OUTPUT_WIDTH == 8)
            *(Vector<T, 8>*)to = result;
        else
#pragma unroll
            for (int v = 0; v < 8; ++v)
                if (column + v < VALUE_SIZE) to[v * OUTPUT_COLUMN] = result.v[v];
    }
}
