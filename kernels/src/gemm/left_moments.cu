// Moments of C's rows, of PART columns each: lanes that have a part's vectors join theirs.
typedef Moments Left;
#if LANES && TURNED
constexpr int PART_STEP = 4;  // From a lane to the next one of the same row.
#else
constexpr int PART_STEP = 1;
#endif
constexpr int PART_LANES = PART / VECTOR_COLUMNS;

DEVICE Left moments_of(const f32 (&results)[VECTOR_COLUMNS]) {
    Moments m = {};
#pragma unroll
    for (int j = 0; j < VECTOR_COLUMNS; j += 2) m.add(results[j], results[j + 1]);
    return m;
}

// All lanes of a warp come here, also those whose vector does not exist.
DEVICE void leave_moments(const Operands& o, Left m, bool exists, int row, int column) {
    m.join<PART_LANES, PART_STEP>();
    if (exists && threadIdx.x % 32 / PART_STEP % PART_LANES == 0) o.left[column / PART * M + row] = Sum2{m.sum, m.squares};
}
