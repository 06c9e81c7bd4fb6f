// One filter an output channel: transform, product and inverse transform in one kernel.
DEVICE void fft_depthwise_block(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Complex *const factors = (Complex*)shared, *const data = factors + FACTORS;
    constexpr int CHUNKS = (N_STORED + SEQUENCES - 1) / SEQUENCES;
    const int pair = blockIdx.x / CHUNKS, first = blockIdx.x % CHUNKS * SEQUENCES;
    load_factors(factors, o.b);
    load_blocks(data, o.a, pair, first);
    __syncthreads();
    forward_all(data, factors);
    const Complex* const filters = (const Complex*)o.b + FACTORS;
    for (int i = threadIdx.x; i < SEQUENCES * POINTS; i += THREADS) {
        const int column = first + i / POINTS;
        if (column < N) data[place(i)] = multiply(data[place(i)], filters[column * POINTS + i % POINTS]);
    }
    __syncthreads();
    inverse_all(data, factors);
    store_blocks(o, data, pair, first);
}
