// Sums of an image of bytes by channel: a block sums 16 times VECTORS channels over a part of the pixels. The last block of an
// image to arrive adds up what the others left and finishes both layers where there are any. What does not depend on the sums is
// loaded ahead of its use.
constexpr int LINES = THREADS / VECTORS;  // Pixels that a block reads at once.
constexpr int CHUNKS = (LANES / 16 + VECTORS - 1) / VECTORS;
constexpr int BLOCKS = CHUNKS * PARTS;    // Of one image.
constexpr int OF_PART = (PIXELS + PARTS - 1) / PARTS;
constexpr int LOADS = (OF_PART + LINES - 1) / LINES;
constexpr int WARPS = THREADS / 32;
static_assert(LOADS <= 256, "sums of bytes fit into 16 bits");

// Counts this block's arrival: all that the block wrote before is visible to whoever sees the count.
DEVICE u32 arrive(u32* counter) {
    u32 before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
    return before;
}

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
constexpr int GROUPS = SQUEEZED_LANES < THREADS ? THREADS / SQUEEZED_LANES : 1;  // Threads that add up one squeezed channel.

// Weights of a result, its bias and its factor. Threads past the channels repeat the first one's.
struct Excite {
    uint4 weights[EXCITE_VECTORS];
    u32 bias;
    f32 factor;
};

DEVICE Excite excite_operands(const Operands& o, int c) {
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
DEVICE uint4 squeeze_weights(const Operands& o, int i, int vector) {
    const int s = i / VECTORS, v = vector + i % VECTORS;
    return s < SQUEEZED && v < LANES / 16 ? ((const uint4*)o.squeeze)[s * (LANES / 16) + v] : make_uint4(0, 0, 0, 0);
}

DEVICE void add_squeezed(const uint4& w, const u8* average, i32* to, int i) {
    u32 sum = dot_squeeze(((const uint4*)average)[i % VECTORS], w, 0u);
#pragma unroll
    for (int mask = VECTORS / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (i % VECTORS == 0 && i < ITEMS) __stcg(to + i / VECTORS, (i32)sum);
}

DEVICE u8 squeezed_byte(const Operands& o, int s, u32 sum) {
    if (s >= SQUEEZED) return 0;
    const u32 bias = SQUEEZE_BIAS ? o.squeeze_bias[s] : 0u;
    const f32 factor = SQUEEZE_FACTOR ? o.squeeze_factor[s] : 0.0f;
    return (u8)(squeeze_byte((f32)(i32)(sum + bias), factor) & 255u);
}

// The squeeze of a whole average, a warp a channel.
DEVICE void squeeze(const Operands& o, const u8* average, u8* squeezed) {
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
DEVICE void add_up(const Operands& o, const i32* partials, u8* squeezed) {
    __shared__ i32 groups[GROUPS][SQUEEZED_LANES];
    const int group = threadIdx.x / SQUEEZED_LANES;
    if (group < GROUPS) {
        for (int s = threadIdx.x % SQUEEZED_LANES; s < SQUEEZED_LANES; s += THREADS) {
            i32 sum = 0;
#pragma unroll 8
            for (int b = group; b < BLOCKS; b += GROUPS) sum += __ldcg(partials + b * SQUEEZED_LANES + s);
            groups[group][s] = sum;
        }
    }
    __syncthreads();
    for (int s = threadIdx.x; s < SQUEEZED_LANES; s += THREADS) {
        i32 sum = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) sum += groups[g][s];
        squeezed[s] = squeezed_byte(o, s, (u32)sum);
    }
}
#else
constexpr bool SPREAD = false;
constexpr int SUMS = LANES, LEFT = PARTS;
#endif

// The average of a channel from the sum of its bytes as unsigned ones; zero past the channels.
DEVICE u8 averaged(i32 sum, int channel) {
    const i32 all = SIGNS ? sum - 128 * PIXELS : sum;
    return channel < CHANNELS ? (u8)(requantise_byte((f32)all, 0.0f) & 255u) : (u8)0;
}

DEVICE void quantized_average(const Operands& o) {
    wait_for_inputs();
    __shared__ i32 of_warps[WARPS][VECTORS * 16];
    __shared__ __align__(16) u8 average[SPREAD ? VECTORS * 16 : LANES];
    const int thread = threadIdx.x, v = thread % VECTORS, line = thread / VECTORS;
    const int block = blockIdx.x % BLOCKS, image = blockIdx.x / BLOCKS;
    const int vector = block % CHUNKS * VECTORS, part = block / CHUNKS;
    const int end = min(PIXELS, (part + 1) * OF_PART);
    const u8* const from = (const u8*)o.image + IMAGE_OFFSET + (offset_t)image * IMAGE + (vector + v) * 16;
#if LAYERS
    uint4 ahead[ITEMS_AHEAD > 0 ? ITEMS_AHEAD : 1];
#pragma unroll
    for (int i = 0; i < ITEMS_AHEAD; i++) ahead[i] = squeeze_weights(o, i * THREADS + thread, vector);
#endif

    // Bytes as unsigned ones, two sums of 16 bits a word.
    u32 sums[8] = {};
    if (vector + v < LANES / 16) {
#pragma unroll 4
        for (int pixel = part * OF_PART + line; pixel < end; pixel += LINES) {
            const uint4 x = *(const uint4*)(from + (offset_t)pixel * PIXEL);
            const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const u32 word = words[w] ^ SIGNS;
                sums[2 * w] += word & 0x00ff00ffu;
                sums[2 * w + 1] += word >> 8 & 0x00ff00ffu;
            }
        }
    }
#pragma unroll
    for (int c = 0; c < 16; c++) {
        const u32 pair = sums[c / 4 * 2 + c % 2];
        i32 sum = (i32)(c % 4 < 2 ? pair & 0xffffu : pair >> 16);
#pragma unroll
        for (int mask = 16; mask >= VECTORS; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (thread % 32 < VECTORS) of_warps[thread / 32][v * 16 + c] = sum;
    }
    __syncthreads();
    i32* const partials = o.partials + (offset_t)image * LEFT * SUMS;
    for (int c = thread; c < VECTORS * 16; c += THREADS) {
        i32 sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += of_warps[w][c];
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
        for (int i = 0; i < ITEMS_AHEAD; i++) add_squeezed(ahead[i], average, to, i * THREADS + thread);
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
    ResultElement* const to = o.output + RESULT_OFFSET + (offset_t)image * RESULT_IMAGE;
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
