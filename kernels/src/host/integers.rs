//! Correlation of integers of at most 16 bits with exact sums.

use super::cast_mut;
use super::correlate::Correlation;
use super::cpu::{self, Pair, Vector, Vectorised};
use super::epilogue::{Finish, Panel};
use super::tile::{COLUMNS, ROWS, Tile};
use crate::KernelError;

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
        self.products::<Pair>(operands, extras, workspace, &mut |target, row, count, sums| {
            let bias = bias.and_then(|bias| bias.get(target.channel + row..)).unwrap_or(&[]);
            let rows = &mut sums[..count.min(ROWS) * COLUMNS];
            cpu::dispatch(Add { bias, sums: &mut *rows, converted: &mut converted });
            match &mut finish {
                Some(finish) => finish.store(target, row, count, &mut converted, &self.geometry.output, output),
                None => scatter(target, row, count, sums, cast_mut(output, 2)?),
            }
            Ok(())
        })
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
