//! Reference kernel: row after row.

use super::Cumulative;
use crate::host::{cast, cast_mut, check_operands, check_plain, clear_padding};
use crate::strided::{Nest, Number, Widen, check_alike, offset, with_number};
use crate::{DType, Family, KernelError, View};

impl Family for Cumulative {
    fn check(&self) -> Result<(), KernelError> {
        check_alike(&self.input, &self.output)?;
        if usize::from(self.axis) >= self.input.rank() {
            return Err(KernelError::Parameter("axis"));
        }
        if self.input.dtype == DType::Bool {
            return Err(KernelError::Type("running sums"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.input.elements()
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        with_number!(self.input.dtype, "running sums", T => {
            self.rows_of::<T>(cast(input, 0)?, cast_mut(output, 1)?);
            Ok(())
        })?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

impl Cumulative {
    /// Loops over the rows (operands: input, output).
    pub(super) fn rows(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| d != usize::from(self.axis))
    }

    fn rows_of<T: Widen>(&self, input: &[T], output: &mut [T]) {
        let axis = usize::from(self.axis);
        let count = self.input.shape[axis] as usize;
        let (read, write) = (i64::from(self.input.strides[axis]), i64::from(self.output.strides[axis]));
        if count == 0 {
            return;
        }
        for [from, to] in self.rows().walk([self.input.offset as usize, self.output.offset as usize]) {
            // A sum carries its rounding error; a product has none worth carrying.
            let mut total = (if self.product { T::Wide::ONE } else { T::Wide::ZERO }, T::Wide::ZERO);
            for i in 0..count {
                let i = if self.reverse { count - 1 - i } else { i };
                let x = input[offset(from, read, i)].widen();
                let next =
                    if self.product { (total.0.times(x), T::Wide::ZERO) } else { T::Wide::compensated(total, x) };
                let shown = if self.exclusive { total } else { next };
                output[offset(to, write, i)] = T::narrow(T::Wide::settle(shown));
                total = next;
            }
        }
    }
}
