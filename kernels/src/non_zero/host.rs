//! Reference kernel.

use super::{NonZero, UNUSED};
use crate::host::{Element, Walk, cast, cast_mut, check_operands, check_plain, with_plain};
use crate::strided::{check_view, offset};
use crate::{DType, Family, KernelError, View};

impl Family for NonZero {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.input)?;
        check_view(&self.indices)?;
        check_view(&self.count)?;
        let rank = self.input.rank() as u64;
        let expected =
            rank > 0 && self.indices.shape.iter().map(|&extent| u64::from(extent)).eq([rank, self.input.elements()]);
        if !expected || self.count.elements() != 1 {
            return Err(KernelError::Shape("indices of what is not zero"));
        }
        if self.indices.dtype != DType::I64 || self.count.dtype != DType::I64 {
            return Err(KernelError::Type("indices or count"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        [&self.indices, &self.count].get(index).copied()
    }

    fn flops(&self) -> u64 {
        self.input.elements()
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [indices, count]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let (indices, count) = (cast_mut(indices, 1)?, cast_mut::<i64>(count, 2)?);
        let found = with_plain!(self.input.dtype, T => self.find::<T>(cast(input, 0)?, indices));
        for column in found..self.indices.shape[1] as usize {
            for d in 0..self.input.rank() {
                indices[self.place(d, column)] = UNUSED;
            }
        }
        count[self.count.offset as usize] = found as i64;
        Ok(())
    }
}

impl NonZero {
    /// Where index d of the element of a column lies.
    fn place(&self, d: usize, column: usize) -> usize {
        let row = offset(self.indices.offset as usize, self.indices.strides[0].into(), d);
        offset(row, self.indices.strides[1].into(), column)
    }

    /// Writes the indices; how many elements are not zero.
    fn find<T: Element>(&self, input: &[T], indices: &mut [i64]) -> usize {
        let mut found = 0;
        let mut walk = Walk::new(&self.input.shape, [&self.input.strides], [self.input.offset]);
        loop {
            let mut index = crate::Dims::new();
            index.extend(walk.index().iter().copied());
            let Some([at]) = walk.next() else { return found };
            if input[at].to_f64() != 0.0 {
                for (d, &i) in index.iter().enumerate() {
                    indices[self.place(d, found)] = i.into();
                }
                found += 1;
            }
        }
    }
}
