//! Reference kernel: copies the data, then takes the updates one after the other.

use super::{Scatter, ScatterReduction};
use crate::host::movement::move_elements;
use crate::host::{cast, cast_mut, check_operands, check_plain};
use crate::loop_nest::Nest;
use crate::strided::{Number, Widen, check_view, offset, with_number};
use crate::{DType, Family, KernelError, View};
use bytemuck::Pod;

impl Family for Scatter {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.data, &self.indices, &self.updates, &self.output] {
            check_view(view)?;
        }
        if self.indices.dtype != DType::I64 {
            return Err(KernelError::Type("indices"));
        }
        if self.data.dtype != self.output.dtype || self.updates.dtype != self.output.dtype {
            return Err(KernelError::Type("data, updates and output"));
        }
        if self.data.dtype == DType::Bool && self.reduction != ScatterReduction::Replace {
            return Err(KernelError::Type("a reduction of bool"));
        }
        check_plain(self.data.dtype)?;
        let (&[_, width], &[count], &[updates, slice]) =
            (self.output.shape.as_slice(), self.indices.shape.as_slice(), self.updates.shape.as_slice())
        else {
            return Err(KernelError::Shape("ranks of scatter"));
        };
        if self.data.shape != self.output.shape
            || width != slice
            || count != updates
            || self.output.padded_channels != 0
        {
            return Err(KernelError::Shape("extents of scatter"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        [&self.data, &self.indices, &self.updates].get(index).copied()
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.updates.elements()
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([data, indices, updates], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        let nest = Nest::in_memory_order(&self.output.shape, [&self.output.strides, &self.data.strides]);
        let starts = [self.output.offset, self.data.offset].map(|offset| offset as usize);
        move_elements(self.data.dtype.size(), nest, starts, output, data)?;
        let indices = cast(indices, 1)?;
        if self.reduction == ScatterReduction::Replace {
            return match self.data.dtype.size() {
                1 => self.update::<u8>(indices, updates, output, |_, new| new),
                2 => self.update::<u16>(indices, updates, output, |_, new| new),
                4 => self.update::<u32>(indices, updates, output, |_, new| new),
                _ => self.update::<u64>(indices, updates, output, |_, new| new),
            };
        }
        with_number!(self.data.dtype, "a reduction of bool", T => self.reduce::<T>(indices, updates, output))
    }
}

impl Scatter {
    fn reduce<T: Widen>(&self, indices: &[i64], updates: &[u8], output: &mut [u8]) -> Result<(), KernelError> {
        macro_rules! with {
            ($join:expr) => {
                self.update::<T>(indices, updates, output, |old, new| T::narrow($join(old.widen(), new.widen())))
            };
        }
        match self.reduction {
            ScatterReduction::Replace => self.update::<T>(indices, updates, output, |_, new| new),
            ScatterReduction::Add => with!(T::Wide::plus),
            ScatterReduction::Multiply => with!(T::Wide::times),
            ScatterReduction::Max => with!(|a: T::Wide, b: T::Wide| if a > b || a.is_nan() { a } else { b }),
            ScatterReduction::Min => with!(|a: T::Wide, b: T::Wide| if a < b || a.is_nan() { a } else { b }),
        }
    }

    fn update<T: Pod>(
        &self,
        indices: &[i64],
        updates: &[u8],
        output: &mut [u8],
        join: impl Fn(T, T) -> T,
    ) -> Result<(), KernelError> {
        let (updates, output) = (cast::<T>(updates, 2)?, cast_mut::<T>(output, 3)?);
        let (rows, width) = (i64::from(self.output.shape[0]), self.output.shape[1] as usize);
        let stride = |view: &View, d: usize| i64::from(view.strides[d]);
        for i in 0..self.indices.shape[0] as usize {
            let index = indices[offset(self.indices.offset as usize, stride(&self.indices, 0), i)];
            let row = if index < 0 { index.saturating_add(rows) } else { index };
            if !(0..rows).contains(&row) {
                continue;
            }
            let to = offset(self.output.offset as usize, stride(&self.output, 0), row as usize);
            let from = offset(self.updates.offset as usize, stride(&self.updates, 0), i);
            for column in 0..width {
                let update = updates[offset(from, stride(&self.updates, 1), column)];
                let place = &mut output[offset(to, stride(&self.output, 1), column)];
                *place = join(*place, update);
            }
        }
        Ok(())
    }
}
