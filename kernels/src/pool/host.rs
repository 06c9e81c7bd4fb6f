//! Reference kernel: channels side by side where they lie so, else [lines](super::lines) of each channel, or one output after the
//! other where windows are wide.

use super::lines::{self, Lines};
use super::{Pool, Pooling};
use crate::host::axis::Axis;
use crate::host::cpu::{self, Vector, Vectorised};
use crate::host::window::{Window, spatial_strides, start};
use crate::host::{
    Boolean, Element, cast, cast_mut, check_operands, check_plain, clear_padding, match_type, with_plain,
};
use crate::{Family, KernelError, View};
use core::marker::PhantomData;
use half::{bf16, f16};

/// Accumulators of one row of channels.
const ROW: usize = 256;
/// Partial results side by side where a whole stretch becomes one value.
const LANES: usize = 16;

/// How values become one.
pub(super) trait Operator<A> {
    /// The result of no values.
    const NEUTRAL: A;
    /// Whether results are divided by counts.
    const MEAN: bool;
    /// Of two values.
    fn fold(a: A, b: A) -> A;
    /// As a divisor.
    fn divisor(count: i64) -> A;
    /// The result where `a · b` values were folded; of none it is that of one.
    fn finish(folded: A, a: A, b: A) -> A;
}

/// The largest; NaN wins.
struct Largest;

/// The average.
struct Mean;

macro_rules! largest {
    ($($t:ty: $lowest:expr, |$a:ident, $b:ident| $fold:expr;)*) => {$(
        impl Operator<$t> for Largest {
            const NEUTRAL: $t = $lowest;
            const MEAN: bool = false;
            #[inline(always)]
            fn fold($a: $t, $b: $t) -> $t {
                $fold
            }
            #[inline(always)]
            fn divisor(_: i64) -> $t {
                $lowest
            }
            #[inline(always)]
            fn finish(folded: $t, _: $t, _: $t) -> $t {
                folded
            }
        }
    )*};
}

/// The larger float; where `a` is NaN, bits that make a NaN of any number are added. A choice between `a` and `b` alone would become a
/// store with a mask where the result replaces `a`, which is slow.
macro_rules! larger_float {
    ($a:ident, $b:ident, $t:ident) => {{
        let larger = if $a >= $b { $a.to_bits() } else { $b.to_bits() };
        $t::from_bits(larger | if $a.is_nan() { $t::NAN.to_bits() } else { 0 })
    }};
}

largest! {
    f32: f32::NEG_INFINITY, |a, b| larger_float!(a, b, f32);
    f64: f64::NEG_INFINITY, |a, b| larger_float!(a, b, f64);
    i8: i8::MIN, |a, b| a.max(b);
    u8: u8::MIN, |a, b| a.max(b);
    i32: i32::MIN, |a, b| a.max(b);
    i64: i64::MIN, |a, b| a.max(b);
    u64: u64::MIN, |a, b| a.max(b);
}

macro_rules! mean {
    ($($t:ty),*) => {$(
        impl Operator<$t> for Mean {
            const NEUTRAL: $t = 0.0;
            const MEAN: bool = true;
            #[inline(always)]
            fn fold(a: $t, b: $t) -> $t {
                a + b
            }
            #[inline(always)]
            fn divisor(count: i64) -> $t {
                count as $t
            }
            #[inline(always)]
            fn finish(folded: $t, a: $t, b: $t) -> $t {
                folded / (a * b).max(1.0)
            }
        }
    )*};
}

mean!(f32, f64);

/// An element type and the type that its values are folded in.
pub(super) trait Pooled: Element {
    type Wide: Copy;
    /// Whether networks pool such elements; the others share less code.
    const COMMON: bool;
    fn widen(self) -> Self::Wide;
    /// Integers saturate, so that the lowest wide number becomes the lowest element.
    fn narrow(wide: Self::Wide) -> Self;
}

/// An element as a wider number; [`Element`] has no conversion to i32, which every integer of 16 bits fits.
macro_rules! widen {
    ($x:expr, to_i32) => {
        $x.into()
    };
    ($x:expr, itself) => {
        $x
    };
    ($x:expr, $widen:ident) => {
        Element::$widen($x)
    };
}

macro_rules! pooled {
    ($($t:ty, $wide:ty, $common:literal, $widen:ident, $narrow:expr;)*) => {$(
        impl Pooled for $t {
            type Wide = $wide;
            const COMMON: bool = $common;
            #[inline(always)]
            fn widen(self) -> $wide {
                widen!(self, $widen)
            }
            #[inline(always)]
            fn narrow(wide: $wide) -> Self {
                $narrow(wide)
            }
        }
    )*};
}

pooled! {
    f32, f32, true, itself, |x| x;
    f16, f32, true, to_f32, f16::from_f32;
    bf16, f32, true, to_f32, bf16::from_f32;
    f64, f64, false, itself, |x| x;
    i8, i8, true, itself, |x| x;
    i16, i32, false, to_i32, |x: i32| x.max(Self::MIN.into()) as Self;
    i32, i64, false, to_i64, |x: i64| x.max(Self::MIN.into()) as Self;
    i64, i64, false, itself, |x| x;
    u8, u8, true, itself, |x| x;
    u16, i32, false, to_i32, |x: i32| x.max(0) as Self;
    u32, i64, false, to_i64, |x: i64| x.max(0) as Self;
    u64, u64, false, itself, |x| x;
    Boolean, i64, false, to_i64, |x: i64| Self(u8::from(x > 0));
}

impl Family for Pool {
    fn check(&self) -> Result<(), KernelError> {
        self.sliding().check(&self.input, &self.output)?;
        self.input.bytes()?;
        self.output.bytes()?;
        if self.input.rank() != self.output.rank() {
            return Err(KernelError::Shape("rank"));
        }
        if self.input.shape[..2] != self.output.shape[..2] {
            return Err(KernelError::Shape("batch and channels"));
        }
        if self.input.dtype != self.output.dtype || (self.kind != Pooling::Max && !self.input.dtype.is_float()) {
            return Err(KernelError::Type("pooling operands"));
        }
        check_plain(self.input.dtype)
    }

    fn input(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.input)
    }

    fn output(&self, index: usize) -> Option<&View> {
        (index == 0).then_some(&self.output)
    }

    /// One operation for each tap.
    fn flops(&self) -> u64 {
        self.output.shape.iter().chain(&self.window).fold(1, |flops: u64, &e| flops.saturating_mul(u64::from(e)))
    }

    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], workspace: &mut [u8]) -> Result<(), KernelError> {
        check_operands(self, inputs, outputs, workspace)?;
        let ([input], [output]) = (inputs, outputs) else { return Err(KernelError::OperandCount) };
        if self.output.shape.contains(&0) {
            return Ok(());
        }
        clear_padding(&self.output, output);
        if self.kind == Pooling::Max {
            with_plain!(self.input.dtype, T => self.pool::<T, Largest>(cast(input, 0)?, cast_mut(output, 1)?))
        } else {
            match_type!(self.input.dtype, T => self.pool::<T, Mean>(cast(input, 0)?, cast_mut(output, 1)?),
                { F32: f32, F16: f16, Bf16: bf16, F64: f64 } else Err(KernelError::Type("pooling operands")))
        }
    }
}

impl Pool {
    fn sliding(&self) -> Window {
        Window { taps: self.window, strides: self.strides, dilations: self.dilations, pads: self.pads }
    }

    /// Taps along an axis that count in an average for output position `j`.
    pub(super) fn counted(&self, d: usize, axis: &Axis, j: i64) -> i64 {
        let (low, high) = match self.kind {
            Pooling::AverageIncludingPads => (axis.shift, axis.input + i64::from(self.pads_end[d])),
            _ => (0, axis.input),
        };
        let first = j * axis.step + axis.shift;
        if first >= low && first + (axis.taps - 1) * axis.tap_step < high {
            return axis.taps;
        }
        // Taps q with low ≤ first + q·tap_step < high.
        let before = |limit: i64| ((limit - first + axis.tap_step - 1) / axis.tap_step).clamp(0, axis.taps);
        if high <= low { 0 } else { before(high) - before(low) }
    }

    fn pool<T: Pooled, O: Operator<T::Wide>>(&self, input: &[T], output: &mut [T]) -> Result<(), KernelError> {
        let axes = &self.sliding().axes(&self.input, &self.output)?;
        if self.input.strides[1] == 1 && self.input.shape[1] > 1 {
            self.channels::<T, O>(axes, input, output);
        } else if let Some(most) = lines::outputs(&axes[2]).filter(|_| T::COMMON) {
            for first in (0..axes[2].output).step_by(most) {
                let count = most.min((axes[2].output - first) as usize);
                cpu::dispatch(Lines::<T, O>::new(self, axes, first, count, input, &mut *output));
            }
        } else {
            self.one_by_one::<T, O>(axes, input, output);
        }
        Ok(())
    }

    /// Calls `visit` with every image and position of the output.
    fn positions(&self, axes: &[Axis; 3], mut visit: impl FnMut(usize, [i64; 3])) {
        let [depth, height, width] = axes.map(|axis| axis.output);
        for image in 0..self.input.shape[0] as usize {
            for (z, y) in (0..depth).flat_map(|z| (0..height).map(move |y| (z, y))) {
                (0..width).for_each(|x| visit(image, [z, y, x]));
            }
        }
    }

    /// Taps that count at a position, along the last axis and along the others.
    fn divisors<A, O: Operator<A>>(&self, axes: &[Axis; 3], at: [i64; 3]) -> [A; 2] {
        let [depth, height, width] = core::array::from_fn(|d| self.counted(d, &axes[d], at[d]));
        [O::divisor(depth * height), O::divisor(width)]
    }

    /// Position by position, rows of channels.
    fn channels<T: Pooled, O: Operator<T::Wide>>(&self, axes: &[Axis; 3], input: &[T], output: &mut [T]) {
        let channels = self.input.shape[1] as usize;
        let [strides, places] = [&self.input, &self.output].map(spatial_strides);
        // Made once: clearing all of them costs more than a short row.
        let mut sums = [O::NEUTRAL; ROW];
        self.positions(axes, |image, at| {
            let [area, width] = self.divisors::<T::Wide, O>(axes, at);
            for channel in (0..channels).step_by(ROW) {
                let sums = &mut sums[..ROW.min(channels - channel)];
                sums.fill(O::NEUTRAL);
                let from = start(&self.input, image, channel);
                for [i, j, k] in crate::host::correlate::taps_of(axes) {
                    let met = [(0, i), (1, j), (2, k)].map(|(d, tap)| axes[d].meets(at[d], tap));
                    if let [Some(a), Some(b), Some(c)] = met {
                        let first = from + a * strides[0] + b * strides[1] + c * strides[2];
                        let input = usize::try_from(first).ok().and_then(|first| input.get(first..)).unwrap_or(&[]);
                        cpu::dispatch(Fold::<T, O> { sums: &mut *sums, input, operator: PhantomData });
                    }
                }
                let to = start(&self.output, image, channel) + (0..3).map(|d| at[d] * places[d]).sum::<i64>();
                for (i, sum) in sums.iter().enumerate() {
                    if let Some(to) = output.get_mut((to + i as i64 * i64::from(self.output.strides[1])) as usize) {
                        *to = T::narrow(O::finish(*sum, area, width));
                    }
                }
            }
        });
    }

    /// Output by output.
    fn one_by_one<T: Pooled, O: Operator<T::Wide>>(&self, axes: &[Axis; 3], input: &[T], output: &mut [T]) {
        let [strides, places] = [&self.input, &self.output].map(spatial_strides);
        let last = &axes[2];
        // Taps are to one output what positions are to one tap.
        let along = Axis { step: last.tap_step, tap_step: last.step, ..*last };
        self.positions(axes, |image, at| {
            let [area, width] = self.divisors::<T::Wide, O>(axes, at);
            let (_, x, inside) = along.meets_range(0, at[2], last.taps as usize);
            for channel in 0..self.input.shape[1] as usize {
                let mut sum = O::NEUTRAL;
                let from = start(&self.input, image, channel);
                for (i, j) in (0..axes[0].taps).flat_map(|i| (0..axes[1].taps).map(move |j| (i, j))) {
                    if let (Some(a), Some(b)) = (axes[0].meets(at[0], i), axes[1].meets(at[1], j)) {
                        let first = from + a * strides[0] + b * strides[1] + x * strides[2];
                        let step = last.tap_step * strides[2];
                        let operator = PhantomData::<O>;
                        sum = cpu::dispatch(Line::<T, O> { input, first, step, count: inside, start: sum, operator });
                    }
                }
                let to = start(&self.output, image, channel) + (0..3).map(|d| at[d] * places[d]).sum::<i64>();
                if let Some(to) = output.get_mut(to as usize) {
                    *to = T::narrow(O::finish(sum, area, width));
                }
            }
        });
    }
}

/// `sums[i] = fold(sums[i], input[i])`.
struct Fold<'a, T: Pooled, O: Operator<T::Wide>> {
    sums: &'a mut [T::Wide],
    input: &'a [T],
    operator: PhantomData<O>,
}

impl<T: Pooled, O: Operator<T::Wide>> Vectorised for Fold<'_, T, O> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        self.sums.iter_mut().zip(self.input).for_each(|(sum, x)| *sum = O::fold(*sum, x.widen()));
    }
}

/// Values `step` apart as one, folded into `start`.
struct Line<'a, T: Pooled, O: Operator<T::Wide>> {
    input: &'a [T],
    first: i64,
    step: i64,
    count: usize,
    start: T::Wide,
    operator: PhantomData<O>,
}

impl<T: Pooled, O: Operator<T::Wide>> Vectorised for Line<'_, T, O> {
    type Output = T::Wide;

    #[inline(always)]
    fn run<V: Vector>(self, _: V) -> T::Wide {
        let Self { input, first, step, count, start, .. } = self;
        let dense = if step == 1 { usize::try_from(first).ok() } else { None };
        if let Some(values) = dense.and_then(|first| input.get(first..first.checked_add(count)?)) {
            let (groups, rest) = values.as_chunks::<LANES>();
            let mut lanes = [O::NEUTRAL; LANES];
            for group in groups {
                for (lane, x) in lanes.iter_mut().zip(group) {
                    *lane = O::fold(*lane, x.widen());
                }
            }
            return lanes.into_iter().chain(rest.iter().map(|x| x.widen())).fold(start, O::fold);
        }
        let values = (0..count as i64).filter_map(|i| input.get((first + i * step) as usize));
        values.fold(start, |sum, x| O::fold(sum, x.widen()))
    }
}
