// Winograd's input transform: V[e][tile][channel] = element e of Bᵀ·d·B, for every tile d of the input and channel.
//
// A thread transforms WIDTH neighbouring channels of one tile in f32 and rounds once.
constexpr int GROUPS = CHANNELS_STORED / WIDTH;

extern "C" __global__ void __launch_bounds__(THREADS)
winograd_input(const Element* __restrict__ x, Element* __restrict__ v) {
    wait_for_inputs();
    const int thread = blockIdx.x * THREADS + threadIdx.x;
    if (thread >= GROUPS * TILES) return;
    // Neighbouring threads read what lies together in memory.
    const int tile = CHANNELS_FIRST ? thread / GROUPS : thread % TILES;
    const int channel = (CHANNELS_FIRST ? thread % GROUPS : thread / TILES) * WIDTH;
    const int n = tile / (TILES_H * TILES_W);
    const int top = tile / TILES_W % TILES_H * TILE - PAD_H, left = tile % TILES_W * TILE - PAD_W;
    const Element* const from = x + X_OFFSET + n * X_N + channel * X_C;

    f32 d[WIDTH][SIZE][SIZE];  // Bᵀ·d is kept by columns, then rows are replaced.
#pragma unroll
    for (int column = 0; column < SIZE; column++) {
        f32 elements[WIDTH][SIZE];
#pragma unroll
        for (int row = 0; row < SIZE; row++) {
            const bool inside = (u32)(top + row) < (u32)HEIGHT && (u32)(left + column) < (u32)WIDTH_OF_INPUT &&
                                (WIDTH > 1 || channel < CHANNELS);
            Vector<Element, WIDTH> loaded = {};
            if (inside) loaded = *(const Vector<Element, WIDTH>*)(from + (top + row) * X_H + (left + column) * X_W);
#pragma unroll
            for (int c = 0; c < WIDTH; c++) elements[c][row] = to_f32(loaded.v[c]);
        }
#pragma unroll
        for (int c = 0; c < WIDTH; c++) {
            f32 product[SIZE];
            transform_input(product, elements[c]);
#pragma unroll
            for (int row = 0; row < SIZE; row++) d[c][row][column] = product[row];
        }
    }
    launch_dependents();
    Element* const to = v + tile * CHANNELS_STORED + channel;
#pragma unroll
    for (int row = 0; row < SIZE; row++) {
        Vector<Element, WIDTH> stored[SIZE];
#pragma unroll
        for (int c = 0; c < WIDTH; c++) {
            f32 product[SIZE];
            transform_input(product, d[c][row]);
#pragma unroll
            for (int column = 0; column < SIZE; column++) stored[column].v[c] = store_as<Element>(product[column]);
        }
#pragma unroll
        for (int column = 0; column < SIZE; column++)
            *(Vector<Element, WIDTH>*)(to + (row * SIZE + column) * (TILES * CHANNELS_STORED)) = stored[column];
    }
}
