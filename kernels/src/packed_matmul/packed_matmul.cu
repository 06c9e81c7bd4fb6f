// Bound by reading the weights once. A lane takes a run of weights of a column, which one load brings and one scale
// belongs to; WK warps share CPW columns.
constexpr int BLOCKS_OF_COLUMN = K / BLOCK;
constexpr int RUNS = K / RUN;
constexpr int WORDS = RUN * BITS / 32;

// Unsigned integer i of a word as a float: its bits behind those of 2^23.
DEVICE f32 unpacked(u32 word, int i) {
    return __uint_as_float((word >> (i * BITS) & ((1u << BITS) - 1u)) | 0x4b000000u) - 8388608.0f;
}

DEVICE f32 zero_point(const ZERO* zeros, int column, int block) {
#if ZEROS == 0
    return (f32)(1 << (BITS - 1));
#elif ZEROS == 1
    const u32 byte = zeros[column * ZERO_PITCH + block * BITS / 8];
    return (f32)(BITS == 8 ? byte : byte >> (block % 2 * 4) & 15u);
#else
    return to_f32(zeros[column * BLOCKS_OF_COLUMN + block]);
#endif
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
packed_matmul(const X* __restrict__ x, const u32* __restrict__ weights, const SCALE* __restrict__ scales,
              const ZERO* __restrict__ zeros, Y* __restrict__ y) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_k = warp % WK;
    const int column = ((int)blockIdx.x * (WARPS / WK) + warp / WK) * CPW;
    f32 sums[CPW * M] = {};
    wait_for_inputs();
    constexpr int TURNS = (RUNS + WK * 32 - 1) / (WK * 32);
#pragma unroll UNROLL
    for (int turn = 0; turn < TURNS; turn++) {
        const int run = (turn * WK + warp_k) * 32 + lane;
        if (RUNS % (WK * 32) != 0 && run >= RUNS) break;
        const int block = run * RUN / BLOCK;
        Vector<u32, WORDS> w[CPW];
        f32 scale[CPW], zero[CPW];
#pragma unroll
        for (int c = 0; c < CPW; c++) {
            const int n = column + c < N ? column + c : N - 1;
            w[c] = *(const Vector<u32, WORDS>*)(weights + ((offset_t)n * RUNS + run) * WORDS);
            scale[c] = to_f32(scales[n * BLOCKS_OF_COLUMN + block]);
            zero[c] = zero_point(zeros, n, block);
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
            f32 products[CPW] = {};
#pragma unroll
            for (int part = 0; part < RUN; part += VECTOR) {
                const Vector<X, VECTOR> a = *(const Vector<X, VECTOR>*)(x + X_OFFSET + m * X_ROW + run * RUN + part);
#pragma unroll
                for (int j = 0; j < VECTOR; j++) {
                    const f32 value = to_f32(a.v[j]);
#pragma unroll
                    for (int c = 0; c < CPW; c++) {
                        const int i = part + j;
                        const f32 weight = unpacked(w[c].v[i / (32 / BITS)], i % (32 / BITS)) - zero[c];
                        products[c] = fmaf(value, weight, products[c]);
                    }
                }
            }
#pragma unroll
            for (int c = 0; c < CPW; c++) sums[c * M + m] = fmaf(products[c], scale[c], sums[c * M + m]);
        }
    }
    const f32 sum = add_up(sums);
    const int n = column + lane / M;
    if (warp_k == 0 && lane < CPW * M && n < N) y[Y_OFFSET + lane % M * Y_ROW + n * Y_COLUMN] = store_as<Y>(sum);
}
