//! Correlation of integers of at most 16 bits with exact sums.

use super::axis::unravel;
use super::correlate::{Correlation, Store};
use super::cpu::{self, Pair, Vector, Vectorised};
use super::epilogue::{Finish, Panel};
use super::tile::{self, COLUMNS, ROWS, Tile};
use super::window::start;
use super::{Element, cast, cast_mut, match_type, with_factor};
use crate::{KernelError, View};
use bytemuck::Zeroable;

/// Most output positions that are dot products with rows of weights where they lie.
const FEW: u64 = 4;

impl Correlation<'_> {
    /// As [`Correlation::run`], for integers: sums and the bias, one for each output channel or none, are i32 and wrap; what
    /// `finish` computes of them starts from f32. Without it the output is i32.
    ///
    /// # Errors
    /// As [`Correlation::run`].
    pub(crate) fn run_integers(
        &self,
        operands: [&[u8]; 2],
        bias: Option<&[i32]>,
        finish: Option<&mut Finish<'_>>,
        output: &mut [u8],
        workspace: &mut [u8],
    ) -> Result<(), KernelError> {
        let extras = finish.as_ref().map_or(&[][..], |finish| finish.extras());
        let mut finish = finish;
        let mut converted = [0.0; ROWS * COLUMNS];
        let store: &mut Store<'_, Pair> = &mut |target, row, count, sums| {
            let bias = bias.and_then(|bias| bias.get(target.channel + row..)).unwrap_or(&[]);
            let rows = &mut sums[..count.min(ROWS) * COLUMNS];
            cpu::dispatch(Add { bias, sums: &mut *rows, converted: &mut converted });
            match &mut finish {
                Some(finish) => finish.store(target, row, count, &mut converted, &self.geometry.output, output),
                None => scatter(target, row, count, sums, cast_mut(output, 2)?),
            }
            Ok(())
        };
        let one_tap = self.axes.iter().all(|axis| axis.taps == 1);
        if one_tap && self.channels_are_adjacent() && self.positions() <= FEW {
            let columns = cast_mut(&mut *workspace, 2)?;
            // The workspace has no room for tens of thousands of channels.
            if let Some(columns) = columns.get_mut(..(self.positions() as usize).saturating_mul(self.group().1)) {
                return self.dots(operands, columns, extras, store);
            }
        }
        self.products::<Pair>(operands, extras, workspace, store)
    }

    /// As [`Correlation::products`], for few positions and one tap whose weights are side by side; `columns` is room for what all
    /// positions meet.
    fn dots(
        &self,
        [input, weights]: [&[u8]; 2],
        columns: &mut [i16],
        extras: &[View],
        store: &mut Store<'_, Pair>,
    ) -> Result<(), KernelError> {
        let ((m, c), positions) = (self.group(), self.positions() as usize);
        let (images, groups) = (self.geometry.output.shape[0] as usize, self.geometry.groups as usize);
        for (image, group) in (0..images).flat_map(|image| (0..groups).map(move |group| (image, group))) {
            with_factor!(self.geometry.input.dtype, T => {
                for (column, position) in columns.chunks_exact_mut(c.max(1)).zip(0..) {
                    self.column(image, group * c, position, cast::<T>(input, 0)?, column);
                }
            });
            let target = self.panel(group, image, extras, 0, positions);
            for row in (0..m).step_by(ROWS) {
                let (count, mut sums) = ((m - row).min(ROWS), Tile::<i32>::zeroed());
                match_type!(self.geometry.weights.dtype, T => {
                    let start = |i: usize| self.weight_start(group, row + i.min(count - 1), 0);
                    let rows = tile::apart(cast::<T>(weights, 1)?, c, start).ok_or(KernelError::OperandTooShort(1))?;
                    for (row, sums) in rows.iter().zip(sums.chunks_exact_mut(COLUMNS)).take(count) {
                        for (column, sum) in columns.chunks_exact(c.max(1)).zip(sums) {
                            *sum = cpu::dispatch(Dot { row, column });
                        }
                    }
                }, { I8: i8, U8: u8, I16: i16 } else return Err(KernelError::Type("factors")));
                store(&target, row, count, &mut sums)?;
            }
        }
        Ok(())
    }

    /// What a position meets through the only tap of channels from `channel` on.
    fn column<T: Element>(&self, image: usize, channel: usize, position: i64, input: &[T], column: &mut [i16]) {
        let view = &self.geometry.input;
        let (first, stride) = (start(view, image, channel), i64::from(view.strides[1]));
        let position = unravel(position, self.axes.map(|axis| axis.output));
        let Some(met) = self.meets(position, [0; 3]) else { return column.fill(self.padding_value as i16) };
        for (k, x) in (0..).zip(column) {
            *x = input.get((first + met + k * stride) as usize).map_or(0, |x| x.to_i64() as i16);
        }
    }
}

/// The wrapping sum of products of two slices of one length.
struct Dot<'a, T> {
    row: &'a [T],
    column: &'a [i16],
}

impl<T: Element> Vectorised for Dot<'_, T> {
    type Output = i32;

    #[inline(always)]
    fn run<V: Vector>(self, v: V) -> i32 {
        let step = 2 * V::LANES;
        let (rows, columns) = (self.row.chunks_exact(step), self.column.chunks_exact(step));
        let ends = rows.remainder().iter().zip(columns.remainder());
        let end = ends.fold(0i32, |sum, (w, x)| sum.wrapping_add((w.to_i64() as i32).wrapping_mul((*x).into())));
        let mut lanes = [0; 16];
        let mut sums = v.load_sums(&lanes, 0);
        for (row, column) in rows.zip(columns) {
            let mut words = [[0i16; 8]; 4];
            for (words, row) in words.iter_mut().zip(row.as_chunks::<8>().0) {
                *words = T::to_words(*row);
            }
            let [row, column]: [&[Pair]; 2] = [bytemuck::cast_slice(&words), bytemuck::cast_slice(column)];
            sums = v.multiply_add_pairs(v.load_pairs(row, 0), v.load_pairs(column, 0), sums);
        }
        v.store_sums(sums, &mut lanes, 0);
        lanes.into_iter().fold(end, i32::wrapping_add)
    }
}

/// Adds the bias to rows of sums, and converts them.
struct Add<'a> {
    /// From the first row on; none at all counts as zeros.
    bias: &'a [i32],
    sums: &'a mut [i32],
    converted: &'a mut Tile,
}

impl Vectorised for Add<'_> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let rows = self.sums.as_chunks_mut::<COLUMNS>().0.iter_mut().zip(self.converted.as_chunks_mut::<COLUMNS>().0);
        for ((sums, converted), bias) in rows.zip(self.bias.iter().chain(core::iter::repeat(&0))) {
            sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(*bias));
            *converted = sums.map(|sum| sum as f32);
        }
    }
}

/// Stores rows of sums as they are.
fn scatter(target: &Panel, first: usize, rows: usize, sums: &Tile<i32>, output: &mut [i32]) {
    let place = &target.output;
    for (i, sums) in sums.chunks_exact(COLUMNS).take(rows.min(ROWS)).enumerate() {
        for (&sum, &column) in sums.iter().zip(place.columns()).take(target.columns) {
            if let Some(to) = output.get_mut(place.at(first + i, column)) {
                *to = sum;
            }
        }
    }
}
