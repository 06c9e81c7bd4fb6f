// A thread counts the elements of its row that come before its own: that is its place. A block looks at one row, BLOCK
// elements of it at a time.

// Keys are unsigned and compare as the elements do, greatest first; NaN is above infinity, and -0 equals 0.
DEVICE u64 ascending(u64 x) { return x; }
DEVICE u64 ascending(i64 x) { return (u64)x ^ 0x8000000000000000ull; }
DEVICE u32 ascending(f32 x) {
    const u32 bits = __float_as_uint(x + 0.0f);
    return x != x ? 0xffffffffu : bits ^ ((bits >> 31) ? 0xffffffffu : 0x80000000u);
}
DEVICE u64 ascending(f64 x) {
    const u64 bits = (u64)__double_as_longlong(x + 0.0);
    return x != x ? ~0ull : bits ^ ((bits >> 63) ? ~0ull : 0x8000000000000000ull);
}
typedef decltype(ascending(W())) Key;

DEVICE Key key(T element) {
#if LARGEST
    return ascending(widen(element));
#else
    return ~ascending(widen(element));
#endif
}

extern "C" __global__ void __launch_bounds__(BLOCK) top_k(const T* __restrict__ input, T* __restrict__ values,
                                                          i64* __restrict__ indices) {
    __shared__ Key others[BLOCK];
    wait_for_inputs();
    const u32 row = blockIdx.x / CHUNKS;
    const u32 chunk = blockIdx.x % CHUNKS;
    const u32 mine = chunk * BLOCK + threadIdx.x;
    const T* const from = input + (offset_t)INPUT_START + rows_0(row);
    const T element = from[(offset_t)(mine < COUNT ? mine : 0u) * INPUT_STRIDE];
    const Key x = key(element);
    u32 place = 0;
    for (u32 other = 0; other < CHUNKS; ++other) {
        const u32 i = other * BLOCK + threadIdx.x;
        __syncthreads();
        // Past the row's end: behind every element of the row.
        others[threadIdx.x] = i < COUNT ? key(from[(offset_t)i * INPUT_STRIDE]) : (Key)0;
        __syncthreads();
        // Of equals the earlier one comes first.
        if (other < chunk) {
#pragma unroll 16
            for (u32 j = 0; j < BLOCK; ++j) place += others[j] >= x;
        } else {
#pragma unroll 16
            for (u32 j = 0; j < BLOCK; ++j) place += others[j] > x;
        }
        if (other == chunk) {
            for (u32 j = 0; j < threadIdx.x; ++j) place += others[j] == x;
        }
    }
    if (mine >= COUNT || place >= BEST) return;
    values[(offset_t)VALUES_START + rows_1(row) + (offset_t)place * VALUES_STRIDE] = element;
    indices[(offset_t)INDICES_START + rows_2(row) + (offset_t)place * INDICES_STRIDE] = (i64)mine;
}
