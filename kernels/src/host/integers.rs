//! Correlation of integers of at most 16 bits with exact sums.

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
/// Elements of the input that are converted at a time.
const CHANNELS: usize = 512;

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
            return self.dots(operands, extras, store);
        }
        self.products::<Pair>(operands, extras, workspace, store)
    }

    /// As [`Correlation::products`], for few positions and one tap whose weights are side by side.
    fn dots(
        &self,
        [input, weights]: [&[u8]; 2],
        extras: &[View],
        store: &mut Store<'_, Pair>,
    ) -> Result<(), KernelError> {
        let ((m, c), positions) = (self.group(), self.positions() as usize);
        let (images, groups) = (self.geometry.output.shape[0] as usize, self.geometry.groups as usize);
        for (image, group) in (0..images).flat_map(|image| (0..groups).map(move |group| (image, group))) {
            let target = self.panel(group, image, extras, 0, positions);
            for row in (0..m).step_by(ROWS) {
                let (count, mut sums) = ((m - row).min(ROWS), Tile::<i32>::zeroed());
                for first in (0..c).step_by(CHANNELS) {
                    let length = (c - first).min(CHANNELS);
                    let start = |i: usize| self.weight_start(group, row + i.min(count - 1), first);
                    for position in 0..positions {
                        let mut x = [0; CHANNELS];
                        let x = &mut x[..length];
                        with_factor!(self.geometry.input.dtype, T => {
                            self.column(image, group * c + first, position as i64, cast::<T>(input, 0)?, x);
                        });
                        match_type!(self.geometry.weights.dtype, T => {
                            let rows = tile::apart(cast::<T>(weights, 1)?, length, start);
                            let rows = rows.ok_or(KernelError::OperandTooShort(1))?;
                            for (i, row) in rows.iter().take(count).enumerate() {
                                let sum = &mut sums[i * COLUMNS + position];
                                *sum = sum.wrapping_add(cpu::dispatch(Dot { row, x }));
                            }
                        }, { I8: i8, U8: u8, I16: i16 } else return Err(KernelError::Type("factors")));
                    }
                }
                store(&target, row, count, &mut sums)?;
            }
        }
        Ok(())
    }

    /// What a position meets through the only tap of channels from `channel` on.
    fn column<T: Element>(&self, image: usize, channel: usize, position: i64, input: &[T], x: &mut [i16]) {
        let view = &self.geometry.input;
        let (first, stride) = (start(view, image, channel), i64::from(view.strides[1]));
        let [_, height, width] = self.axes.map(|axis| axis.output.max(1));
        let position = [position / width / height, position / width % height, position % width];
        let Some(met) = self.meets(position, [0; 3]) else { return x.fill(self.padding_value as i16) };
        for (k, x) in (0..).zip(x) {
            *x = input.get((first + met + k * stride) as usize).map_or(0, |x| x.to_i64() as i16);
        }
    }
}

/// The wrapping sum of products of two slices of one length.
struct Dot<'a, T> {
    row: &'a [T],
    x: &'a [i16],
}

impl<T: Element> Vectorised for Dot<'_, T> {
    type Output = i32;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> i32 {
        let product = |(w, x): (&T, &i16)| (w.to_i64() as i32).wrapping_mul(i32::from(*x));
        let ((rows, row), (xs, x)) = (self.row.as_chunks::<COLUMNS>(), self.x.as_chunks::<COLUMNS>());
        let mut sums = [0i32; COLUMNS];
        for (row, x) in rows.iter().zip(xs) {
            for (sum, factors) in sums.iter_mut().zip(row.iter().zip(x)) {
                *sum = sum.wrapping_add(product(factors));
            }
        }
        let rest = row.iter().zip(x).map(product);
        sums.into_iter().chain(rest).fold(0, i32::wrapping_add)
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
