//! Reference kernel: window by window.

use super::PoolIndices;
use crate::host::window::{self, Window, spatial_strides, start};
use crate::host::{Boolean, Element, Walk, cast, cast_mut, check_operands, check_plain, clear_padding, with_plain};
use crate::strided::check_view;
use crate::{DType, Family, KernelError, View};

/// Elements that can be the larger one.
trait Ranked: Element {
    /// Whether the element replaces the largest so far.
    fn beats(self, largest: Self) -> bool;
}

macro_rules! ranked {
    ($($t:ty => |$x:ident| $key:expr;)*) => {$(
        impl Ranked for $t {
            #[inline]
            #[allow(clippy::eq_op)] // Only NaN differs from itself.
            fn beats(self, largest: Self) -> bool {
                let key = |$x: Self| $key;
                let (a, b) = (key(self), key(largest));
                a > b || (a != a && b == b)
            }
        }
    )*};
}

ranked! {
    f32 => |x| x; f64 => |x| x; half::f16 => |x| x.to_f32(); half::bf16 => |x| x.to_f32();
    i8 => |x| x; i16 => |x| x; i32 => |x| x; i64 => |x| x;
    u8 => |x| x; u16 => |x| x; u32 => |x| x; u64 => |x| x;
    Boolean => |x| x.0 != 0;
}

impl Family for PoolIndices {
    fn check(&self) -> Result<(), KernelError> {
        let window = Window { taps: self.window, strides: self.strides, dilations: self.dilations, pads: self.pads };
        window.check(&self.input, &self.output)?;
        check_view(&self.input)?;
        check_view(&self.output)?;
        if self.input.rank() != self.output.rank() || self.input.shape[..2] != self.output.shape[..2] {
            return Err(KernelError::Shape("rank, batch and channels"));
        }
        if self.output.dtype != DType::I64 {
            return Err(KernelError::Type("indices"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.output.shape.iter().chain(&self.window).fold(1, |flops: u64, &e| flops.saturating_mul(u64::from(e)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        with_plain!(self.input.dtype, T => self.windows::<T>(cast(input, 0)?, cast_mut(output, 1)?))?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

impl PoolIndices {
    fn windows<T: Ranked>(&self, input: &[T], output: &mut [i64]) -> Result<(), KernelError> {
        let (extents, strides) = (window::spatial(&self.input)?.map(i64::from), spatial_strides(&self.input));
        let numbers = self.numbering()?;
        let rank = self.output.rank();
        let mut walk = Walk::new(&self.output.shape, [&self.output.strides], [self.output.offset]);
        loop {
            let mut place = [0i64; 5];
            for (d, &index) in walk.index().iter().enumerate() {
                place[if d < 2 { d } else { d + 5 - rank }] = index.into();
            }
            let Some([to]) = walk.next() else { break };
            let from = start(&self.input, place[0] as usize, place[1] as usize);
            // Input positions of the taps that are inside, along each dimension.
            let inside = |d: usize| {
                let (step, extent) = (i64::from(self.dilations[d]), extents[d]);
                let first = place[2 + d] * i64::from(self.strides[d]) - i64::from(self.pads[d]);
                (0..i64::from(self.window[d])).map(move |q| first + q * step).filter(move |at| (0..extent).contains(at))
            };
            let mut largest: Option<(T, i64)> = None;
            for a in inside(0) {
                for b in inside(1) {
                    for c in inside(2) {
                        let Some(&x) = input.get((from + a * strides[0] + b * strides[1] + c * strides[2]) as usize)
                        else {
                            continue;
                        };
                        if largest.is_none_or(|(found, _)| x.beats(found)) {
                            largest = Some((x, a * numbers[2] + b * numbers[3] + c * numbers[4]));
                        }
                    }
                }
            }
            let base = place[0] * numbers[0] + place[1] * numbers[1];
            output[to] = largest.map_or(0, |(_, number)| base + number);
        }
        Ok(())
    }
}
