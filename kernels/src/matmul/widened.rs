//! Matrices of other floats as f32, in the workspaces of reference kernels.

use crate::host::stages;
use crate::pointwise::{Class, Instruction, Pointwise, Program};
use crate::{DType, KernelError, View};

/// From one type of float to another.
pub(super) fn conversion(from: View, output: View) -> Pointwise {
    let program = Program { class: Class::F32, inputs: 1, instructions: [Instruction::Input(0)].into_iter().collect() };
    Pointwise { output, inputs: [from].into_iter().collect(), program }
}

/// A matrix, or a batch of them, as f32 and contiguous, and how it comes there.
pub(super) struct Widened {
    pub view: View,
    pub copy: Pointwise,
}

impl Widened {
    /// Of a matrix or a batch of them, with room for `more` further steps along dimension `along`.
    pub fn new(matrix: &View, along: usize, more: u32) -> Result<Self, KernelError> {
        let mut shape = matrix.shape.clone();
        let extent = shape.get_mut(along).ok_or(KernelError::Shape("rank"))?;
        *extent = extent.checked_add(more).ok_or(KernelError::Shape("size"))?;
        let view = View::contiguous(DType::F32, &shape)?;
        let copy = conversion(matrix.clone(), View { shape: matrix.shape.clone(), ..view.clone() });
        Ok(Self { view, copy })
    }

    /// Bytes in the workspace.
    pub fn bytes(&self) -> u64 {
        stages::padded(self.view.bytes().unwrap_or(u64::MAX))
    }
}
