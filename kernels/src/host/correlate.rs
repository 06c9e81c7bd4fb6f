//! Cross-correlation as a matrix product: `[m, c · taps] × [c · taps, positions]`, the right factor gathered 16 output
//! positions at a time (implicit GEMM). Convolution is one such correlation, transposed convolution one for each
//! residue of the output position modulo the stride. Of integers two channels of a tap make one step.

use super::axis::{Axis, unravel};
use super::cpu::{self, Vector, Vectorised};
use super::epilogue::{Channels, Finish, Panel, Placement, place_extras};
use super::product::{Extents, Operands};
use super::tile::{self, COLUMNS, Factor, HALF, PackedRow, PanelRow, ROWS, Rows, Tile};
use super::window::{spatial_strides, start};
use super::{Element, cast, stretch, with_factor};
use crate::conv::Geometry;
use crate::{DType, KernelError, View};
use core::ops::Range;

/// A correlation over all images and groups. All views are checked and agree with the axes.
pub(crate) struct Correlation<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) axes: [Axis; 3],
    /// Whether the weights are `[c, m / groups, …]` instead of `[m, c / groups, …]`.
    pub(crate) transposed: bool,
    /// The padding value of the input.
    pub(crate) padding_value: f32,
}

/// Whether the elements of each row of weights `[m, channels, …]` lie side by side, in order.
fn rows_are_contiguous(weights: &View, channels: u32) -> bool {
    let mut step = 1;
    let dense = weights.shape.iter().zip(&weights.strides).skip(1).rev().all(|(&extent, &stride)| {
        let fits = extent == 1 || i64::from(stride) == step;
        step = step.saturating_mul(i64::from(extent));
        fits
    });
    dense && weights.shape.get(1) == Some(&channels) && weights.strides.first().is_some_and(|&stride| stride >= 0)
}

impl Correlation<'_> {
    /// Channels of one group: of the output and of the input.
    pub(super) fn group(&self) -> (usize, usize) {
        let (m, c) = self.geometry.group();
        (m as usize, c as usize)
    }

    /// Element of the weights at the first tap between output channel `row` and input channel `column` of a group.
    pub(super) fn weight_start(&self, group: usize, row: usize, column: usize) -> i64 {
        let (m, c) = self.group();
        if self.transposed {
            start(&self.geometry.weights, group * c + column, row)
        } else {
            start(&self.geometry.weights, group * m + row, column)
        }
    }

    /// Distance of a tap from there.
    pub(super) fn weight_at(&self, q: [i64; 3]) -> i64 {
        let strides = spatial_strides(&self.geometry.weights);
        (0..3).map(|d| (self.axes[d].weight.0 + q[d] * self.axes[d].weight.1) * strides[d]).sum()
    }

    /// A tap by its number.
    fn tap(&self, number: usize) -> [i64; 3] {
        unravel(number as i64, self.axes.map(|axis| axis.taps))
    }

    /// Distance of an output position from a channel's first element.
    pub(super) fn place_at(&self, view: &View, position: [i64; 3]) -> i64 {
        let strides = spatial_strides(view);
        (0..3).map(|d| (self.axes[d].place.0 + position[d] * self.axes[d].place.1) * strides[d]).sum()
    }

    /// Taps of the window.
    fn taps(&self) -> usize {
        self.axes.iter().map(|axis| axis.taps as usize).product()
    }

    /// Output positions of a channel.
    pub(super) fn positions(&self) -> u64 {
        self.axes.iter().map(|axis| axis.output as u64).product()
    }

    /// Whether weights of neighbouring channels lie side by side, so that they can be read together.
    pub(super) fn channels_are_adjacent(&self) -> bool {
        let (weights, (_, channels)) = (&self.geometry.weights, self.group());
        !self.transposed && (weights.strides.get(1) == Some(&1) || channels == 1)
    }

    /// Whether steps go tap by tap, because a tap's weights are side by side, and not channel by channel.
    fn is_tap_major(&self) -> bool {
        self.channels_are_adjacent() && self.taps() > 1 && self.group().1 > 1
    }

    /// The product of one group and one image, with factors of so many terms.
    fn extents(&self, terms: usize) -> Extents {
        let ((m, c), taps) = (self.group(), self.taps());
        let unit = if self.is_tap_major() { 1 } else { taps as u64 };
        Extents { rows: m as u64, columns: self.positions(), steps: (c.div_ceil(terms) * taps) as u64, unit }
    }

    /// Runs the correlation in workspace of [`workspace`].
    ///
    /// # Errors
    /// `OperandTooShort` for the workspace.
    pub(crate) fn run(
        &self,
        inputs: &[&[u8]],
        finish: &mut Finish<'_>,
        output: &mut [u8],
        workspace: &mut [u8],
    ) -> Result<(), KernelError> {
        let [input, weights, ..] = *inputs else { return Err(KernelError::OperandCount) };
        let extras = finish.extras();
        self.products::<f32>([input, weights], extras, workspace, &mut |target, row, count, sums| {
            finish.store(target, row, count, sums, &self.geometry.output, output);
            Ok(())
        })
    }

    /// Hands every tile of sums to `store(target, row, count, sums)`; `extras` are the operands whose places it wants to know.
    ///
    /// # Errors
    /// As [`Correlation::run`].
    pub(super) fn products<F: Factor>(
        &self,
        [input, weights]: [&[u8]; 2],
        extras: &[View],
        workspace: &mut [u8],
        store: &mut Store<'_, F>,
    ) -> Result<(), KernelError> {
        let extents = self.extents(F::TERMS);
        for group in 0..self.geometry.groups as usize {
            for image in 0..self.geometry.output.shape[0] as usize {
                let mut part =
                    Part::<F> { correlation: self, group, image, input, weights, extras, store: &mut *store };
                extents.run(&mut part, workspace, 2)?;
            }
        }
        Ok(())
    }

    /// Where the results of `count` positions, from `position` on, go.
    pub(super) fn panel(&self, group: usize, image: usize, extras: &[View], position: usize, count: usize) -> Panel {
        let runs = Runs::new(&self.axes, position as i64, count);
        let place = |view: &View| self.place(view, group, image, &runs);
        Panel {
            output: place(&self.geometry.output),
            extras: place_extras(extras, place),
            columns: count,
            channel: group * self.group().0,
            channels: Channels::Rows,
        }
    }

    /// Where a panel's results, or the extras for them, lie in a view with the output's extents.
    fn place(&self, view: &View, group: usize, image: usize, runs: &Runs) -> Placement {
        let (m, _) = self.group();
        let (base, row_step) = (start(view, image, group * m), i64::from(view.strides[1]));
        let step = self.axes[2].place.1 * spatial_strides(view)[2];
        let mut columns = [0; COLUMNS];
        for run in runs.iter() {
            let first = self.place_at(view, run.position);
            for (i, column) in columns[run.column..][..run.count].iter_mut().enumerate() {
                *column = first + i as i64 * step;
            }
        }
        Placement::new(base, row_step, columns)
    }
}

/// Takes `count` rows of sums, from `row` on, as [`Operands::store`] does.
pub(super) type Store<'a, F> =
    dyn FnMut(&Panel, usize, usize, &mut Tile<<F as Factor>::Sum>) -> Result<(), KernelError> + 'a;

/// Bytes of workspace for correlations of at most so many output channels, positions, input channels and taps, with factors of
/// type `F`.
pub(crate) fn workspace<F: Factor>(m: u64, positions: u64, channels: u64, taps: u64) -> u64 {
    let steps = channels.div_ceil(F::TERMS as u64).saturating_mul(taps);
    Extents { rows: m, columns: positions, steps, unit: taps }.workspace()
}

/// The product of one group and one image.
struct Part<'a, 's, 'f, F: Factor> {
    correlation: &'a Correlation<'a>,
    group: usize,
    image: usize,
    input: &'a [u8],
    weights: &'a [u8],
    extras: &'a [View],
    store: &'s mut Store<'f, F>,
}

impl<'a, F: Factor> Operands<'a> for Part<'a, '_, '_, F> {
    type Factor = F;

    fn rows<'p>(
        &self,
        row: usize,
        count: usize,
        steps: Range<usize>,
        packed: &'p mut [PackedRow<F>],
    ) -> Result<Rows<'p, F>, KernelError>
    where
        'a: 'p,
    {
        if self.rows_are_direct() {
            return self.dense_rows(row, count, &steps, cast(self.weights, 1)?).map(Rows::Apart);
        }
        with_factor!(self.correlation.geometry.weights.dtype, T => self.pack(row, count, steps, cast::<T>(self.weights, 1)?, packed)?);
        Ok(Rows::Packed(packed))
    }

    fn columns(
        &self,
        column: usize,
        count: usize,
        steps: Range<usize>,
        panel: &mut [PanelRow<F>],
    ) -> Result<(), KernelError> {
        let runs = Runs::new(&self.correlation.axes, column as i64, count);
        with_factor!(self.correlation.geometry.input.dtype, T => self.gather(&runs, steps, cast::<T>(self.input, 0)?, panel));
        Ok(())
    }

    fn target(&self, column: usize, count: usize) -> Panel {
        self.correlation.panel(self.group, self.image, self.extras, column, count)
    }

    fn store(&mut self, target: &Panel, row: usize, count: usize, sums: &mut Tile<F::Sum>) -> Result<(), KernelError> {
        (self.store)(target, row, count, sums)
    }
}

impl<F: Factor> Part<'_, '_, '_, F> {
    /// These steps, tap by tap.
    fn segments(&self, steps: &Range<usize>) -> impl Iterator<Item = Segment> + use<F> {
        let (correlation, (_, channels)) = (self.correlation, self.correlation.group());
        let (whole, taps) = (channels.div_ceil(F::TERMS).max(1), correlation.taps().max(1));
        let (tap_major, steps) = (correlation.is_tap_major(), steps.clone());
        let taps_met = if tap_major { steps.start / whole..steps.end.div_ceil(whole) } else { 0..taps };
        taps_met.map(move |tap| {
            let (pair, count, first, distance) = if tap_major {
                let own = steps.start.max(tap * whole)..steps.end.min((tap + 1) * whole);
                (own.start - tap * whole, own.len(), own.start - steps.start, 1)
            } else {
                (steps.start / taps, steps.len() / taps, tap, taps)
            };
            let channel = pair * F::TERMS;
            Segment { tap, channel, channels: (channels - channel).min(count * F::TERMS), count, first, distance }
        })
    }

    /// Whether the elements of each row of weights lie in the order of the steps.
    fn rows_are_dense(&self) -> bool {
        let (correlation, (_, channels)) = (self.correlation, self.correlation.group());
        let in_order = !correlation.transposed && rows_are_contiguous(&correlation.geometry.weights, channels as u32);
        F::TERMS == 1 && in_order && !correlation.is_tap_major()
    }

    /// Whether they are factors as they are.
    fn rows_are_direct(&self) -> bool {
        self.rows_are_dense() && self.correlation.geometry.weights.dtype == DType::F32
    }

    /// Dense rows of weights, from `row` on. Rows past the last repeat it.
    fn dense_rows<'w, T>(
        &self,
        row: usize,
        count: usize,
        steps: &Range<usize>,
        weights: &'w [T],
    ) -> Result<[&'w [T]; ROWS], KernelError> {
        let taps = self.correlation.taps().max(1);
        let start = |i: usize| self.correlation.weight_start(self.group, row + i.min(count - 1), steps.start / taps);
        tile::apart(weights, steps.len(), start).ok_or(KernelError::OperandTooShort(1))
    }

    /// Packs a tile of rows of weights in the order in which panels are gathered. Rows past the last repeat it.
    fn pack<T: Element>(
        &self,
        row: usize,
        count: usize,
        steps: Range<usize>,
        weights: &[T],
        packed: &mut [PackedRow<F>],
    ) -> Result<(), KernelError> {
        if self.rows_are_dense() {
            tile::interleave(self.dense_rows(row, count, &steps, weights)?, packed);
            return Ok(());
        }
        let correlation = self.correlation;
        let channel_stride = correlation.weight_start(0, 0, 1) - correlation.weight_start(0, 0, 0);
        for segment in self.segments(&steps) {
            let tap = correlation.weight_at(correlation.tap(segment.tap));
            let start = |i: usize| correlation.weight_start(self.group, row + i.min(count - 1), segment.channel) + tap;
            if correlation.channels_are_adjacent() && segment.distance == 1 {
                let rows = tile::apart(weights, segment.channels, start).ok_or(KernelError::OperandTooShort(1))?;
                tile::interleave(rows, packed.get_mut(segment.first..).unwrap_or_default());
                continue;
            }
            let starts: [i64; ROWS] = core::array::from_fn(start);
            for (i, to) in packed.iter_mut().skip(segment.first).step_by(segment.distance).enumerate() {
                let weight = |row: usize, channel: usize| {
                    let at = starts[row] + channel as i64 * channel_stride;
                    (channel < segment.channels).then(|| weights.get(at as usize)).flatten().copied()
                };
                let zero = T::from_f32(0.0);
                *to = core::array::from_fn(|row| {
                    F::of([0, F::TERMS - 1].map(|term| weight(row, i * F::TERMS + term).unwrap_or(zero)))
                });
            }
        }
        Ok(())
    }

    /// Fills the panel: what every position meets through each tap of each channel. A missing last channel meets what the one
    /// before it does, and weights of zero.
    fn gather<T: Element>(&self, runs: &Runs, steps: Range<usize>, input: &[T], panel: &mut [PanelRow<F>]) {
        let correlation = self.correlation;
        let view = &correlation.geometry.input;
        let (_, channels) = correlation.group();
        let strides = spatial_strides(view);
        for segment in self.segments(&steps) {
            let rows = panel.get_mut(segment.first..).unwrap_or_default();
            let last = (segment.count * segment.distance).min(rows.len());
            cpu::dispatch(Gather {
                pieces: &runs.pieces(&correlation.axes, correlation.tap(segment.tap), strides).pieces,
                input,
                base: start(view, self.image, self.group * channels + segment.channel),
                channel_stride: i64::from(view.strides[1]),
                missing: segment.channels < segment.count * F::TERMS,
                step: correlation.axes[2].step * strides[2],
                padding: F::of([correlation.padding_value; 2]),
                panel: &mut rows[..last],
                distance: segment.distance,
            });
        }
    }
}

/// Some steps of one tap: consecutive channels.
struct Segment {
    tap: usize,
    /// The first channel, and how many there are.
    channel: usize,
    channels: usize,
    /// Steps, the first of them, and how far they are apart.
    count: usize,
    first: usize,
    distance: usize,
}

/// Fills the panel rows of one tap, channel by channel, with what the positions meet through it.
struct Gather<'a, T, F> {
    pieces: &'a [Piece],
    input: &'a [T],
    /// First element of the first channel.
    base: i64,
    channel_stride: i64,
    /// Whether the last row lacks its second channel.
    missing: bool,
    /// Input elements between output positions.
    step: i64,
    padding: F,
    /// From the tap's first row on.
    panel: &'a mut [PanelRow<F>],
    /// Rows from one to the next of the tap's.
    distance: usize,
}

impl<T: Element, F: Factor> Vectorised for Gather<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let Self { pieces, input, base, channel_stride, missing, step, padding, panel, distance } = self;
        let (rows, nothing) = (panel.len().div_ceil(distance), [padding; HALF]);
        // Columns without a piece.
        if pieces.iter().map(|piece| piece.count).sum::<usize>() < HALF {
            panel.iter_mut().step_by(distance).for_each(|row| *row = nothing);
        }
        let of = |a, b| F::of([a, b]);
        for &Piece { column, count, source } in pieces {
            // Calls a function with `$length` elements of one channel and of the next, from the piece's first on, and with the
            // columns that they are for; where there are fewer, goes element by element.
            macro_rules! each_row {
                ($length:expr, |$a:ident, $b:ident, $to:ident| $body:expr) => {{
                    let length = $length;
                    let from = |first: i64| input.get(usize::try_from(first).ok()?..)?.get(..length);
                    let mut first = base + source;
                    for (row, to) in panel.iter_mut().step_by(distance).enumerate() {
                        let alone = F::TERMS == 1 || (missing && row + 1 == rows);
                        let second = if alone { first } else { first + channel_stride };
                        let $to = &mut to[column..column + count];
                        if let (Some($a), Some($b)) = (from(first), from(second)) {
                            $body
                        } else {
                            let element = |first: i64, i: usize| input.get((first + i as i64 * step) as usize);
                            for (i, to) in $to.iter_mut().enumerate() {
                                if let (Some(&a), Some(&b)) = (element(first, i), element(second, i)) {
                                    *to = of(a, b);
                                }
                            }
                        }
                        first += F::TERMS as i64 * channel_stride;
                    }
                }};
            }
            let zip = |a: &[T; 8], b: &[T; 8]| F::zip(*a, *b);
            match (step, count) {
                // Lengths are looked at once for all rows.
                (1, HALF) => each_row!(HALF, |a, b, to| stretch::stretches::<8, _, _, _>(a, b, to, zip)),
                (1, 8..) => each_row!(count, |a, b, to| stretch::stretches::<8, _, _, _>(a, b, to, zip)),
                (1, 4..) => each_row!(count, |a, b, to| {
                    let twice = |x: &[T; 4]| core::array::from_fn(|i| x[i % 4]);
                    let zip_four = |a: &[T; 4], b: &[T; 4]| {
                        let [a, b, c, d, ..] = zip(&twice(a), &twice(b));
                        [a, b, c, d]
                    };
                    stretch::stretches::<4, _, _, _>(a, b, to, zip_four);
                }),
                (1, _) => each_row!(count, |a, b, to| stretch::combine(a, b, to, of)),
                (2, 8..) => each_row!(2 * count, |a, b, to| {
                    let (a, b) = (a.as_chunks::<2>().0, b.as_chunks::<2>().0);
                    stretch::stretches::<8, _, _, _>(a, b, to, |a, b| F::zip_firsts(*a, *b));
                }),
                (2, _) => each_row!(2 * count, |a, b, to| {
                    let of = |[a, _]: [T; 2], [b, _]: [T; 2]| F::of([a, b]);
                    stretch::combine(a.as_chunks::<2>().0, b.as_chunks::<2>().0, to, of);
                }),
                // Of no row are there so many: element by element.
                _ => each_row!(usize::MAX, |_a, _b, _to| ()),
            }
        }
    }
}

/// All taps, the last axis fastest.
pub(crate) fn taps_of(axes: &[Axis; 3]) -> impl Iterator<Item = [i64; 3]> + use<> {
    let [a, b, w] = axes.map(|axis| axis.taps);
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..w).map(move |k| [i, j, k])))
}

/// Consecutive output positions that lie in one row.
#[derive(Clone, Copy)]
struct Run {
    /// First panel column.
    column: usize,
    /// Number of columns.
    count: usize,
    /// Position of the first column along each axis.
    position: [i64; 3],
}

/// The rows that a panel's columns lie in.
pub(super) struct Runs {
    runs: heapless::Vec<Run, COLUMNS>,
}

impl Runs {
    /// `columns` positions from `position` on, counted in row-major order over the axes' outputs.
    pub(super) fn new(axes: &[Axis; 3], position: i64, columns: usize) -> Self {
        let extents = axes.map(|axis| axis.output.max(1));
        let mut result = Self { runs: heapless::Vec::new() };
        let mut column = 0;
        while column < columns.min(COLUMNS) {
            let position = unravel(position + column as i64, extents);
            let count = (extents[2] - position[2]).min((columns - column) as i64) as usize;
            // A run has a column at least, so there are no more than columns.
            let _ = result.runs.push(Run { column, count, position });
            column += count;
        }
        result
    }

    fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// The parts of each run that meet input elements through tap `q`.
    fn pieces(&self, axes: &[Axis; 3], q: [i64; 3], strides: [i64; 3]) -> Pieces {
        let mut pieces = Pieces { pieces: heapless::Vec::new() };
        for run in self.iter() {
            let [Some(a), Some(b)] = [0, 1].map(|d| axes[d].meets(run.position[d], q[d])) else { continue };
            let (skip, x, count) = axes[2].meets_range(run.position[2], q[2], run.count);
            if count > 0 {
                let source = a * strides[0] + b * strides[1] + x * strides[2];
                pieces.push(Piece { column: run.column + skip, count, source }, axes[2].step * strides[2]);
            }
        }
        pieces
    }
}

/// Columns of a panel row that come from input elements one step apart.
#[derive(Clone, Copy)]
struct Piece {
    column: usize,
    count: usize,
    /// First element, from the image's channel on.
    source: i64,
}

struct Pieces {
    pieces: heapless::Vec<Piece, COLUMNS>,
}

impl Pieces {
    /// Adds a piece, or lengthens the last one where the new one continues it.
    fn push(&mut self, piece: Piece, step: i64) {
        if let Some(last) = self.pieces.last_mut()
            && last.column + last.count == piece.column
            && last.source + last.count as i64 * step == piece.source
        {
            last.count += piece.count;
        } else {
            // No more pieces than runs.
            let _ = self.pieces.push(piece);
        }
    }
}
