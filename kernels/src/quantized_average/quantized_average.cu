// Sums of an image of bytes by channel: a block sums 16 times VECTORS channels over a part of the pixels.
constexpr int LINES = THREADS / VECTORS;  // Pixels that a block reads at once.
constexpr int OF_PART = (PIXELS + PARTS - 1) / PARTS;
constexpr int LOADS = (OF_PART + LINES - 1) / LINES;
static_assert(LOADS <= 256, "sums of bytes fit into 16 bits");

DEVICE void quantized_average(const Operands& o) {
    wait_for_inputs();
    __shared__ i32 of_warps[WARPS][VECTORS * 16];
    const int thread = threadIdx.x, v = thread % VECTORS, line = thread / VECTORS;
    const int block = blockIdx.x % BLOCKS, image = blockIdx.x / BLOCKS;
    const int vector = block % CHUNKS * VECTORS, part = block / CHUNKS;
    const int end = min(PIXELS, (part + 1) * OF_PART);
    const u8* const from = (const u8*)o.image + IMAGE_OFFSET + (offset_t)image * IMAGE + (vector + v) * 16;
    const Ahead ahead = begin_average(o.average, vector);

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
    auto sum_of = [&](int c) {
        i32 sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += of_warps[w][c];
        return sum;
    };
    finish_average(o.average, ahead, sum_of, vector, image, block);
}
