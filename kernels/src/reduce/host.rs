//! Reference kernel: blocks of f32 (or f64, i64, u64) partial results, with the rounding error carried between blocks of a sum.

use super::{Reduce, Reduction};
use crate::host::{cast, cast_mut, check_operands, check_plain, clear_padding};
use crate::strided::{
    Axis, Fold, Nest, Number, Real, Widen, check_view, fold_run, largest, offset, product, smallest, sum, with_float,
    with_number,
};
use crate::{DType, Family, KernelError, View};

impl Reduction {
    /// Whether the result is an index.
    pub(super) fn is_index(self) -> bool {
        matches!(self, Self::ArgMax | Self::ArgMaxLast | Self::ArgMin | Self::ArgMinLast)
    }

    /// Whether the result needs roots, logarithms or exponentials, and with them a floating-point type.
    fn needs_float(self) -> bool {
        matches!(self, Self::L2 | Self::LogSum | Self::LogSumExp)
    }
}

impl Reduce {
    /// Whether dimension `d` is reduced.
    pub(super) fn reduces(&self, d: usize) -> bool {
        self.input.shape[d] != self.output.shape[d]
    }

    /// Number of elements behind each output element.
    pub(super) fn count(&self) -> u64 {
        let reduced = (0..self.input.rank()).filter(|&d| self.reduces(d));
        reduced.fold(1, |n, d| n.saturating_mul(self.input.shape[d].into()))
    }

    /// Loops over the outputs (operands: input, output).
    pub(super) fn outer(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |d| !self.reduces(d))
    }

    /// Loops over the elements behind one output.
    pub(super) fn inner(&self) -> Nest<1> {
        Nest::over([&self.input], |d| self.reduces(d))
    }
}

impl Family for Reduce {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.input)?;
        check_view(&self.output)?;
        if self.input.rank() != self.output.rank() {
            return Err(KernelError::Shape("ranks of input and output differ"));
        }
        let mut extents = self.input.shape.iter().zip(&self.output.shape);
        if extents.any(|(&input, &output)| output != input && output != 1) {
            return Err(KernelError::Shape("an output extent is neither 1 nor the input's"));
        }
        let dtype = self.input.dtype;
        if self.kind.is_index() {
            if self.output.dtype != DType::I64 {
                return Err(KernelError::Type("indices are i64"));
            }
            if (0..self.input.rank()).filter(|&d| self.reduces(d)).count() > 1 {
                return Err(KernelError::Shape("an index along more than one dimension"));
            }
            if self.count() == 0 {
                return Err(KernelError::Shape("an index into an empty dimension"));
            }
        } else if self.output.dtype != dtype {
            return Err(KernelError::Type("output differs from input"));
        }
        if self.kind.needs_float() && !dtype.is_float() {
            return Err(KernelError::Type("roots, logarithms and exponentials of integers"));
        }
        if dtype == DType::Bool && !matches!(self.kind, Reduction::Max | Reduction::Min) {
            return Err(KernelError::Type("only the largest and the smallest of booleans"));
        }
        check_plain(dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn flops(&self) -> u64 {
        self.input.elements()
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        match self.input.dtype {
            DType::Bool => self.run_any::<u8>(input, output),
            dtype if dtype.is_float() => with_float!(dtype, "input", T => self.run_float::<T>(input, output)),
            dtype => with_number!(dtype, "input", T => self.run_any::<T>(input, output)),
        }?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// Columns that are reduced side by side where neighbouring outputs read neighbouring inputs.
const COLUMNS: usize = 64;
/// Rows between two looks after the carried rounding error.
const ROWS: usize = 64;

fn itself<W>(x: W) -> W {
    x
}

fn square<W: Number>(x: W) -> W {
    x.times(x)
}

impl Reduce {
    /// Kinds that only floating-point types have; all others through [`Reduce::run_any`].
    fn run_float<T: Widen<Wide: Real>>(&self, input: &[u8], output: &mut [u8]) -> Result<(), KernelError> {
        match self.kind {
            Reduction::L2 => self.fold::<T>(input, output, sum(), square, &|total| total.sqrt()),
            Reduction::LogSum => self.fold::<T>(input, output, sum(), itself, &|total| total.ln()),
            Reduction::LogSumExp => self.log_sum_exp::<T>(input, output),
            _ => self.run_any::<T>(input, output),
        }
    }

    fn run_any<T: Widen>(&self, input: &[u8], output: &mut [u8]) -> Result<(), KernelError> {
        let count = self.count();
        match self.kind {
            Reduction::Sum => self.fold::<T>(input, output, sum(), itself, &itself),
            Reduction::Mean => self.fold::<T>(input, output, sum(), itself, &|total| total.over(count)),
            Reduction::Max => self.fold::<T>(input, output, largest(), itself, &itself),
            Reduction::Min => self.fold::<T>(input, output, smallest(), itself, &itself),
            Reduction::Product => self.fold::<T>(input, output, product(), itself, &itself),
            Reduction::L1 => self.fold::<T>(input, output, sum(), Number::magnitude, &itself),
            Reduction::SumSquare => self.fold::<T>(input, output, sum(), square, &itself),
            Reduction::ArgMax | Reduction::ArgMaxLast => self.index::<T>(input, output, |a, b| a > b),
            Reduction::ArgMin | Reduction::ArgMinLast => self.index::<T>(input, output, |a, b| a < b),
            Reduction::L2 | Reduction::LogSum | Reduction::LogSumExp => Err(KernelError::Type("input")),
        }
    }

    // Once for every fold and term, whatever becomes of the totals: there are twelve types.
    #[inline(never)]
    fn fold<T: Widen>(
        &self,
        input: &[u8],
        output: &mut [u8],
        fold: Fold<T::Wide, impl Fn(T::Wide, T::Wide) -> T::Wide + Copy>,
        term: impl Fn(T::Wide) -> T::Wide + Copy,
        finish: &dyn Fn(T::Wide) -> T::Wide,
    ) -> Result<(), KernelError> {
        let (input, output) = (cast::<T>(input, 0)?, cast_mut::<T>(output, 1)?);
        let start = [self.input.offset as usize, self.output.offset as usize];
        let (mut outer, mut inner) = (self.outer(), self.inner());
        let neutral = (fold.identity, T::Wide::ZERO);
        let read = |x: T| term(x.widen());

        let columns = outer.pop();
        let by_columns = columns.strides[0] == 1 && inner.axes.last().is_some_and(|run| run.strides[0] != 1);
        if by_columns {
            for [from, to] in outer.walk(start) {
                for first in (0..columns.extent as usize).step_by(COLUMNS) {
                    let width = COLUMNS.min(columns.extent as usize - first);
                    let mut totals = [neutral; COLUMNS];
                    let mut rows = inner.walk([from + first]).peekable();
                    while rows.peek().is_some() {
                        let mut block = [fold.identity; COLUMNS];
                        for [row] in rows.by_ref().take(ROWS) {
                            for (cell, &x) in block.iter_mut().zip(&input[row..row + width]) {
                                *cell = (fold.join)(*cell, read(x));
                            }
                        }
                        for (total, cell) in totals.iter_mut().zip(block) {
                            *total = fold.add(*total, cell);
                        }
                    }
                    for (i, &total) in totals[..width].iter().enumerate() {
                        output[offset(to, columns.strides[1], first + i)] = T::narrow(finish(T::Wide::settle(total)));
                    }
                }
            }
        } else {
            outer.push(columns);
            let run = inner.pop();
            for [from, to] in outer.walk(start) {
                let rows = inner.walk([from]);
                let total = rows.fold(neutral, |total, [row]| {
                    fold_run((input, row, run.strides[0], run.extent as usize), total, fold, read)
                });
                output[to] = T::narrow(finish(T::Wide::settle(total)));
            }
        }
        Ok(())
    }

    /// `m + ln Σ eˣ⁻ᵐ` with the largest finite element m.
    fn log_sum_exp<T: Widen<Wide: Real>>(&self, input: &[u8], output: &mut [u8]) -> Result<(), KernelError> {
        let (input, output) = (cast::<T>(input, 0)?, cast_mut::<T>(output, 1)?);
        let start = [self.input.offset as usize, self.output.offset as usize];
        let (outer, mut inner) = (self.outer(), self.inner());
        let run = inner.pop();
        for [from, to] in outer.walk(start) {
            let each = |[row]: [usize; 1]| (input, row, run.strides[0], run.extent as usize);
            let (top, _) = inner.walk([from]).fold((T::Wide::LOWEST, T::Wide::ZERO), |total, row| {
                fold_run(each(row), total, largest(), |x: T| x.widen())
            });
            let shift = if top.is_finite() { top } else { T::Wide::ZERO };
            let total = inner.walk([from]).fold((T::Wide::ZERO, T::Wide::ZERO), |total, row| {
                fold_run(each(row), total, sum(), |x: T| (x.widen() - shift).exp())
            });
            output[to] = T::narrow(T::Wide::settle(total).ln() + shift);
        }
        Ok(())
    }

    /// Index of the best element by `better`. NaNs are better than numbers and equal to each other.
    fn index<T: Widen>(
        &self,
        input: &[u8],
        output: &mut [u8],
        better: impl Fn(T::Wide, T::Wide) -> bool,
    ) -> Result<(), KernelError> {
        let (input, output) = (cast::<T>(input, 0)?, cast_mut::<i64>(output, 1)?);
        let start = [self.input.offset as usize, self.output.offset as usize];
        let (outer, mut inner) = (self.outer(), self.inner());
        let last = matches!(self.kind, Reduction::ArgMaxLast | Reduction::ArgMinLast);
        let Axis { extent, strides: [stride] } = inner.pop();
        for [from, to] in outer.walk(start) {
            let (mut best, mut index) = (input[from].widen(), 0);
            for i in 1..extent as usize {
                let x = input[offset(from, stride, i)].widen();
                let wins = better(x, best) || (x.is_nan() && !best.is_nan());
                let ties = last && (x == best || (x.is_nan() && best.is_nan()));
                if wins || ties {
                    (best, index) = (x, i);
                }
            }
            output[to] = index as i64;
        }
        Ok(())
    }
}
