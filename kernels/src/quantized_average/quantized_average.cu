// Sums of an image of bytes by channel: a block sums 16 times VECTORS channels over a part of the pixels. The last block of an
// image to arrive adds the parts up, requantises them, and computes both layers where there are any.
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

DEVICE void layers(const Operands& o, const u8* average, u8* squeezed, ResultElement* to) {
    const int thread = threadIdx.x, lane = thread % 32;
#pragma unroll 2
    for (int s = thread / 32; s < SQUEEZED_LANES; s += WARPS) {
        u32 sum = 0;
        if (s < SQUEEZED) {
            const u32 bias = SQUEEZE_BIAS ? o.squeeze_bias[s] : 0u;
            const f32 factor = SQUEEZE_FACTOR ? o.squeeze_factor[s] : 0.0f;
#pragma unroll 4
            for (int v = lane; v < LANES / 16; v += 32) {
                const uint4 w = ((const uint4*)o.squeeze)[s * (LANES / 16) + v], x = ((const uint4*)average)[v];
                sum = dot_squeeze(x.x, w.x, dot_squeeze(x.y, w.y, dot_squeeze(x.z, w.z, dot_squeeze(x.w, w.w, sum))));
            }
#pragma unroll
            for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
            sum = squeeze_byte((f32)(i32)(sum + bias), factor) & 255u;
        }
        if (lane == 0) squeezed[s] = (u8)sum;
    }
    __syncthreads();
#pragma unroll 2
    for (int c = thread; c < RESULT_LANES; c += THREADS) {
        u32 y = 0;
        if (c < CHANNELS) {
            u32 sum = EXCITE_BIAS ? o.excite_bias[c] : 0u;
            const f32 factor = EXCITE_FACTOR ? o.excite_factor[c] : 0.0f;
#pragma unroll 4
            for (int v = 0; v < SQUEEZED_LANES / 16; v++) {
                const uint4 w = ((const uint4*)o.excite)[c * (SQUEEZED_LANES / 16) + v], x = ((const uint4*)squeezed)[v];
                sum = dot_excite(x.x, w.x, dot_excite(x.y, w.y, dot_excite(x.z, w.z, dot_excite(x.w, w.w, sum))));
            }
            y = excite_byte((f32)(i32)sum, factor) & 255u;
        }
        to[c] = (ResultElement)y;
    }
}
#endif

DEVICE void quantized_average(const Operands& o) {
    wait_for_inputs();
    __shared__ i32 of_warps[WARPS][VECTORS * 16];
    __shared__ __align__(16) u8 average[LANES];
    const int thread = threadIdx.x, v = thread % VECTORS, line = thread / VECTORS;
    const int block = blockIdx.x % BLOCKS, image = blockIdx.x / BLOCKS;
    const int vector = block % CHUNKS * VECTORS, part = block / CHUNKS;
    const int end = min(PIXELS, (part + 1) * OF_PART);
    const u8* const from = (const u8*)o.image + IMAGE_OFFSET + (offset_t)image * IMAGE + (vector + v) * 16;

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
    i32* const partials = o.partials + (offset_t)image * PARTS * LANES;
    for (int c = thread; c < VECTORS * 16; c += THREADS) {
        i32 sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += of_warps[w][c];
        if (vector * 16 + c < LANES) __stcg(partials + part * LANES + vector * 16 + c, sum);
    }
    // The barrier orders all stores of the block before the arrival of thread 0, and its arrival before the others' loads.
    __syncthreads();
    int last = 0;
    if (thread == 0) {
        last = arrive(o.counters + image) == BLOCKS - 1;
        if (last) o.counters[image] = 0;  // Ready for the next replay.
    }
    if (!__syncthreads_or(last)) return;
    ResultElement* const to = o.output + RESULT_OFFSET + (offset_t)image * RESULT_IMAGE;
    for (int c = thread; c < LANES; c += THREADS) {
        i32 sum = SIGNS ? -128 * PIXELS : 0;
#pragma unroll 8
        for (int i = 0; i < PARTS; i++) sum += __ldcg(partials + i * LANES + c);
        const u32 y = c < CHANNELS ? requantise_byte((f32)sum, 0.0f) & 255u : 0u;
        average[c] = (u8)y;
        if (!LAYERS && c < RESULT_LANES) to[c] = (ResultElement)y;
    }
#if LAYERS
    __shared__ __align__(16) u8 squeezed[SQUEEZED_LANES];
    __syncthreads();
    layers(o, average, squeezed, to);
#endif
}
