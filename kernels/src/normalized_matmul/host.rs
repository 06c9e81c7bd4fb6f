//! Host twin: one twin after the other.

use super::NormalizedMatMul;
use crate::host::check_operands;
use crate::{Family, KernelError, MAX_INPUTS, View};

/// Alignment of the workspace's parts.
const ALIGNMENT: u64 = 64;

impl NormalizedMatMul {
    /// Operands of the normalisation.
    pub(super) fn normalize_inputs(&self) -> usize {
        1 + usize::from(self.normalize.scale) + usize::from(self.normalize.shift)
    }

    /// The operand of the product that operand `index` is; `None` for those of the normalisation.
    fn product_input(&self, index: usize) -> Option<usize> {
        index.checked_sub(self.normalize_inputs()).map(|further| further + 1)
    }

    /// Bytes of the workspace that hold the normalised rows.
    fn rows_bytes(&self) -> u64 {
        if self.keep {
            return 0;
        }
        let bytes = self.normalize.output.bytes().unwrap_or(0);
        bytes.checked_next_multiple_of(ALIGNMENT).unwrap_or(bytes)
    }
}

impl Family for NormalizedMatMul {
    fn name(&self) -> &'static str {
        "normalized_matmul"
    }

    fn check(&self) -> Result<(), KernelError> {
        self.normalize.check()?;
        self.product.check()?;
        let (rows, a) = (&self.normalize.output, &self.product.a);
        if !rows.is_contiguous() || !a.is_contiguous() || rows.elements() != a.elements() {
            return Err(KernelError::Shape("the product does not read the normalised rows"));
        }
        if rows.dtype != a.dtype {
            return Err(KernelError::Type("normalised rows"));
        }
        let depth = a.shape.last().copied().unwrap_or(1);
        if u64::from(depth).checked_mul(self.normalize.sets.into()) != Some(a.elements()) {
            return Err(KernelError::Parameter("a row of the product is not a set of the normalisation"));
        }
        // Operands are counted up to the most that a kernel has.
        let extras = self.product.epilogue.extras.len() + usize::from(self.product.epilogue.bias);
        if self.normalize_inputs() + 1 + extras > MAX_INPUTS {
            return Err(KernelError::OperandCount);
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        match self.product_input(index) {
            Some(index) => self.product.input(index),
            None => self.normalize.input(index),
        }
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => self.product.output(0),
            1 if self.keep => Some(&self.normalize.output),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        match self.product_input(index) {
            Some(index) => self.product.input_bytes(index),
            None => self.normalize.input_bytes(index),
        }
    }

    fn host_workspace(&self) -> u64 {
        self.rows_bytes().saturating_add(self.normalize.host_workspace().max(self.product.host_workspace()))
    }

    fn flops(&self) -> u64 {
        self.normalize.flops().saturating_add(self.product.flops())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let (of_normalize, of_product) =
            inputs.split_at_checked(self.normalize_inputs()).ok_or(KernelError::OperandCount)?;
        let (own, scratch) =
            workspace.split_at_mut_checked(self.rows_bytes() as usize).ok_or(KernelError::OperandCount)?;
        let (output, rows) = match outputs {
            [output] => (output, own),
            [output, rows] => (output, &mut **rows),
            _ => return Err(KernelError::OperandCount),
        };
        let bytes = self.normalize.output.bytes()? as usize;
        let rows = rows.get_mut(..bytes).ok_or(KernelError::OperandCount)?;
        let part = |bytes: u64| bytes as usize;
        let needed = part(self.normalize.host_workspace());
        self.normalize.run(of_normalize, &mut [&mut *rows], scratch.get_mut(..needed).unwrap_or(&mut []))?;
        let mut operands: heapless::Vec<&[u8], MAX_INPUTS> = heapless::Vec::new();
        for operand in core::iter::once(&*rows).chain(of_product.iter().copied()) {
            operands.push(operand).map_err(|_| KernelError::OperandCount)?;
        }
        let needed = part(self.product.host_workspace());
        self.product.run(&operands, &mut [&mut **output], scratch.get_mut(..needed).unwrap_or(&mut []))
    }
}
