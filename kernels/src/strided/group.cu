// Joins over groups of threads, in an order that never changes.

// The state of the thread whose number differs by `mask`.
template <typename S> DEVICE S exchange(S state, u32 mask) {
    S other;
    const u32* from = (const u32*)&state;
    u32* to = (u32*)&other;
#pragma unroll
    for (u32 w = 0; w < sizeof(S) / 4; ++w) to[w] = __shfl_xor_sync(0xffffffffu, from[w], mask);
    return other;
}

// Every thread of each group of SIZE (a power of two, whole warps above 32) gets the join of the group's states.
// `partial` has an element for each warp of the block; it may be used again after the next call.
template <u32 SIZE, typename S, typename J> DEVICE S join_group(S state, J join, S* partial) {
#pragma unroll
    for (u32 mask = (SIZE < 32 ? SIZE : 32) / 2; mask > 0; mask /= 2) state = join(state, exchange(state, mask));
    if (SIZE > 32) {
        const u32 warp = threadIdx.x / 32, first = threadIdx.x / SIZE * (SIZE / 32);
        __syncthreads();
        if (threadIdx.x % 32 == 0) partial[warp] = state;
        __syncthreads();
        state = partial[first];
        for (u32 w = 1; w < (SIZE + 31) / 32; ++w) state = join(state, partial[first + w]);
    }
    return state;
}

struct Plus {
    template <typename R> DEVICE R operator()(R a, R b) const { return a + b; }
};
struct Largest {
    template <typename R> DEVICE R operator()(R a, R b) const { return maximum(a, b); }
};
