// Weights of a pointwise convolution in shared memory, ROW_VECTORS of 16 bytes for each channel of its result.
constexpr int K_STEPS = ROW_VECTORS / 2;
constexpr int COLUMN_TILES = (OUT_LANES + 15) / 16;  // Of 16 channels, of which a lane has four neighbours.
constexpr int WEIGHT_PITCH = ROW_VECTORS + 1;        // Vectors of a row; eight rows meet in no bank.
constexpr int WEIGHTS = COLUMN_TILES * 16 * WEIGHT_PITCH;
static_assert(ROW_VECTORS % 2 == 0 && CHUNKS == 1, "a block has all channels");

// `[column tile][half][n][k]`: channel 4a + 2b + c of a tile is column 2a + c of its half b.
DEVICE void copy_weights(const void* from, uint4* weights) {
#pragma unroll 1
    for (int i = threadIdx.x; i < COLUMN_TILES * 16 * ROW_VECTORS; i += THREADS) {
        const int row = i / ROW_VECTORS, k = i % ROW_VECTORS;
        const int place = row / 16 * 16 + row / 2 % 2 * 8 + row % 16 / 4 * 2 + row % 2;
        copy_async<true>(shared_address(weights + place * WEIGHT_PITCH + k), (const uint4*)from + i, true);
    }
}

// Where a lane finds its row of the first step of the first tile.
DEVICE u32 weights_of_lane(const uint4* weights, int lane) {
    return shared_address(weights + (lane / 16 * 8 + lane % 8) * WEIGHT_PITCH + lane / 8 % 2);
}

// Factors B of a step for both halves of a column tile.
DEVICE void load_weights(u32 (&b)[4], u32 of_lane, int tile, int step) {
    load_matrices(b, of_lane + (tile * 16 * WEIGHT_PITCH + step * 2) * 16);
}
