// All steps of one sequence and direction in one block that reads the recurrent weights from memory at every step: for
// layers of any size.
DEVICE void products(const Operands& o, int direction, int from, int to, const f32* state, f32* sums) {
    const int lane = threadIdx.x % 32;
    for (int row = from + threadIdx.x / 32; row < to; row += THREADS / 32) {
        const Weight* const weights = o.weights + weights_at(direction, row, 0);
        f32 sum = 0;
        for (int column = lane * WIDTH; column < UNITS; column += 32 * WIDTH) {
#if WIDTH > 1
            const Vector<Weight, WIDTH> some = *(const Vector<Weight, WIDTH>*)(weights + column);
#pragma unroll
            for (int j = 0; j < WIDTH; j++) sum = fmaf(to_f32(some.v[j]), state[column + j], sum);
#else
            sum = fmaf(to_f32(weights[column * WEIGHTS_COLUMN]), state[column], sum);
#endif
        }
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (lane == 0) sums[row] = sum;
    }
}

DEVICE void streamed(const Operands& o) {
    extern __shared__ __align__(16) f32 memory[];
    f32* const state = memory;
    f32* const cells = state + UNITS;
    f32* const sums = cells + UNITS;
    const int direction = blockIdx.x % DIRECTIONS, b = blockIdx.x / DIRECTIONS;
    wait_for_inputs();
    const int length = steps_of(o, b);
    for (int unit = threadIdx.x; unit < UNITS; unit += THREADS) {
        const Unit u = load_unit(o, direction, b, unit);
        state[unit] = u.hidden;
        cells[unit] = u.cell;
    }
    __syncthreads();
    for (int step = 0; step < STEPS; step++) {
        const int t = position(direction, step, length);
        if (step >= length) {
            for (int unit = threadIdx.x; unit < UNITS; unit += THREADS)
                o.sequence[sequence_at(t, direction, b, unit)] = store_as<Sequence>(0.0f);
            continue;
        }
#if CELL == CELL_GRU && !LINEAR_BEFORE_RESET
        products(o, direction, 0, 2 * UNITS, state, sums);
        __syncthreads();
        for (int unit = threadIdx.x; unit < UNITS; unit += THREADS) {
            const f32 x = to_f32(o.projected[projected_at(t, b, direction, UNITS + unit)]);
            cells[unit] = function_f(direction, clipped(x + sums[UNITS + unit])) * state[unit];
        }
        __syncthreads();
        products(o, direction, 2 * UNITS, 3 * UNITS, cells, sums);
#else
        products(o, direction, 0, GATES * UNITS, state, sums);
#endif
        __syncthreads();
        for (int unit = threadIdx.x; unit < UNITS; unit += THREADS) {
            f32 x[GATES], y[GATES];
#pragma unroll
            for (int gate = 0; gate < GATES; gate++) {
                x[gate] = to_f32(o.projected[projected_at(t, b, direction, gate * UNITS + unit)]);
                y[gate] = sums[gate * UNITS + unit];
            }
            Unit u = load_unit(o, direction, b, unit);
            u.hidden = state[unit];
            u.cell = cells[unit];
            advance(direction, u, x, y);
            state[unit] = u.hidden;
            cells[unit] = u.cell;
            o.sequence[sequence_at(t, direction, b, unit)] = store_as<Sequence>(u.hidden);
        }
        __syncthreads();
    }
    for (int unit = threadIdx.x; unit < UNITS; unit += THREADS) {
        Unit u = {};
        u.hidden = state[unit];
        u.cell = cells[unit];
        store_unit(o, u, direction, b, unit, length);
    }
}
