//! Recurrent layers: ONNX `RNN`, `LSTM` and `GRU` after their input projection.

mod activation;
#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(feature = "codegen")]
mod resident;
pub mod stack;
#[cfg(test)]
mod tests;

pub use activation::{Activation, ActivationKind};

use crate::View;
use serde::{Deserialize, Serialize};

/// Activations of one direction: f of the gates, g of the candidate, h of the output (those that the cell has).
pub type Activations = heapless::Vec<Activation, 3>;

/// What a cell computes. Gates lie in ONNX's order in every operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cell {
    /// Gate i: `h' = f(i)`.
    Rnn,
    /// Gates i, o, f, c: `c' = f(f)·c + f(i)·g(c)`, `h' = f(o)·h(c')`.
    Lstm {
        /// The forget gate is one minus the input gate (ONNX `input_forget`).
        input_forget: bool,
    },
    /// Gates z, r, h: `h' = (1 − f(z))·g(h) + f(z)·h`.
    Gru {
        /// The reset gate scales the product with the weights (cuDNN, PyTorch), not the state that goes into it.
        linear_before_reset: bool,
    },
}

impl Cell {
    /// Number of gates, G.
    pub const fn gates(self) -> u32 {
        match self {
            Self::Rnn => 1,
            Self::Lstm { .. } => 4,
            Self::Gru { .. } => 3,
        }
    }

    /// Number of activations of a direction.
    pub const fn activations(self) -> usize {
        match self {
            Self::Rnn => 1,
            Self::Lstm { .. } => 3,
            Self::Gru { .. } => 2,
        }
    }
}

/// A recurrent layer of T steps, B sequences, D directions and H units; formulas as the ONNX operators define them.
///
/// The input projection `X·Wᵀ` with every bias that can be added to it is an operand, because one matrix product
/// computes it for all steps at once. State and sums are f32; element types are f32, f16 or bf16.
///
/// Operands: `projected`, `weights`, then those of `bias`, `initial_hidden`, `initial_cell`, `lengths`, `peepholes` that are
/// present; outputs `sequence`, `hidden` and, for LSTM, `cell_state`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recurrent {
    /// What a cell computes.
    pub cell: Cell,
    /// Sums of the gates before the recurrent part, `[T, B, D, G·H]`.
    pub projected: View,
    /// Recurrent weights, `[D, G·H, H]`.
    pub weights: View,
    /// Recurrent bias of the candidate of a GRU with `linear_before_reset`, `[D, H]`.
    pub bias: Option<View>,
    /// State before the first step, `[D, B, H]`; zero where absent.
    pub initial_hidden: Option<View>,
    /// Cell state of an LSTM before the first step, `[D, B, H]`; zero where absent.
    pub initial_cell: Option<View>,
    /// Steps of each sequence, `[B]`, i32, clamped to `0..=T`. Outputs past them are zero, states stay; an empty
    /// sequence gives zero states, as in ONNX Runtime.
    pub lengths: Option<View>,
    /// Weights of the cell state in the gates i, o, f of an LSTM, `[D, 3·H]`.
    pub peepholes: Option<View>,
    /// State after every step, `[T, D, B, H]`.
    pub sequence: View,
    /// State after the last step, `[D, B, H]`.
    pub hidden: View,
    /// Cell state of an LSTM after the last step, `[D, B, H]`.
    pub cell_state: Option<View>,
    /// Whether a direction runs from the last step to the first; one entry a direction.
    pub reverse: heapless::Vec<bool, 2>,
    /// Activations; one entry a direction.
    pub activations: heapless::Vec<Activations, 2>,
    /// Bound on the magnitude of what goes into the activations of the gates; infinite for none. As in ONNX Runtime
    /// it does not apply to the cell state of an LSTM.
    pub clip: f32,
}

impl Recurrent {
    /// The input operands in order.
    fn operands(&self) -> impl Iterator<Item = &View> {
        let optional = [&self.bias, &self.initial_hidden, &self.initial_cell, &self.lengths, &self.peepholes];
        [&self.projected, &self.weights].into_iter().chain(optional.into_iter().flatten())
    }

    /// Extents T, D, B, H of a checked layer.
    fn extents(&self) -> [u32; 4] {
        core::array::from_fn(|d| self.sequence.shape.get(d).copied().unwrap_or(0))
    }
}
