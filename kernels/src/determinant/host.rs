//! Reference kernel.

use super::Determinant;
use crate::host::{Element, cast, cast_mut, check_operands, with_plain};
use crate::strided::{check_float, check_view, offset};
use crate::{Family, KernelError, View};

impl Family for Determinant {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.input)?;
        check_view(&self.output)?;
        match (self.input.shape.as_slice(), self.output.shape.as_slice()) {
            (&[matrices, rows, columns], &[results]) if matrices == results && rows == columns => {}
            _ => return Err(KernelError::Shape("matrices and their determinants")),
        }
        if self.input.dtype != self.output.dtype {
            return Err(KernelError::Type("output of determinants"));
        }
        check_float(self.input.dtype, "input")
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        let n = u64::from(self.input.shape.get(1).copied().unwrap_or(0));
        n.saturating_mul(n).saturating_mul(size_of::<f64>() as u64)
    }

    fn flops(&self) -> u64 {
        let n = u64::from(self.input.shape.get(1).copied().unwrap_or(0));
        self.input.elements().saturating_mul(n) / 3 * 2
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let n = self.input.shape[1] as usize;
        let matrix = &mut cast_mut::<f64>(workspace, 2)?[..n * n];
        with_plain!(self.input.dtype, T => {
            let (input, output) = (cast::<T>(input, 0)?, cast_mut::<T>(output, 1)?);
            let [step, row_step, column_step] = [0, 1, 2].map(|d| i64::from(self.input.strides[d]));
            for number in 0..self.output.shape[0] as usize {
                let start = offset(self.input.offset as usize, step, number);
                for (i, to) in matrix.iter_mut().enumerate() {
                    *to = input[offset(offset(start, row_step, i / n), column_step, i % n)].to_f64();
                }
                let to = offset(self.output.offset as usize, self.output.strides[0].into(), number);
                output[to] = T::from_f64(determinant(matrix, n));
            }
        });
        Ok(())
    }
}

/// Of a row-major matrix, which is used up.
fn determinant(matrix: &mut [f64], n: usize) -> f64 {
    let mut product = 1.0;
    for k in 0..n {
        let mut best = k;
        for row in k + 1..n {
            if matrix[row * n + k].abs() > matrix[best * n + k].abs() {
                best = row;
            }
        }
        let pivot = matrix[best * n + k];
        product *= if best == k { pivot } else { -pivot };
        // Without a pivot nothing is left to eliminate in the column.
        if pivot == 0.0 {
            continue;
        }
        for column in k..n {
            matrix.swap(k * n + column, best * n + column);
        }
        for row in k + 1..n {
            let factor = matrix[row * n + k] / pivot;
            for column in k + 1..n {
                matrix[row * n + column] -= factor * matrix[k * n + column];
            }
        }
    }
    product
}
