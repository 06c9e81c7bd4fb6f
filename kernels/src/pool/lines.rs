//! Pooling of images whose lines lie in memory one after the other: of each line of outputs, first the lines of its windows are
//! folded, column by column, then the columns of each window. Both are loops over neighbours, in buffers that end with spare
//! columns: loops of whole stretches vectorise, and their last results are not used.

use super::Pool;
use super::host::{Operator, Pooled};
use crate::host::axis::Axis;
use crate::host::cpu::{Vector, Vectorised};
use crate::host::window::{spatial_strides, start};
use core::marker::PhantomData;
use core::ops::Range;

/// Most outputs of a line that are computed at once.
const OUTPUTS: usize = 256;
/// Most input columns under them.
const COLUMNS: usize = 1024;
/// Most taps along a line: more are folded faster side by side than one after the other. Also the largest distance between outputs
/// that are computed at once.
const TAPS: usize = 64;
/// Values of a stretch.
const STRETCH: usize = 32;

/// A buffer for lines of so many values.
const fn spare(values: usize) -> usize {
    values + STRETCH
}

/// How many neighbouring outputs are computed at once; none where windows are too wide.
pub(super) fn outputs(axis: &Axis) -> Option<usize> {
    let window = axis.taps.checked_sub(1)?.checked_mul(axis.tap_step)?.checked_add(1)?;
    let free = (COLUMNS as i64).checked_sub(window).filter(|&free| free >= 0 && axis.taps <= TAPS as i64)?;
    Some(if axis.step > TAPS as i64 { 1 } else { (free / axis.step + 1).min(OUTPUTS as i64) as usize })
}

/// Neighbouring outputs of all lines of all channels.
pub(super) struct Lines<'a, T: Pooled, O> {
    pool: &'a Pool,
    axes: &'a [Axis; 3],
    /// The first output.
    first: i64,
    count: usize,
    /// Input columns under the outputs, from that of the first tap on, which may lie in the padding.
    columns: usize,
    /// Those that are inside the input.
    inside: Range<usize>,
    /// Taps of each output that count along a line.
    divisors: [T::Wide; spare(OUTPUTS)],
    input: &'a [T],
    output: &'a mut [T],
    operator: PhantomData<O>,
}

impl<'a, T: Pooled, O: Operator<T::Wide>> Lines<'a, T, O> {
    /// `count` outputs from `first` on, no more than [`outputs`] allows.
    pub(super) fn new(
        pool: &'a Pool,
        axes: &'a [Axis; 3],
        first: i64,
        count: usize,
        input: &'a [T],
        output: &'a mut [T],
    ) -> Self {
        let axis = &axes[2];
        let columns = ((count as i64 - 1) * axis.step + (axis.taps - 1) * axis.tap_step + 1) as usize;
        let left = first * axis.step + axis.shift;
        let inside = (-left).clamp(0, columns as i64) as usize..(axis.input - left).clamp(0, columns as i64) as usize;
        let mut divisors = [O::NEUTRAL; spare(OUTPUTS)];
        (first..).zip(&mut divisors[..count]).for_each(|(j, divisor)| *divisor = O::divisor(pool.counted(2, axis, j)));
        Self { pool, axes, first, count, columns, inside, divisors, input, output, operator: PhantomData }
    }
}

impl<T: Pooled, O: Operator<T::Wide>> Vectorised for Lines<'_, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { pool, axes, first, count, columns, inside, divisors, input, output, .. } = self;
        let ([strides, places], axis) = ([&pool.input, &pool.output].map(spatial_strides), &axes[2]);
        let left = (first * axis.step + axis.shift + inside.start as i64) * strides[2];
        // Padding stays neutral.
        let mut line = [T::narrow(O::NEUTRAL); spare(COLUMNS)];
        let mut folded = [O::NEUTRAL; spare(COLUMNS)];
        // Columns a stride apart side by side, phase by phase; the last phases may be a column longer than the columns reach.
        let mut apart = [O::NEUTRAL; spare(COLUMNS + TAPS)];
        let step = if count == 1 { 1 } else { axis.step as usize };
        let phase = columns.div_ceil(step);
        let (mut sums, mut results) = ([O::NEUTRAL; spare(OUTPUTS)], [T::narrow(O::NEUTRAL); spare(OUTPUTS)]);
        let images = (0..pool.input.shape[0] as usize)
            .flat_map(|image| (0..pool.input.shape[1] as usize).map(move |channel| (image, channel)));
        for (image, channel) in images {
            let from = start(&pool.input, image, channel) + left;
            let to = start(&pool.output, image, channel) + first * places[2];
            for (z, y) in (0..axes[0].output).flat_map(|z| (0..axes[1].output).map(move |y| (z, y))) {
                folded[..columns].fill(O::NEUTRAL);
                for (i, j) in (0..axes[0].taps).flat_map(|i| (0..axes[1].taps).map(move |j| (i, j))) {
                    let (Some(a), Some(b)) = (axes[0].meets(z, i), axes[1].meets(y, j)) else { continue };
                    let at = from + a * strides[0] + b * strides[1];
                    load(input, at, strides[2], &mut line[inside.clone()]);
                    combine(&mut folded, &line, columns, |a, b: T| O::fold(a, b.widen()));
                }
                match step {
                    1 => {}
                    2 => {
                        let pairs = folded.as_chunks::<2>().0;
                        combine(&mut apart, pairs, phase, |_, [x, _]| x);
                        combine(&mut apart[phase..], pairs, phase, |_, [_, x]| x);
                    }
                    _ => {
                        for (p, to) in apart.chunks_mut(phase).take(step).enumerate() {
                            let from = folded[..columns].iter().skip(p).step_by(step);
                            to.iter_mut().zip(from).for_each(|(to, x)| *to = *x);
                        }
                    }
                }
                let columns = if step > 1 { &apart[..] } else { &folded };
                sums[..count].fill(O::NEUTRAL);
                for k in 0..axis.taps {
                    let distance = (k * axis.tap_step) as usize;
                    combine(&mut sums, &columns[distance % step * phase + distance / step..], count, O::fold);
                }
                if O::MEAN {
                    let area = O::divisor(pool.counted(0, &axes[0], z) * pool.counted(1, &axes[1], y));
                    combine(&mut sums, &divisors, count, |sum, width| O::finish(sum, area, width));
                }
                combine(&mut results, &sums, count, |_, sum| T::narrow(sum));
                store(&results[..count], output, to + z * places[0] + y * places[1], places[2]);
            }
        }
    }
}

/// `to[i] = f(to[i], from[i])` for `count` values and up to a stretch more, as far as both reach.
#[inline(always)]
fn combine<A: Copy, B: Copy>(to: &mut [A], from: &[B], count: usize, f: impl Fn(A, B) -> A) {
    let stretches = to.as_chunks_mut::<STRETCH>().0.iter_mut().zip(from.as_chunks::<STRETCH>().0);
    for (to, from) in stretches.take(count.div_ceil(STRETCH)) {
        for (to, from) in to.iter_mut().zip(from) {
            *to = f(*to, *from);
        }
    }
}

/// Reads elements `step` apart.
#[inline(always)]
fn load<T: Copy>(input: &[T], first: i64, step: i64, line: &mut [T]) {
    let dense = if step == 1 { usize::try_from(first).ok() } else { None };
    if let Some(from) = dense.and_then(|first| input.get(first..first + line.len())) {
        line.copy_from_slice(from);
    } else {
        for (i, to) in (0..).zip(line) {
            *to = input.get((first + i * step) as usize).copied().unwrap_or(*to);
        }
    }
}

/// Writes elements `step` apart.
#[inline(always)]
fn store<T: Copy>(results: &[T], output: &mut [T], first: i64, step: i64) {
    let dense = if step == 1 { usize::try_from(first).ok() } else { None };
    if let Some(to) = dense.and_then(|first| output.get_mut(first..first + results.len())) {
        to.copy_from_slice(results);
    } else {
        for (i, &result) in (0..).zip(results) {
            if let Some(to) = output.get_mut((first + i * step) as usize) {
                *to = result;
            }
        }
    }
}
