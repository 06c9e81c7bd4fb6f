// C = A·Bᵀ with few rows: bound by reading B once. WK warps share CPW columns; 16-byte loads along K. Where the product is one of
// normalised rows, every warp adds up their moments as well: it reads all of A in any case.
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
#if MOMENTS
DEVICE void add_moments(f32& sum, f32& squares, const ARun& a) {
#pragma unroll
    for (int j = 0; j < VECTOR; j++) {
        const f32 x = to_f32(a.v[j]);
        if (CENTER) sum += x;
        squares = fmaf(x, x, squares);
    }
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
    constexpr int PRODUCTS = CPW * M;
    Sum sums[PRODUCTS + 2 * MOMENTS * M] = {};  // Of products, of elements, of their squares.
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
#if MOMENTS
            add_moments(sums[PRODUCTS + m], sums[PRODUCTS + M + m], a);
#endif
        }
    }
    Sum sum = add_up(sums);
    const int own = column + lane / M;
#if MOMENTS
    const f32 mean = __shfl_sync(~0u, sum, PRODUCTS + lane % M) * (1.0f / K);
    const f32 square = __shfl_sync(~0u, sum, PRODUCTS + M + lane % M) * (1.0f / K);
    const f32 of_column = CENTER && own < N ? o.sums[own] : 0.0f;
    sum = __fmul_rn(fmaf(-mean, of_column, sum), inverse_deviation(mean, square));
#endif
    launch_dependents();
    if (warp_k == 0 && lane < PRODUCTS && own < N_STORED) finish_one(o, sum, lane % M, own, batch);
}
