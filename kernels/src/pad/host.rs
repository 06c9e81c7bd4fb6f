//! Reference kernel.

use super::{Pad, PadMode};
use crate::host::movement::{fill, move_elements};
use crate::host::{Element, Walk, cast, cast_mut, check_operands, clear_padding, with_element};
use crate::loop_nest::{Nest, offset};
use crate::strided::check_view;
use crate::{Dims, Family, KernelError, MAX_RANK, View};
use bytemuck::Pod;

impl Family for Pad {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.input, &self.output] {
            check_view(view)?;
        }
        if self.input.dtype != self.output.dtype {
            return Err(KernelError::Type("input and output"));
        }
        if self.input.rank() != self.output.rank() || self.before.len() != self.input.rank() {
            return Err(KernelError::Shape("ranks of input, output and pads"));
        }
        let nothing = self.input.shape.contains(&0) && !self.output.shape.contains(&0);
        if nothing && !matches!(self.mode, PadMode::Constant(_)) {
            return Err(KernelError::Shape("padding of nothing needs a constant"));
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
        0
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        match self.mode {
            PadMode::Constant(value) => self.surround(value, input, output)?,
            _ => match self.input.dtype.size() {
                1 => self.extend::<u8>(input, output)?,
                2 => self.extend::<u16>(cast(input, 0)?, cast_mut(output, 1)?)?,
                4 => self.extend::<u32>(cast(input, 0)?, cast_mut(output, 1)?)?,
                _ => self.extend::<u64>(cast(input, 0)?, cast_mut(output, 1)?)?,
            },
        }
        clear_padding(&self.output, output);
        Ok(())
    }
}

impl Pad {
    /// Fills the output with a constant and copies the part of the input that it shows.
    fn surround(&self, value: f64, input: &[u8], output: &mut [u8]) -> Result<(), KernelError> {
        let (from, to) = (&self.input, &self.output);
        let whole = Nest::in_memory_order(&to.shape, [&to.strides]);
        with_element!(to.dtype, T => fill(whole, to.offset as usize, cast_mut::<T>(output, 1)?, T::from_f64(value)));
        let mut window = Dims::new();
        let mut offsets = [i64::from(to.offset), i64::from(from.offset)];
        let strides = to.strides.iter().zip(&from.strides);
        let extents = to.shape.iter().zip(&from.shape);
        for ((&before, (&to_stride, &from_stride)), (&to_extent, &from_extent)) in
            self.before.iter().zip(strides).zip(extents)
        {
            // Output indices first..last show input indices first − before..
            let first = i64::from(before).clamp(0, to_extent.into());
            let last = (i64::from(before) + i64::from(from_extent)).clamp(first, to_extent.into());
            let _ = window.push((last - first) as u32);
            offsets[0] += first * i64::from(to_stride);
            offsets[1] += (first - i64::from(before)) * i64::from(from_stride);
        }
        if window.contains(&0) {
            return Ok(());
        }
        let nest = Nest::in_memory_order(&window, [&to.strides, &from.strides]);
        move_elements(to.dtype.size(), nest, offsets.map(|o| o as usize), output, input)
    }

    /// Takes every output element from the input index that the mode maps it to.
    fn extend<T: Pod>(&self, input: &[T], output: &mut [T]) -> Result<(), KernelError> {
        let to = &self.output;
        let rank = to.rank();
        let source = |d: usize, index: u32| -> i64 {
            let extent = self.input.shape.get(d).copied().unwrap_or(1);
            let before = self.before.get(d).copied().unwrap_or(0);
            let stride = self.input.strides.get(d).copied().unwrap_or(0);
            self.mode.source(i64::from(index) - i64::from(before), extent.into()) * i64::from(stride)
        };
        // A rank of 0 is a copy of one element, which the walk over no dimensions and the row of 1 give.
        let inner = rank.saturating_sub(1);
        let outer = to.shape.get(..inner).unwrap_or(&[]);
        let row = to.shape.get(inner).copied().unwrap_or(1);
        let step = i64::from(to.strides.get(inner).copied().unwrap_or(0));
        let mut walk = Walk::new(outer, [&to.strides], [to.offset]);
        loop {
            let mut index = [0; MAX_RANK];
            index.iter_mut().zip(walk.index()).for_each(|(copy, &i)| *copy = i);
            let Some([start]) = walk.next() else { break };
            let base: i64 = (0..inner).map(|d| source(d, index.get(d).copied().unwrap_or(0))).sum();
            let base = base + i64::from(self.input.offset);
            for i in 0..row {
                let from = input.get((base + source(inner, i)) as usize);
                if let (Some(to), Some(&from)) = (output.get_mut(offset(start, step, i as usize)), from) {
                    *to = from;
                }
            }
        }
        Ok(())
    }
}

impl PadMode {
    /// The index within `extent` that an index outside of it stands for.
    pub(super) fn source(self, index: i64, extent: i64) -> i64 {
        if (0..extent).contains(&index) || extent == 0 {
            return index;
        }
        match self {
            Self::Constant(_) | Self::Edge => index.clamp(0, extent - 1),
            Self::Wrap => index.rem_euclid(extent),
            Self::Reflect if extent == 1 => 0,
            Self::Reflect => {
                // A period goes up and back without repeating either edge.
                let period = 2 * (extent - 1);
                let folded = index.rem_euclid(period);
                if folded < extent { folded } else { period - folded }
            }
        }
    }
}
