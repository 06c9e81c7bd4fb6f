// Winograd's output transform: Aᵀ·P·A of the products P[e][tile][channel], then the epilogue.
//
// A thread finishes eight neighbouring channels of one row of a tile; the rows of a tile lie in one warp, so that the
// products come from memory once.
constexpr int VECTORS = PITCH / 8;

DEVICE void winograd_output_tile(const Operands& o) {
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    const int y = thread % TILE, rest = thread / TILE;
    if (rest >= VECTORS * TILES) return;
    const int tile = CHANNELS_FIRST ? rest / VECTORS : rest % TILES;
    const int channel = (CHANNELS_FIRST ? rest % VECTORS : rest / TILES) * 8;
    const int n = tile / (TILES_H * TILES_W);
    const int line = tile / TILES_W % TILES_H * TILE + y, left = tile % TILES_W * TILE;
    if (line >= OUT_HEIGHT) return;
    const f32* const from = o.a + tile * PITCH + channel;

    f32 of_line[SIZE];  // Row y of Aᵀ.
#pragma unroll
    for (int row = 0; row < SIZE; row++)
#pragma unroll
        for (int i = 0; i < TILE; i++) of_line[row] = i == 0 || i == y ? output_element(i, row) : of_line[row];
    f32 sums[TILE][8] = {};
#pragma unroll
    for (int column = 0; column < SIZE; column++) {
        f32 products[8] = {};
#pragma unroll
        for (int row = 0; row < SIZE; row++) {
            const float4* at = (const float4*)(from + (row * SIZE + column) * (TILES * PITCH));
            const float4 low = at[0], high = at[1];
            const f32 loaded[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int c = 0; c < 8; c++) products[c] = fmaf(loaded[c], of_line[row], products[c]);
        }
#pragma unroll
        for (int x = 0; x < TILE; x++)
#pragma unroll
            for (int c = 0; c < 8; c++)
                if (output_element(x, column) != 0.0f)
                    sums[x][c] = fmaf(products[c], output_element(x, column), sums[x][c]);
    }
    launch_dependents();
    f32 bias[8];
    load_bias(o, bias, channel, 0);
#pragma unroll
    for (int x = 0; x < TILE; x++) {
        if (left + x >= OUT_WIDTH) break;
        const int row = (n * OUT_HEIGHT + line) * OUT_WIDTH + left + x;
        finish_vector(o, sums[x], bias, load_extras(o, row, channel, 0), row, channel, 0);
    }
}
