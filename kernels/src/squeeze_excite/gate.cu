// The two layers of squeeze-and-excitation after a kernel whose blocks know parts of the averages.
//
// The squeeze is linear in the averages, so every block multiplies its part by its columns of the weights and writes a
// partial sum for each squeezed channel. The last block to arrive adds these in a fixed order and computes the gates.
// All that does not depend on the averages is loaded ahead of its use.
constexpr int GATE_QUADS = SQUEEZED_LANES / 4;                            // Vectors of partial sums of a block.
// Threads that share one, if there are as many: each has all of its loads in flight at once.
constexpr int GATE_SHARES = (GATE_BLOCKS + 7) / 8;
constexpr int GATE_GROUPS = GATE_QUADS > THREADS ? 1 : GATE_SHARES * GATE_QUADS > THREADS ? THREADS / GATE_QUADS : GATE_SHARES;
constexpr int GATE_TURNS = (GATE_BLOCKS + GATE_GROUPS - 1) / GATE_GROUPS;  // Blocks whose sums a thread adds.
constexpr int SQUEEZE_ITEMS = SQUEEZED_LANES * CHUNK_VECTORS;             // Vectors of the block's squeeze weights.
constexpr int SQUEEZE_AHEAD = SQUEEZE_ITEMS <= 2 * THREADS ? (SQUEEZE_ITEMS + THREADS - 1) / THREADS : 0;
constexpr int EXCITE_VECTORS = SQUEEZED_LANES / 8;                        // Vectors of a gate's weights.
constexpr int EXCITE_ROUNDS = (GATE_LANES + THREADS - 1) / THREADS;       // Gates of a thread of the last block.
// Gates whose weights are in flight together: as many as registers allow.
constexpr int EXCITE_AHEAD = EXCITE_VECTORS >= 20 ? 1 : 20 / EXCITE_VECTORS < EXCITE_ROUNDS ? 20 / EXCITE_VECTORS : EXCITE_ROUNDS;
static_assert(CHUNK_VECTORS <= 32 && (CHUNK_VECTORS & (CHUNK_VECTORS - 1)) == 0, "a part of a warp shares a sum");

struct GateOperands {
    const GateWeight* squeeze;   // [SQUEEZED][LANES]
    const f32* squeeze_bias;
    const GateWeight* excite;    // [CHANNELS][SQUEEZED_LANES]
    const f32* excite_bias;
    GateElement* gate;
    f32* partials;               // [image][block][SQUEEZED_LANES]
    u32* counters;               // One for each image.
};

// The first squeeze weights and the first squeeze bias of a thread.
struct GateAhead {
    Vector<GateWeight, 8> weights[SQUEEZE_AHEAD > 0 ? SQUEEZE_AHEAD : 1];
    f32 bias;
};

// Weights of item `i` of the squeeze: squeezed channel i / CHUNK_VECTORS, vector i % CHUNK_VECTORS of the block's.
DEVICE Vector<GateWeight, 8> squeeze_weights(const GateOperands& o, int i, int vector) {
    const int s = i / CHUNK_VECTORS, v = vector + i % CHUNK_VECTORS;
    if (s < SQUEEZED && v < LANES / 8) return *(const Vector<GateWeight, 8>*)(o.squeeze + s * LANES + v * 8);
    return Vector<GateWeight, 8>{};
}

DEVICE GateAhead begin_gate(const GateOperands& o, int vector) {
    GateAhead ahead;
#pragma unroll
    for (int i = 0; i < SQUEEZE_AHEAD; i++) ahead.weights[i] = squeeze_weights(o, i * THREADS + threadIdx.x, vector);
    ahead.bias = SQUEEZE_BIAS && threadIdx.x < SQUEEZED ? o.squeeze_bias[threadIdx.x] : 0.0f;
    return ahead;
}

DEVICE void add_squeezed(const Vector<GateWeight, 8>& w, const f32* means, f32* mine, int i) {
    const int s = i / CHUNK_VECTORS, v = i % CHUNK_VECTORS;
    f32 sum = 0;
#pragma unroll
    for (int c = 0; c < 8; c++) sum = fmaf(to_f32(w.v[c]), means[v * 8 + c], sum);
#pragma unroll
    for (int mask = CHUNK_VECTORS / 2; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (s < SQUEEZED_LANES && v == 0) __stcg(mine + s, sum);
}

// `means` are CHUNK_VECTORS * 8 shared values, written before a block barrier: what this block adds to the averages of
// the channels from 8 * `vector` on. `block` counts the GATE_BLOCKS of the image.
DEVICE void finish_gate(const GateOperands& o, const GateAhead& ahead, const f32* means, int vector, int image, int block) {
    __shared__ float4 parts[GATE_GROUPS][GATE_QUADS];
    __shared__ f32 squeezed[SQUEEZED_LANES];
    const int thread = threadIdx.x;

    f32* const mine = o.partials + (image * GATE_BLOCKS + block) * SQUEEZED_LANES;
#pragma unroll
    for (int i = 0; i < SQUEEZE_AHEAD; i++) add_squeezed(ahead.weights[i], means, mine, i * THREADS + thread);
#pragma unroll 4
    for (int i = SQUEEZE_AHEAD * THREADS + thread; i - thread < SQUEEZE_ITEMS; i += THREADS)
        add_squeezed(squeeze_weights(o, i, vector), means, mine, i);
    // The barrier orders all stores of the block before the arrival of thread 0, and its arrival before the others' loads.
    __syncthreads();
    int last = 0;
    if (thread == 0) {
        last = arrive(o.counters + image) == GATE_BLOCKS - 1;
        if (last) o.counters[image] = 0;  // Ready for the next replay.
    }
    if (!__syncthreads_or(last)) return;

    // Threads past the channels repeat the first one's: a choice of address costs less than a condition kept for each load.
    auto excite_weights = [&](int c, int s) {
        return *(const Vector<GateWeight, 8>*)(o.excite + (c < CHANNELS ? c : 0) * SQUEEZED_LANES + s * 8);
    };
    auto excite_bias = [&](int c) { return EXCITE_BIAS ? o.excite_bias[c < CHANNELS ? c : 0] : 0.0f; };
    constexpr int KEPT = EXCITE_VECTORS < 20 ? EXCITE_VECTORS : 1;
    Vector<GateWeight, 8> weights[EXCITE_AHEAD][KEPT];
    f32 biases[EXCITE_AHEAD];
#pragma unroll
    for (int r = 0; r < EXCITE_AHEAD; r++) {
        biases[r] = excite_bias(r * THREADS + thread);
#pragma unroll
        for (int s = 0; s < KEPT; s++) weights[r][s] = excite_weights(r * THREADS + thread, s);
    }

    const float4* const all = (const float4*)o.partials + image * GATE_BLOCKS * GATE_QUADS;
    const int group = thread / GATE_QUADS;
    if (group < GATE_GROUPS) {
#pragma unroll 1
        for (int s = thread % GATE_QUADS; s < GATE_QUADS; s += THREADS) {
            float4 sum = make_float4(0, 0, 0, 0);
            // As often for all threads: of a number that differs, loads would follow each other.
#pragma unroll 8
            for (int turn = 0; turn < GATE_TURNS; turn++) {
                const int b = group + turn * GATE_GROUPS;
                const float4 x = turn < GATE_TURNS - 1 || b < GATE_BLOCKS ? __ldcg(all + b * GATE_QUADS + s) : make_float4(0, 0, 0, 0);
                sum.x += x.x, sum.y += x.y, sum.z += x.z, sum.w += x.w;
            }
            parts[group][s] = sum;
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int s = thread; s < SQUEEZED_LANES; s += THREADS) {
        f32 sum = 0;
        if (s < SQUEEZED) {
#pragma unroll 8
            for (int g = 0; g < GATE_GROUPS; g++) sum += ((const f32*)parts[g])[s];
            const f32 bias = s == thread ? ahead.bias : SQUEEZE_BIAS ? o.squeeze_bias[s] : 0.0f;
            sum = to_f32(store_as<GateElement>(squeeze_program(sum + bias)));
        }
        squeezed[s] = sum;
    }
    __syncthreads();
    launch_dependents();
    auto add = [&](f32 sum, const Vector<GateWeight, 8>& w, int s) {
#pragma unroll
        for (int e = 0; e < 8; e++) sum = fmaf(to_f32(w.v[e]), squeezed[s * 8 + e], sum);
        return sum;
    };
    auto store = [&](int c, f32 sum) {
        if (c < GATE_LANES)
            o.gate[GATE_OFFSET + image * GATE_IMAGE + c] = store_as<GateElement>(c < CHANNELS ? excite_program(sum) : 0.0f);
    };
#pragma unroll
    for (int r = 0; r < EXCITE_AHEAD; r++) {
        const int c = r * THREADS + thread;
        f32 sum = biases[r];
#pragma unroll
        for (int s = 0; s < KEPT; s++) sum = add(sum, weights[r][s], s);
#pragma unroll 8
        for (int s = KEPT; s < EXCITE_VECTORS; s++) sum = add(sum, excite_weights(c, s), s);
        store(c, sum);
    }
#pragma unroll 1
    for (int c = EXCITE_AHEAD * THREADS + thread; c < GATE_LANES; c += THREADS) {
        f32 sum = excite_bias(c);
#pragma unroll 8
        for (int s = 0; s < EXCITE_VECTORS; s++) sum = add(sum, excite_weights(c, s), s);
        store(c, sum);
    }
}
