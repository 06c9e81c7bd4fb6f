// C = A·Bᵀ with few rows: bound by reading B once. WK warps share CPW columns; 16-byte loads along K.
#ifdef A_LETTER
// Integers of 8 bits: four products an instruction.
typedef uint4 ARun, BRun;
DEVICE void add_products(u32& sum, const uint4& a, const uint4& b) {
    sum = multiply_add_4(a.x, b.x, sum);
    sum = multiply_add_4(a.y, b.y, sum);
    sum = multiply_add_4(a.z, b.z, sum);
    sum = multiply_add_4(a.w, b.w, sum);
}
#else
typedef Vector<AElement, VECTOR> ARun;
typedef Vector<BElement, VECTOR> BRun;
DEVICE void add_products(f32& sum, const ARun& a, const BRun& b) {
#pragma unroll
    for (int j = 0; j < VECTOR; j++) sum = fmaf(to_f32(a.v[j]), to_f32(b.v[j]), sum);
}
#endif
constexpr int BLOCKS = (N_STORED + WARPS / WK * CPW - 1) / (WARPS / WK * CPW);
constexpr int TURN = WK * 32 * VECTOR;  // Elements of K that the warps of a column take at once.

DEVICE void gemv(const Operands& o) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_k = warp % WK;
    const int batch = blockIdx.x / BLOCKS;
    const int column = (blockIdx.x % BLOCKS * (WARPS / WK) + warp / WK) * CPW;

    int a_rows[M];
#pragma unroll
    for (int m = 0; m < M; m++) a_rows[m] = row_of_a(m, batch).offset;
    const int b_batch = batch_of_b(batch);
    Sum sums[CPW * M] = {};
#pragma unroll UNROLL
    for (int turn = 0; turn < (K + TURN - 1) / TURN; turn++) {
        const int k = turn * TURN + (warp_k * 32 + lane) * VECTOR;
        if (K % TURN != 0 && k >= K) break;
        BRun b[CPW];
#pragma unroll
        for (int c = 0; c < CPW; c++) {
            const int n = column + c < N ? column + c : N - 1;
            b[c] = *(const BRun*)(o.b + b_batch + n * B_N + k);
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
            const ARun a = *(const ARun*)(o.a + a_rows[m] + k);
#pragma unroll
            for (int c = 0; c < CPW; c++) add_products(sums[c * M + m], a, b[c]);
        }
    }
    const Sum sum = add_up(sums);
    if (warp_k == 0 && lane < CPW * M && column + lane / M < N_STORED)
        finish_one(o, sum, lane % M, column + lane / M, batch);
}
