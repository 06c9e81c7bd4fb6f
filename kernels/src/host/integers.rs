//! Correlation of 8-bit integers with exact sums: products of a few hundred at a time are exact in f32 too, so that the
//! tiles of the float reference kernels serve here as well.

use super::correlate::{Correlation, Runs, panel_bytes};
use super::epilogue::{Channels, Finish, Panel, Placement};
use super::tile::{self, COLUMNS, PanelRow, ROWS, Tile};
use super::{cast, cast_mut, with_plain};
use crate::{KernelError, View};

/// Products that are added up in f32: 256 of at most 255 · 255 stay below 2²⁴, up to where f32 holds every integer.
const EXACT: usize = 256;

/// Sums of a tile, which wrap.
type Sums = [i32; ROWS * COLUMNS];

impl Correlation<'_> {
    /// As [`Correlation::run`], for 8-bit operands: sums and the bias, one for each output channel or none, are i32; what
    /// `finish` computes of them starts from f32. Without a program the output is i32. The workspace holds one panel and
    /// one group's weights.
    ///
    /// # Errors
    /// `OperandTooShort` for the workspace.
    pub(crate) fn run_integers(
        &self,
        [input, weights]: [&[u8]; 2],
        bias: Option<&[i32]>,
        mut finish: Option<&mut Finish<'_>>,
        output: &mut [u8],
        workspace: &mut [u8],
    ) -> Result<(), KernelError> {
        let short = KernelError::OperandTooShort(2);
        let depth = self.depth();
        let ((m, _), images) = (self.group(), self.output.shape[0] as usize);
        let (panel, packed) = workspace.split_at_mut_checked(panel_bytes(depth as u64) as usize).ok_or(short)?;
        let panel: &mut [PanelRow] = cast_mut(panel, 2)?;
        let packed = cast_mut::<f32>(packed, 2)?.get_mut(..m * depth).ok_or(short)?;
        let positions = self.axes.iter().map(|a| a.output).product::<i64>();
        for group in 0..self.groups {
            self.pack_weights(group, weights, packed)?;
            for image in 0..images {
                for position in (0..positions).step_by(COLUMNS) {
                    let columns = (positions - position).min(COLUMNS as i64) as usize;
                    let runs = Runs::new(&self.axes, position, columns);
                    with_plain!(self.input.dtype, T => self.gather::<T>(group, image, &runs, cast(input, 0)?, panel));
                    let place = |view: &View| self.place(view, group, image, &runs);
                    let target = Panel {
                        output: place(self.output),
                        extras: finish.as_ref().map_or([Placement::NONE; _], |finish| finish.place_extras(place)),
                        columns,
                        channel: group * m,
                        channels: Channels::Rows,
                    };
                    for row in (0..m).step_by(ROWS) {
                        let count = (m - row).min(ROWS);
                        let mut sums = multiply(packed, depth, row, count, panel)?;
                        let bias = bias.and_then(|bias| bias.get(group * m + row..)).unwrap_or(&[]);
                        for (sums, &bias) in sums.chunks_exact_mut(COLUMNS).zip(bias) {
                            sums.iter_mut().for_each(|sum| *sum = sum.wrapping_add(bias));
                        }
                        match &mut finish {
                            Some(finish) => {
                                let mut tile = sums.map(|sum| sum as f32);
                                finish.store(&target, row, count, &mut tile, self.output, output);
                            }
                            None => scatter(&target, row, count, &sums, cast_mut(output, 2)?),
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Exact sums of `count` rows of weights, from `row` on, times a panel.
fn multiply(weights: &[f32], depth: usize, row: usize, count: usize, panel: &[PanelRow]) -> Result<Sums, KernelError> {
    let mut sums: Sums = [0; ROWS * COLUMNS];
    for (number, part) in panel.chunks(EXACT).enumerate() {
        let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
        for (i, slot) in rows.iter_mut().enumerate() {
            // Rows past the last repeat it; their sums are not stored.
            let start = (row + i.min(count - 1)) * depth + number * EXACT;
            *slot = weights.get(start..start + part.len()).ok_or(KernelError::OperandTooShort(1))?;
        }
        let mut tile: Tile = [0.0; ROWS * COLUMNS];
        tile::multiply(rows, count, part, &mut tile);
        sums.iter_mut().zip(tile).for_each(|(sum, part)| *sum = sum.wrapping_add(part as i32));
    }
    Ok(sums)
}

/// Stores rows of sums as they are.
fn scatter(target: &Panel, first: usize, rows: usize, sums: &Sums, output: &mut [i32]) {
    let place = &target.output;
    for (i, sums) in sums.chunks_exact(COLUMNS).take(rows).enumerate() {
        for (&sum, &column) in sums.iter().zip(place.columns()).take(target.columns) {
            if let Some(to) = output.get_mut(place.at(first + i, column)) {
                *to = sum;
            }
        }
    }
}
