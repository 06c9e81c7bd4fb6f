//! Host twin: shifted by the maximum, summed in f32 (f64 for f64).

use super::Softmax;
use crate::host::{cast, cast_mut, check_operands, clear_lanes};
use crate::strided::{Nest, Number, Real, Widen, check_alike, check_float, fold_run, largest, offset, sum, with_float};
use crate::{Family, KernelError, View};

impl Softmax {
    /// Loops over the rows (operands: input, output).
    pub(super) fn rows(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| d != usize::from(self.axis))
    }
}

impl Family for Softmax {
    fn name(&self) -> &'static str {
        "softmax"
    }

    fn check(&self) -> Result<(), KernelError> {
        check_alike(&self.input, &self.output)?;
        if usize::from(self.axis) >= self.input.rank() {
            return Err(KernelError::Parameter("axis"));
        }
        check_float(self.input.dtype, "input")
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.input.elements().saturating_mul(5)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        with_float!(self.input.dtype, "input", T => self.rows_of::<T>(cast(input, 0)?, cast_mut(output, 1)?))?;
        clear_lanes(&self.output, output);
        Ok(())
    }
}

impl Softmax {
    fn rows_of<T: Widen<Wide: Real>>(&self, input: &[T], output: &mut [T]) -> Result<(), KernelError> {
        let axis = usize::from(self.axis);
        let count = self.input.shape[axis] as usize;
        let (read, write) = (i64::from(self.input.strides[axis]), i64::from(self.output.strides[axis]));
        if count == 0 {
            return Ok(());
        }
        for [from, to] in self.rows().walk([self.input.offset as usize, self.output.offset as usize]) {
            let row = (input, from, read, count);
            let (top, _) = fold_run(row, (T::Wide::LOWEST, T::Wide::ZERO), largest(), |x: T| x.widen());
            let total = fold_run(row, (T::Wide::ZERO, T::Wide::ZERO), sum(), |x: T| (x.widen() - top).exp());
            let total = T::Wide::settle(total);
            let logarithm = total.ln();
            for i in 0..count {
                let x = input[offset(from, read, i)].widen() - top;
                let y = if self.log { x - logarithm } else { x.exp() / total };
                output[offset(to, write, i)] = T::narrow(y);
            }
        }
        Ok(())
    }
}
