// Order of scores and overlap of boxes, as overlap.rs computes them.

struct alignas(16) Corners { f32 low[2], high[2]; };

// Larger for better scores, for equal ones for smaller indices; never 0 for a number.
DEVICE u64 key_of(f32 score, u32 index) {
    const u32 bits = __float_as_uint(__fadd_rn(score, 0.0f));  // -0 and 0 are equal.
    return (u64)(bits >> 31 ? ~bits : bits | 0x80000000u) << 32 | (u32)~index;
}

DEVICE u32 index_of(u64 key) { return ~(u32)key; }

DEVICE f32 score_of(u64 key) {
    const u32 ordered = (u32)(key >> 32);
    return __uint_as_float(ordered >> 31 ? ordered ^ 0x80000000u : ~ordered);
}

DEVICE f32 area(const Corners& box) {
    return __fmul_rn(__fsub_rn(box.high[0], box.low[0]), __fsub_rn(box.high[1], box.low[1]));
}

// Whether two boxes overlap too much. Nothing is contracted, so that the result is the host's to the last bit.
DEVICE bool too_close(const Corners& a, const Corners& b, f32 threshold) {
    Corners both;
#pragma unroll
    for (u32 d = 0; d < 2; ++d) {
        both.low[d] = a.low[d] < b.low[d] ? b.low[d] : a.low[d];
        both.high[d] = b.high[d] < a.high[d] ? b.high[d] : a.high[d];
    }
    if (both.high[0] <= both.low[0] || both.high[1] <= both.low[1]) return false;
    const f32 first = area(a), second = area(b), shared = area(both);
    const f32 all = __fsub_rn(__fadd_rn(first, second), shared);
    if (shared <= 0.0f || first <= 0.0f || second <= 0.0f || all <= 0.0f) return false;
    return __fdiv_rn(shared, all) > threshold;
}

DEVICE Corners from_lane(const Corners& box, u32 lane) {
    Corners other;
#pragma unroll
    for (u32 d = 0; d < 2; ++d) {
        other.low[d] = __shfl_sync(0xffffffffu, box.low[d], lane);
        other.high[d] = __shfl_sync(0xffffffffu, box.high[d], lane);
    }
    return other;
}
