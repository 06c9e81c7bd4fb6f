//! Reference kernel: a tile of neighbouring positions at a time, channel by channel.

use super::Lrn;
use crate::host::{cast, cast_mut, check_operands, clear_padding};
use crate::strided::{Axis, Nest, Number, Real, Widen, check_alike, check_float, offset, with_float};
use crate::{Family, KernelError, View};

/// Positions that are computed side by side.
const TILE: usize = 64;

impl Lrn {
    /// Channels before and after the centre of the window.
    pub(super) fn reach(&self) -> (u32, u32) {
        let before = self.size.saturating_sub(1) / 2;
        (before, self.size.saturating_sub(1) - before)
    }

    /// Loops over batch and positions (operands: input, output).
    pub(super) fn positions(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| d != 1)
    }
}

impl Family for Lrn {
    fn check(&self) -> Result<(), KernelError> {
        check_alike(&self.input, &self.output)?;
        if self.input.rank() < 2 {
            return Err(KernelError::Shape("no channels"));
        }
        if self.size == 0 {
            return Err(KernelError::Parameter("size"));
        }
        check_float(self.input.dtype, "input")
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        let window = u64::from(self.size).min(self.input.shape.get(1).copied().unwrap_or(0).into());
        self.input.elements().saturating_mul(2 * window + 4)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        with_float!(self.input.dtype, "input", T => self.tiles::<T>(cast(input, 0)?, cast_mut(output, 1)?))?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

impl Lrn {
    fn tiles<T: Widen<Wide: Real>>(&self, input: &[T], output: &mut [T]) -> Result<(), KernelError> {
        let channels = self.input.shape[1] as usize;
        let channel = [i64::from(self.input.strides[1]), i64::from(self.output.strides[1])];
        let (before, after) = self.reach();
        let (before, after) = (before as usize, after as usize);
        let scale = T::Wide::from_f32(self.alpha) / T::Wide::from_f32(self.size as f32);
        let mut outer = self.positions();
        let Axis { extent, strides: [read, write] } = outer.pop();
        for [from, to] in outer.walk([self.input.offset as usize, self.output.offset as usize]) {
            for first in (0..extent as usize).step_by(TILE) {
                let width = TILE.min(extent as usize - first);
                let (from, to) = (offset(from, read, first), offset(to, write, first));
                for c in 0..channels {
                    let mut squares = [T::Wide::ZERO; TILE];
                    for near in c.saturating_sub(before)..channels.min(c.saturating_add(after).saturating_add(1)) {
                        let row = offset(from, channel[0], near);
                        for (i, square) in squares[..width].iter_mut().enumerate() {
                            let x = input[offset(row, read, i)].widen();
                            *square = *square + x * x;
                        }
                    }
                    let (from, to) = (offset(from, channel[0], c), offset(to, channel[1], c));
                    for (i, &square) in squares[..width].iter().enumerate() {
                        let x = input[offset(from, read, i)].widen();
                        let base = T::Wide::from_f32(self.bias) + scale * square;
                        output[offset(to, write, i)] = T::narrow(x / self.raised(base));
                    }
                }
            }
        }
        Ok(())
    }

    /// `base` to the power beta, by roots where they suffice.
    fn raised<R: Real>(&self, base: R) -> R {
        if self.beta == 0.75 {
            base.sqrt() * base.sqrt().sqrt()
        } else if self.beta == 0.5 {
            base.sqrt()
        } else if self.beta == 1.0 {
            base
        } else {
            base.pow(R::from_f32(self.beta))
        }
    }
}
