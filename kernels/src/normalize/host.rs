//! Reference kernel: mean and variance in two passes over each set, in f32 (f64 for f64).

use super::Normalize;
use crate::host::{cast, cast_mut, check_operands, clear_padding};
use crate::strided::{Nest, Number, Real, Widen, check_floats, check_same_shape, fold_run, offset, sum, with_floats};
use crate::{Family, KernelError, View};

/// Bytes of a scale or shift value.
const PARAMETER_BYTES: u64 = 4;

impl Normalize {
    /// Widens that share statistics; 0 without sets.
    pub(super) fn set_elements(&self) -> u64 {
        self.input.elements().checked_div(self.sets.into()).unwrap_or(0)
    }

    /// Loops over all elements in logical order (operands: input, output).
    pub(super) fn nest(&self) -> Nest<2> {
        Nest::over([&self.input, &self.output], |_| true)
    }
}

impl Family for Normalize {
    fn check(&self) -> Result<(), KernelError> {
        check_same_shape(&self.input, &self.output)?;
        let elements = self.input.elements();
        if elements != 0 && !elements.is_multiple_of(self.sets.into()) {
            return Err(KernelError::Parameter("sets do not divide the elements"));
        }
        if (self.scale || self.shift) && (self.parameters == 0 || self.per_parameter == 0) {
            return Err(KernelError::Parameter("scale and shift need parameters"));
        }
        check_floats(&self.input, &self.output)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn input_bytes(&self, index: usize) -> Result<Option<u64>, KernelError> {
        if index == 0 {
            return self.input.bytes().map(Some);
        }
        let given = index <= usize::from(self.scale) + usize::from(self.shift);
        Ok(given.then_some(u64::from(self.parameters) * PARAMETER_BYTES))
    }

    fn flops(&self) -> u64 {
        self.input.elements().saturating_mul(8)
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input, parameters @ ..], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        let mut parameters = parameters.iter().enumerate();
        let mut next = |given: bool| match parameters.next() {
            Some((i, values)) if given => cast::<f32>(values, 1 + i).map(Some),
            _ => Ok(None),
        };
        // Evaluated in operand order: a missing scale leaves the first parameter operand to the shift.
        let scale = if self.scale { next(true)? } else { None };
        let shift = if self.shift { next(true)? } else { None };
        let output_operand = inputs.len();
        with_floats!(self.input.dtype, self.output.dtype, T, U => {
            self.sets_of::<T, U>(cast(input, 0)?, scale, shift, cast_mut(output, output_operand)?)
        })?;
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// Part of a set that lies along the innermost loop: where it starts in input and output, its logical index, its length.
struct Run {
    from: usize,
    to: usize,
    logical: u64,
    count: usize,
}

impl Normalize {
    fn sets_of<T, U>(
        &self,
        input: &[T],
        scale: Option<&[f32]>,
        shift: Option<&[f32]>,
        output: &mut [U],
    ) -> Result<(), KernelError>
    where
        T: Widen<Wide: Real>,
        U: Widen<Wide = T::Wide>,
    {
        let count = self.set_elements();
        if count == 0 {
            return Ok(());
        }
        let nest = self.nest();
        let [read, write] = nest.axes.last().map_or([0; 2], |axis| axis.strides);
        let zero = (T::Wide::ZERO, T::Wide::ZERO);
        for set in 0..u64::from(self.sets) {
            let mean = if self.center {
                self.mean(&nest, set, |run| fold_run((input, run.from, read, run.count), zero, sum(), |x: T| x.widen()))
            } else {
                T::Wide::ZERO
            };
            let variance = self.mean(&nest, set, |run| {
                fold_run((input, run.from, read, run.count), zero, sum(), |x: T| {
                    (x.widen() - mean) * (x.widen() - mean)
                })
            });
            let inverse = T::Wide::ONE / (variance + T::Wide::from_f32(self.epsilon)).sqrt();
            self.runs(&nest, set * count, count, |run| {
                let mut done = 0;
                while done < run.count {
                    let logical = run.logical + done as u64;
                    let (index, same) = self.parameter(logical);
                    let part = (run.count - done).min(usize::try_from(same).unwrap_or(usize::MAX));
                    let value = |values: Option<&[f32]>, neutral| {
                        values.and_then(|v| v.get(index)).map_or(neutral, |&v| T::Wide::from_f32(v))
                    };
                    let gain = value(scale, T::Wide::ONE) * inverse;
                    let bias = value(shift, T::Wide::ZERO);
                    for i in done..done + part {
                        let x = input[offset(run.from, read, i)].widen();
                        output[offset(run.to, write, i)] = U::narrow((x - mean) * gain + bias);
                    }
                    done += part;
                }
            });
        }
        Ok(())
    }

    /// Mean over a set of what `sum` gives for its runs, each a total and its carried error.
    fn mean<W: Number>(&self, nest: &Nest<2>, set: u64, sum: impl Fn(Run) -> (W, W)) -> W {
        let count = self.set_elements();
        let mut total = (W::ZERO, W::ZERO);
        self.runs(nest, set * count, count, |run| {
            let (value, error) = sum(run);
            total = W::compensated(W::compensated(total, value), error);
        });
        W::settle(total).over(count)
    }

    /// Index of the parameter of a logical element, and how many elements from there on share it.
    fn parameter(&self, logical: u64) -> (usize, u64) {
        if !self.scale && !self.shift {
            return (0, u64::MAX);
        }
        let per = u64::from(self.per_parameter);
        ((logical / per % u64::from(self.parameters)) as usize, per - logical % per)
    }

    /// Calls `visit` for the parts of `count` logical elements from `first` on that lie along the innermost loop.
    fn runs(&self, nest: &Nest<2>, first: u64, count: u64, mut visit: impl FnMut(Run)) {
        let mut done = 0;
        while done < count {
            let mut index = first + done;
            let mut at = [i64::from(self.input.offset), i64::from(self.output.offset)];
            let mut rest = 1;
            for (depth, axis) in nest.axes.iter().rev().enumerate() {
                let (position, extent) = ((index % axis.extent) as i64, axis.extent);
                at = [at[0] + position * axis.strides[0], at[1] + position * axis.strides[1]];
                index /= extent;
                if depth == 0 {
                    rest = extent - position as u64;
                }
            }
            let length = rest.min(count - done);
            visit(Run { from: at[0] as usize, to: at[1] as usize, logical: first + done, count: length as usize });
            done += length;
        }
    }
}
