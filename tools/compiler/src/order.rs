//! Dependencies between steps, from the bytes that they touch.
//!
//! Computed after placement, so that a buffer reused by a later step waits for the readers of the earlier one. The
//! result is the transitive reduction: a replay may run everything concurrently that it does not order. Slices of one
//! concatenation are interleaved in memory; they are told apart by their rows, so that its branches run side by side.

use floe_kernels::View;

/// Rows at equal distances: of the bytes that an operand spans, those that its step touches. A slice of the channels of
/// a channels-last image has one row a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// First byte of a row, from the operand's start.
    pub start: u64,
    /// Bytes of a row, padding lanes included; at most the pitch.
    pub bytes: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

impl Rows {
    /// The rows of a channels-last view whose pixels are whole vectors of 8 elements, which is what kernels then read
    /// and write. `None` for every other view, and where pixels touch or overlap.
    pub fn of(view: &View) -> Option<Self> {
        let vectors =
            view.offset.is_multiple_of(8) && view.lanes.is_multiple_of(8) && view.lanes >= *view.shape.get(1)?;
        if !view.is_channels_last() || !vectors {
            return None;
        }
        let dimensions = view.strides.iter().zip(&view.shape).enumerate();
        let pitch = dimensions
            .filter(|&(d, (_, &extent))| d != 1 && extent > 1)
            .fold(0, |pitch, (_, (&stride, _))| greatest_common_divisor(pitch, stride.unsigned_abs()));
        let size = view.dtype.size() as u64;
        (view.lanes < pitch).then(|| Self {
            start: u64::from(view.offset) * size,
            bytes: u64::from(view.lanes) * size,
            pitch: u64::from(pitch) * size,
        })
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A range of memory that a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which memory: equal numbers may overlap, different ones never do.
    pub space: usize,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Whether it is written.
    pub written: bool,
    /// The bytes of the range that are touched, where not all are.
    pub rows: Option<Rows>,
}

impl Access {
    fn conflicts(&self, other: &Self) -> bool {
        (self.written || other.written)
            && self.space == other.space
            && self.start < other.end
            && other.start < self.end
            && !self.lies_between(other)
    }

    /// Whether the rows of each lie between those of the other, whatever the number of rows.
    fn lies_between(&self, other: &Self) -> bool {
        let (Some(own), Some(theirs)) = (self.rows, other.rows) else { return false };
        if own.pitch != theirs.pitch {
            return false;
        }
        let phase = |start: u64, rows: Rows| (start % rows.pitch + rows.start) % rows.pitch;
        let (own_phase, their_phase) = (phase(self.start, own), phase(other.start, theirs));
        // From a row of this access to the next of the other; that one ends before this access's next row.
        let distance = (their_phase + own.pitch - own_phase) % own.pitch;
        own.bytes <= distance && distance + theirs.bytes <= own.pitch
    }
}

/// For every step the earlier steps it must wait for, ascending, none implied by another.
pub fn dependencies(accesses: &[Vec<Access>]) -> Vec<Vec<u32>> {
    let words = accesses.len().div_ceil(64);
    let mut ancestors: Vec<Vec<u64>> = Vec::with_capacity(accesses.len());
    let mut result = Vec::with_capacity(accesses.len());
    for (step, own) in accesses.iter().enumerate() {
        let mut reached = vec![0u64; words];
        let mut after = Vec::new();
        for earlier in (0..step).rev() {
            let known = reached[earlier / 64] >> (earlier % 64) & 1 == 1;
            if !known && own.iter().any(|a| accesses[earlier].iter().any(|b| a.conflicts(b))) {
                after.push(earlier as u32);
                for (word, theirs) in reached.iter_mut().zip(&ancestors[earlier]) {
                    *word |= theirs;
                }
                reached[earlier / 64] |= 1 << (earlier % 64);
            }
        }
        after.reverse();
        ancestors.push(reached);
        result.push(after);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{kernel_graph::BufferId, lower::Located};
    use floe_kernels::DType;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn access(start: u64, end: u64, written: bool) -> Access {
        Access { space: 0, start, end, written, rows: None }
    }

    /// Channels `first` up to `last` of a channels-last image of 64 channels that lies at byte 256.
    fn channels(first: usize, last: usize, written: bool) -> Access {
        let image = Located::channels_last(BufferId(0), DType::F16, &[1, 64, 5, 7]);
        let slice = image.sliced(&[0, first, 0, 0], &[1; 4], &[1, last - first, 5, 7]);
        let (range, view) = slice.operand(16).unwrap();
        let start = 256 + range.offset;
        Access { space: 0, start, end: start + range.bytes, written, rows: Rows::of(&view) }
    }

    #[test]
    fn branches_of_an_inception_block_run_side_by_side() {
        let steps = vec![
            vec![access(0, 256, true)],
            vec![access(0, 256, false), channels(0, 16, true)],
            vec![access(0, 256, false), channels(16, 40, true)],
            vec![access(0, 256, false), channels(40, 64, true)],
            vec![channels(0, 64, false), access(8192, 8200, true)],
        ];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![0], vec![0], vec![1, 2, 3]]);
    }

    #[test]
    fn slices_that_share_bytes_stay_in_order() {
        let order = |a: Access, b: Access| dependencies(&[vec![a], vec![b]])[1].len();
        assert_eq!(order(channels(0, 16, true), channels(8, 24, true)), 1);
        assert_eq!(order(channels(0, 16, true), channels(0, 16, false)), 1);
        assert_eq!(order(channels(40, 64, true), channels(0, 48, false)), 1);
        // Channels that are no whole vectors may share one with their neighbour.
        assert_eq!(order(channels(0, 12, true), channels(16, 24, true)), 1);
        assert_eq!(order(channels(56, 64, true), channels(0, 56, false)), 0);
        // Rows at another distance, or of unknown place, prove nothing.
        let mut wide = channels(16, 24, true);
        wide.rows = wide.rows.map(|rows| Rows { pitch: 2 * rows.pitch, ..rows });
        assert_eq!(order(channels(0, 16, true), wide), 1);
        assert_eq!(order(channels(0, 16, true), Access { rows: None, ..channels(16, 24, true) }), 1);
    }

    proptest! {
        /// Against the bytes themselves: two slices conflict where they have a byte in common.
        #[test]
        fn conflicts_are_common_bytes(a in (0_u64..40, 1_u64..5), b in (0_u64..40, 1_u64..5), pitch in 5_u64..12, rows in 2_u64..5) {
            let access = |(start, bytes): (u64, u64)| Access {
                space: 0,
                start,
                end: start + (rows - 1) * pitch + bytes,
                written: true,
                rows: Some(Rows { start: 0, bytes, pitch }),
            };
            let touched = |(start, bytes): (u64, u64)| -> HashSet<u64> {
                (0..rows).flat_map(|row| (0..bytes).map(move |byte| start + row * pitch + byte)).collect()
            };
            let common = !touched(a).is_disjoint(&touched(b));
            prop_assert!(access(a).conflicts(&access(b)) || !common);
            // Where the spans overlap by a whole row, the answer is exact.
            let overlap = a.0.abs_diff(b.0) + pitch <= (rows - 1) * pitch;
            prop_assert!(!overlap || access(a).conflicts(&access(b)) == common);
        }
    }

    #[test]
    fn a_diamond_keeps_its_branches_apart() {
        let steps = vec![
            vec![access(0, 8, true)],
            vec![access(0, 8, false), access(8, 16, true)],
            vec![access(0, 8, false), access(16, 24, true)],
            vec![access(8, 16, false), access(16, 24, false), access(24, 32, true)],
        ];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn reuse_of_memory_waits_for_its_readers() {
        let steps =
            vec![vec![access(0, 8, true)], vec![access(0, 8, false), access(8, 16, true)], vec![access(0, 8, true)]];
        assert_eq!(dependencies(&steps), [vec![], vec![0], vec![1]]);
    }
}
