// One output element a thread: any strides, types, groups. The fallback, and the right choice for tiny problems.
constexpr long long OUTPUTS = (long long)BATCHES * M * N_STORED;

DEVICE void direct(const Operands& o) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= OUTPUTS) return;
    // Neighbouring threads write neighbouring elements.
    const int in_batch = (int)(i % ((long long)M * N_STORED)), batch = (int)(i / ((long long)M * N_STORED));
    const int n = OUT_COLUMN == 1 ? in_batch % N_STORED : in_batch / M;
    const int m = OUT_COLUMN == 1 ? in_batch / N_STORED : in_batch % M;
    if (!row_exists(m, batch)) return;
    Sum sum = 0;
    if (n < N) {
        Row row = row_of_a(m, batch);
        row.offset += n / COLUMNS_OF_GROUP * GROUP_STEP;
        const BElement* b = o.b + batch_of_b(batch) + n / COLUMNS_OF_GROUP * B_GROUP + n % COLUMNS_OF_GROUP * B_N;
        for (int k = 0; k < K; k += CHANNELS) {
            const Tap tap = tap_of_a(k);
            if (!inside_of_a(row, tap)) {
#if OUTSIDE
                for (int c = 0; c < CHANNELS; c++) sum += to_sum(OUTSIDE) * to_sum(b[k_of_b(k) + c * B_K]);
#endif
                continue;
            }
            const AElement* a = o.a + row.offset + tap.offset;
#pragma unroll 4
            for (int c = 0; c < CHANNELS; c++) sum += to_sum(a[c * A_CHANNEL]) * to_sum(b[k_of_b(k) + c * B_K]);
        }
    }
    launch_dependents();
    finish_one(o, sum, m, n, batch);
}
