// What rows of the tile are normalised by, in shared memory.
DEVICE Sum2* moments_of_row(int row, int part) {
    extern __shared__ __align__(128) unsigned char shared[];
    return (Sum2*)(shared + MOMENTS_AT) + part * BM + row;
}

// What is added to elements of a row, and what they are multiplied by then.
DEVICE Sum2 normaliser(f32 sum, f32 squares) {
    const f32 mean = SUBTRACTS_MEAN ? sum * (1.0f / NORMALIZED_COLUMNS) : 0.0f;
    return Sum2{-mean, inverse_deviation(mean, squares * (1.0f / NORMALIZED_COLUMNS))};
}
