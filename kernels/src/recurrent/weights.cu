constexpr int STORED = LANES * COLUMNS;  // Units of the state in shared memory, the tail zero.

// The weights of a unit's gates in a lane's columns, four neighbouring columns at a time: element 4·i + j is column
// (i·LANES + lane)·4 + j. Columns past the last unit meet zeros of the state, but must not hold anything infinite.
DEVICE Vector<Weight, 4> read_weights(const Weight* row, int i, int lane) {
    const int column = (i * LANES + lane) * 4;
    Vector<Weight, 4> four = {};
#if WEIGHTS_IN_VECTORS
    if (column < UNITS) four = *(const Vector<Weight, 4>*)(row + column);
#else
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (column + j < UNITS) four.v[j] = row[(column + j) * WEIGHTS_COLUMN];
#endif
    return four;
}

DEVICE float4 as_f32(const Vector<Weight, 4>& four) {
    return {to_f32(four.v[0]), to_f32(four.v[1]), to_f32(four.v[2]), to_f32(four.v[3])};
}

// A lane's weights, wherever they are kept. Threads without a unit multiply those of unit 0.
struct Weights {
#if STORAGE == STORAGE_REGISTERS
    float4 kept[GATES][COLUMNS / 4];
#elif STORAGE == STORAGE_PACKED
    uint2 kept[GATES][COLUMNS / 4];
#else
    const Weight* rows[GATES];
#endif

    // `row_of` gives the place of a gate's row.
    template <typename RowOf> DEVICE void load(const Weight* from, RowOf row_of, int lane) {
#pragma unroll
        for (int gate = 0; gate < GATES; gate++) {
            const Weight* const row = from + row_of(gate);
#if STORAGE == STORAGE_MEMORY
            rows[gate] = row;
#else
#pragma unroll
            for (int i = 0; i < COLUMNS / 4; i++) {
                const Vector<Weight, 4> four = read_weights(row, i, lane);
#if STORAGE == STORAGE_REGISTERS
                kept[gate][i] = as_f32(four);
#else
                kept[gate][i] = *(const uint2*)&four;
#endif
            }
#endif
        }
    }

    DEVICE float4 four(int gate, int i, int lane) {
#if STORAGE == STORAGE_REGISTERS
        return kept[gate][i];
#elif STORAGE == STORAGE_PACKED
        // What the compiler cannot see through, it does not unpack before the first step into twice the registers.
        asm volatile("" : "+r"(kept[gate][i].x), "+r"(kept[gate][i].y));
        return as_f32(*(const Vector<Weight, 4>*)&kept[gate][i]);
#else
        return as_f32(read_weights(rows[gate], i, lane));
#endif
    }
};
