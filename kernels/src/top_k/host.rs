//! Reference kernel: each element is inserted where it belongs among the best so far.

use super::TopK;
use crate::host::{Element, cast, cast_mut, check_operands, check_plain, with_plain};
use crate::strided::{Axis, Nest, check_view, offset};
use crate::{DType, Family, KernelError, View};
use core::cmp::Ordering;

/// Elements in order, NaN last.
trait Ordered: Element {
    fn order(self, other: Self) -> Ordering;
}

macro_rules! ordered {
    ($($t:ty => |$x:ident| $key:expr;)*) => {$(
        impl Ordered for $t {
            #[inline]
            fn order(self, other: Self) -> Ordering {
                let key = |$x: Self| $key;
                let (a, b) = (key(self), key(other));
                #[allow(clippy::eq_op)] // Only NaN differs from itself.
                a.partial_cmp(&b).unwrap_or_else(|| (a != a).cmp(&(b != b)))
            }
        }
    )*};
}

ordered! {
    f32 => |x| x; f64 => |x| x; half::f16 => |x| x.to_f32(); half::bf16 => |x| x.to_f32();
    i8 => |x| x; i16 => |x| x; i32 => |x| x; i64 => |x| x;
    u8 => |x| x; u16 => |x| x; u32 => |x| x; u64 => |x| x;
    crate::host::Boolean => |x| x.0 != 0;
}

impl Family for TopK {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.input, &self.values, &self.indices] {
            check_view(view)?;
        }
        let axis = usize::from(self.axis);
        if axis >= self.input.rank() {
            return Err(KernelError::Parameter("axis"));
        }
        if self.values.shape != self.indices.shape || self.values.rank() != self.input.rank() {
            return Err(KernelError::Shape("values and indices"));
        }
        let fits = |d: usize| match d == axis {
            true => self.values.shape[d] <= self.input.shape[d],
            false => self.values.shape[d] == self.input.shape[d],
        };
        if !(0..self.input.rank()).all(fits) || self.values.padded_channels != 0 || self.indices.padded_channels != 0 {
            return Err(KernelError::Shape("extents of the best"));
        }
        if self.input.dtype != self.values.dtype || self.indices.dtype != DType::I64 {
            return Err(KernelError::Type("values and indices"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        [&self.values, &self.indices].get(index).copied()
    }

    fn flops(&self) -> u64 {
        let best = self.values.shape.get(usize::from(self.axis)).copied().unwrap_or(0);
        self.input.elements().saturating_mul(best.into())
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [values, indices]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let indices = cast_mut(indices, 2)?;
        with_plain!(self.input.dtype, T => self.rows_of::<T>(cast(input, 0)?, cast_mut(values, 1)?, indices));
        Ok(())
    }
}

impl TopK {
    /// Loops over the rows (operands: input, values, indices).
    pub(super) fn rows(&self) -> Nest<3> {
        let mut nest = Nest { axes: heapless::Vec::new() };
        for d in (0..self.input.rank()).filter(|&d| d != usize::from(self.axis)) {
            let strides = [&self.input, &self.values, &self.indices].map(|view| i64::from(view.strides[d]));
            nest.push(Axis { extent: self.input.shape[d].into(), strides });
        }
        nest
    }

    fn rows_of<T: Ordered>(&self, input: &[T], values: &mut [T], indices: &mut [i64]) {
        let axis = usize::from(self.axis);
        let (count, k) = (self.input.shape[axis] as usize, self.values.shape[axis] as usize);
        if k == 0 {
            return;
        }
        let [read, write, number] =
            [&self.input, &self.values, &self.indices].map(|view| i64::from(view.strides[axis]));
        let better = if self.largest { Ordering::Greater } else { Ordering::Less };
        let starts = [&self.input, &self.values, &self.indices].map(|view| view.offset as usize);
        for [from, to, named] in self.rows().walk(starts) {
            for i in 0..count {
                let x = input[offset(from, read, i)];
                let mut place = i.min(k);
                if place == k {
                    if x.order(values[offset(to, write, k - 1)]) != better {
                        continue;
                    }
                    place = k - 1;
                }
                // Worse ones move down; equal ones came first.
                while place > 0 && x.order(values[offset(to, write, place - 1)]) == better {
                    values[offset(to, write, place)] = values[offset(to, write, place - 1)];
                    indices[offset(named, number, place)] = indices[offset(named, number, place - 1)];
                    place -= 1;
                }
                values[offset(to, write, place)] = x;
                indices[offset(named, number, place)] = i as i64;
            }
        }
    }
}
