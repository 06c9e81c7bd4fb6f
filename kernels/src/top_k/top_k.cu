// A thread counts the elements of its row that come before its own: that is its place. A block looks at one row, BLOCK
// elements of it at a time.
DEVICE bool before(W a, W b, bool first) {
#if LARGEST
    return a > b || (a != a && b == b) || (first && (a == b || (a != a && b != b)));
#else
    return a < b || (a == a && b != b) || (first && (a == b || (a != a && b != b)));
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK) top_k(const T* __restrict__ input, T* __restrict__ values,
                                                          i64* __restrict__ indices) {
    __shared__ W others[BLOCK];
    wait_for_inputs();
    const u32 row = blockIdx.x / CHUNKS;
    const u32 mine = blockIdx.x % CHUNKS * BLOCK + threadIdx.x;
    const T* const from = input + (offset_t)INPUT_START + rows_0(row);
    const T element = from[(offset_t)(mine < COUNT ? mine : 0u) * INPUT_STRIDE];
    const W x = widen(element);
    u32 place = 0;
    for (u32 start = 0; start < COUNT; start += BLOCK) {
        const u32 i = start + threadIdx.x;
        __syncthreads();
        others[threadIdx.x] = widen(from[(offset_t)(i < COUNT ? i : 0u) * INPUT_STRIDE]);
        __syncthreads();
        const u32 count = COUNT - start < BLOCK ? COUNT - start : BLOCK;
        for (u32 j = 0; j < count; ++j) place += start + j != mine && before(others[j], x, start + j < mine);
    }
    if (mine >= COUNT || place >= BEST) return;
    values[(offset_t)VALUES_START + rows_1(row) + (offset_t)place * VALUES_STRIDE] = element;
    indices[(offset_t)INDICES_START + rows_2(row) + (offset_t)place * INDICES_STRIDE] = (i64)mine;
}
