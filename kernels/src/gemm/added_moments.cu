// Warps add up the moments of the rows of A that they multiply, those with the same rows in turns.

// Four lanes have a row's shares of a part. Of a single part they leave what it is needed for.
DEVICE void leave_moments(Moments m, int row, int part) {
    m.join<4, 1>();
    const Sum2 whole = MOMENT_PARTS == 1 ? normaliser(m.sum, m.squares) : Sum2{m.sum, m.squares};
    if (threadIdx.x % 4 == 0) *moments_of_row(row, part) = whole;
}
