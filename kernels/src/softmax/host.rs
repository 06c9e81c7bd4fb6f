//! Reference kernel: shifted by the maximum, summed in f32 (f64 for f64).

use super::Softmax;
use crate::host::{cast, cast_mut, check_operands, clear_padding};
use crate::strided::{
    Nest, Number, Real, Widen, check_floats, check_same_shape, fold_run, largest, offset, sum, with_floats,
};
use crate::{Family, KernelError, View};

impl Softmax {
    /// Loops over the rows (operands: input, output).
    pub(super) fn rows(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| d != usize::from(self.axis))
    }
}

impl Family for Softmax {
    fn check(&self) -> Result<(), KernelError> {
        check_same_shape(&self.input, &self.output)?;
        if usize::from(self.axis) >= self.input.rank() {
            return Err(KernelError::Parameter("axis"));
        }
        check_floats(&self.input, &self.output)
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
        with_floats!(self.input.dtype, self.output.dtype, T, U => self.rows_of::<T, U>(cast(input, 0)?, cast_mut(output, 1)?))?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

impl Softmax {
    fn rows_of<T, U>(&self, input: &[T], output: &mut [U]) -> Result<(), KernelError>
    where
        T: Widen<Wide: Real>,
        U: Widen<Wide = T::Wide>,
    {
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
                output[offset(to, write, i)] = U::narrow(y);
            }
        }
        Ok(())
    }
}
