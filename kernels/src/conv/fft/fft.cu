// Fourier transforms in shared memory, and the way of blocks into it and out of it.
//
// SEQUENCES arrays of POINTS = LENGTH_H × LENGTH_W complex numbers; the real part belongs to one block of the image, the
// imaginary part to the next one: filters are real, so that the two never mix.
struct alignas(8) Complex { f32 re, im; };
constexpr int POINTS = LENGTH_H * LENGTH_W;
constexpr int FACTORS = (LENGTH_H > LENGTH_W ? LENGTH_H : LENGTH_W) / 4 * 3;
constexpr int LONGEST = FACTORS / 3 * 4;
constexpr int VALID_H = LENGTH_H - TAPS_H + 1, VALID_W = LENGTH_W - TAPS_W + 1;  // Outputs of a block.

DEVICE Complex add(Complex a, Complex b) { return Complex{a.re + b.re, a.im + b.im}; }
DEVICE Complex subtract(Complex a, Complex b) { return Complex{a.re - b.re, a.im - b.im}; }
DEVICE Complex multiply(Complex a, Complex b) {
    return Complex{fmaf(a.re, b.re, -a.im * b.im), fmaf(a.re, b.im, a.im * b.re)};
}
DEVICE Complex multiply_add(Complex a, Complex b, Complex sum) {
    return Complex{fmaf(-a.im, b.im, fmaf(a.re, b.re, sum.re)), fmaf(a.im, b.re, fmaf(a.re, b.im, sum.im))};
}
// a times −i for the transform, times i for its inverse.
template <bool INVERSE> DEVICE Complex turned(Complex a) {
    return INVERSE ? Complex{-a.im, a.re} : Complex{a.im, -a.re};
}

// One complex number in sixteen is skipped, so that powers of two between neighbours do not meet in one bank.
DEVICE int place(int i) { return i + i / 16; }

// First point of line `line` of a sequence, and the number of the butterfly in it.
template <int LENGTH, int STEP> DEVICE void locate(int butterfly, int of_line, int& base, int& j) {
    const int sequence = butterfly / (POINTS / LENGTH * of_line), rest = butterfly % (POINTS / LENGTH * of_line);
    base = sequence * POINTS + (STEP == 1 ? rest / of_line * LENGTH : rest % STEP);
    j = STEP == 1 ? rest % of_line : rest / STEP;
}

// One pass of radix 4 over lines of LENGTH points STEP apart.
template <int LENGTH, int STEP, bool INVERSE> DEVICE void quads(Complex* data, const Complex* factors, int log_span) {
    const int span = 1 << log_span;
#pragma unroll 2
    for (int b = threadIdx.x; b < SEQUENCES * POINTS / 4; b += THREADS) {
        int base, j;
        locate<LENGTH, STEP>(b, LENGTH / 4, base, j);
        const int k = j & (span - 1), first = (j - k) * 4 + k;
        Complex a[4];
#pragma unroll
        for (int leg = 0; leg < 4; leg++) {
            a[leg] = data[place(base + (first + leg * span) * STEP)];
            if (INVERSE && leg > 0) {
                const Complex w = factors[leg * k * (LONGEST / 4 >> log_span)];
                a[leg] = multiply(a[leg], Complex{w.re, -w.im});
            }
        }
        const Complex t0 = add(a[0], a[2]), t1 = subtract(a[0], a[2]), t2 = add(a[1], a[3]);
        const Complex t3 = turned<INVERSE>(subtract(a[1], a[3]));
        const Complex y[4] = {add(t0, t2), add(t1, t3), subtract(t0, t2), subtract(t1, t3)};
#pragma unroll
        for (int leg = 0; leg < 4; leg++)
            data[place(base + (first + leg * span) * STEP)] =
                INVERSE || leg == 0 ? y[leg] : multiply(y[leg], factors[leg * k * (LONGEST / 4 >> log_span)]);
    }
    __syncthreads();
}

// The pass of radix 2, its own inverse up to the scale.
template <int LENGTH, int STEP> DEVICE void pairs(Complex* data) {
    for (int b = threadIdx.x; b < SEQUENCES * POINTS / 2; b += THREADS) {
        int base, j;
        locate<LENGTH, STEP>(b, LENGTH / 2, base, j);
        Complex &low = data[place(base + 2 * j * STEP)], &high = data[place(base + (2 * j + 1) * STEP)];
        const Complex a = low, c = high;
        low = add(a, c);
        high = subtract(a, c);
    }
    __syncthreads();
}

DEVICE constexpr int log2_of(int n) { return n == 1 ? 0 : 1 + log2_of(n / 2); }

// All lines of LENGTH points STEP apart: in order to digit-reversed order, and back (without the scale).
template <int LENGTH, int STEP> DEVICE void forward(Complex* data, const Complex* factors) {
    constexpr int ODD = log2_of(LENGTH) % 2, PASSES = log2_of(LENGTH) / 2;
#pragma unroll
    for (int pass = PASSES - 1; pass >= 0; pass--) quads<LENGTH, STEP, false>(data, factors, 2 * pass + ODD);
    if constexpr (ODD) pairs<LENGTH, STEP>(data);
}
template <int LENGTH, int STEP> DEVICE void inverse(Complex* data, const Complex* factors) {
    constexpr int ODD = log2_of(LENGTH) % 2, PASSES = log2_of(LENGTH) / 2;
    if constexpr (ODD) pairs<LENGTH, STEP>(data);
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) quads<LENGTH, STEP, true>(data, factors, 2 * pass + ODD);
}
DEVICE void forward_all(Complex* data, const Complex* factors) {
    forward<LENGTH_W, 1>(data, factors);
    if constexpr (LENGTH_H > 1) forward<LENGTH_H, LENGTH_W>(data, factors);
}
DEVICE void inverse_all(Complex* data, const Complex* factors) {
    if constexpr (LENGTH_H > 1) inverse<LENGTH_H, LENGTH_W>(data, factors);
    inverse<LENGTH_W, 1>(data, factors);
}

DEVICE void load_factors(Complex* factors, const f32* packed) {
    for (int i = threadIdx.x; i < FACTORS; i += THREADS) factors[i] = ((const Complex*)packed)[i];
}

// Where block `block` of the images begins in the output.
struct Origin { int n, y, x; };
DEVICE Origin origin_of(int block) {
    return Origin{block / (BLOCKS_H * BLOCKS_W), block / BLOCKS_W % BLOCKS_H * VALID_H, block % BLOCKS_W * VALID_W};
}

// Sequence and point of item i: neighbouring threads touch what lies together in memory.
template <bool CHANNELS_FIRST> DEVICE void split(int i, int& sequence, int& point) {
    sequence = CHANNELS_FIRST ? i % SEQUENCES : i / POINTS;
    point = CHANNELS_FIRST ? i / SEQUENCES : i % POINTS;
}

template <typename T> DEVICE f32 input_at(const T* x, int block, int channel, int point) {
    if (block >= BLOCKS || channel >= CHANNELS) return 0;
    const Origin origin = origin_of(block);
    const int y = origin.y + point / LENGTH_W - PAD_H, column = origin.x + point % LENGTH_W - PAD_W;
    if ((u32)y >= (u32)HEIGHT || (u32)column >= (u32)WIDTH) return 0;
    return to_f32(x[X_OFFSET + origin.n * X_N + channel * X_C + y * X_H + column * X_W]);
}

// Both blocks of a pair for SEQUENCES channels; every MULTIPLIER output channels read the same one.
template <typename T> DEVICE void load_blocks(Complex* data, const T* x, int pair, int first) {
#pragma unroll 4
    for (int i = threadIdx.x; i < SEQUENCES * POINTS; i += THREADS) {
        int sequence, point;
        split<X_C == 1>(i, sequence, point);
        const int channel = (first + sequence) / MULTIPLIER;
        data[place(sequence * POINTS + point)] =
            Complex{input_at(x, 2 * pair, channel, point), input_at(x, 2 * pair + 1, channel, point)};
    }
}
