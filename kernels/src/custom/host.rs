//! The check of the parameters.

use super::{Custom, Number};
use crate::{Family, KernelError, View};

/// Most bytes of scratch, so that a plan's sums of bytes cannot overflow.
const MAX_WORKSPACE: u64 = 1 << 40;

impl Family for Custom {
    fn check(&self) -> Result<(), KernelError> {
        if self.name.is_empty() || !self.name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(KernelError::Parameter("name of a custom operator"));
        }
        if self.inputs.is_empty() || self.outputs.is_empty() {
            return Err(KernelError::OperandCount);
        }
        for view in self.inputs.iter().chain(&self.outputs) {
            view.bytes()?;
            if !view.is_contiguous() {
                return Err(KernelError::Shape("layout of an operand"));
            }
            if view.dtype.is_narrow() {
                return Err(KernelError::Type("operand of a custom operator"));
            }
        }
        if self.attributes.iter().any(|number| matches!(number, Number::Real(real) if !real.is_finite())) {
            return Err(KernelError::Parameter("attribute"));
        }
        if self.workspace > MAX_WORKSPACE {
            return Err(KernelError::Parameter("workspace"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.inputs.get(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.outputs.get(index)
    }

    fn host_workspace(&self) -> u64 {
        self.workspace
    }

    /// Only the operator's author knows.
    fn flops(&self) -> u64 {
        0
    }

    /// There is no reference kernel.
    fn run(&self, _: &[&[u8]], _: &mut [&mut [u8]], _: &mut [u8]) -> Result<(), KernelError> {
        Err(KernelError::Parameter("a custom operator runs as a function that its session has"))
    }
}
