//! Operators from outside of Floe. What one computes, a function that the caller registers does, or CUDA that is compiled into the
//! plan.

#[cfg(any(test, feature = "codegen"))]
pub(crate) mod cases;
#[cfg(feature = "codegen")]
mod cuda;
mod host;
#[cfg(test)]
mod tests;

#[cfg(feature = "codegen")]
pub use cases::example;
#[cfg(feature = "codegen")]
pub use cuda::{Code, Constant};

use crate::{MAX_INPUTS, MAX_OUTPUTS, View};
use serde::{Deserialize, Serialize};

/// Longest name of an operator, with its domain, in bytes.
pub const MAX_NAME: usize = 95;
/// Most numbers in the attributes of an operator.
pub const MAX_ATTRIBUTES: usize = 32;

/// A number of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Number {
    /// An integer, or the number of a choice.
    Integer(i64),
    /// A number; finite.
    Real(f32),
}

/// An operator from outside of Floe. It has no reference kernel: [`Family::run`](crate::Family::run) refuses it, and a session
/// calls the function that is registered under its name.
///
/// Operands: inputs and outputs, row-major without gaps; workspace where it needs any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Custom {
    /// Its domain and name, `DOMAIN.NAME`.
    pub name: heapless::String<MAX_NAME>,
    /// Inputs, one at least.
    pub inputs: heapless::Vec<View, MAX_INPUTS>,
    /// Outputs, one at least.
    pub outputs: heapless::Vec<View, MAX_OUTPUTS>,
    /// All numbers of its attributes, in the order of its description.
    pub attributes: heapless::Vec<Number, MAX_ATTRIBUTES>,
    /// Bytes of scratch that its function on the host needs.
    pub workspace: u64,
}
