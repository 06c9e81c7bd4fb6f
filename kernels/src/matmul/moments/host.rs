//! Reference kernel: the product's into the workspace as f32, where moments are added up, then its results to where they belong.

use super::{MomentsMatMul, PART};
use crate::host::{cast, cast_mut, check_operands, epilogue::is_f32_class, stages};
use crate::matmul::{MatMul, widened};
use crate::pointwise::Pointwise;
use crate::{DType, Family, KernelError, View};

impl MomentsMatMul {
    /// The product with the moments of its rows.
    ///
    /// # Errors
    /// Where its columns are not whole parts.
    pub fn new(product: MatMul) -> Result<Self, KernelError> {
        let moments = Self::view(&product.output)?;
        Ok(Self { product, moments })
    }

    /// Of the moments of these results.
    fn view(output: &View) -> Result<View, KernelError> {
        let columns = output.shape.last().copied().filter(|&columns| columns > 0 && columns.is_multiple_of(PART));
        let columns = columns.ok_or(KernelError::Shape("columns with moments"))?;
        let rows = u32::try_from(output.elements() / u64::from(columns)).map_err(|_| KernelError::Shape("size"))?;
        View::contiguous(DType::F32, &[columns / PART, rows, 2])
    }

    /// The product with results of f32, and how these come to its output.
    fn widened(&self) -> Result<(MatMul, Pointwise), KernelError> {
        let output = &self.product.output;
        let view = View::contiguous(DType::F32, &output.shape)?;
        let copy = widened::conversion(view.clone(), output.clone());
        Ok((MatMul { output: view, ..self.product.clone() }, copy))
    }
}

impl Family for MomentsMatMul {
    fn check(&self) -> Result<(), KernelError> {
        self.product.check()?;
        if !is_f32_class(self.product.output.dtype) {
            return Err(KernelError::Type("results with moments"));
        }
        if self.moments != Self::view(&self.product.output)? {
            return Err(KernelError::Shape("moments"));
        }
        let (product, copy) = self.widened()?;
        product.check()?;
        copy.check()
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.product.input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => self.product.output(0),
            1 => Some(&self.moments),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        self.product.input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        self.widened().map_or(u64::MAX, |(product, copy)| {
            let stages = product.host_workspace().max(copy.host_workspace());
            stages::padded(product.output.bytes().unwrap_or(u64::MAX)).saturating_add(stages)
        })
    }

    fn flops(&self) -> u64 {
        self.product.flops().saturating_add(self.product.output.elements().saturating_mul(3))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let [results, moments] = outputs else { return Err(KernelError::OperandCount) };
        let (product, copy) = self.widened()?;
        let bytes = usize::try_from(stages::padded(product.output.bytes()?)).unwrap_or(usize::MAX);
        let (values, rest) = workspace.split_at_mut_checked(bytes).ok_or(KernelError::OperandCount)?;
        product.run(inputs, &mut [&mut *values], rest)?;
        copy.run(&[&*values], &mut [&mut **results], rest)?;
        let [_, rows, _] = *self.moments.shape.as_slice() else { return Err(KernelError::Shape("moments")) };
        let width = self.product.output.shape.last().map_or(1, |&extent| extent as usize).max(1);
        let moments = cast_mut::<f32>(moments, 1)?;
        for (row, values) in cast::<f32>(values, 0)?.chunks_exact(width).take(rows as usize).enumerate() {
            for (part, values) in values.chunks_exact(PART as usize).enumerate() {
                let at = (part * rows as usize + row) * 2;
                if let Some([sum, squares]) = moments.get_mut(at..at + 2) {
                    (*sum, *squares) = (values.iter().sum(), values.iter().map(|x| x * x).sum());
                }
            }
        }
        Ok(())
    }
}
