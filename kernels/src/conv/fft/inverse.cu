// Products of spectra summed over the input channels of a group, in order, and their inverse transforms.
//
// A thread sums the same points of all sequences, so that a filter's point is read once for PAIRS_OF_BLOCK pairs and a
// spectrum's once for COLUMNS_OF_BLOCK columns.
constexpr int POINTS_OF_THREAD = POINTS / THREADS;
static_assert(POINTS % THREADS == 0 && SEQUENCES == PAIRS_OF_BLOCK * COLUMNS_OF_BLOCK, "sequences");

DEVICE void fft_inverse_block(const Operands& o) {
    extern __shared__ __align__(128) unsigned char shared[];
    Complex *const factors = (Complex*)shared, *const data = factors + FACTORS;
    constexpr int CHUNKS = (N_STORED + COLUMNS_OF_BLOCK - 1) / COLUMNS_OF_BLOCK;
    const int first_pair = blockIdx.x / CHUNKS * PAIRS_OF_BLOCK, first = blockIdx.x % CHUNKS * COLUMNS_OF_BLOCK;
    load_factors(factors, o.b);
    const Complex *spectra[PAIRS_OF_BLOCK], *filters[COLUMNS_OF_BLOCK];
    const int group = (first < N ? first : N - 1) / COLUMNS_OF_GROUP;
#pragma unroll
    for (int q = 0; q < PAIRS_OF_BLOCK; q++) {
        // What the last blocks have too much is computed and not stored.
        const int pair = first_pair + q < PAIRS ? first_pair + q : PAIRS - 1;
        spectra[q] = (const Complex*)o.a + (pair * CHANNELS + group * CHANNELS_OF_GROUP) * POINTS + threadIdx.x;
    }
#pragma unroll
    for (int n = 0; n < COLUMNS_OF_BLOCK; n++) {
        const int column = first + n < N ? first + n : N - 1;
        filters[n] = (const Complex*)o.b + FACTORS + column * CHANNELS_OF_GROUP * POINTS + threadIdx.x;
    }
    Complex sums[POINTS_OF_THREAD][PAIRS_OF_BLOCK][COLUMNS_OF_BLOCK] = {};
#pragma unroll 1
    for (int channel = 0; channel < CHANNELS_OF_GROUP; channel++) {
#pragma unroll
        for (int p = 0; p < POINTS_OF_THREAD; p++) {
            Complex x[PAIRS_OF_BLOCK], w[COLUMNS_OF_BLOCK];
#pragma unroll
            for (int q = 0; q < PAIRS_OF_BLOCK; q++) x[q] = spectra[q][channel * POINTS + p * THREADS];
#pragma unroll
            for (int n = 0; n < COLUMNS_OF_BLOCK; n++) w[n] = filters[n][channel * POINTS + p * THREADS];
#pragma unroll
            for (int q = 0; q < PAIRS_OF_BLOCK; q++)
#pragma unroll
                for (int n = 0; n < COLUMNS_OF_BLOCK; n++) sums[p][q][n] = multiply_add(x[q], w[n], sums[p][q][n]);
        }
    }
#pragma unroll
    for (int p = 0; p < POINTS_OF_THREAD; p++)
#pragma unroll
        for (int q = 0; q < PAIRS_OF_BLOCK; q++)
#pragma unroll
            for (int n = 0; n < COLUMNS_OF_BLOCK; n++)
                data[place((q * COLUMNS_OF_BLOCK + n) * POINTS + p * THREADS + (int)threadIdx.x)] = sums[p][q][n];
    __syncthreads();
    inverse_all(data, factors);
    store_blocks(o, data, first_pair, first);
}
