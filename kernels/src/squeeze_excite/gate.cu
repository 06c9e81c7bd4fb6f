// The two layers of squeeze-and-excitation after a kernel whose blocks know parts of the averages.
//
// The squeeze is linear in the averages, so every block multiplies its part by its columns of the weights and writes a
// partial sum for each squeezed channel. The last block to arrive adds these in a fixed order and computes the gates.
constexpr int GATE_GROUPS = SQUEEZED < THREADS ? THREADS / SQUEEZED : 1;  // Threads that share a squeezed channel.
static_assert(CHUNK_VECTORS <= 32 && (CHUNK_VECTORS & (CHUNK_VECTORS - 1)) == 0, "a part of a warp shares a sum");

struct GateOperands {
    const GateWeight* squeeze;   // [SQUEEZED][LANES]
    const f32* squeeze_bias;
    const GateWeight* excite;    // [CHANNELS][SQUEEZED_LANES]
    const f32* excite_bias;
    GateElement* gate;
    f32* partials;               // [image][block][SQUEEZED]
    u32* counters;               // One for each image.
};

// `means` are CHUNK_VECTORS * 8 shared values, written before a block barrier: what this block adds to the averages of
// the channels from 8 * `vector` on. `block` counts the GATE_BLOCKS of the image.
DEVICE void finish_gate(const GateOperands& o, const f32* means, int vector, int image, int block) {
    __shared__ f32 parts[GATE_GROUPS][SQUEEZED];
    __shared__ f32 squeezed[SQUEEZED_LANES];
    const int thread = threadIdx.x;

    f32* const mine = o.partials + (image * GATE_BLOCKS + block) * SQUEEZED;
#pragma unroll 4
    for (int first = 0; first < SQUEEZED * CHUNK_VECTORS; first += THREADS) {
        const int i = first + thread, s = i / CHUNK_VECTORS, v = i % CHUNK_VECTORS;
        f32 sum = 0;
        if (s < SQUEEZED && vector + v < LANES / 8) {
            const Vector<GateWeight, 8> w = *(const Vector<GateWeight, 8>*)(o.squeeze + s * LANES + (vector + v) * 8);
#pragma unroll
            for (int c = 0; c < 8; c++) sum = fmaf(to_f32(w.v[c]), means[v * 8 + c], sum);
        }
#pragma unroll
        for (int mask = CHUNK_VECTORS / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
        if (s < SQUEEZED && v == 0) __stcg(mine + s, sum);
    }
    // The barrier orders all stores of the block before the fence of thread 0, and its fence before the others' loads.
    __syncthreads();
    int last = 0;
    if (thread == 0) {
        __threadfence();
        last = atomicAdd(o.counters + image, 1u) == GATE_BLOCKS - 1;
        if (last) o.counters[image] = 0;  // Ready for the next replay.
        __threadfence();
    }
    if (!__syncthreads_or(last)) return;

    const f32* const all = o.partials + image * GATE_BLOCKS * SQUEEZED;
    const int group = thread / SQUEEZED;
    if (group < GATE_GROUPS) {
        for (int s = thread % SQUEEZED; s < SQUEEZED; s += THREADS) {
            f32 sum = 0;
#pragma unroll 8
            for (int b = group; b < GATE_BLOCKS; b += GATE_GROUPS) sum += __ldcg(all + b * SQUEEZED + s);
            parts[group][s] = sum;
        }
    }
    __syncthreads();
    for (int s = thread; s < SQUEEZED_LANES; s += THREADS) {
        f32 sum = 0;
        if (s < SQUEEZED) {
            for (int g = 0; g < GATE_GROUPS; g++) sum += parts[g][s];
            sum = to_f32(store_as<GateElement>(squeeze_program(sum + (SQUEEZE_BIAS ? o.squeeze_bias[s] : 0.0f))));
        }
        squeezed[s] = sum;
    }
    __syncthreads();
#pragma unroll 1
    for (int c = thread; c < GATE_LANES; c += THREADS) {
        f32 sum = 0;
        if (c < CHANNELS) {
#pragma unroll 8
            for (int s = 0; s < SQUEEZED_LANES; s += 8) {
                const Vector<GateWeight, 8> w = *(const Vector<GateWeight, 8>*)(o.excite + c * SQUEEZED_LANES + s);
#pragma unroll
                for (int e = 0; e < 8; e++) sum = fmaf(to_f32(w.v[e]), squeezed[s + e], sum);
            }
            sum = excite_program(sum + (EXCITE_BIAS ? o.excite_bias[c] : 0.0f));
        }
        o.gate[GATE_OFFSET + image * GATE_IMAGE + c] = store_as<GateElement>(sum);
    }
}
