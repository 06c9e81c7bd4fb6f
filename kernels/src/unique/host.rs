//! Reference kernel: rows are sorted; equal ones are then neighbours.

use super::{UNUSED, Unique};
use crate::host::{Element, cast, cast_mut, check_operands, check_plain, with_plain};
use crate::strided::{check_view, offset};
use crate::{DType, Family, KernelError, View};
use core::cmp::Ordering;

impl Family for Unique {
    fn check(&self) -> Result<(), KernelError> {
        for view in [&self.input, &self.first, &self.inverse, &self.counts, &self.count] {
            check_view(view)?;
        }
        let &[n, _] = self.input.shape.as_slice() else { return Err(KernelError::Shape("rank of the input")) };
        // What is written is read again, so that no two elements may lie in one place.
        let column = |view: &View| *view.shape == [n] && (n < 2 || view.strides[0] != 0);
        if ![&self.first, &self.inverse, &self.counts].into_iter().all(column) || self.count.elements() != 1 {
            return Err(KernelError::Shape("outputs of different rows"));
        }
        if [&self.first, &self.inverse, &self.counts, &self.count].iter().any(|view| view.dtype != DType::I64) {
            return Err(KernelError::Type("outputs of different rows"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        [&self.first, &self.inverse, &self.counts, &self.count].get(index).copied()
    }

    fn host_workspace(&self) -> u64 {
        u64::from(self.input.shape.first().copied().unwrap_or(0)) * size_of::<u32>() as u64
    }

    fn flops(&self) -> u64 {
        let n = u64::from(self.input.shape.first().copied().unwrap_or(0));
        self.input.elements().saturating_mul(n)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [first, inverse, counts, count]) = (inputs, outputs) else {
            return Err(KernelError::OperandCount);
        };
        let n = self.input.shape[0] as usize;
        let order = &mut cast_mut::<u32>(workspace, 5)?[..n];
        order.iter_mut().zip(0..).for_each(|(to, number)| *to = number);
        let mut first = Column { view: &self.first, elements: cast_mut(first, 1)? };
        let mut inverse = Column { view: &self.inverse, elements: cast_mut(inverse, 2)? };
        let mut counts = Column { view: &self.counts, elements: cast_mut(counts, 3)? };
        with_plain!(self.input.dtype, T => self.lead::<T>(cast(input, 0)?, order, &mut inverse));
        // Rows that lead, in the order of the output.
        let mut found = 0;
        for (place, &next) in order.iter().enumerate() {
            let row = if self.sorted { next as usize } else { place };
            if inverse.get(row) == row as i64 {
                first.set(found, row as i64);
                counts.set(found, 0);
                found += 1;
            }
        }
        for place in found..n {
            first.set(place, UNUSED);
            counts.set(place, UNUSED);
        }
        // The order is not needed any more: it becomes the number of each leading row.
        for number in 0..found {
            order[first.get(number) as usize] = number as u32;
        }
        for row in 0..n {
            let number = order[inverse.get(row) as usize] as usize;
            inverse.set(row, number as i64);
            counts.set(number, counts.get(number) + 1);
        }
        cast_mut::<i64>(count, 4)?[self.count.offset as usize] = found as i64;
        Ok(())
    }
}

/// An output of one dimension.
struct Column<'a> {
    view: &'a View,
    elements: &'a mut [i64],
}

impl Column<'_> {
    fn at(&self, i: usize) -> usize {
        offset(self.view.offset as usize, self.view.strides[0].into(), i)
    }

    fn get(&self, i: usize) -> i64 {
        self.elements[self.at(i)]
    }

    fn set(&mut self, i: usize, value: i64) {
        let at = self.at(i);
        self.elements[at] = value;
    }
}

impl Unique {
    /// Sorts the rows; `leaders` get for each row the first one that is equal to it.
    fn lead<T: Element + PartialOrd>(&self, input: &[T], order: &mut [u32], leaders: &mut Column<'_>) {
        let row = |number: u32| {
            let start = offset(self.input.offset as usize, self.input.strides[0].into(), number as usize);
            (0..self.input.shape[1] as usize).map(move |i| input[offset(start, self.input.strides[1].into(), i)])
        };
        #[allow(clippy::eq_op)] // Only NaN differs from itself.
        let compare = |a: T, b: T| a.partial_cmp(&b).unwrap_or_else(|| (a != a).cmp(&(b != b)));
        order.sort_unstable_by(|&a, &b| {
            let pairs = row(a).zip(row(b)).map(|(a, b)| compare(a, b));
            pairs.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal).then(a.cmp(&b))
        });
        let mut leader = 0;
        for place in 0..order.len() {
            let same = place > 0 && row(order[place - 1]).zip(row(order[place])).all(|(a, b)| a == b);
            if !same {
                leader = order[place];
            }
            leaders.set(order[place] as usize, leader.into());
        }
    }
}
