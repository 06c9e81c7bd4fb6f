//! Recurrent layers that exercise the family, for the tests of reference kernels and candidates.

use super::{Activation, ActivationKind, Activations, Cell, Recurrent};
use crate::{DType, Kernel, View};

pub(super) const RNN: Cell = Cell::Rnn;
pub(super) const LSTM: Cell = Cell::Lstm { input_forget: false };
pub(super) const GRU: Cell = Cell::Gru { linear_before_reset: true };
const GRU_BEFORE: Cell = Cell::Gru { linear_before_reset: false };

pub(super) fn dense(dtype: DType, shape: &[u32]) -> View {
    View::contiguous(dtype, shape).expect("a small shape")
}

/// Rank 4, dimension `order[i]` the i-th in memory.
fn permuted(dtype: DType, shape: &[u32; 4], order: [usize; 4]) -> View {
    let memory = dense(dtype, &order.map(|d| shape[d]));
    let mut view = dense(dtype, shape);
    for (&d, &stride) in order.iter().zip(&memory.strides) {
        view.strides[d] = stride;
    }
    view
}

/// A layer with ONNX's default activations and no optional operands.
pub(super) fn layer(cell: Cell, dtype: DType, [t, d, b, h]: [u32; 4]) -> Recurrent {
    use ActivationKind::{Sigmoid, Tanh};
    let kinds: &[ActivationKind] = match cell {
        Cell::Rnn => &[Tanh],
        Cell::Lstm { .. } => &[Sigmoid, Tanh, Tanh],
        Cell::Gru { .. } => &[Sigmoid, Tanh],
    };
    let functions: Activations = kinds.iter().map(|&kind| Activation::plain(kind)).collect();
    let state = dense(dtype, &[d, b, h]);
    Recurrent {
        cell,
        // The projection of a GPU variant stays f32.
        projected: dense(DType::F32, &[t, b, d, h * cell.gates()]),
        weights: dense(dtype, &[d, h * cell.gates(), h]),
        bias: None,
        initial_hidden: None,
        initial_cell: None,
        lengths: None,
        peepholes: None,
        sequence: dense(dtype, &[t, d, b, h]),
        hidden: state.clone(),
        cell_state: matches!(cell, Cell::Lstm { .. }).then_some(state),
        reverse: (0..d).map(|direction| direction == 1).collect(),
        activations: (0..d).map(|_| functions.clone()).collect(),
        clip: f32::INFINITY,
    }
}

/// The same with every optional operand that the cell may have.
fn with_everything(mut layer: Recurrent) -> Recurrent {
    let [t, d, b, h] = layer.extents();
    let dtype = layer.weights.dtype;
    let state = dense(dtype, &[d, b, h]);
    layer.initial_hidden = Some(state.clone());
    layer.lengths = Some(dense(DType::I32, &[b]));
    match layer.cell {
        Cell::Lstm { .. } => {
            layer.initial_cell = Some(state);
            layer.peepholes = Some(dense(dtype, &[d, 3 * h]));
        }
        Cell::Gru { linear_before_reset: true } => layer.bias = Some(dense(dtype, &[d, h])),
        _ => {}
    }
    // Sequence first, as ONNX's layout 1 has it.
    layer.sequence = permuted(dtype, &[t, d, b, h], [2, 0, 1, 3]);
    layer.projected = permuted(DType::F32, &[t, b, d, h * layer.cell.gates()], [1, 0, 2, 3]);
    layer
}

/// The same with other activations, one set for each direction.
fn activated(mut layer: Recurrent, sets: [&[(ActivationKind, f32, f32)]; 2]) -> Recurrent {
    for (functions, set) in layer.activations.iter_mut().zip(sets) {
        *functions = set.iter().map(|&(kind, alpha, beta)| Activation { kind, alpha, beta }).collect();
    }
    layer
}

/// Kernels of this family with odd sizes, types, options and activations.
pub fn cases() -> Vec<Kernel> {
    use ActivationKind::{
        Affine, Elu, HardSigmoid, LeakyRelu, Relu, ScaledTanh, Sigmoid, Softplus, Softsign, Tanh, ThresholdedRelu,
    };
    let mut cases = Vec::new();
    for cell in [RNN, LSTM, GRU, GRU_BEFORE] {
        for dtype in [DType::F32, DType::F16] {
            cases.push(layer(cell, dtype, [7, 1, 1, 5]));
            cases.push(layer(cell, dtype, [5, 2, 3, 33]));
            cases.push(layer(cell, dtype, [20, 1, 1, 128]));
            cases.push(with_everything(layer(cell, dtype, [8, 2, 3, 20])));
            cases.push(with_everything(layer(cell, dtype, [9, 1, 5, 67])));
            cases.push(layer(cell, dtype, [1, 1, 1, 128]));
        }
        cases.push(layer(cell, DType::Bf16, [6, 2, 2, 24]));
        cases.push(layer(cell, DType::F16, [12, 1, 1, 256]));
        cases.push(layer(cell, DType::F32, [4, 2, 2, 200]));
    }
    cases.push(layer(LSTM, DType::F32, [30, 1, 1, 256]));
    cases.push(layer(GRU, DType::F16, [5, 1, 1, 400]));
    cases.push(layer(LSTM, DType::F16, [3, 1, 1, 520]));
    // Too much for the registers of the smallest targets.
    cases.push(with_everything(layer(LSTM, DType::F16, [6, 2, 2, 450])));
    cases.push(with_everything(layer(LSTM, DType::Bf16, [6, 2, 2, 452])));
    cases.push(layer(LSTM, DType::F32, [4, 1, 1, 514]));
    cases.push(Recurrent { clip: 0.3, ..with_everything(layer(LSTM, DType::F32, [6, 2, 2, 24])) });
    cases.push(Recurrent { clip: 0.3, ..layer(GRU, DType::F32, [6, 1, 2, 24]) });
    cases.push(with_everything(layer(Cell::Lstm { input_forget: true }, DType::F32, [6, 1, 2, 40])));
    // One direction that runs backwards, a single step, and states inside larger buffers.
    let mut backwards = layer(LSTM, DType::F32, [6, 1, 1, 30]);
    backwards.reverse[0] = true;
    cases.push(backwards);
    let mut inside = with_everything(layer(LSTM, DType::F16, [1, 1, 2, 16]));
    for state in [&mut inside.hidden, inside.initial_hidden.as_mut().expect("a state")] {
        state.strides = dense(DType::F16, &[2, 4, 40]).strides;
        state.offset = 3;
    }
    cases.push(inside);
    let functions: [[(ActivationKind, f32, f32); 3]; 4] = [
        [(HardSigmoid, 0.3, 0.4), (Softsign, 0.0, 0.0), (ScaledTanh, 0.8, 0.7)],
        [(Affine, 0.4, 0.1), (LeakyRelu, 0.2, 0.0), (Elu, 0.9, 0.0)],
        [(Sigmoid, 0.0, 0.0), (Relu, 0.0, 0.0), (ThresholdedRelu, 0.3, 0.0)],
        [(Sigmoid, 0.0, 0.0), (Softplus, 0.0, 0.0), (Tanh, 0.0, 0.0)],
    ];
    for pair in functions.windows(2) {
        for cell in [RNN, LSTM, GRU] {
            let count = cell.activations();
            cases.push(activated(layer(cell, DType::F32, [4, 2, 1, 12]), [&pair[0][..count], &pair[1][..count]]));
        }
    }
    cases.into_iter().map(Kernel::Recurrent).collect()
}
