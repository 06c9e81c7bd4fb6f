//! Fused pointwise chains: one pass over memory for any number of element-wise operators with broadcasting.

#[cfg(feature = "codegen")]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
mod interpret;
pub(crate) mod math;
mod program;

pub use interpret::BLOCK;
pub(crate) use interpret::{Register, Replacement};
pub use program::{Binary, Class, Instruction, MAX_INSTRUCTIONS, Program, Unary};

use crate::View;
use serde::{Deserialize, Serialize};

/// Most inputs of one pointwise kernel.
pub const MAX_POINTWISE_INPUTS: usize = 7;

/// `output[i] = program(inputs[0][i], …)`. Every input view has the output's extents; broadcasting is stride 0.
///
/// Operands: inputs in order; one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pointwise {
    /// Where results go; any element type.
    pub output: View,
    /// One view for each program input, all with the output's extents.
    pub inputs: heapless::Vec<View, MAX_POINTWISE_INPUTS>,
    /// What is computed.
    pub program: Program,
}

/// What a convolution or matrix product does to its accumulator before storing it.
///
/// Value stored: `program(acc + bias[channel], extras…)`, or `acc + bias[channel]` without a program.
/// Extra operands follow the bias in the input list; their views have the output's extents (stride 0 broadcasts).
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct Epilogue {
    /// Whether there is a bias operand: f32, one value for each output channel (column for matrix products).
    pub bias: bool,
    /// Class `F32`; input 0 is accumulator plus bias, inputs 1.. are `extras`.
    pub program: Option<Program>,
    /// Views of further inputs, for example a residual.
    pub extras: heapless::Vec<View, 3>,
}
