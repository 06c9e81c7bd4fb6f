//! Reference kernel.

use super::Gather;
use crate::host::movement::move_elements;
use crate::host::{Element, Walk, cast, check_operands, clear_padding};
use crate::loop_nest::{Nest, offset};
use crate::strided::check_view;
use crate::{DType, Dims, Family, KernelError, Strides, View};

impl Family for Gather {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.data, &self.indices, &self.output] {
            check_view(view)?;
        }
        if !matches!(self.indices.dtype, DType::I32 | DType::I64) {
            return Err(KernelError::Type("indices"));
        }
        if self.data.dtype != self.output.dtype {
            return Err(KernelError::Type("data and output"));
        }
        let axis = usize::from(self.axis);
        let (Some(before), Some(after)) = (self.data.shape.get(..axis), self.data.shape.get(axis + 1..)) else {
            return Err(KernelError::Parameter("axis"));
        };
        let expected = before.iter().chain(&self.indices.shape).chain(after);
        if !self.output.shape.iter().eq(expected) {
            return Err(KernelError::Shape("output of gather"));
        }
        if self.data.shape.get(axis) == Some(&0) && !self.output.shape.contains(&0) {
            return Err(KernelError::Shape("gather from nothing"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.data, &self.indices].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        0
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        match self.indices.dtype {
            DType::I32 => self.run_indices::<i32>(inputs, outputs),
            _ => self.run_indices::<i64>(inputs, outputs),
        }
    }
}

impl Gather {
    /// Dimensions of the output that stand before and after those of the indices.
    pub(super) fn split(&self) -> (usize, usize) {
        let before = usize::from(self.axis);
        (before, before + self.indices.rank())
    }

    /// Strides of the data and of the indices along the output's dimensions; 0 along those that do not move them.
    pub(super) fn strides_by_output(&self) -> [Strides; 2] {
        let (before, after) = self.split();
        let stride = |d: usize| {
            if d < before {
                [self.data.strides.get(d).copied().unwrap_or(0), 0]
            } else if d < after {
                [0, self.indices.strides.get(d - before).copied().unwrap_or(0)]
            } else {
                [self.data.strides.get(before + 1 + d - after).copied().unwrap_or(0), 0]
            }
        };
        let rank = self.output.rank();
        [0, 1].map(|operand| (0..rank).map(|d| stride(d)[operand]).collect())
    }

    /// Copies, for every index, the slice of the data that it names.
    fn run_indices<I: Element>(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), KernelError> {
        let ([data, indices], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        let indices = cast::<I>(indices, 1)?;
        let axis = usize::from(self.axis);
        let (Some(&extent), Some(&axis_stride)) = (self.data.shape.get(axis), self.data.strides.get(axis)) else {
            return Err(KernelError::Parameter("axis"));
        };
        // Dimensions before and of the indices are walked here; those after them are copied as one nest.
        let (_, after) = self.split();
        let [data_strides, index_strides] = self.strides_by_output();
        let outer: Dims = self.output.shape.iter().take(after).copied().collect();
        let tail = self.output.shape.get(after..).unwrap_or(&[]);
        let to_strides = self.output.strides.get(after..).unwrap_or(&[]);
        let nest = Nest::in_memory_order(tail, [to_strides, data_strides.get(after..).unwrap_or(&[])]);
        let offsets = [self.output.offset, self.data.offset, self.indices.offset];
        for [to, from, index] in Walk::new(&outer, [&self.output.strides, &data_strides, &index_strides], offsets) {
            let index = indices.get(index).map_or(0, |i| i.to_i64());
            let index = if index < 0 { index.saturating_add(extent.into()) } else { index };
            let index = index.clamp(0, i64::from(extent) - 1) as usize;
            let starts = [to, offset(from, axis_stride.into(), index)];
            move_elements(self.output.dtype.size(), nest.clone(), starts, output, data)?;
        }
        clear_padding(&self.output, output);
        Ok(())
    }
}
