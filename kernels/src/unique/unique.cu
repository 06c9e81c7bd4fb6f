// A thread looks at a row: first for the first row that is equal, its leader; then for the place of a leader among the
// leaders, and how many follow it.
DEVICE bool equal(const T* input, u32 a, u32 b) {
    for (u32 k = 0; k < WIDTH; ++k) {
        if (!(widen(input[input_at(a, k)]) == widen(input[input_at(b, k)]))) return false;
    }
    return true;
}

// Whether row a comes before row b. NaN comes last; of rows that cannot be told apart the first comes first.
DEVICE bool before(const T* input, u32 a, u32 b) {
#if SORTED
    for (u32 k = 0; k < WIDTH; ++k) {
        const W x = widen(input[input_at(a, k)]), y = widen(input[input_at(b, k)]);
        if (x < y || (x == x && y != y)) return true;
        if (x > y || (x != x && y == y)) return false;
    }
#endif
    return a < b;
}

extern "C" __global__ void __launch_bounds__(BLOCK) unique_lead(const T* __restrict__ input, u32* leaders) {
    wait_for_inputs();
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= COUNT) return;
    u32 leader = 0;
    while (leader < row && !equal(input, leader, row)) ++leader;
    leaders[row] = leader;
}

extern "C" __global__ void __launch_bounds__(BLOCK) unique_place(const T* __restrict__ input, const u32* leaders,
                                                                 u32* places, i64* first, i64* counts, i64* count) {
    wait_for_inputs();
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= COUNT) {
        if (row == 0) count[COUNT_OFFSET] = 0;  // Of nothing.
        return;
    }
    const bool leads = leaders[row] == row;
    u32 all = 0, place = 0, followers = 0;
    for (u32 other = 0; other < COUNT; ++other) {
        const u32 leader = leaders[other];
        const bool rival = leader == other;
        all += rival;
        followers += leader == row;
        // A row that follows another fills a place past the different ones.
        if (leads) place += rival && other != row && before(input, other, row);
        else place += !rival && other < row;
    }
    if (leads) places[row] = place;
    else place += all;
    first[first_at(place)] = leads ? (i64)row : UNUSED;
    counts[counts_at(place)] = leads ? (i64)followers : UNUSED;
    if (row == 0) count[COUNT_OFFSET] = (i64)all;
}

extern "C" __global__ void __launch_bounds__(BLOCK) unique_inverse(const u32* leaders, const u32* places, i64* inverse) {
    wait_for_inputs();
    const u32 row = blockIdx.x * BLOCK + threadIdx.x;
    if (row < COUNT) inverse[inverse_at(row)] = (i64)places[leaders[row]];
}
