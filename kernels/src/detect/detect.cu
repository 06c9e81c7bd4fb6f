// One block makes detections of a head: it pools the keys (score and index in one number) of candidates whose score is
// good, sorts them and goes through them from the best on, decoding their boxes as it gets there. Where there are many
// scores, blocks on all multiprocessors make keys of them before. Keys are distinct, so nothing depends on the order in
// which threads find them; nothing is contracted, so decisions are the host's to the last bit.

#define WARPS (THREADS / 32u)
#define LOADS 4u
#define CAPACITY (2u * LOADS * THREADS)

// arithmetic.rs ------------------------------------------------------------------------------------------------------
DEVICE f32 exponential(f32 x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const f32 power = rintf(__fmul_rn(x, 1.44269504f));
    const f32 rest = __fsub_rn(__fsub_rn(x, __fmul_rn(power, 0.693359375f)), __fmul_rn(power, -2.1219444e-4f));
    const f32 polynomial[6] = {1.9875691e-4f, 1.3981999e-3f, 8.333452e-3f, 4.1665796e-2f, 1.6666665e-1f, 0.5f};
    f32 tail = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 6; ++i) tail = __fadd_rn(__fmul_rn(tail, rest), polynomial[i]);
    const f32 fraction = __fadd_rn(__fadd_rn(__fmul_rn(tail, __fmul_rn(rest, rest)), rest), 1.0f);
    return __fmul_rn(fraction, __int_as_float(((i32)power + 127) << 23));
}

DEVICE f32 logistic(f32 x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, exponential(-x))); }

// Scores -------------------------------------------------------------------------------------------------------------
struct Best { f32 score; u32 klass; };

// Score and class of a candidate; LANES neighbouring threads share its classes.
template <u32 LANES> DEVICE Best best_of(const Inputs& inputs, u32 candidate, u32 lane) {
    f32 best = __int_as_float(0xff800000);
    u32 klass = BACKGROUND;
#pragma unroll 8
    for (u32 c = BACKGROUND + lane; c < CLASSES; c += LANES) {
        const f32 x = score_number(inputs, candidate, FIRST_CLASS + c);
        if (x > best) {
            best = x;
            klass = c;
        }
    }
#pragma unroll
    for (u32 mask = LANES / 2; mask > 0; mask /= 2) {
        const f32 other = __shfl_xor_sync(0xffffffffu, best, mask);
        const u32 its = __shfl_xor_sync(0xffffffffu, klass, mask);
        if (other > best || (other == best && its < klass)) {
            best = other;
            klass = its;
        }
    }
#if ACTIVATION == SOFTMAX
    f32 largest = best, sum = 0.0f;
    for (u32 c = 0; c < BACKGROUND; ++c) {
        const f32 x = score_number(inputs, candidate, FIRST_CLASS + c);
        largest = x > largest ? x : largest;
    }
#pragma unroll 8
    for (u32 c = 0; c < CLASSES; ++c) {
        sum = __fadd_rn(sum, exponential(__fsub_rn(score_number(inputs, candidate, FIRST_CLASS + c), largest)));
    }
    f32 score = __fdiv_rn(exponential(__fsub_rn(best, largest)), sum);
#elif ACTIVATION == SIGMOID
    f32 score = logistic(best);
#else
    f32 score = best;
#endif
#ifdef OBJECT
    const f32 object = score_number(inputs, candidate, OBJECT);
    score = __fmul_rn(score, ACTIVATION ? logistic(object) : object);
#endif
    return Best{score, klass};
}

// The candidate's key where its score is good, else 0; the thread that `stores` remembers its class.
template <u32 LANES>
DEVICE u64 key_of_candidate(const Inputs& inputs, u32 candidate, u32 lane, bool stores, u32* classes) {
    const Best best = best_of<LANES>(inputs, candidate, lane);
    if (!(best.score > THRESHOLD)) return 0;
    if (CLASSES > 1 && stores) classes[candidate] = best.klass;
    return key_of(best.score, candidate);
}

#if STAGE == 0
extern "C" __global__ void __launch_bounds__(THREADS) detect_score(INPUTS, u64* keys, u32* classes) {
    wait_for_inputs();
    const u32 thread = blockIdx.x * THREADS + threadIdx.x;
    // The threads of a warp stay together: those behind the last candidate look at it again and store nothing.
    const u32 number = thread / SCORE_LANES, candidate = min(number, CANDIDATES - 1), lane = thread % SCORE_LANES;
    const bool stores = lane == 0 && number < CANDIDATES;
    const u64 key = key_of_candidate<SCORE_LANES>(GATHERED, candidate, lane, stores, classes);
    if (stores) keys[candidate] = key;
}
#else

// Boxes --------------------------------------------------------------------------------------------------------------
// Number `number`, along dimension d, as a place.
DEVICE f32 place(const Inputs& inputs, const f32* places, u32 candidate, u32 number, u32 d) {
    const f32 x = box_number(inputs, candidate, number);
    const f32 factor = places[places_at(candidate, 3 * d)], summand = places[places_at(candidate, 3 * d + 1)];
    return __fadd_rn(__fmul_rn(x, factor), summand);
}

DEVICE Corners corners_of(const Inputs& inputs, const f32* places, u32 candidate) {
    Corners box;
#pragma unroll
    for (u32 d = 0; d < 2; ++d) {
        const u32 axis = ROWS_FIRST ? 1 - d : d;
        const f32 centre = place(inputs, places, candidate, axis, d);
        f32 extent = box_number(inputs, candidate, 2 + axis);
#ifdef LOGARITHM
        extent = exponential(__fmul_rn(extent, LOGARITHM));
#endif
        const f32 half = __fmul_rn(__fmul_rn(extent, places[places_at(candidate, 3 * d + 2)]), 0.5f);
        box.low[d] = __fsub_rn(centre, half);
        box.high[d] = __fadd_rn(centre, half);
    }
    return box;
}

// Sorts `count` keys, the largest first (Batcher's bitonic sort). Steps of less than 64 stay inside the keys of a warp.
DEVICE void sort(u64* pool, u32 count) {
    u32 size = 1;
    while (size < count) size *= 2;
    for (u32 i = count + threadIdx.x; i < size; i += THREADS) pool[i] = 0;
    __syncthreads();
    for (u32 length = 2; length <= size; length *= 2) {
        for (u32 step = length / 2; step > 0; step /= 2) {
            for (u32 i = threadIdx.x; i < size / 2; i += THREADS) {
                const u32 low = 2 * i - (i & (step - 1)), high = low + step;
                const u64 a = pool[low], b = pool[high];
                if ((a < b) == !(low & length)) {
                    pool[low] = b;
                    pool[high] = a;
                }
            }
            const u32 next = step > 1 ? step / 2 : length;
            if (size > 64 && (step > 32 || next > 32)) __syncthreads(); else __syncwarp();
        }
    }
    __syncthreads();
}

struct Pool {
    u64 keys[CAPACITY];
    u32 count;
};

// Pools the best keys below `last`, sorted: all of them, or at least CAPACITY / 2. Whether there are more.
DEVICE bool fill(Pool& pool, const Inputs& inputs, const u64* keys, u32* classes, u64 last) {
    u64 worst = 0;  // Keys that are not above it need not be pooled.
    if (threadIdx.x == 0) pool.count = 0;
    for (u32 first = 0; first < CANDIDATES; first += LOADS * THREADS) {
        u64 found[LOADS];
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i) {
            const u32 candidate = first + i * THREADS + threadIdx.x;
#if STAGE == 1
            found[i] = candidate < CANDIDATES ? keys[candidate] : 0;
#else
            found[i] = candidate < CANDIDATES ? key_of_candidate<1>(inputs, candidate, 0, true, classes) : 0;
#endif
        }
        __syncthreads();
        const u32 count = pool.count;
        __syncthreads();
        if (count > CAPACITY - LOADS * THREADS) {
            sort(pool.keys, count);
            worst = pool.keys[CAPACITY / 2 - 1];
            if (threadIdx.x == 0) pool.count = CAPACITY / 2;
            __syncthreads();
        }
#pragma unroll
        for (u32 i = 0; i < LOADS; ++i) {
            if (found[i] > worst && found[i] < last) pool.keys[atomicAdd(&pool.count, 1u)] = found[i];
        }
    }
    __syncthreads();
    sort(pool.keys, pool.count);
    return worst != 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) detect_select(INPUTS, const f32* places, const u64* keys,
                                                                    u32* classes, u64* chosen, Corners* more_corners,
                                                                    u32* more_classes, f32* detections, i32* count) {
    __shared__ Pool pool;
    __shared__ u32 kept[WARPS];
#if MOST <= 256
    __shared__ Corners corners[MOST];
    __shared__ u32 its_class[MOST];
#else
    Corners* const corners = more_corners;
    u32* const its_class = more_classes;
#endif
    wait_for_inputs();
    const Inputs inputs = GATHERED;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u64 last = ~0ull;
    u32 used = 0;
    bool more = true;
    while (more && used < MOST) {
        more = fill(pool, inputs, keys, classes, last);
        const u32 total = pool.count;
        if (more) last = pool.keys[total - 1];
        for (u32 start = 0; start < total && used < MOST; start += THREADS) {
            // A candidate a thread, compared with all that stay already.
            const u64 key = start + threadIdx.x < total ? pool.keys[start + threadIdx.x] : 0;
            const u32 candidate = index_of(key);
            Corners box = {};
            u32 klass = 0;
            bool stays = key != 0;
            if (stays) {
                box = corners_of(inputs, places, candidate);
                if (CLASSES > 1) klass = classes[candidate];
                for (u32 i = 0; i < used && stays; ++i) {
                    stays = its_class[i] != klass || !too_close(box, corners[i], OVERLAP);
                }
            }
            // Warp after warp adds its own; those behind it are compared with what it added.
            for (u32 turn = 0; turn < WARPS && start + 32 * turn < total && used < MOST; ++turn) {
                if (warp == turn) {
                    u32 winners = 0, open = __ballot_sync(0xffffffffu, stays);
                    while (open) {
                        const u32 best = __ffs(open) - 1;
                        winners |= 1u << best;
                        const Corners other = from_lane(box, best);
                        const bool same = __shfl_sync(0xffffffffu, klass, best) == klass;
                        if (lane > best && stays && same) stays = !too_close(box, other, OVERLAP);
                        open = __ballot_sync(0xffffffffu, stays && lane > best);
                    }
                    const u32 to = used + __popc(winners & ((1u << lane) - 1));
                    if (winners >> lane & 1 && to < MOST) {
                        corners[to] = box;
                        its_class[to] = klass;
                        chosen[to] = key;
                    }
                    if (lane == 0) kept[warp] = min(used + __popc(winners), MOST);
                }
                __syncthreads();
                const u32 now = kept[turn];
                if (warp > turn) {
                    for (u32 i = used; i < now && stays; ++i) {
                        stays = its_class[i] != klass || !too_close(box, corners[i], OVERLAP);
                    }
                }
                used = now;
            }
            __syncthreads();
        }
    }
    for (u32 i = threadIdx.x; i < MOST * NUMBERS; i += THREADS) {
        const u32 row = i / NUMBERS, number = i % NUMBERS;
        f32 value = 0.0f;
        if (row < used) {
            const u64 key = chosen[row];
            const u32 d = number % 2, axis = ROWS_FIRST ? 1 - d : d;
            if (number < 4) value = number < 2 ? corners[row].low[d] : corners[row].high[d];
            else if (number == 4) value = score_of(key);
            else if (number == 5) value = (f32)(its_class[row] - BACKGROUND);
            else value = place(inputs, places, index_of(key), FIRST_POINT + number - d - BOX + axis, d);
        }
        detections[detections_at(row, number)] = value;
    }
    if (threadIdx.x == 0) count[COUNT_OFFSET] = (i32)used;
}
#endif
