// Moments of the rows of A, where a product is one of normalised rows: warps add up what they multiply, those with the same rows in
// turns, and the way out divides by the deviation.
struct Moments {
    f32 sum, squares;  // A lane's share.
    // Two neighbours of a row.
    DEVICE void add(u32 pair) {
        const f32 x = f16_to_f32((u16)pair), y = f16_to_f32((u16)(pair >> 16));
        if (CENTER) sum += x + y;
        squares = fmaf(x, x, fmaf(y, y, squares));
    }
};

DEVICE Sum2* moments_of_row(int row, int part) {
    extern __shared__ __align__(128) unsigned char shared[];
    return (Sum2*)(shared + MOMENTS_AT) + part * BM + row;
}

// What is added to a row's sums for each of a column's, and what they are multiplied by then.
DEVICE Sum2 normaliser(f32 sum, f32 squares) {
    const f32 mean = sum * (1.0f / K);
    return Sum2{-mean, inverse_deviation(mean, squares * (1.0f / K))};
}

// Four lanes have a row's shares of a part. Of a single part they leave what it is needed for.
DEVICE void leave_moments(Moments m, int row, int part) {
#pragma unroll
    for (int mask = 1; mask < 4; mask *= 2) {
        if (CENTER) m.sum += __shfl_xor_sync(~0u, m.sum, mask);
        m.squares += __shfl_xor_sync(~0u, m.squares, mask);
    }
    const Sum2 whole = MOMENT_PARTS == 1 ? normaliser(m.sum, m.squares) : Sum2{m.sum, m.squares};
    if (threadIdx.x % 4 == 0) *moments_of_row(row, part) = whole;
}

// From the sums of a row's products to those of the normalised row's.
DEVICE void normalize(Sum (&sums)[VECTOR_COLUMNS], const Bias (&bias)[VECTOR_COLUMNS], int row) {
    Sum2 of_row = *moments_of_row(row, 0);
#pragma unroll
    for (int part = 1; part < MOMENT_PARTS; part++) {
        const Sum2 of_part = *moments_of_row(row, part);
        of_row.x += of_part.x, of_row.y += of_part.y;
    }
    if (MOMENT_PARTS > 1) of_row = normaliser(of_row.x, of_row.y);
#pragma unroll
    for (int j = 0; j < VECTOR_COLUMNS; j++) sums[j] = fmaf(of_row.x, sum_of_column(bias[j]), sums[j]) * of_row.y;
}
