//! Reference kernel: shifted by the maximum, summed in f32 (f64 for f64).

use super::Softmax;
use crate::host::{cast, cast_mut, check_operands, clear_padding, match_type};
use crate::strided::{Nest, Number, Real, Widen, check_float, check_view, fold_run, largest, offset, sum};
use crate::{DType, Family, KernelError, View};

/// Evaluates an expression with `$t` and `$u` standing for the types of input and output.
macro_rules! with_types {
    ($softmax:expr, $t:ident, $u:ident => $body:expr) => {
        match $softmax.input.dtype {
            DType::F64 => {
                type $t = f64;
                type $u = f64;
                $body
            }
            input => match_type!(input, $t => match_type!($softmax.output.dtype, $u => $body, {
                F32: f32, F16: half::f16, Bf16: half::bf16
            } else Err(KernelError::Type("output"))), {
                F32: f32, F16: half::f16, Bf16: half::bf16
            } else Err(KernelError::Type("input"))),
        }
    };
}

impl Softmax {
    /// Loops over the rows (operands: input, output).
    pub(super) fn rows(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| d != usize::from(self.axis))
    }
}

impl Family for Softmax {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.input)?;
        check_view(&self.output)?;
        if self.input.shape != self.output.shape {
            return Err(KernelError::Shape("input and output differ"));
        }
        if usize::from(self.axis) >= self.input.rank() {
            return Err(KernelError::Parameter("axis"));
        }
        check_float(self.input.dtype, "input")?;
        check_float(self.output.dtype, "output")?;
        if (self.input.dtype == DType::F64) != (self.output.dtype == DType::F64) {
            return Err(KernelError::Type("output differs from input"));
        }
        Ok(())
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
        with_types!(self, T, U => self.rows_of::<T, U>(cast(input, 0)?, cast_mut(output, 1)?))?;
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
