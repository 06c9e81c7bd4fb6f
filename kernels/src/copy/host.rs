//! Reference kernel.

use super::Copy;
use crate::host::movement::{convert_elements, fill, move_elements};
use crate::host::{cast_mut, check_operands, clear_padding, with_element};
use crate::loop_nest::Nest;
use crate::pointwise::Class;
use crate::strided::check_view;
use crate::{Family, KernelError, View};

impl Family for Copy {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.source, &self.destination] {
            check_view(view)?;
        }
        if self.source.rank() != self.destination.rank() {
            return Err(KernelError::Shape("ranks of source and destination"));
        }
        if self.source.shape.iter().zip(&self.destination.shape).any(|(from, to)| from > to) {
            return Err(KernelError::Shape("source larger than destination"));
        }
        Ok(())
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.source)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.destination)
    }

    fn flops(&self) -> u64 {
        0
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([source], [destination]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let (from, to) = (&self.source, &self.destination);
        if from.shape != to.shape {
            let nest = Nest::in_memory_order(&to.shape, [&to.strides]);
            with_element!(to.dtype, T => {
                fill(nest, to.offset as usize, cast_mut::<T>(destination, 1)?, bytemuck::Zeroable::zeroed());
            });
        }
        if !from.shape.contains(&0) {
            let nest = Nest::in_memory_order(&from.shape, [&to.strides, &from.strides]);
            let starts = [to.offset, from.offset].map(|offset| offset as usize);
            let target = (to.dtype, &mut **destination);
            match Class::of(from.dtype) {
                _ if from.dtype == to.dtype => move_elements(to.dtype.size(), nest, starts, destination, source),
                Class::F32 => convert_elements::<f32>(nest, starts, target, (from.dtype, source)),
                Class::F64 => convert_elements::<f64>(nest, starts, target, (from.dtype, source)),
                Class::I64 => convert_elements::<i64>(nest, starts, target, (from.dtype, source)),
                Class::U64 => convert_elements::<u64>(nest, starts, target, (from.dtype, source)),
            }?;
        }
        clear_padding(to, destination);
        Ok(())
    }
}
