// C = A·Bᵀ of 8-bit integers with few rows: bound by reading B once. WK warps share CPW columns; a load along K is 16
// elements, four products an instruction. Sums are exact in any order.
constexpr int BLOCKS = (N_STORED + WARPS / WK * CPW - 1) / (WARPS / WK * CPW);
static_assert(CPW * M <= 32, "a lane for each output of a warp");
constexpr int TURN = WK * 32 * 16;  // Elements of K that the warps of a column take at once.

DEVICE void gemv_integers(const Operands& o) {
    __shared__ u32 partial[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_k = warp % WK;
    const int batch = blockIdx.x / BLOCKS;
    const int column = (blockIdx.x % BLOCKS * (WARPS / WK) + warp / WK) * CPW;

    int a_rows[M];
#pragma unroll
    for (int m = 0; m < M; m++) a_rows[m] = row_of_a(m, batch).offset;
    const int b_batch = batch_of_b(batch);
    u32 sums[CPW * M] = {};
#pragma unroll UNROLL
    for (int turn = 0; turn < (K + TURN - 1) / TURN; turn++) {
        const int k = turn * TURN + (warp_k * 32 + lane) * 16;
        if (K % TURN != 0 && k >= K) break;
        uint4 b[CPW];
#pragma unroll
        for (int c = 0; c < CPW; c++) {
            const int n = column + c < N ? column + c : N - 1;
            b[c] = *(const uint4*)(o.b + b_batch + n * B_N + k);
        }
#pragma unroll
        for (int m = 0; m < M; m++) {
            const uint4 a = *(const uint4*)(o.a + a_rows[m] + k);
#pragma unroll
            for (int c = 0; c < CPW; c++) {
                u32& sum = sums[c * M + m];
                sum = multiply_add_4(a.x, b[c].x, sum);
                sum = multiply_add_4(a.y, b[c].y, sum);
                sum = multiply_add_4(a.z, b[c].z, sum);
                sum = multiply_add_4(a.w, b[c].w, sum);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < CPW * M; i++)
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2)
            sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], distance);
    // Lane i finishes output i of the warp.
    u32 sum = 0;
#pragma unroll
    for (int i = 0; i < CPW * M; i++) sum = lane == i ? sums[i] : sum;
    if (WK > 1) {
        partial[warp][lane] = sum;
        __syncthreads();
        for (int k = 1; warp_k == 0 && k < WK; k++) sum += partial[warp + k][lane];
    }
    if (warp_k == 0 && lane < CPW * M && column + lane / M < N_STORED)
        finish_one(o, sum, lane % M, column + lane / M, batch);
}
