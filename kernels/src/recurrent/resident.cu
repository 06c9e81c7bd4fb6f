// All steps of a layer in one launch.
//
// A group of BLOCKS blocks computes SEQUENCES sequences of one direction; a block owns OWN units and LANES threads share
// a unit, each with the weights of all its gates for COLUMNS units of the state. After every step the blocks of a
// group tell each other the new state; whoever computes a step waits for the whole state of the step before and for
// nothing else.
//
// STACKED layers are two: the first half of the groups computes one layer, the second half the layer above it, which reads each
// state of the one below as soon as it is there. So both are at work at a time, a step apart. Blocks of the layer below wait for no
// block of the layer above.
constexpr int PART = LANES / SEQUENCES;  // Lanes that finish one sequence of a unit.
static_assert(PART > 0 && LANES % SEQUENCES == 0, "a lane finishes one sequence");
// Gates as a power of two, and whether there are lanes enough to sum up and finish each gate in lanes of its own.
constexpr int SLOTS = GATES == 3 ? 4 : GATES;
constexpr bool SPREAD = SLOTS <= PART && !HAS_PEEPHOLES;
static_assert(BLOCKS * OWN >= UNITS && (BLOCKS - 1) * OWN < UNITS, "every block owns a unit");

#if STACKED
// A state as the layer above reads it, rounded as the sequence would be.
#if BELOW_FRAGMENTS
typedef u16 Below;
DEVICE u32 below_bits(f32 h) { return store_as<Sequence>(h).bits; }
DEVICE Below as_below(u32 bits) { return (u16)bits; }
#else
typedef f32 Below;
DEVICE u32 below_bits(f32 h) { return __float_as_uint(to_f32(store_as<Sequence>(h))); }
DEVICE Below as_below(u32 bits) { return __uint_as_float(bits); }
#endif
#endif

#if EXCHANGE == EXCHANGE_CLUSTER || EXCHANGE == EXCHANGE_MESSAGES
// The address in block `rank` of the cluster that corresponds to an address in this block's shared memory.
DEVICE u32 address_in_block(u32 address, int rank) {
    u32 remote;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.release;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.acquire;" ::: "memory"); }
#endif

#if EXCHANGE == EXCHANGE_MESSAGES
// A barrier in shared memory for each buffer of the state; it completes when the whole state has arrived.
constexpr u32 MESSAGE_BYTES = SEQUENCES * UNITS * 4;
DEVICE void expect_messages(u32 barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "n"(MESSAGE_BYTES) : "memory");
}
DEVICE void init_messages(u32 barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(barrier) : "memory");
    expect_messages(barrier);
}
DEVICE void wait_for_messages(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.acquire.cluster.shared.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN;\n}" ::"r"(barrier), "r"(parity)
                 : "memory");
}
#endif

constexpr int LAYER_GROUPS = STACKED ? GROUPS / 2 : GROUPS;
// Whether this block computes the layer above.
DEVICE bool is_above() { return blockIdx.x / BLOCKS >= LAYER_GROUPS; }
#if EXCHANGE == EXCHANGE_GRID || STACKED
// A unit's state and the number of its step in one word, so that whoever reads the number has the state too: no fence
// and no barrier. Words are zero between replays.
DEVICE void send_word(u64* to, u32 bits, u32 step) {
    const u64 word = (u64)step << 32 | bits;
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(word) : "memory");
}
DEVICE u64 read_word(const u64* from) {
    u64 word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
}
// `word` was read from there before.
DEVICE u32 wait_for_word(const u64* from, u32 step, u64 word) {
    while ((u32)(word >> 32) != step) word = read_word(from);
    return (u32)word;
}
// A thread's words of a step, all under way at once.
template <int COUNT> DEVICE void read_words(const u64* from, u64 (&words)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (threadIdx.x + i * THREADS < SEQUENCES * UNITS) words[i] = read_word(from + threadIdx.x + i * THREADS);
}
// The words of a group, then those between the layers: of all steps, so that the layer below need not wait for the one above.
constexpr int GROUP_WORDS = EXCHANGE == EXCHANGE_GRID ? 2 * SEQUENCES * UNITS : 0;
constexpr int BETWEEN_WORDS = STACKED ? STEPS * SEQUENCES * UNITS : 0;
constexpr int ALL_WORDS = GROUPS * GROUP_WORDS + LAYER_GROUPS * BETWEEN_WORDS;
#endif

// The sum over the lanes of a unit of one of their values each: with COUNT values a lane, the first of LANES / COUNT lanes
// that keep value i is lane i·LANES / COUNT. Every stage halves the values and the distance.
template <int COUNT, int DISTANCE> DEVICE f32 sum_over_lanes(f32 (&values)[COUNT], int lane) {
    if constexpr (COUNT == 1) {
        f32 sum = values[0];
#pragma unroll
        for (int distance = DISTANCE; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        return sum;
    } else {
        const bool upper = lane & DISTANCE;
        f32 kept[COUNT / 2];
#pragma unroll
        for (int i = 0; i < COUNT / 2; i++) {
            const f32 sent = upper ? values[i] : values[COUNT / 2 + i];
            kept[i] = (upper ? values[COUNT / 2 + i] : values[i]) + __shfl_xor_sync(0xffffffffu, sent, DISTANCE);
        }
        return sum_over_lanes<COUNT / 2, DISTANCE / 2>(kept, lane);
    }
}

// One step of a unit whose gates lie in lanes of their own: x and y are this lane's gate's.
DEVICE void advance_spread(int direction, Unit& u, f32 x, f32 y) {
    const int first = threadIdx.x % 32 / PART * PART, gate = threadIdx.x % PART / (PART / SLOTS);
    const auto of_gate = [&](f32 value, int g) { return __shfl_sync(0xffffffffu, value, first + g * (PART / SLOTS)); };
#if CELL == CELL_RNN
    u.hidden = function_f(direction, clipped(x + y));
#elif CELL == CELL_LSTM
    const f32 value = clipped(x + y);
    const f32 activated = gate == 3 ? function_g(direction, value) : function_f(direction, value);
    const f32 input = of_gate(activated, 0), output = of_gate(activated, 1);
    const f32 forget = INPUT_FORGET ? 1.0f - input : of_gate(activated, 2);
    u.cell = forget * u.cell + input * of_gate(activated, 3);
    u.hidden = output * function_h(direction, u.cell);
#else
    const f32 activated = function_f(direction, clipped(x + y));
    const f32 candidate = function_g(direction, clipped(x + of_gate(activated, 1) * (y + u.bias)));
    const f32 keep = of_gate(activated, 0);
    u.hidden = (1.0f - keep) * of_gate(candidate, 2) + keep * u.hidden;
#endif
}

// Adds the products of a lane's weights with its columns of the states.
DEVICE void multiply(Weights& weights, const f32 (&state)[SEQUENCES][STORED], int lane, f32 (&sums)[SEQUENCES][GATES]) {
#pragma unroll(STORAGE == STORAGE_MEMORY ? 2 : COLUMNS / 4)
    for (int i = 0; i < COLUMNS / 4; i++) {
        float4 h[SEQUENCES];
#pragma unroll
        for (int s = 0; s < SEQUENCES; s++) h[s] = *(const float4*)&state[s][(i * LANES + lane) * 4];
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) {
            const float4 w = weights.four(gate, i, lane);
#pragma unroll
            for (int s = 0; s < SEQUENCES; s++) {
                sums[s][gate] = fmaf(w.x, h[s].x, sums[s][gate]);
                sums[s][gate] = fmaf(w.y, h[s].y, sums[s][gate]);
                sums[s][gate] = fmaf(w.z, h[s].z, sums[s][gate]);
                sums[s][gate] = fmaf(w.w, h[s].w, sums[s][gate]);
            }
        }
    }
}

// The sum of this lane's gate and sequence over the lanes of a unit, where SPREAD.
DEVICE f32 sum_own(const f32 (&sums)[SEQUENCES][GATES], int lane) {
    f32 values[SEQUENCES * SLOTS] = {};
#pragma unroll
    for (int s = 0; s < SEQUENCES; s++)
#pragma unroll
        for (int g = 0; g < GATES; g++) values[s * SLOTS + g] = sums[s][g];
    return sum_over_lanes<SEQUENCES * SLOTS, LANES / 2>(values, lane);
}

// The sums of all gates of this lane's sequence.
DEVICE void sum_gates(const f32 (&sums)[SEQUENCES][GATES], int lane, int mine, f32 (&y)[GATES]) {
#pragma unroll
    for (int s = 0; s < SEQUENCES; s++)
#pragma unroll
        for (int g = 0; g < GATES; g++) {
            f32 one[1] = {sums[s][g]};
            const f32 sum = sum_over_lanes<1, LANES / 2>(one, lane);
            if (s == mine) y[g] = sum;
        }
}

DEVICE void load_sums(f32 (&x)[GATES], const Operands& o, int t, int b, int direction, int unit) {
#pragma unroll
    for (int gate = 0; gate < GATES; gate++) x[gate] = to_f32(o.projected[projected_at(t, b, direction, gate * UNITS + unit)]);
}

DEVICE void resident(const Operands& o) {
    __shared__ alignas(16) f32 state[2][SEQUENCES][STORED];
    const int rank = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS, of_layer = group % LAYER_GROUPS;
    const int direction = of_layer % DIRECTIONS, first = of_layer / DIRECTIONS * SEQUENCES;
    const int lane = threadIdx.x % LANES, owned = threadIdx.x / LANES;
    // The unit and the sequence that this thread finishes, in bounds for reading; `exists` where they are not made up.
    const int unit = owned < OWN ? rank * OWN + owned : UNITS, safe_unit = unit < UNITS ? unit : 0;
    const int mine = lane / PART, b = first + mine < BATCH ? first + mine : BATCH - 1;
    const bool exists = unit < UNITS && first + mine < BATCH;

    Weights weights;
    constexpr int THREAD_WORDS = (SEQUENCES * UNITS + THREADS - 1) / THREADS;  // Of a step, for each thread.
#if STACKED
    __shared__ alignas(16) Below below[2][SEQUENCES][STORED];
    const bool above = is_above();
    u64* const between = o.words + GROUPS * GROUP_WORDS + of_layer * BETWEEN_WORDS;
    u64 early_words[THREAD_WORDS] = {};
#if BELOW_FRAGMENTS
    const int in_warp = threadIdx.x % 32 / LANES * GATES;  // First row of the unit among those of the warp.
    Fragments below_weights;
#else
    Weights below_weights;
#endif
#endif
    const auto load_weights = [&] {
        weights.load(o.weights, [&](int gate) { return weights_at(direction, gate * UNITS + safe_unit, 0); }, lane);
#if BELOW_FRAGMENTS
        below_weights.load(o.below_weights, [&](int number, int gate) { return below_weights_at(gate * UNITS + rank * OWN + number, 0); });
#elif STACKED
        below_weights.load(o.below_weights, [&](int gate) { return below_weights_at(gate * UNITS + safe_unit, 0); }, lane);
#endif
    };
    constexpr bool early = (~CONSTANT_INPUTS & WEIGHT_INPUTS) == 0;
    if (early) load_weights();
    wait_for_inputs();
    if (!early) load_weights();

    const int length = steps_of(o, b);
    Unit u = load_unit(o, direction, b, safe_unit);
    // The projected sums of a step: of all gates, or of this lane's.
    f32 x[GATES], x_own = 0;
    const int gate = lane % PART / (SPREAD ? PART / SLOTS : PART), own_gate = gate < GATES ? gate : 0;
#if EXCHANGE == EXCHANGE_GRID
    u64 words_there[THREAD_WORDS] = {};
#endif
    const auto load_step = [&](int step) {
#if STACKED
        if (above) {
            // The state of the layer below, and its products with this one's weights.
            const int row = step * SEQUENCES * UNITS;
#pragma unroll
            for (int i = 0; i < THREAD_WORDS; i++) {
                const int number = threadIdx.x + i * THREADS;
                if (number < SEQUENCES * UNITS)
                    below[step & 1][number / UNITS][number % UNITS] =
                        as_below(wait_for_word(between + row + number, step + 1, early_words[i]));
            }
            __syncthreads();
#if EXCHANGE == EXCHANGE_GRID
            // The other blocks' states may be there already.
            read_words(o.words + group * GROUP_WORDS + (step & 1) * (SEQUENCES * UNITS), words_there);
#endif
            const auto bias = [&](int g) { return BELOW_BIAS ? o.below_bias[g * UNITS + safe_unit] : 0.0f; };
#if BELOW_FRAGMENTS
            const Products products = below_weights.multiply(below[step & 1]);
            if constexpr (SPREAD) {
                x_own = products.of(in_warp + own_gate, mine) + bias(own_gate);
            } else {
#pragma unroll
                for (int g = 0; g < GATES; g++) x[g] = products.of(in_warp + g, mine) + bias(g);
            }
#else
            f32 sums[SEQUENCES][GATES] = {};
            multiply(below_weights, below[step & 1], lane, sums);
            if constexpr (SPREAD) {
                x_own = sum_own(sums, lane) + bias(own_gate);
            } else {
                sum_gates(sums, lane, mine, x);
#pragma unroll
                for (int g = 0; g < GATES; g++) x[g] += bias(g);
            }
#endif
            return;
        }
#endif
        const int t = position(direction, step, length);
        if (SPREAD)
            x_own = to_f32(o.projected[projected_at(t, b, direction, own_gate * UNITS + safe_unit)]);
        else
            load_sums(x, o, t, b, direction, safe_unit);
    };
#if STACKED
    // The tails stay zero.
    for (int i = threadIdx.x; i < 2 * SEQUENCES * STORED; i += THREADS) (&below[0][0][0])[i] = 0;
    __syncthreads();
#endif
    load_step(0);
    for (int i = threadIdx.x; i < 2 * SEQUENCES * STORED; i += THREADS) {
        f32 value = 0;
#if HAS_INITIAL_HIDDEN
        const int column = i % STORED, sequence = first + i / STORED % SEQUENCES;
        if (i < SEQUENCES * STORED && column < UNITS && sequence < BATCH)
            value = to_f32(o.initial_hidden[initial_hidden_at(direction, sequence, column)]);
#endif
        (&state[0][0][0])[i] = value;
    }
#if EXCHANGE == EXCHANGE_MESSAGES
    __shared__ alignas(8) u64 barriers[2];
    if (threadIdx.x == 0) {
        init_messages(shared_address(&barriers[0]));
        init_messages(shared_address(&barriers[1]));
    }
#endif
#if EXCHANGE == EXCHANGE_CLUSTER || EXCHANGE == EXCHANGE_MESSAGES
    // The lanes of a unit share the receivers of its state: where it goes in each of theirs.
    constexpr int RECEIVERS = (BLOCKS + PART - 1) / PART;
    u32 remote_state[RECEIVERS];
#pragma unroll
    for (int i = 0; i < RECEIVERS; i++)
        remote_state[i] = address_in_block(shared_address(&state[0][mine][safe_unit]), (lane % PART + i * PART) % BLOCKS);
#if EXCHANGE == EXCHANGE_MESSAGES
    u32 remote_barrier[RECEIVERS];
#pragma unroll
    for (int i = 0; i < RECEIVERS; i++)
        remote_barrier[i] = address_in_block(shared_address(barriers), (lane % PART + i * PART) % BLOCKS);
#endif
    cluster_arrive();
    cluster_wait();
#else
    __syncthreads();
#endif
#if EXCHANGE == EXCHANGE_MESSAGES
    // A warp without a unit sends nothing, so the others would not wait for it.
    if (__all_sync(0xffffffffu, unit >= UNITS)) return;
#endif

    for (int step = 0; step < STEPS; step++) {
        const int now = step & 1, next = now ^ 1;
#if STACKED
        // On its way while this step is computed; the layer below is ahead mostly.
        if (above && step + 1 < STEPS) read_words(between + (step + 1) * SEQUENCES * UNITS, early_words);
#endif
        f32 sums[SEQUENCES][GATES] = {};
        multiply(weights, state[now], lane, sums);
        if constexpr (SPREAD) {
            const f32 y = sum_own(sums, lane);
            Unit advanced = u;
            advance_spread(direction, advanced, x_own, y);
            if (step < length) u = advanced;
        } else {
            f32 y[GATES] = {};
            sum_gates(sums, lane, mine, y);
            if (step < length) advance(direction, u, x, y);
        }

        const bool last = step + 1 == STEPS;
#if EXCHANGE == EXCHANGE_GRID
        u64* const words = o.words + group * GROUP_WORDS + next * (SEQUENCES * UNITS);
#endif
        if (!last) {
#if EXCHANGE == EXCHANGE_NONE
            if (unit < UNITS && lane % PART == 0) state[next][mine][unit] = u.hidden;
#elif EXCHANGE == EXCHANGE_CLUSTER || EXCHANGE == EXCHANGE_MESSAGES
            if (unit < UNITS) {
#pragma unroll
                for (int i = 0; i < RECEIVERS; i++) {
                    if (lane % PART + i * PART >= BLOCKS) break;
                    const u32 to = remote_state[i] + next * (u32)sizeof(state[0]);
#if EXCHANGE == EXCHANGE_CLUSTER
                    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(to), "f"(u.hidden) : "memory");
#else
                    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(to),
                                 "f"(u.hidden), "r"(remote_barrier[i] + next * 8)
                                 : "memory");
#endif
                }
            }
#if EXCHANGE == EXCHANGE_CLUSTER
            cluster_arrive();
#endif
#else
            if (unit < UNITS && lane % PART == 0) send_word(words + mine * UNITS + unit, __float_as_uint(u.hidden), step + 1);
#endif
        }
        // While the others' states are on their way.
#if STACKED
        if (!above && unit < UNITS && lane % PART == 0)
            send_word(between + (step * SEQUENCES + mine) * UNITS + unit, below_bits(u.hidden), step + 1);
        const bool stores = above && exists;
#else
        const bool stores = exists;
#endif
        const int t = position(direction, step, length);
        if (stores && lane % PART == 0)
            o.sequence[sequence_at(t, direction, b, unit)] = store_as<Sequence>(step < length ? u.hidden : 0.0f);
        if (last) break;
        load_step(step + 1);
#if EXCHANGE == EXCHANGE_NONE
        __syncthreads();
#elif EXCHANGE == EXCHANGE_CLUSTER
        cluster_wait();
#elif EXCHANGE == EXCHANGE_MESSAGES
        const u32 barrier = shared_address(&barriers[next]);
        wait_for_messages(barrier, step >> 1 & 1);
        if (threadIdx.x == 0) expect_messages(barrier);
#else
#if STACKED
        if (!above) read_words(words, words_there);
#else
        read_words(words, words_there);
#endif
#pragma unroll
        for (int i = 0; i < THREAD_WORDS; i++) {
            const int number = threadIdx.x + i * THREADS;
            if (number < SEQUENCES * UNITS)
                state[next][number / UNITS][number % UNITS] = __uint_as_float(wait_for_word(words + number, step + 1, words_there[i]));
        }
        __syncthreads();
#endif
    }
#if STACKED
    if (above)
#endif
        if (exists && lane % PART == 0) store_unit(o, u, direction, b, unit, length);

#if STACKED || EXCHANGE == EXCHANGE_GRID
    // The last block that has read every word clears them: of the group, or where layers are stacked of all groups.
    if (STEPS > 1 || STACKED) {
        __shared__ bool clears;
        u32* const counter = (u32*)(o.words + ALL_WORDS) + (STACKED ? 0 : group);
        // Words of the last step have been sent.
        if (STACKED) __syncthreads();
        if (threadIdx.x == 0) clears = arrive(counter) == (STACKED ? GROUPS : 1) * BLOCKS - 1;
        __syncthreads();
        if (clears) {
            u64* const words = o.words + (STACKED ? 0 : group * GROUP_WORDS);
            for (int i = threadIdx.x; i < (STACKED ? ALL_WORDS : GROUP_WORDS); i += THREADS) words[i] = 0;
            if (threadIdx.x == 0) *counter = 0;
        }
    }
#endif
}
