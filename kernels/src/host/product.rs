//! The loops around the tile: blocks of the summed dimension, groups of panels, rows.
//!
//! A block of steps of a few pairs of panels stays in the second-level cache while every tile of rows passes over it, and the rows
//! stay in the first while they pass over the panels. Each sum is added up in the order of its steps, whatever the blocks are.

use super::cast_mut;
use super::epilogue::Panel;
use super::tile::{self, COLUMNS, Factor, HALF, PackedRow, PanelRow, ROWS, Rows, Tile};
use crate::KernelError;
use bytemuck::Zeroable;
use core::ops::Range;

/// Steps of a block, unless one unit has more.
const STEPS: u64 = 256;
/// Most pairs of panels of a group.
const PAIRS: u64 = 8;
/// Steps of all pairs of a group, unless one unit has more.
const AREA: u64 = STEPS * PAIRS;
/// Bytes of a step of a pair, whatever the factors.
const PAIR_BYTES: usize = 2 * size_of::<PanelRow>();

/// Where the factors of a product come from, and where its sums go. `'o` is how long the operands live.
pub(crate) trait Operands<'o> {
    /// The type of the factors.
    type Factor: Factor;

    /// These steps of a tile of rows, from `row` on: where they lie, or in `packed`. Rows from `count` on are not used.
    ///
    /// # Errors
    /// Where an operand is too short.
    fn rows<'p>(
        &self,
        row: usize,
        count: usize,
        steps: Range<usize>,
        packed: &'p mut [PackedRow<Self::Factor>],
    ) -> Result<Rows<'p, Self::Factor>, KernelError>
    where
        'o: 'p;

    /// Fills a panel with these steps of `count` columns, at most [`HALF`], from `column` on. Columns from `count` on are not used.
    ///
    /// # Errors
    /// Where an operand is misaligned.
    fn columns(
        &self,
        column: usize,
        count: usize,
        steps: Range<usize>,
        panel: &mut [PanelRow<Self::Factor>],
    ) -> Result<(), KernelError>;

    /// Where the results of `count` columns, from `column` on, go.
    fn target(&self, column: usize, count: usize) -> Panel;

    /// Stores `count` rows of sums, from `row` on.
    ///
    /// # Errors
    /// Where an operand is misaligned.
    fn store(
        &mut self,
        target: &Panel,
        row: usize,
        count: usize,
        sums: &mut Tile<<Self::Factor as Factor>::Sum>,
    ) -> Result<(), KernelError>;
}

/// The extents of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    /// Rows of the left factor.
    pub(crate) rows: u64,
    /// Columns of the right factor.
    pub(crate) columns: u64,
    /// Steps of the sum.
    pub(crate) steps: u64,
    /// Steps that belong together: no block ends inside.
    pub(crate) unit: u64,
}

impl Extents {
    /// Bytes of workspace: enough for these extents, and for any that are smaller in some way.
    pub(crate) fn workspace(&self) -> u64 {
        let pairs = self.columns.div_ceil(COLUMNS as u64);
        let panel_rows = AREA.max(self.unit).min(self.steps.saturating_mul(pairs));
        let packed = STEPS.max(self.unit).min(self.steps);
        let sums = if self.steps > STEPS { self.padded_rows().saturating_mul(pairs.min(PAIRS)) } else { 0 };
        let size = |rows: u64, row: usize| rows.saturating_mul(row as u64);
        size(panel_rows, PAIR_BYTES)
            .saturating_add(size(packed, size_of::<PackedRow>()))
            .saturating_add(size(sums, size_of::<Tile>() / ROWS))
    }

    fn padded_rows(&self) -> u64 {
        self.rows.div_ceil(ROWS as u64).saturating_mul(ROWS as u64)
    }

    /// Steps of a block, and pairs of panels of a group: groups of about the same size.
    fn blocks(&self) -> (usize, usize) {
        let unit = self.unit.max(1);
        let block = ((STEPS / unit).max(1) * unit).min(self.steps.max(1));
        let pairs = self.columns.div_ceil(COLUMNS as u64).max(1);
        let most = (AREA / block).clamp(1, PAIRS);
        (block as usize, pairs.div_ceil(pairs.div_ceil(most)) as usize)
    }

    /// Computes the product.
    ///
    /// # Errors
    /// `OperandTooShort(operand)` or `Misaligned(operand)` for the workspace; those of the operands.
    pub(crate) fn run<'o, O: Operands<'o>>(
        &self,
        operands: &mut O,
        workspace: &mut [u8],
        operand: usize,
    ) -> Result<(), KernelError> {
        let short = KernelError::OperandTooShort(operand as u8);
        let (block, group) = self.blocks();
        let (steps, rows, columns) = (self.steps as usize, self.rows as usize, self.columns as usize);
        let bytes = block.min(steps) * group * PAIR_BYTES;
        let (panels, rest) = workspace.split_at_mut_checked(bytes).ok_or(short)?;
        let packed_bytes = block.min(steps) * size_of::<PackedRow>();
        let (packed, sums) = rest.split_at_mut_checked(packed_bytes).ok_or(short)?;
        let panels: &mut [PanelRow<O::Factor>] = cast_mut(panels, operand)?;
        let packed: &mut [PackedRow<O::Factor>] = cast_mut(packed, operand)?;
        let sums: &mut [Tile<<O::Factor as Factor>::Sum>] = cast_mut(sums, operand)?;
        for first in (0..columns).step_by(group * COLUMNS) {
            let mut targets = heapless::Vec::<Panel, { PAIRS as usize }>::new();
            for column in (first..columns.min(first + group * COLUMNS)).step_by(COLUMNS) {
                let _ = targets.push(operands.target(column, (columns - column).min(COLUMNS)));
            }
            // Without steps there is one block of none.
            for start in (0..steps.max(1)).step_by(block) {
                let range = start..steps.min(start + block);
                let (begins, ends) = (start == 0, range.end == steps);
                // The last may have one panel with columns.
                let used = panels.chunks_mut(range.len().max(1)).zip((first..columns).step_by(HALF));
                for (panel, column) in used.take(2 * targets.len()) {
                    operands.columns(column, (columns - column).min(HALF), range.clone(), panel)?;
                }
                for row in (0..rows).step_by(ROWS) {
                    let count = (rows - row).min(ROWS);
                    let packed = packed.get_mut(..range.len()).ok_or(short)?;
                    // Without anything to sum there may be no rows either.
                    let left = if range.is_empty() {
                        Rows::Packed(&[])
                    } else {
                        operands.rows(row, count, range.clone(), packed)?
                    };
                    for (number, target) in targets.iter().enumerate() {
                        let pair = panels.get(2 * number * range.len()..).unwrap_or(&[]);
                        let (one, other) = pair.split_at_checked(range.len()).unwrap_or((pair, &[]));
                        let pair = [one, other.get(..range.len()).unwrap_or(other)];
                        let mut own = Tile::zeroed();
                        if begins && ends {
                            tile::multiply(&left, count, pair, target.columns, &mut own);
                            operands.store(target, row, count, &mut own)?;
                            continue;
                        }
                        let tile = sums.get_mut(row / ROWS * group + number).ok_or(short)?;
                        if begins {
                            *tile = Tile::zeroed();
                        }
                        tile::multiply(&left, count, pair, target.columns, tile);
                        if ends {
                            operands.store(target, row, count, tile)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
