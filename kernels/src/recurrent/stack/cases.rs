//! Layers above each other that exercise the family, for the tests of reference kernels and candidates.

use super::RecurrentStack;
use crate::matmul::MatMul;
use crate::pointwise::Epilogue;
use crate::recurrent::Cell;
use crate::recurrent::cases::{GRU, LSTM, RNN, dense, layer};
use crate::{DType, Kernel};

/// Two layers of `units`, the projection with a bias where asked.
pub(crate) fn stack(cell: Cell, dtype: DType, [t, b, units]: [u32; 3], bias: bool) -> RecurrentStack {
    let of = || layer(cell, dtype, [t, 1, b, units]);
    let (first, second) = (of(), of());
    let columns = units * cell.gates();
    let mut weights = dense(dtype, &[columns, units]);
    weights.shape.swap(0, 1);
    weights.strides.swap(0, 1);
    let projection = MatMul {
        a: dense(dtype, &[t * b, units]),
        b: weights,
        output: dense(DType::F32, &[t * b, columns]),
        epilogue: Epilogue { bias, ..Epilogue::default() },
    };
    RecurrentStack { first, projection, second }
}

/// Both layers with states before the first step, and a GRU with the bias of its candidate.
fn with_states(mut stack: RecurrentStack) -> RecurrentStack {
    for layer in [&mut stack.first, &mut stack.second] {
        let [_, d, b, h] = layer.extents();
        let state = dense(layer.weights.dtype, &[d, b, h]);
        layer.initial_hidden = Some(state.clone());
        match layer.cell {
            Cell::Lstm { .. } => layer.initial_cell = Some(state),
            Cell::Gru { linear_before_reset: true } => layer.bias = Some(dense(layer.weights.dtype, &[d, h])),
            _ => {}
        }
    }
    stack
}

/// Kernels of this family: cells, types, odd sizes, several sequences, one step, states, clipping, layers that differ.
pub fn cases() -> Vec<Kernel> {
    let mut cases = Vec::new();
    for cell in [RNN, LSTM, GRU] {
        for dtype in [DType::F32, DType::F16] {
            cases.push(stack(cell, dtype, [7, 1, 16], true));
            cases.push(with_states(stack(cell, dtype, [9, 3, 32], true)));
            cases.push(stack(cell, dtype, [20, 1, 128], false));
            cases.push(stack(cell, dtype, [1, 2, 64], true));
        }
        cases.push(with_states(stack(cell, DType::Bf16, [5, 1, 40], true)));
        let mut clipped = with_states(stack(cell, DType::F32, [6, 2, 16], true));
        (clipped.first.clip, clipped.second.clip) = (0.3, 0.3);
        cases.push(clipped);
        cases.push(stack(cell, DType::F16, [12, 1, 256], true));
        cases.push(stack(cell, DType::F16, [4, 5, 24], true));
    }
    // What is left to the parts: layers of two sizes, one that runs backwards, units that no blocks share evenly.
    let mut widening = stack(LSTM, DType::F16, [6, 1, 32], true);
    let wide = stack(LSTM, DType::F16, [6, 1, 48], true);
    widening.second = wide.second;
    widening.projection.output = wide.projection.output;
    widening.projection.b = dense(DType::F16, &[32, 4 * 48]);
    cases.push(widening);
    let mut backwards = stack(GRU, DType::F32, [6, 1, 32], true);
    backwards.second.reverse[0] = true;
    cases.push(backwards);
    // Rows and sequences as two dimensions of the product.
    let mut apart = stack(LSTM, DType::F32, [5, 2, 16], false);
    let split = |view: &mut crate::View, [t, b]: [u32; 2]| *view = dense(view.dtype, &[t, b, view.shape[1]]);
    split(&mut apart.projection.a, [5, 2]);
    split(&mut apart.projection.output, [5, 2]);
    let matrix = apart.projection.b.clone();
    apart.projection.b.shape = [5].into_iter().chain(matrix.shape.iter().copied()).collect();
    apart.projection.b.strides = [0].into_iter().chain(matrix.strides.iter().copied()).collect();
    cases.push(apart);
    cases.into_iter().map(Kernel::RecurrentStack).collect()
}
