// From the sums of an image's channels to their average and, where there are layers, through both of them.
//
// Blocks know the sums of 16 times VECTORS channels over a part of the pixels. The last block of an image to arrive adds up what
// the others left and finishes. What does not depend on the sums is loaded ahead of its use. THREADS, WARPS, VECTORS, CHUNKS, PARTS
// and BLOCKS (of one image), LANES and CHANNELS are for the kernel in front to define.

#if LAYERS
DEVICE u32 dot_squeeze(u32 x, u32 w, u32 sum) {
    u32 result;
    asm("dp4a." AVERAGE_LETTER "32." SQUEEZE_LETTER "32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
}
DEVICE u32 dot_excite(u32 x, u32 w, u32 sum) {
    u32 result;
    asm("dp4a." SQUEEZED_LETTER "32." EXCITE_LETTER "32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
    return result;
}

// Where a block has all pixels of its channels, it knows their averages and adds its part of the squeeze's sums, which are exact
// in any order. The last block then has few sums to add; otherwise, and where its warps do one channel at most each, it does all
// of the squeeze.
constexpr bool SPREAD = PARTS == 1 && SQUEEZED > WARPS;
constexpr int SUMS = SPREAD ? SQUEEZED_LANES : LANES;   // That a block leaves to the last.
constexpr int LEFT = SPREAD ? BLOCKS : PARTS;           // How many are to be added for each.
constexpr int ITEMS = SQUEEZED_LANES * VECTORS;         // Vectors of squeeze weights of one block.
constexpr int ITEMS_AHEAD = SPREAD && ITEMS <= 2 * THREADS ? (ITEMS + THREADS - 1) / THREADS : 0;
constexpr int EXCITE_VECTORS = SQUEEZED_LANES / 16;     // Vectors of weights of one result.
constexpr int EXCITE_ROUNDS = (RESULT_LANES + THREADS - 1) / THREADS;
// Rounds whose weights are in flight while the sums are added: as many as registers allow.
constexpr int MOST_AHEAD = 9 / EXCITE_VECTORS;
constexpr int EXCITE_AHEAD = MOST_AHEAD < EXCITE_ROUNDS ? MOST_AHEAD : EXCITE_ROUNDS;
constexpr int SUM_GROUPS = SQUEEZED_LANES < THREADS ? THREADS / SQUEEZED_LANES : 1;  // Threads that add up one squeezed channel.
constexpr int SUM_TURNS = (BLOCKS + SUM_GROUPS - 1) / SUM_GROUPS;

// Weights of a result, its bias and its factor. Threads past the channels repeat the first one's.
struct Excite {
    uint4 weights[EXCITE_VECTORS];
    u32 bias;
    f32 factor;
};

DEVICE Excite excite_operands(const AverageOperands& o, int c) {
    const int from = c < CHANNELS ? c : 0;
    Excite e;
#pragma unroll
    for (int v = 0; v < EXCITE_VECTORS; v++) e.weights[v] = ((const uint4*)o.excite)[from * EXCITE_VECTORS + v];
    e.bias = EXCITE_BIAS ? o.excite_bias[from] : 0u;
    e.factor = EXCITE_FACTOR ? o.excite_factor[from] : 0.0f;
    return e;
}

DEVICE void excite(const Excite& e, const u8* squeezed, ResultElement* to, int c) {
    u32 sum = e.bias;
#pragma unroll
    for (int v = 0; v < EXCITE_VECTORS; v++) {
        const uint4 w = e.weights[v], x = ((const uint4*)squeezed)[v];
        sum = dot_excite(x.x, w.x, dot_excite(x.y, w.y, dot_excite(x.z, w.z, dot_excite(x.w, w.w, sum))));
    }
    const u32 y = excite_byte((f32)(i32)sum, e.factor) & 255u;
    if (c < RESULT_LANES) to[c] = (ResultElement)(c < CHANNELS ? y : 0u);
}

DEVICE u32 dot_squeeze(const uint4& x, const uint4& w, u32 sum) {
    return dot_squeeze(x.x, w.x, dot_squeeze(x.y, w.y, dot_squeeze(x.z, w.z, dot_squeeze(x.w, w.w, sum))));
}

// Item `i`: squeezed channel i / VECTORS, vector i % VECTORS of the block's.
DEVICE uint4 squeeze_weights(const AverageOperands& o, int i, int vector) {
    const int s = i / VECTORS, v = vector + i % VECTORS;
    return s < SQUEEZED && v < LANES / 16 ? ((const uint4*)o.squeeze)[s * (LANES / 16) + v] : make_uint4(0, 0, 0, 0);
}

DEVICE void add_squeezed(const uint4& w, const u8* average, i32* to, int i) {
    u32 sum = dot_squeeze(((const uint4*)average)[i % VECTORS], w, 0u);
#pragma unroll
    for (int mask = VECTORS / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (i % VECTORS == 0 && i < ITEMS) __stcg(to + i / VECTORS, (i32)sum);
}

DEVICE u8 squeezed_byte(const AverageOperands& o, int s, u32 sum) {
    if (s >= SQUEEZED) return 0;
    const u32 bias = SQUEEZE_BIAS ? o.squeeze_bias[s] : 0u;
    const f32 factor = SQUEEZE_FACTOR ? o.squeeze_factor[s] : 0.0f;
    return (u8)(squeeze_byte((f32)(i32)(sum + bias), factor) & 255u);
}

// The squeeze of a whole average, a warp a channel.
DEVICE void squeeze(const AverageOperands& o, const u8* average, u8* squeezed) {
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int s = threadIdx.x / 32; s < SQUEEZED_LANES; s += WARPS) {
        u32 sum = 0;
        if (s < SQUEEZED) {
#pragma unroll 4
            for (int v = lane; v < LANES / 16; v += 32)
                sum = dot_squeeze(((const uint4*)average)[v], ((const uint4*)o.squeeze)[s * (LANES / 16) + v], sum);
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (lane == 0) squeezed[s] = squeezed_byte(o, s, sum);
    }
}

// The squeeze of sums that all blocks have left.
DEVICE void add_up(const AverageOperands& o, const i32* partials, u8* squeezed) {
    __shared__ i32 groups[SUM_GROUPS][SQUEEZED_LANES];
    const int group = threadIdx.x / SQUEEZED_LANES;
    if (group < SUM_GROUPS) {
        for (int s = threadIdx.x % SQUEEZED_LANES; s < SQUEEZED_LANES; s += THREADS) {
            i32 sum = 0;
            // As often for all threads: of a number that differs, loads would follow each other.
#pragma unroll 8
            for (int turn = 0; turn < SUM_TURNS; turn++) {
                const int b = group + turn * SUM_GROUPS;
                sum += turn < SUM_TURNS - 1 || b < BLOCKS ? __ldcg(partials + b * SQUEEZED_LANES + s) : 0;
            }
            groups[group][s] = sum;
        }
    }
    __syncthreads();
    for (int s = threadIdx.x; s < SQUEEZED_LANES; s += THREADS) {
        i32 sum = 0;
#pragma unroll
        for (int g = 0; g < SUM_GROUPS; g++) sum += groups[g][s];
        squeezed[s] = squeezed_byte(o, s, (u32)sum);
    }
}
#else
constexpr bool SPREAD = false;
constexpr int SUMS = LANES, LEFT = PARTS;
#endif

// The average of a channel from the sum of its bytes; zero past the channels.
DEVICE u8 averaged(i32 sum, int channel) {
    return channel < CHANNELS ? (u8)(requantise_byte((f32)(sum - SUM_OFFSET), 0.0f) & 255u) : (u8)0;
}


#if LAYERS
// The first squeeze weights of a thread.
struct Ahead {
    uint4 weights[ITEMS_AHEAD > 0 ? ITEMS_AHEAD : 1];
};

DEVICE Ahead begin_average(const AverageOperands& o, int vector) {
    Ahead ahead;
#pragma unroll
    for (int i = 0; i < ITEMS_AHEAD; i++) ahead.weights[i] = squeeze_weights(o, i * THREADS + threadIdx.x, vector);
    return ahead;
}
#else
struct Ahead {};
DEVICE Ahead begin_average(const AverageOperands&, int) { return Ahead(); }
#endif

// `sum_of(c)` is the sum of the block's channel c, 16 * `vector` + c in the image, over its part of the pixels. `block` counts
// the BLOCKS of the image: CHUNKS for each part.
template <typename Sums>
DEVICE void finish_average(const AverageOperands& o, const Ahead& ahead, const Sums& sum_of, int vector, int image, int block) {
    __shared__ __align__(16) u8 average[SPREAD ? VECTORS * 16 : LANES];
    const int thread = threadIdx.x, part = block / CHUNKS;
    i32* const partials = o.partials + (offset_t)image * LEFT * SUMS;
    for (int c = thread; c < VECTORS * 16; c += THREADS) {
        const i32 sum = sum_of(c);
        const int channel = vector * 16 + c;
        if (SPREAD) {
            average[c] = averaged(sum, channel);
        } else if (channel < LANES) {
            __stcg(partials + part * LANES + channel, sum);
        }
    }
#if LAYERS
    if (SPREAD) {
        __syncthreads();
        i32* const to = partials + block * SQUEEZED_LANES;
#pragma unroll
        for (int i = 0; i < ITEMS_AHEAD; i++) add_squeezed(ahead.weights[i], average, to, i * THREADS + thread);
#pragma unroll 4
        for (int i = ITEMS_AHEAD * THREADS + thread; i - thread < ITEMS; i += THREADS)
            add_squeezed(squeeze_weights(o, i, vector), average, to, i);
    }
#endif
    // The barrier orders all stores of the block before the arrival of thread 0, and its arrival before the others' loads.
    __syncthreads();
    int last = 0;
    if (thread == 0) {
        last = arrive(o.counters + image) == BLOCKS - 1;
        if (last) o.counters[image] = 0;  // Ready for the next replay.
    }
    if (!__syncthreads_or(last)) return;
    ResultElement* const to = o.result + RESULT_OFFSET + (offset_t)image * RESULT_IMAGE;
#if LAYERS
    __shared__ __align__(16) u8 squeezed[SQUEEZED_LANES];
    Excite operands[EXCITE_AHEAD > 0 ? EXCITE_AHEAD : 1];
#pragma unroll
    for (int r = 0; r < EXCITE_AHEAD; r++) operands[r] = excite_operands(o, r * THREADS + thread);
    if (SPREAD) add_up(o, partials, squeezed);
#endif
    if (!SPREAD) {
        for (int c = thread; c < LANES; c += THREADS) {
            i32 sum = 0;
#pragma unroll 8
            for (int i = 0; i < PARTS; i++) sum += __ldcg(partials + i * LANES + c);
            average[c] = averaged(sum, c);
            if (!LAYERS && c < RESULT_LANES) to[c] = (ResultElement)average[c];
        }
#if LAYERS
        __syncthreads();
        squeeze(o, average, squeezed);
#endif
    }
#if LAYERS
    __syncthreads();
#pragma unroll
    for (int r = 0; r < EXCITE_AHEAD; r++) excite(operands[r], squeezed, to, r * THREADS + thread);
    for (int c = EXCITE_AHEAD * THREADS + thread; c < RESULT_LANES; c += THREADS)
        excite(excite_operands(o, c), squeezed, to, c);
#endif
}
