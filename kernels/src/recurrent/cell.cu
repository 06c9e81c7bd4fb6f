// One unit of a recurrent layer: its states and what a step makes of them. Included in both kernels.

// Steps of sequence b.
DEVICE int steps_of(const Operands& o, int b) {
#if HAS_LENGTHS
    const int steps = o.lengths[lengths_at(b)];
    return steps < 0 ? 0 : steps < STEPS ? steps : STEPS;
#else
    return STEPS;
#endif
}

// The step that is computed after `step` others of a sequence of `length`; past the length the same.
DEVICE int position(int direction, int step, int length) {
    return reversed(direction) && step < length ? length - 1 - step : step;
}

struct Unit {
    f32 hidden, cell;
    f32 peepholes[3];  // Of the gates i, o, f.
    f32 bias;          // Of a GRU's candidate.
};

DEVICE Unit load_unit(const Operands& o, int direction, int b, int unit) {
    Unit u = {};
#if HAS_INITIAL_HIDDEN
    u.hidden = to_f32(o.initial_hidden[initial_hidden_at(direction, b, unit)]);
#endif
#if HAS_INITIAL_CELL
    u.cell = to_f32(o.initial_cell[initial_cell_at(direction, b, unit)]);
#endif
#if HAS_PEEPHOLES
#pragma unroll
    for (int i = 0; i < 3; i++) u.peepholes[i] = to_f32(o.peepholes[peepholes_at(direction, i * UNITS + unit)]);
#endif
#if HAS_BIAS
    u.bias = to_f32(o.bias[bias_at(direction, unit)]);
#endif
    return u;
}

// The states after the last step; zero for an empty sequence.
DEVICE void store_unit(const Operands& o, const Unit& u, int direction, int b, int unit, int length) {
    o.hidden[hidden_at(direction, b, unit)] = store_as<Hidden>(length > 0 ? u.hidden : 0.0f);
#if CELL == CELL_LSTM
    o.cell_state[cell_state_at(direction, b, unit)] = store_as<CellState>(length > 0 ? u.cell : 0.0f);
#endif
}

DEVICE f32 clipped(f32 x) {
#if CLIPS
    return x > CLIP ? CLIP : x < -CLIP ? -CLIP : x;
#else
    return x;
#endif
}

// One step: x are the projected sums of the gates, y the products of the state with the recurrent weights. `candidate` of
// a GRU whose reset gate scales the state is computed in between; everything else comes from here.
DEVICE void advance(int direction, Unit& u, const f32 (&x)[GATES], const f32 (&y)[GATES]) {
#if CELL == CELL_RNN
    u.hidden = function_f(direction, clipped(x[0] + y[0]));
#elif CELL == CELL_LSTM
    const f32 input = function_f(direction, clipped(x[0] + y[0] + u.peepholes[0] * u.cell));
#if INPUT_FORGET
    const f32 forget = 1.0f - input;
#else
    const f32 forget = function_f(direction, clipped(x[2] + y[2] + u.peepholes[2] * u.cell));
#endif
    u.cell = forget * u.cell + input * function_g(direction, clipped(x[3] + y[3]));
    const f32 output = function_f(direction, clipped(x[1] + y[1] + u.peepholes[1] * u.cell));
    u.hidden = output * function_h(direction, u.cell);
#else
    const f32 keep = function_f(direction, clipped(x[0] + y[0]));
#if LINEAR_BEFORE_RESET
    const f32 recurrent = function_f(direction, clipped(x[1] + y[1])) * (y[2] + u.bias);
#else
    const f32 recurrent = y[2];
#endif
    const f32 candidate = function_g(direction, clipped(x[2] + recurrent));
    u.hidden = (1.0f - keep) * candidate + keep * u.hidden;
#endif
}
