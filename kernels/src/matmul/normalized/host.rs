//! Reference kernel: both factors into the workspace as f32, rows normalised there, then the product's reference kernel.
//!
//! The mean is one more step of the sum over k: `−mean / deviation` in a, the sums in b.

use super::NormalizedMatMul;
use crate::host::{cast, cast_mut, check_operands, epilogue::is_f32_class};
use crate::matmul::{
    MatMul,
    moments::{PART, joined},
    widened::Widened,
};
use crate::strided::Real;
use crate::{Family, KernelError, MAX_INPUTS, View};

impl NormalizedMatMul {
    /// Number of the sums among the inputs.
    pub(crate) fn sums_input(&self) -> Option<usize> {
        self.center.then(|| self.product.inputs())
    }

    /// Number of the given moments among the inputs.
    pub(crate) fn moments_input(&self) -> Option<usize> {
        self.given.then(|| self.product.inputs() + usize::from(self.center))
    }

    /// Both factors as f32, and the product of them.
    fn widened(&self) -> Result<(Widened, Widened, MatMul), KernelError> {
        let MatMul { a, b, output, epilogue } = &self.product;
        let last = output.rank().checked_sub(1).ok_or(KernelError::Shape("rank"))?;
        let more = u32::from(self.center);
        // One matrix for all batches.
        let mut matrix = b.clone();
        matrix.shape.iter_mut().take(last.saturating_sub(1)).for_each(|extent| *extent = 1);
        let (a, b) = (Widened::new(a, last, more)?, Widened::new(&matrix, last.saturating_sub(1), more)?);
        let mut repeated = b.view.clone();
        let batch = repeated.shape.iter_mut().zip(&mut repeated.strides).zip(&output.shape);
        batch.take(last.saturating_sub(1)).for_each(|((extent, stride), &all)| (*extent, *stride) = (all, 0));
        let product = MatMul { a: a.view.clone(), b: repeated, output: output.clone(), epilogue: epilogue.clone() };
        Ok((a, b, product))
    }
}

impl Family for NormalizedMatMul {
    fn check(&self) -> Result<(), KernelError> {
        let MatMul { a, b, output, .. } = &self.product;
        self.product.check()?;
        if ![a, b, output].into_iter().all(|view| is_f32_class(view.dtype)) {
            return Err(KernelError::Type("normalised factors"));
        }
        let batches = b.rank() - 2;
        let shared = |(&extent, &stride): (&u32, &i32)| extent == 1 || stride == 0;
        if !b.shape.iter().zip(&b.strides).take(batches).all(shared) || a.shape.last() == Some(&0) {
            return Err(KernelError::Shape("one matrix for all batches"));
        }
        if self.given && !a.shape.last().is_some_and(|columns| columns.is_multiple_of(PART)) {
            return Err(KernelError::Shape("columns with moments"));
        }
        let (a, b, product) = self.widened()?;
        a.copy.check()?;
        b.copy.check()?;
        product.check()
    }

    fn input(&self, index: usize) -> Option<&View> {
        self.product.input(index)
    }

    fn output(&self, index: usize) -> Option<&View> {
        self.product.output(index)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        let MatMul { a, output, .. } = &self.product;
        let size = size_of::<f32>() as u64;
        if self.sums_input() == Some(index) {
            return Ok(output.shape.last().map(|&columns| u64::from(columns) * size));
        }
        if self.moments_input() == Some(index) {
            return Ok(Some(a.elements() / u64::from(PART) * 2 * size));
        }
        self.product.input_bytes(index)
    }

    fn host_workspace(&self) -> u64 {
        self.widened().map_or(u64::MAX, |(a, b, product)| {
            let stages = [a.copy.host_workspace(), b.copy.host_workspace(), product.host_workspace()];
            a.bytes().saturating_add(b.bytes()).saturating_add(stages.into_iter().max().unwrap_or(0))
        })
    }

    fn flops(&self) -> u64 {
        self.product.flops().saturating_add(self.product.a.elements().saturating_mul(4))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let (a, b, product) = self.widened()?;
        let sizes = [a.bytes(), b.bytes()].map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let (left, rest) = workspace.split_at_mut_checked(sizes[0]).ok_or(KernelError::OperandCount)?;
        let (right, rest) = rest.split_at_mut_checked(sizes[1]).ok_or(KernelError::OperandCount)?;
        let [from_a, from_b, others @ ..] = inputs else { return Err(KernelError::OperandCount) };
        a.copy.run(&[from_a], &mut [&mut *left], rest)?;
        let width = a.view.shape.last().map_or(1, |&extent| extent as usize).max(1);
        let rows = usize::try_from(a.view.elements()).unwrap_or(usize::MAX) / width;
        let (others, given) = match others {
            [others @ .., given] if self.given => (others, cast::<f32>(given, inputs.len() - 1)?),
            others => (others, &[][..]),
        };
        for (number, row) in cast_mut::<f32>(left, 0)?.chunks_exact_mut(width).take(rows).enumerate() {
            let values = row.get(..width - usize::from(self.center)).unwrap_or(&[]);
            let moments = match self.given {
                true => joined(given, number, rows, values.len(), self.center),
                false => self.moments(values),
            };
            self.normalize(row, moments);
        }
        b.copy.run(&[from_b], &mut [&mut *right], rest)?;
        let mut operands = heapless::Vec::<&[u8], MAX_INPUTS>::from_slice(&[left, &[]]).unwrap_or_default();
        let others = match others {
            [others @ .., sums] if self.center => {
                let (right, sums) = (cast_mut::<f32>(right, 1)?, cast::<f32>(sums, inputs.len() - 1)?);
                let columns = product.output.shape.last().map_or(0, |&extent| extent as usize);
                let steps = width - 1;
                let last = right.get_mut(steps * columns..).unwrap_or(&mut []);
                last.iter_mut().zip(sums).take(columns).for_each(|(to, &sum)| *to = sum);
                others
            }
            others => others,
        };
        if let Some(slot) = operands.get_mut(1) {
            *slot = right;
        }
        operands.extend_from_slice(others).map_err(|_| KernelError::OperandCount)?;
        product.run(&operands, outputs, rest)
    }
}

impl NormalizedMatMul {
    /// Mean and variance of a row.
    fn moments(&self, row: &[f32]) -> [f32; 2] {
        let count = row.len() as f32;
        let mean = if self.center { row.iter().sum::<f32>() / count } else { 0.0 };
        [mean, row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / count]
    }

    /// Divides a row by its deviation; behind it comes the negated mean, divided as well, where there is a centre.
    fn normalize(&self, row: &mut [f32], [mean, variance]: [f32; 2]) {
        let (values, mean_at) = row.split_at_mut(row.len() - usize::from(self.center));
        let inverse = 1.0 / Real::sqrt(variance + self.epsilon);
        values.iter_mut().for_each(|x| *x *= inverse);
        mean_at.iter_mut().for_each(|to| *to = -mean * inverse);
    }
}
