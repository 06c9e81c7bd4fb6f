// Keys (score and index in one number) are sorted in tiles, each by a block; tiles become one row; then a block a row goes
// through the boxes from the best on. Keys are distinct, so nothing depends on the order in which threads find them.

// A block sorts the keys of a tile of a row's boxes, without those whose score is too low.
extern "C" __global__ void __launch_bounds__(THREADS) nms_sort(const S* __restrict__ scores,
                                                               const f32* __restrict__ thresholds, u64* keys,
                                                               u32* counts) {
    __shared__ u64 tile[TILE];
    __shared__ u32 shared_count;
    wait_for_inputs();
    const u32 row = blockIdx.x / TILES, first = blockIdx.x % TILES * TILE;
    if (threadIdx.x == 0) shared_count = 0;
    __syncthreads();
#if SCORED
    const f32 threshold = thresholds[thresholds_at(1)];
#endif
    for (u32 i = first + threadIdx.x; i < first + TILE && i < BOXES; i += THREADS) {
        const f32 score = to_f32(scores[scores_at(row / CLASSES, row % CLASSES, i)]);
#if SCORED
        const bool wanted = score > threshold;
#else
        const bool wanted = score == score;
#endif
        if (wanted) tile[atomicAdd(&shared_count, 1u)] = key_of(score, i);
    }
    __syncthreads();
    const u32 count = shared_count;
    u32 size = 1;
    while (size < count) size *= 2;
    for (u32 i = count + threadIdx.x; i < size; i += THREADS) tile[i] = 0;
    // Batcher's bitonic sort, the largest first.
    for (u32 length = 2; length <= size; length *= 2) {
        for (u32 step = length / 2; step > 0; step /= 2) {
            __syncthreads();
            for (u32 i = threadIdx.x; i < size / 2; i += THREADS) {
                const u32 low = 2 * i - (i & (step - 1)), high = low + step;
                const u64 a = tile[low], b = tile[high];
                if ((a < b) == !(low & length)) {
                    tile[low] = b;
                    tile[high] = a;
                }
            }
        }
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < count; i += THREADS) keys[(u64)blockIdx.x * TILE + i] = tile[i];
    if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

// Number of keys that are larger than one; they fall.
DEVICE u32 larger(const u64* keys, u32 count, u64 key) {
    u32 low = 0, high = count;
    while (low < high) {
        const u32 middle = (low + high) / 2;
        if (keys[middle] > key) low = middle + 1; else high = middle;
    }
    return low;
}

// Sorted tiles become sorted rows: a key's place is its place in its tile and the numbers of larger ones in the others.
extern "C" __global__ void __launch_bounds__(THREADS) nms_merge(const u64* keys, const u32* counts, u64* sorted) {
    wait_for_inputs();
    const u32 row = blockIdx.x / TILES, tile = blockIdx.x % TILES;
    for (u32 i = threadIdx.x; i < counts[blockIdx.x]; i += THREADS) {
        const u64 key = keys[(u64)blockIdx.x * TILE + i];
        u32 place = i;
        for (u32 other = 0; other < TILES; ++other) {
            const u32 from = row * TILES + other;
            if (other != tile) place += larger(keys + (u64)from * TILE, counts[from], key);
        }
        sorted[(u64)row * TILES * TILE + place] = key;
    }
}

DEVICE Corners load_box(const B* boxes, u32 image, u32 index) {
    f32 given[4];
#pragma unroll
    for (u32 i = 0; i < 4; ++i) given[i] = to_f32(boxes[boxes_at(image, index, i)]);
    Corners box;
#pragma unroll
    for (u32 d = 0; d < 2; ++d) {
        const f32 a = given[d], b = given[d + 2];
#if CENTER
        box.low[d] = __fsub_rn(a, b * 0.5f);
        box.high[d] = __fadd_rn(a, b * 0.5f);
#else
        box.low[d] = a >= b ? b : a;
        box.high[d] = a >= b ? a : b;
#endif
    }
    return box;
}

#define WARPS (THREADS / 32u)

// A block goes through the boxes of a row, THREADS of them at a time: first all of them are compared with the selected
// ones, then 32 after 32 with those that the ones before them added, and with each other.
extern "C" __global__ void __launch_bounds__(THREADS) nms_select(const B* __restrict__ boxes,
                                                                 const f32* __restrict__ thresholds,
                                                                 const u64* sorted, const u32* counts, Corners* selected,
                                                                 u32* picked, u32* picks) {
    __shared__ Corners staged[THREADS];
    __shared__ u32 indices[THREADS];
    __shared__ u32 alive[WARPS];
    __shared__ u32 shared_count;
    wait_for_inputs();
    const u32 row = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const f32 threshold = thresholds[thresholds_at(0)];
    u32 total = 0;
    for (u32 tile = 0; tile < TILES; ++tile) total += counts[row * TILES + tile];
    sorted += (u64)row * TILES * TILE;
    selected += (u64)row * LIMIT;
    picked += (u64)row * LIMIT;
    if (threadIdx.x == 0) shared_count = 0;
    __syncthreads();
    for (u32 start = 0; start < total && shared_count < LIMIT; start += THREADS) {
        const u32 before = shared_count, place = start + threadIdx.x;
        bool stays = place < total;
        if (stays) {
            const u32 index = ~(u32)sorted[place];
            const Corners box = load_box(boxes, row / CLASSES, index);
            staged[threadIdx.x] = box;
            indices[threadIdx.x] = index;
            for (u32 i = 0; i < before && stays; ++i) stays = !too_close(box, selected[i], threshold);
        }
        const u32 mask = __ballot_sync(0xffffffffu, stays);
        if (lane == 0) alive[warp] = mask;
        __syncthreads();
        for (u32 group = 0; group < WARPS && shared_count < LIMIT; ++group) {
            if (alive[group] == 0) continue;
            const u32 count = shared_count;
            const bool here = alive[group] >> lane & 1u;
            const Corners box = staged[group * 32 + (here ? lane : __ffs(alive[group]) - 1)];
            bool lost = false;
            for (u32 i = before + warp; i < count && !lost; i += WARPS) lost = too_close(box, selected[i], threshold);
            const u32 losers = __ballot_sync(0xffffffffu, here && lost);
            __syncthreads();
            if (lane == 0 && losers) atomicAnd(&alive[group], ~losers);
            __syncthreads();
            if (warp == 0) {
                u32 rivals = 0;
                for (u32 other = 0; other < 32; ++other) {
                    const bool close = too_close(box, from_lane(box, other), threshold);
                    if (other < lane && close) rivals |= 1u << other;
                }
                const u32 candidates = alive[group];
                u32 winners = 0;
                for (u32 other = 0; other < 32; ++other) {
                    const u32 better = __shfl_sync(0xffffffffu, rivals, other);
                    if (candidates >> other & 1u && !(better & winners)) winners |= 1u << other;
                }
                const u32 to = count + __popc(winners & ((1u << lane) - 1u));
                if (winners >> lane & 1u && to < LIMIT) {
                    selected[to] = box;
                    picked[to] = indices[group * 32 + lane];
                }
                if (lane == 0) shared_count = min(count + __popc(winners), LIMIT);
            }
            __syncthreads();
        }
        // The next boxes are staged when no warp looks at these any more.
        __syncthreads();
    }
    if (threadIdx.x == 0) picks[row] = shared_count;
}

// A block writes LIMIT rows of the indices: those of its row that are selected, and as many unused ones as that leaves.
extern "C" __global__ void __launch_bounds__(THREADS) nms_write(const u32* picked, const u32* picks, i64* indices,
                                                                i64* count) {
    __shared__ u32 warps[2][WARPS];
    wait_for_inputs();
    const u32 row = blockIdx.x;
    u32 sums[2] = {0, 0};  // Of the rows before, of all.
    for (u32 other = threadIdx.x; other < ROWS; other += THREADS) {
        sums[0] += other < row ? picks[other] : 0;
        sums[1] += picks[other];
    }
#pragma unroll
    for (u32 s = 0; s < 2; ++s) {
        for (u32 mask = 16; mask > 0; mask /= 2) sums[s] += __shfl_xor_sync(0xffffffffu, sums[s], mask);
        if (threadIdx.x % 32 == 0) warps[s][threadIdx.x / 32] = sums[s];
    }
    __syncthreads();
    u32 before = 0, total = 0;
    for (u32 w = 0; w < WARPS; ++w) {
        before += warps[0][w];
        total += warps[1][w];
    }
    const u32 mine = ROWS ? picks[row] : 0;
    for (u32 i = threadIdx.x; i < LIMIT; i += THREADS) {
        const bool used = i < mine;
        const u32 to = used ? before + i : total + (row * LIMIT - before) + (i - mine);
        indices[indices_at(to, 0)] = used ? (i64)(row / CLASSES) : UNUSED;
        indices[indices_at(to, 1)] = used ? (i64)(row % CLASSES) : UNUSED;
        indices[indices_at(to, 2)] = used ? (i64)picked[(u64)row * LIMIT + i] : UNUSED;
    }
    if (row == 0 && threadIdx.x == 0) count[COUNT_OFFSET] = (i64)total;
}
