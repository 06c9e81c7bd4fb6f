// Squeeze-and-excitation of a channels-last image: a block sums eight times CHUNK_VECTORS channels over a part of the
// pixels, LOADS vectors a thread, and goes on to the gate.
constexpr int LINES = THREADS / CHUNK_VECTORS;  // Pixels that a block reads at once.
constexpr int CHUNKS = (LANES / 8 + CHUNK_VECTORS - 1) / CHUNK_VECTORS;
constexpr int PARTS = GATE_BLOCKS / CHUNKS;

DEVICE void squeeze_excite(const Element* __restrict__ input, const GateOperands& o) {
    wait_for_inputs();
    __shared__ f32 sums[LINES][CHUNK_VECTORS * 8];
    const int thread = threadIdx.x, v = thread % CHUNK_VECTORS, line = thread / CHUNK_VECTORS;
    const int block = blockIdx.x % GATE_BLOCKS, image = blockIdx.x / GATE_BLOCKS;
    const int vector = block % CHUNKS * CHUNK_VECTORS, part = block / CHUNKS;
    const int first = part * (LINES * LOADS) + line;

    const Element* const from = input + IMAGE_OFFSET + (offset_t)image * IMAGE + (vector + v) * 8;
    Vector<Element, 8> x[LOADS];
#pragma unroll
    for (int i = 0; i < LOADS; i++) {
        const int pixel = first + i * LINES;
        x[i] = Vector<Element, 8>{};
        if (pixel < PIXELS && vector + v < LANES / 8) x[i] = *(const Vector<Element, 8>*)(from + (offset_t)pixel * PIXEL);
    }
    const GateAhead ahead = begin_gate(o, vector);
    f32 sum[8] = {};
#pragma unroll
    for (int i = 0; i < LOADS; i++)
#pragma unroll
        for (int c = 0; c < 8; c++) sum[c] += to_f32(x[i].v[c]);
#pragma unroll
    for (int c = 0; c < 8; c++) sums[line][v * 8 + c] = sum[c];
    // Halves of the lines onto each other, in an order that never changes.
#pragma unroll
    for (int half = LINES / 2; half > 0; half /= 2) {
        __syncthreads();
        for (int i = thread; i < half * CHUNK_VECTORS * 8; i += THREADS) (&sums[0][0])[i] += (&sums[half][0])[i];
    }
    __syncthreads();
    if (thread < CHUNK_VECTORS * 8) sums[0][thread] /= (f32)PIXELS;
    __syncthreads();
    finish_gate(o, ahead, sums[0], vector, image, block);
}
