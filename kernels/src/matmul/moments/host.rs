//! Reference kernel: a residual into the workspace as f32, where its rows are normalised; the product with results of f32 there as well, where
//! moments are added up; then the results to where they belong.

use super::{MomentsMatMul, NormalizedResidual, PART};
use crate::host::{cast, cast_mut, check_operands, epilogue::is_f32_class, stages};
use crate::matmul::{MatMul, widened};
use crate::pointwise::Pointwise;
use crate::strided::Real;
use crate::{DType, Family, KernelError, MAX_INPUTS, View};

/// Mean and variance of row `number` of `rows` from the parts of their moments; the row has `columns` elements.
pub(in crate::matmul) fn joined(given: &[f32], number: usize, rows: usize, columns: usize, center: bool) -> [f32; 2] {
    let parts = given.chunks_exact(2).skip(number).step_by(rows.max(1));
    let [sum, squares] = parts.fold([0.0; 2], |[sum, squares], part| match part {
        [of_sum, of_squares] => [sum + of_sum, squares + of_squares],
        _ => [sum, squares],
    });
    let mean = if center { sum / columns as f32 } else { 0.0 };
    [mean, (squares / columns as f32 - mean * mean).max(0.0)]
}

/// The kernels that the reference kernel runs.
struct Stages {
    /// The residual to f32.
    residual: Option<Pointwise>,
    /// With results of f32, and such a residual.
    product: MatMul,
    /// The results to the output.
    copy: Pointwise,
}

/// Bytes in the workspace of what a kernel stores there.
fn bytes(view: &View) -> u64 {
    stages::padded(view.bytes().unwrap_or(u64::MAX))
}

impl MomentsMatMul {
    /// The product with the moments of its rows if `leaves`, and with a normalised residual if any.
    ///
    /// # Errors
    /// Where its columns are not whole parts.
    pub fn new(product: MatMul, leaves: bool, residual: Option<NormalizedResidual>) -> Result<Self, KernelError> {
        let moments = if leaves { Some(Self::view(&product.output)?) } else { None };
        Ok(Self { product, moments, residual })
    }

    /// Of the moments of these results.
    fn view(output: &View) -> Result<View, KernelError> {
        let columns = output.shape.last().copied().filter(|&columns| columns > 0 && columns.is_multiple_of(PART));
        let columns = columns.ok_or(KernelError::Shape("columns with moments"))?;
        let rows = u32::try_from(output.elements() / u64::from(columns)).map_err(|_| KernelError::Shape("size"))?;
        View::contiguous(DType::F32, &[columns / PART, rows, 2])
    }

    /// Numbers of the residual's scale, shift and moments among the inputs.
    pub(crate) fn residual_inputs(&self) -> [Option<usize>; 3] {
        let Some(residual) = &self.residual else { return [None; 3] };
        let mut number = self.product.inputs();
        [residual.scale, residual.shift, true].map(|is_there| {
            let input = is_there.then_some(number);
            number += usize::from(is_there);
            input
        })
    }

    fn stages(&self) -> Result<Stages, KernelError> {
        let output = &self.product.output;
        let view = View::contiguous(DType::F32, &output.shape)?;
        let copy = widened::conversion(view.clone(), output.clone());
        let mut product = MatMul { output: view.clone(), ..self.product.clone() };
        let Some(NormalizedResidual { extra, .. }) = self.residual else {
            return Ok(Stages { residual: None, product, copy });
        };
        let extra = product.epilogue.extras.get_mut(usize::from(extra));
        let extra = extra.ok_or(KernelError::Parameter("number of the residual"))?;
        if !is_f32_class(extra.dtype) {
            return Err(KernelError::Type("residual"));
        }
        let residual = widened::conversion(core::mem::replace(extra, view.clone()), view);
        Ok(Stages { residual: Some(residual), product, copy })
    }

    /// Normalises rows of f32 in place. `parameters` are the operands behind the product's.
    fn normalize(&self, residual: &NormalizedResidual, x: &mut [u8], parameters: &[&[u8]]) -> Result<(), KernelError> {
        let first = self.product.inputs();
        let mut operands = parameters.iter().zip(first..).map(|(bytes, number)| cast::<f32>(bytes, number));
        let mut next = |is_there: bool| if is_there { operands.next().transpose() } else { Ok(None) };
        let (scale, shift) = (next(residual.scale)?, next(residual.shift)?);
        let given = next(true)?.ok_or(KernelError::OperandCount)?;
        let columns = self.product.output.shape.last().map_or(1, |&extent| extent as usize).max(1);
        let rows = usize::try_from(self.product.output.elements()).unwrap_or(usize::MAX) / columns;
        let at = |values: Option<&[f32]>, column: usize, otherwise: f32| {
            values.and_then(|values| values.get(column)).copied().unwrap_or(otherwise)
        };
        for (number, row) in cast_mut::<f32>(x, 0)?.chunks_exact_mut(columns).take(rows).enumerate() {
            let [mean, variance] = joined(given, number, rows, columns, residual.center);
            let inverse = 1.0 / Real::sqrt(variance + residual.epsilon);
            for (column, x) in row.iter_mut().enumerate() {
                *x = (*x - mean) * inverse * at(scale, column, 1.0) + at(shift, column, 0.0);
            }
        }
        Ok(())
    }
}

impl Family for MomentsMatMul {
    fn check(&self) -> Result<(), KernelError> {
        self.product.check()?;
        if !is_f32_class(self.product.output.dtype) {
            return Err(KernelError::Type("results with moments"));
        }
        let view = Self::view(&self.product.output)?;
        if self.moments.as_ref().is_some_and(|moments| *moments != view) {
            return Err(KernelError::Shape("moments"));
        }
        if self.moments.is_none() && self.residual.is_none() {
            return Err(KernelError::Parameter("a product without moments"));
        }
        let Stages { residual, product, copy } = self.stages()?;
        residual.map_or(Ok(()), |residual| residual.check())?;
        product.check()?;
        copy.check()
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.product.input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        match index {
            0 => self.product.output(0),
            1 => self.moments.as_ref(),
            _ => None,
        }
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        let output = &self.product.output;
        let [scale, shift, given] = self.residual_inputs();
        if given == Some(index) {
            return Self::view(output)?.bytes().map(Some);
        }
        if [scale, shift].contains(&Some(index)) {
            return Ok(output.shape.last().map(|&columns| u64::from(columns) * size_of::<f32>() as u64));
        }
        self.product.input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        self.stages().map_or(u64::MAX, |Stages { residual, product, copy }| {
            let of_residual = residual.as_ref().map_or(0, |residual| bytes(&residual.output));
            let stages = [product.host_workspace(), copy.host_workspace()].into_iter();
            let stages = stages.chain(residual.as_ref().map(Pointwise::host_workspace)).max().unwrap_or(0);
            bytes(&product.output).saturating_add(of_residual).saturating_add(stages)
        })
    }

    fn flops(&self) -> u64 {
        let of_each = u64::from(self.moments.is_some()) * 3 + u64::from(self.residual.is_some()) * 4;
        self.product.flops().saturating_add(self.product.output.elements().saturating_mul(of_each))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let Stages { residual: to_f32, product, copy } = self.stages()?;
        let room = |view: &View| usize::try_from(bytes(view)).unwrap_or(usize::MAX);
        let too_small = KernelError::OperandCount;
        let (values, rest) = workspace.split_at_mut_checked(room(&product.output)).ok_or(too_small)?;
        let (of_product, parameters) =
            inputs.split_at_checked(self.product.inputs()).ok_or(KernelError::OperandCount)?;
        let mut operands = heapless::Vec::<&[u8], MAX_INPUTS>::from_slice(of_product).unwrap_or_default();
        let (x, rest) = match &to_f32 {
            Some(to_f32) => rest.split_at_mut_checked(room(&to_f32.output)).ok_or(KernelError::OperandCount)?,
            None => (&mut [][..], rest),
        };
        if let (Some(to_f32), Some(residual)) = (&to_f32, &self.residual) {
            let number = 2 + usize::from(product.epilogue.bias) + usize::from(residual.extra);
            let operand = operands.get_mut(number).ok_or(KernelError::OperandCount)?;
            to_f32.run(&[*operand], &mut [&mut *x], rest)?;
            self.normalize(residual, x, parameters)?;
            *operand = x;
        }
        product.run(&operands, &mut [&mut *values], rest)?;
        let (results, others) = outputs.split_first_mut().ok_or(KernelError::OperandCount)?;
        copy.run(&[&*values], &mut [&mut **results], rest)?;
        let ([moments], Some(view)) = (others, &self.moments) else { return Ok(()) };
        let [_, rows, _] = *view.shape.as_slice() else { return Err(KernelError::Shape("moments")) };
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
