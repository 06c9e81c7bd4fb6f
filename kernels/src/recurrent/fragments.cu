// Products of 16-bit input weights with the states of the layer below by `mma.sync`. The gates of a warp's units are the rows of a
// matrix, which lies in registers from before the first step; columns 2·s and 2·s + 1 of the other factor are the state of sequence s.
constexpr int K_BLOCKS = STORED / 32;
constexpr int WARP_UNITS = 32 / LANES, ROWS = WARP_UNITS * GATES;
constexpr int HALVES = ROWS > 8 ? 2 : 1;  // Eights of rows.
static_assert(ROWS <= 16 && SEQUENCES <= 4 && UNITS % 8 == 0, "one matrix of an instruction");

// Of a row in the lower and of one in the upper half, in lane 4·row + sequence.
struct Products {
    f32 low, high;

    // That of a row and a sequence, from the lane that has it.
    DEVICE f32 of(int row, int sequence) const {
        const int from = row % 8 * 4 + sequence;
        const f32 lower = __shfl_sync(0xffffffffu, low, from);
        if (HALVES == 1) return lower;
        const f32 upper = __shfl_sync(0xffffffffu, high, from);
        return row < 8 ? lower : upper;
    }
};

// A lane has eight neighbouring columns of each 32, in rows `lane / 4` and 8 more: an instruction takes four of them, in whatever order,
// as long as it is that of the other factor.
struct Fragments {
    uint4 rows[HALVES][K_BLOCKS];

    // `row_of` gives the place of the row of a gate of one of the block's units, all of which exist.
    template <typename RowOf> DEVICE void load(const Weight* from, RowOf row_of) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
        for (int half = 0; half < HALVES; half++) {
            const int row = lane / 4 + half * 8;
            const bool exists = row < ROWS;
            const Weight* const weights = from + row_of(warp * WARP_UNITS + (exists ? row / GATES : 0), exists ? row % GATES : 0);
#pragma unroll
            for (int block = 0; block < K_BLOCKS; block++) {
                const int column = block * 32 + lane % 4 * 8;
                rows[half][block] = exists && column < UNITS ? *(const uint4*)(weights + column) : uint4{0, 0, 0, 0};
            }
        }
    }

    DEVICE Products multiply(const u16 (&states)[SEQUENCES][STORED]) const {
        const int lane = threadIdx.x % 32;
        const u16* const column = states[lane / 8 % SEQUENCES] + lane % 4 * 8;
        // Four chains: one would wait for itself.
        f32 sums[4][4] = {};
#pragma unroll
        for (int block = 0; block < K_BLOCKS; block++) {
            const uint4 a = rows[0][block], b = *(const uint4*)(column + block * 32);
            const uint4 upper = HALVES == 2 ? rows[HALVES - 1][block] : uint4{0, 0, 0, 0};
            const u32 first[4] = {a.x, upper.x, a.y, upper.y}, second[4] = {a.z, upper.z, a.w, upper.w};
            multiply_add(sums[block * 2 % 4], first, b.x, b.y, Weight());
            multiply_add(sums[block * 2 % 4 + 1], second, b.z, b.w, Weight());
        }
        const auto all = [&](int i) { return (sums[0][i] + sums[1][i]) + (sums[2][i] + sums[3][i]); };
        return {all(0), all(2)};
    }
};
