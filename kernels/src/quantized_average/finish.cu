// From the sums of an image's channels to their average and, where there are layers, through both of them.
//
// Blocks know the sums of 16 times VECTORS channels over a part of the pixels. The last block of an image to arrive adds up what
// the others left and finishes. What does not depend on the sums is loaded ahead of its use. Loops that turn once or twice stay
// rolled, since each launch fetches its code from memory. THREADS, WARPS, VECTORS, CHUNKS, PARTS and BLOCKS (of one image), LANES
// and CHANNELS are for the kernel in front to define.

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
// Rounds whose weights are in flight together, the first ones while sums are added: as many as registers allow.
constexpr int MOST_AHEAD = 4 * EXCITE_VECTORS + 2 < 72 ? 72 / (4 * EXCITE_VECTORS + 2) : 1;
constexpr bool EXCITE_EARLY = EXCITE_VECTORS < 10;
constexpr int EXCITE_AHEAD = MOST_AHEAD < EXCITE_ROUNDS ? MOST_AHEAD : EXCITE_ROUNDS;
// Vectors of four squeezed channels, and the threads that share one: each has all of its loads in flight at once.
constexpr int SUM_QUADS = SQUEEZED_LANES / 4;
constexpr int MOST_GROUPS = SPREAD ? (BLOCKS + 7) / 8 : 1;
constexpr int SUM_GROUPS = SUM_QUADS > THREADS ? 1 : MOST_GROUPS * SUM_QUADS > THREADS ? THREADS / SUM_QUADS : MOST_GROUPS;
constexpr int SUM_TURNS = (BLOCKS + SUM_GROUPS - 1) / SUM_GROUPS;
constexpr int SUMS_AHEAD = SUM_TURNS < 8 ? SUM_TURNS : 8;

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

// Sums of squeezed channels of a whole average, a warp a channel; `weights` are those of a warp's first.
DEVICE void squeeze(const AverageOperands& o, const u8* average, const uint4& weights, i32* sums) {
    const int lane = threadIdx.x % 32;
#pragma unroll 2
    for (int s = threadIdx.x / 32; s < SQUEEZED; s += WARPS) {
        u32 sum = 0;
#pragma unroll 2
        for (int v = lane; v < LANES / 16; v += 32) {
            const bool first = s < WARPS && v < 32;
            const uint4 w = first ? weights : ((const uint4*)o.squeeze)[s * (LANES / 16) + v];
            sum = dot_squeeze(((const uint4*)average)[v], w, sum);
        }
#pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (lane == 0) sums[s] = (i32)sum;
    }
}

// The first weights of a warp in `squeeze`.
DEVICE uint4 first_weights(const AverageOperands& o) {
    const int s = threadIdx.x / 32, v = threadIdx.x % 32;
    return s < SQUEEZED && v < LANES / 16 ? ((const uint4*)o.squeeze)[s * (LANES / 16) + v] : make_uint4(0, 0, 0, 0);
}

// Sums of what all blocks have left, SUM_GROUPS for each squeezed channel. `meanwhile` is for loads that need not come as early.
template <typename Meanwhile>
DEVICE void add_up(const i32* partials, int4* sums, const Meanwhile& meanwhile) {
    const int group = threadIdx.x / SUM_QUADS;
    int4 x[SUMS_AHEAD];
    // As many for all threads: of a number that differs, loads would follow each other.
    auto load = [&](int q, int first) {
#pragma unroll
        for (int t = 0; t < SUMS_AHEAD; t++) {
            const int b = group + (first + t) * SUM_GROUPS;
            x[t] = group < SUM_GROUPS && b < BLOCKS ? __ldcg((const int4*)partials + b * SUM_QUADS + q) : make_int4(0, 0, 0, 0);
        }
    };
    load(threadIdx.x % SUM_QUADS, 0);
    meanwhile();
    if (group >= SUM_GROUPS) return;
#pragma unroll 1
    for (int q = threadIdx.x % SUM_QUADS; q < SUM_QUADS; q += THREADS) {
        int4 sum = make_int4(0, 0, 0, 0);
#pragma unroll 1
        for (int first = 0; first < SUM_TURNS; first += SUMS_AHEAD) {
            if (q >= THREADS || first > 0) load(q, first);
#pragma unroll
            for (int t = 0; t < SUMS_AHEAD; t++) sum.x += x[t].x, sum.y += x[t].y, sum.z += x[t].z, sum.w += x[t].w;
        }
        sums[group * SUM_QUADS + q] = sum;
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
// The first squeeze weights of a thread, and bias and factor of its first squeezed channel.
struct Ahead {
    uint4 weights[ITEMS_AHEAD > 0 ? ITEMS_AHEAD : 1];
    u32 bias;
    f32 factor;
};

DEVICE Ahead begin_average(const AverageOperands& o, int vector) {
    Ahead ahead;
#pragma unroll
    for (int i = 0; i < ITEMS_AHEAD; i++) ahead.weights[i] = squeeze_weights(o, i * THREADS + threadIdx.x, vector);
    ahead.bias = SQUEEZE_BIAS && threadIdx.x < SQUEEZED ? o.squeeze_bias[threadIdx.x] : 0u;
    ahead.factor = SQUEEZE_FACTOR && threadIdx.x < SQUEEZED ? o.squeeze_factor[threadIdx.x] : 0.0f;
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
    const int thread = threadIdx.x, part = block / CHUNKS;
    ResultElement* const to = o.result + RESULT_OFFSET + (offset_t)image * RESULT_IMAGE;
    if (!LAYERS && PARTS == 1) {
        // Nobody waits for another block.
#pragma unroll 1
        for (int c = thread; c < VECTORS * 16; c += THREADS)
            if (vector * 16 + c < RESULT_LANES) to[vector * 16 + c] = (ResultElement)averaged(sum_of(c), vector * 16 + c);
        return;
    }
    __shared__ __align__(16) u8 average[SPREAD ? VECTORS * 16 : LANES];
    i32* const partials = o.partials + (offset_t)image * LEFT * SUMS;
#pragma unroll 1
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
        i32* const own = partials + block * SQUEEZED_LANES;
#pragma unroll
        for (int i = 0; i < ITEMS_AHEAD; i++) add_squeezed(ahead.weights[i], average, own, i * THREADS + thread);
#pragma unroll 4
        for (int i = ITEMS_AHEAD * THREADS + thread; i - thread < ITEMS; i += THREADS)
            add_squeezed(squeeze_weights(o, i, vector), average, own, i);
    }
    const uint4 weights = SPREAD ? make_uint4(0, 0, 0, 0) : first_weights(o);
#endif
    // The barrier orders all stores of the block before the arrival of thread 0, and its arrival before the others' loads.
    __syncthreads();
    int last = 0;
    if (thread == 0) {
        last = arrive(o.counters + image) == BLOCKS - 1;
        if (last) o.counters[image] = 0;  // Ready for the next replay.
    }
    if (!__syncthreads_or(last)) return;
#if LAYERS
    __shared__ int4 sums[SUM_GROUPS * SUM_QUADS];
    __shared__ __align__(16) u8 squeezed[SQUEEZED_LANES];
    Excite operands[EXCITE_AHEAD];
    auto load_excite = [&](int first) {
#pragma unroll
        for (int r = 0; r < EXCITE_AHEAD; r++) operands[r] = excite_operands(o, (first + r) * THREADS + thread);
    };
    auto load_early = [&] {
        if (EXCITE_EARLY) load_excite(0);
    };
    if (SPREAD) add_up(partials, sums, load_early);
    else load_early();
#endif
    if (!SPREAD) {
#pragma unroll 1
        for (int c = thread; c < LANES; c += THREADS) {
            i32 sum = 0;
#pragma unroll 16
            for (int i = 0; i < PARTS; i++) sum += __ldcg(partials + i * LANES + c);
            average[c] = averaged(sum, c);
            if (!LAYERS && c < RESULT_LANES) to[c] = (ResultElement)average[c];
        }
#if LAYERS
        __syncthreads();
        squeeze(o, average, weights, (i32*)sums);
#endif
    }
#if LAYERS
    __syncthreads();
#pragma unroll 1
    for (int s = thread; s < SQUEEZED_LANES; s += THREADS) {
        u32 y = 0;
        if (s < SQUEEZED) {
            u32 sum = s == thread ? ahead.bias : SQUEEZE_BIAS ? o.squeeze_bias[s] : 0u;
            const f32 factor = s == thread ? ahead.factor : SQUEEZE_FACTOR ? o.squeeze_factor[s] : 0.0f;
#pragma unroll
            for (int g = 0; g < SUM_GROUPS; g++) sum += ((const i32*)sums)[g * SQUEEZED_LANES + s];
            y = squeeze_byte((f32)(i32)sum, factor) & 255u;
        }
        squeezed[s] = (u8)y;
    }
    __syncthreads();
#pragma unroll 1
    for (int first = 0; first < EXCITE_ROUNDS; first += EXCITE_AHEAD) {
        if (first > 0 || !EXCITE_EARLY) load_excite(first);
#pragma unroll
        for (int r = 0; r < EXCITE_AHEAD; r++) excite(operands[r], squeezed, to, (first + r) * THREADS + thread);
    }
#endif
}
