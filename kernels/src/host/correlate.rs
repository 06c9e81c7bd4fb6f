//! Cross-correlation as a matrix product: `[m, c · taps] × [c · taps, positions]`, the right factor gathered 32 output
//! positions at a time (implicit GEMM). Convolution is one such correlation, transposed convolution one for each
//! residue of the output position modulo the stride.

use super::axis::Axis;
use super::cpu::{self, Vector, Vectorised};
use super::epilogue::{Channels, Finish, Panel, Placement};
use super::tile::{self, COLUMNS, PanelRow, ROWS};
use super::window::{spatial_strides, start};
use super::{Element, cast, cast_mut, with_plain};
use crate::{DType, KernelError, View};

/// A correlation over all images and groups. All views are checked and agree with the axes.
pub(crate) struct Correlation<'a> {
    pub(crate) input: &'a View,
    pub(crate) weights: &'a View,
    pub(crate) output: &'a View,
    pub(crate) axes: [Axis; 3],
    pub(crate) groups: usize,
    /// Whether the weights are `[c, m / groups, …]` instead of `[m, c / groups, …]`.
    pub(crate) transposed: bool,
    /// The padding value of the input.
    pub(crate) padding_value: f32,
}

/// Bytes of the panel for a sum over `depth` products.
pub(crate) fn panel_bytes(depth: u64) -> u64 {
    depth.saturating_mul(size_of::<PanelRow>() as u64)
}

/// Whether the rows of weights `[m, channels, …]` are contiguous f32 values, so that they need no packing.
pub(crate) fn rows_are_dense(weights: &View, channels: u32) -> bool {
    weights.dtype == DType::F32 && rows_are_contiguous(weights, channels)
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
        (self.output.shape[1] as usize / self.groups, self.input.shape[1] as usize / self.groups)
    }

    /// Products in one sum.
    pub(super) fn depth(&self) -> usize {
        self.group().1 * self.axes.iter().map(|a| a.taps as usize).product::<usize>()
    }

    /// Whether the weights are used where they are.
    fn is_direct(&self) -> bool {
        !self.transposed && rows_are_dense(self.weights, self.group().1 as u32)
    }

    /// Element of the weights at the first tap between output channel `row` and input channel `column` of a group.
    pub(super) fn weight_start(&self, group: usize, row: usize, column: usize) -> i64 {
        let (m, c) = self.group();
        if self.transposed {
            start(self.weights, group * c + column, row)
        } else {
            start(self.weights, group * m + row, column)
        }
    }

    /// Distance of a tap from there.
    pub(super) fn weight_at(&self, q: [i64; 3]) -> i64 {
        let strides = spatial_strides(self.weights);
        (0..3).map(|d| (self.axes[d].weight.0 + q[d] * self.axes[d].weight.1) * strides[d]).sum()
    }

    /// Distance of an output position from a channel's first element.
    pub(super) fn place_at(&self, view: &View, position: [i64; 3]) -> i64 {
        let strides = spatial_strides(view);
        (0..3).map(|d| (self.axes[d].place.0 + position[d] * self.axes[d].place.1) * strides[d]).sum()
    }

    /// Runs the correlation. The workspace holds one panel and, unless the weights are dense f32, one group's weights.
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
        let short = KernelError::OperandTooShort(inputs.len() as u8 + 1);
        let [input, weights, ..] = inputs else { return Err(KernelError::OperandCount) };
        let depth = self.depth();
        let ((m, _), n) = (self.group(), self.output.shape[0] as usize);
        let (panel, packed) = workspace.split_at_mut_checked(panel_bytes(depth as u64) as usize).ok_or(short)?;
        let panel: &mut [PanelRow] = cast_mut(panel, inputs.len() + 1)?;
        let packed: &mut [f32] = cast_mut(packed, inputs.len() + 1)?;
        let positions = self.axes.iter().map(|a| a.output).product::<i64>();
        for group in 0..self.groups {
            let (rows, first, pitch): (&[f32], usize, usize) = if self.is_direct() {
                let first = self.weights.offset as usize + group * m * self.weights.strides[0] as usize;
                (cast(weights, 1)?, first, self.weights.strides[0] as usize)
            } else {
                self.pack_weights(group, weights, packed.get_mut(..m * depth).ok_or(short)?)?;
                (packed, 0, depth)
            };
            for image in 0..n {
                let mut position = 0;
                while position < positions {
                    let columns = (positions - position).min(COLUMNS as i64) as usize;
                    let runs = Runs::new(&self.axes, position, columns);
                    with_plain!(self.input.dtype, T => self.gather::<T>(group, image, &runs, cast(input, 0)?, panel));
                    let place = |view: &View| self.place(view, group, image, &runs);
                    let target = Panel {
                        output: place(self.output),
                        extras: finish.place_extras(place),
                        columns,
                        channel: group * m,
                        channels: Channels::Rows,
                    };
                    multiply_panel(rows, first, pitch, m, panel, |row, count, sums| {
                        finish.store(&target, row, count, sums, self.output, output);
                    })?;
                    position += columns as i64;
                }
            }
        }
        Ok(())
    }

    /// One group's weights as rows of f32, in the order in which panels are gathered: channel, then tap.
    pub(super) fn pack_weights(&self, group: usize, weights: &[u8], packed: &mut [f32]) -> Result<(), KernelError> {
        let (m, c) = self.group();
        if !self.transposed && rows_are_contiguous(self.weights, c as u32) {
            with_plain!(self.weights.dtype, T => {
                let weights = cast::<T>(weights, 1)?;
                for (row, to) in packed.chunks_exact_mut(self.depth().max(1)).enumerate() {
                    let from = weights.get(self.weight_start(group, row, 0) as usize..).unwrap_or(&[]);
                    cpu::dispatch(Convert { from, to });
                }
            });
            return Ok(());
        }
        with_plain!(self.weights.dtype, T => {
            let weights = cast::<T>(weights, 1)?;
            let mut packed = packed.iter_mut();
            for (row, column) in (0..m).flat_map(|row| (0..c).map(move |column| (row, column))) {
                let first = self.weight_start(group, row, column);
                for (q, to) in taps(&self.axes).zip(&mut packed) {
                    *to = weights.get((first + self.weight_at(q)) as usize).map_or(0.0, |x| x.to_f32());
                }
            }
        });
        Ok(())
    }

    /// Fills the panel: row `c · taps + tap` holds what every position meets through that tap.
    pub(super) fn gather<T: Element>(
        &self,
        group: usize,
        image: usize,
        runs: &Runs,
        input: &[T],
        panel: &mut [PanelRow],
    ) {
        let (_, c) = self.group();
        let view = self.input;
        let strides = spatial_strides(view);
        let channel_stride = i64::from(view.strides[1]);
        let base = start(view, image, group * c);
        let count = self.axes.iter().map(|a| a.taps as usize).product::<usize>();
        let step = self.axes[2].step * strides[2];
        for (tap, q) in taps(&self.axes).enumerate() {
            let pieces = runs.pieces(&self.axes, q, strides);
            let rows = panel.iter_mut().skip(tap).step_by(count.max(1)).take(c);
            cpu::dispatch(Gather {
                pieces: &pieces,
                input,
                base,
                channel_stride,
                step,
                padding_value: self.padding_value,
                rows,
            });
        }
    }

    /// Where a panel's results, or the extras for them, lie in a view with the output's extents.
    pub(super) fn place(&self, view: &View, group: usize, image: usize, runs: &Runs) -> Placement {
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

/// `to[i] = from[i]`, as far as both reach.
struct Convert<'a, T> {
    from: &'a [T],
    to: &'a mut [f32],
}

impl<T: Element> Vectorised for Convert<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        self.to.iter_mut().zip(self.from).for_each(|(to, from)| *to = from.to_f32());
    }
}

/// Fills panel rows, one a channel, with what the positions meet through one tap.
struct Gather<'a, T, I> {
    pieces: &'a Pieces,
    input: &'a [T],
    /// First element of the first channel.
    base: i64,
    channel_stride: i64,
    /// Input elements between output positions.
    step: i64,
    padding_value: f32,
    rows: I,
}

impl<'p, T: Element, I: Iterator<Item = &'p mut PanelRow>> Vectorised for Gather<'_, T, I> {
    type Output = ();

    #[inline(always)]
    fn run<V: Vector>(self, _: V) {
        let mut base = self.base;
        for row in self.rows {
            self.pieces.copy(self.input, base, self.step, self.padding_value, row);
            base += self.channel_stride;
        }
    }
}

/// Calls `finish(row, count, sums)` for the product of every 8 of `m` rows with a panel. Row `i` starts at
/// `first + i · pitch`.
///
/// # Errors
/// `OperandTooShort(1)` where a row lies outside `rows`.
pub(crate) fn multiply_panel(
    rows: &[f32],
    first: usize,
    pitch: usize,
    m: usize,
    panel: &[PanelRow],
    mut finish: impl FnMut(usize, usize, &mut tile::Tile),
) -> Result<(), KernelError> {
    let mut sums = [0.0; ROWS * COLUMNS];
    for row in (0..m).step_by(ROWS) {
        let count = (m - row).min(ROWS);
        let mut block: [&[f32]; ROWS] = [&[]; ROWS];
        // Without anything to sum there may be no rows either.
        for (i, slot) in block.iter_mut().enumerate().take_while(|_| !panel.is_empty()) {
            // Rows past the last repeat it; their sums are not stored.
            let start = first + (row + i.min(count - 1)) * pitch;
            *slot = rows.get(start..start + panel.len()).ok_or(KernelError::OperandTooShort(1))?;
        }
        tile::multiply(block, count, panel, &mut sums);
        finish(row, count, &mut sums);
    }
    Ok(())
}

/// All taps, the last axis fastest.
pub(super) fn taps(axes: &[Axis; 3]) -> impl Iterator<Item = [i64; 3]> + use<> {
    let [a, b, w] = axes.map(|axis| axis.taps);
    (0..a).flat_map(move |i| (0..b).flat_map(move |j| (0..w).map(move |k| [i, j, k])))
}

/// Consecutive output positions that lie in one row.
#[derive(Clone, Copy, Default)]
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
    runs: [Run; COLUMNS],
    count: usize,
}

impl Runs {
    /// `columns` positions from `position` on, counted in row-major order over the axes' outputs.
    pub(super) fn new(axes: &[Axis; 3], position: i64, columns: usize) -> Self {
        let [_, height, width] = axes.map(|a| a.output.max(1));
        let mut result = Self { runs: [Run::default(); COLUMNS], count: 0 };
        let mut column = 0;
        for run in &mut result.runs {
            if column >= columns {
                break;
            }
            let at = position + column as i64;
            let position = [at / width / height, at / width % height, at % width];
            *run = Run { column, count: (width - position[2]).min((columns - column) as i64) as usize, position };
            column += run.count;
            result.count += 1;
        }
        result
    }

    fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs[..self.count].iter()
    }

    /// The parts of each run that meet input elements through tap `q`.
    fn pieces(&self, axes: &[Axis; 3], q: [i64; 3], strides: [i64; 3]) -> Pieces {
        let mut pieces = Pieces { pieces: [Piece::default(); COLUMNS], count: 0 };
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
#[derive(Clone, Copy, Default)]
struct Piece {
    column: usize,
    count: usize,
    /// First element, from the image's channel on.
    source: i64,
}

struct Pieces {
    pieces: [Piece; COLUMNS],
    count: usize,
}

impl Pieces {
    /// Adds a piece, or lengthens the last one where the new one continues it.
    fn push(&mut self, piece: Piece, step: i64) {
        if let Some(last) = self.pieces[..self.count].last_mut()
            && last.column + last.count == piece.column
            && last.source + last.count as i64 * step == piece.source
        {
            last.count += piece.count;
        } else {
            self.pieces[self.count] = piece;
            self.count += 1;
        }
    }

    /// Fills one panel row; columns without a piece get `padding_value`.
    #[inline(always)]
    fn copy<T: Element>(&self, input: &[T], base: i64, step: i64, padding_value: f32, row: &mut PanelRow) {
        let pieces = &self.pieces[..self.count];
        if let [Piece { column: 0, count: COLUMNS, source }] = *pieces
            && step == 1
            && let Some(from) = input.get((base + source) as usize..).and_then(|x| x.first_chunk::<COLUMNS>())
        {
            row.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32());
            return;
        }
        *row = [padding_value; COLUMNS];
        for piece in pieces {
            let to = &mut row[piece.column..][..piece.count];
            let first = base + piece.source;
            let Some(from) = usize::try_from(first).ok().and_then(|first| input.get(first..)) else { continue };
            match step {
                1 => to.iter_mut().zip(from).for_each(|(to, from)| *to = from.to_f32()),
                2.. => to.iter_mut().zip(from.iter().step_by(step as usize)).for_each(|(to, x)| *to = x.to_f32()),
                _ => {
                    let mut at = first;
                    for to in to {
                        *to = input.get(at as usize).map_or(0.0, |x| x.to_f32());
                        at += step;
                    }
                }
            }
        }
    }
}
