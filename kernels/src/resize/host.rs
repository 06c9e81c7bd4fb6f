//! Reference kernel: samples and weights are tabulated once in the workspace, then applied a row of outputs at a time.

use super::{Interpolation, Resize};
use crate::host::{cast, cast_mut, check_operands, clear_padding};
use crate::strided::{self, Nest, Number, Real, Widen, check_float, check_view, offset, with_float};
use crate::{Family, KernelError, MAX_RANK, View};
use bytemuck::{Pod, Zeroable};

/// One sample: an index along its dimension and a weight.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct Sample {
    weight: f64,
    index: u32,
    padding: u32,
}

/// Outputs that are computed side by side.
const TILE: usize = 64;

impl Resize {
    /// Samples in the tables of all dimensions.
    fn samples(&self) -> u64 {
        let taps = self.tap_count() as u64;
        self.output.shape.iter().fold(0, |n, &extent| u64::from(extent).saturating_mul(taps).saturating_add(n))
    }

    /// Most samples of one output: 4⁴ and above would let a few parameters ask for hours.
    fn too_many_taps(&self) -> bool {
        let resized = (0..self.input.rank()).filter(|&d| self.resizes(d)).count();
        (0..resized).fold(1usize, |n, _| n.saturating_mul(self.tap_count())) > 256
    }
}

impl Family for Resize {
    fn check(&self) -> Result<(), KernelError> {
        check_view(&self.input)?;
        check_view(&self.output)?;
        if self.input.rank() != self.output.rank() {
            return Err(KernelError::Shape("ranks of input and output differ"));
        }
        if self.input.rank() == 0 {
            return Err(KernelError::Shape("no dimensions"));
        }
        if self.scales.len() != self.input.rank() {
            return Err(KernelError::Parameter("one scale for each dimension"));
        }
        if self.scales.iter().any(|&scale| !(scale > 0.0 && scale < f32::INFINITY)) {
            return Err(KernelError::Parameter("a scale is not positive"));
        }
        if self.input.elements() == 0 && self.output.elements() != 0 {
            return Err(KernelError::Shape("nothing to resample"));
        }
        if self.too_many_taps() {
            return Err(KernelError::Parameter("more than 256 samples for one output"));
        }
        if self.input.dtype != self.output.dtype {
            return Err(KernelError::Type("output differs from input"));
        }
        match self.interpolation {
            Interpolation::Nearest(_) => Ok(()),
            Interpolation::Linear => check_float(self.input.dtype, "input"),
            Interpolation::Cubic(a, _) if !Real::is_finite(a) => Err(KernelError::Parameter("cubic coefficient")),
            Interpolation::Cubic(..) => check_float(self.input.dtype, "input"),
        }
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    fn host_workspace(&self) -> u64 {
        self.samples().saturating_mul(size_of::<Sample>() as u64)
    }

    fn flops(&self) -> u64 {
        let resized = self.input.shape.iter().zip(&self.output.shape).filter(|(input, output)| input != output).count();
        let taps = (0..resized).fold(1u64, |n, _| n.saturating_mul(self.tap_count() as u64));
        if taps == 1 { 0 } else { self.output.elements().saturating_mul(2 * taps) }
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.elements() == 0 {
            return Ok(());
        }
        let tables = cast_mut::<Sample>(workspace, 2)?;
        let mut next = tables.iter_mut();
        for d in 0..self.output.rank() {
            for i in 0..self.output.shape[d] {
                let taps = self.taps(d, i);
                for (sample, (index, weight)) in
                    next.by_ref().zip(taps.index.into_iter().zip(taps.weight)).take(self.tap_count())
                {
                    *sample = Sample { weight, index, padding: 0 };
                }
            }
        }
        let tables = Tables::split(self, tables)?;
        if let Interpolation::Nearest(_) = self.interpolation {
            match self.input.dtype.size() {
                1 => self.nearest::<u8>(cast(input, 0)?, cast_mut(output, 1)?, &tables),
                2 => self.nearest::<u16>(cast(input, 0)?, cast_mut(output, 1)?, &tables),
                4 => self.nearest::<u32>(cast(input, 0)?, cast_mut(output, 1)?, &tables),
                _ => self.nearest::<u64>(cast(input, 0)?, cast_mut(output, 1)?, &tables),
            }
        } else {
            with_float!(self.input.dtype, "input", T => {
                self.weighted::<T>(cast(input, 0)?, cast_mut(output, 1)?, &tables);
                Ok(())
            })?;
        }
        clear_padding(&self.output, output);
        Ok(())
    }
}

/// The samples of each dimension.
struct Tables<'a> {
    dimensions: [&'a [Sample]; MAX_RANK],
}

impl<'a> Tables<'a> {
    fn split(resize: &Resize, mut samples: &'a [Sample]) -> Result<Self, KernelError> {
        let mut dimensions: [&[Sample]; MAX_RANK] = [&[]; MAX_RANK];
        for (table, &extent) in dimensions.iter_mut().zip(&resize.output.shape) {
            let size = extent as usize * resize.tap_count();
            (*table, samples) = samples.split_at_checked(size).ok_or(KernelError::OperandTooShort(2))?;
        }
        Ok(Self { dimensions })
    }
}

impl Resize {
    /// The dimension that rows lie along: the innermost in memory, else the last.
    fn row_dimension(&self) -> usize {
        let rank = self.output.rank();
        (0..rank).rev().find(|&d| self.output.strides[d] == 1 && self.output.shape[d] > 1).unwrap_or(rank - 1)
    }

    /// Calls `visit` with the output offset and the output index of every row.
    fn rows(&self, row: usize, mut visit: impl FnMut(usize, &[usize; MAX_RANK])) {
        let mut index = [0; MAX_RANK];
        // Not merged: each dimension's index is needed.
        let mut nest = Nest::<1> { axes: heapless::Vec::new() };
        for d in (0..self.output.rank()).filter(|&d| d != row) {
            let axis = strided::Axis { extent: self.output.shape[d].into(), strides: [self.output.strides[d].into()] };
            let _ = nest.axes.push(axis);
        }
        for [to] in nest.walk([self.output.offset as usize]) {
            visit(to, &index);
            for d in (0..self.output.rank()).rev().filter(|&d| d != row) {
                index[d] += 1;
                if index[d] < self.output.shape[d] as usize {
                    break;
                }
                index[d] = 0;
            }
        }
    }

    fn nearest<T: Pod>(&self, input: &[T], output: &mut [T], tables: &Tables) {
        let row = self.row_dimension();
        let (count, read, write) = self.row_shape(row);
        let resized = self.resizes(row);
        self.rows(row, |to, index| {
            let mut from = self.input.offset as usize;
            for d in (0..self.output.rank()).filter(|&d| d != row) {
                let stride = i64::from(self.input.strides[d]);
                from = offset(from, stride, tables.dimensions[d][index[d]].index as usize);
            }
            if !resized && read == 1 && write == 1 {
                output[to..to + count].copy_from_slice(&input[from..from + count]);
            } else {
                for (i, sample) in tables.dimensions[row].iter().enumerate() {
                    output[offset(to, write, i)] = input[offset(from, read, sample.index as usize)];
                }
            }
        });
    }

    /// Extent of a row, and its strides in input and output.
    fn row_shape(&self, row: usize) -> (usize, i64, i64) {
        (self.output.shape[row] as usize, self.input.strides[row].into(), self.output.strides[row].into())
    }

    fn weighted<T: Widen<Wide: Real>>(&self, input: &[T], output: &mut [T], tables: &Tables) {
        let row = self.row_dimension();
        let (count, read, write) = self.row_shape(row);
        let taps = self.tap_count();
        let along = if self.resizes(row) { taps } else { 1 };
        self.rows(row, |to, index| {
            for first in (0..count).step_by(TILE) {
                let width = TILE.min(count - first);
                let mut sums = [T::Wide::ZERO; TILE];
                let samples = &tables.dimensions[row][first * taps..(first + width) * taps];
                self.across(row, index, tables, |from, weight| {
                    let weight = T::Wide::from_f64(weight);
                    if along == 1 && read == 1 {
                        for (sum, &x) in sums.iter_mut().zip(&input[from + first..from + first + width]) {
                            *sum = *sum + weight * x.widen();
                        }
                        return;
                    }
                    for (sum, samples) in sums.iter_mut().zip(samples.chunks_exact(taps)) {
                        let mut value = T::Wide::ZERO;
                        for sample in &samples[..along] {
                            let x = input[offset(from, read, sample.index as usize)].widen();
                            value = value + T::Wide::from_f64(sample.weight) * x;
                        }
                        *sum = *sum + weight * value;
                    }
                });
                for (i, &sum) in sums[..width].iter().enumerate() {
                    output[offset(to, write, first + i)] = T::narrow(sum);
                }
            }
        });
    }

    /// Calls `visit` with input offset and weight of every combination of samples in the dimensions other than `row`.
    fn across(&self, row: usize, index: &[usize; MAX_RANK], tables: &Tables, mut visit: impl FnMut(usize, f64)) {
        let taps = self.tap_count();
        let mut choice = [0; MAX_RANK];
        loop {
            let (mut from, mut weight) = (self.input.offset as usize, 1.0);
            for d in (0..self.output.rank()).filter(|&d| d != row) {
                let sample = tables.dimensions[d][index[d] * taps + choice[d]];
                from = offset(from, self.input.strides[d].into(), sample.index as usize);
                weight *= sample.weight;
            }
            visit(from, weight);
            let mut d = self.output.rank();
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                if d == row || !self.resizes(d) {
                    continue;
                }
                choice[d] += 1;
                if choice[d] < taps {
                    break;
                }
                choice[d] = 0;
            }
        }
    }
}
