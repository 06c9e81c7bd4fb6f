// Spectra of all blocks of the input: [pair][channel][point]. A thread block transforms SEQUENCES channels of one pair.
extern "C" __global__ void __launch_bounds__(THREADS)
fft_forward(const Element* x, const f32* packed, Complex* spectra) {
    extern __shared__ __align__(128) unsigned char shared[];
    Complex *const factors = (Complex*)shared, *const data = factors + FACTORS;
    wait_for_inputs();
    constexpr int CHUNKS = (CHANNELS + SEQUENCES - 1) / SEQUENCES;
    const int pair = blockIdx.x / CHUNKS, first = blockIdx.x % CHUNKS * SEQUENCES;
    load_factors(factors, packed);
    load_blocks(data, x, pair, first);
    __syncthreads();
    forward_all(data, factors);
    for (int i = threadIdx.x; i < SEQUENCES * POINTS; i += THREADS) {
        const int channel = first + i / POINTS;
        if (channel < CHANNELS) spectra[(pair * CHANNELS + channel) * POINTS + i % POINTS] = data[place(i)];
    }
}
