//! Dependencies between steps, from the bytes that they touch.
//!
//! Computed after placement, so that a buffer reused by a later step waits for the readers of the earlier one. The
//! result is the transitive reduction: a replay may run everything concurrently that it does not order. Slices of one
//! concatenation are interleaved in memory; they are told apart by their rows, so that its branches run side by side.

use floe_kernels::View;
use std::collections::{BTreeMap, BinaryHeap};

/// Rows at equal distances: of the bytes that an operand spans, those that its step touches. A slice of the channels of
/// a channels-last image has one row a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// First byte of a row, from the operand's start.
    pub start: u64,
    /// Bytes of a row, padded channels included; at most the pitch.
    pub bytes: u64,
    /// Bytes from one row to the next.
    pub pitch: u64,
}

impl Rows {
    /// The rows of a channels-last view whose pixels are whole vectors of 8 elements, which is what kernels then read
    /// and write, or those of a view whose last dimensions lie packed. `None` for every other view, and where rows touch or
    /// overlap.
    pub fn of(view: &View) -> Option<Self> {
        match view.padded_channels {
            0 => Self::packed(view),
            _ => Self::pixels(view),
        }
    }

    fn packed(view: &View) -> Option<Self> {
        let (mut elements, mut pitch) = (1, 0);
        for (&stride, &extent) in view.strides.iter().zip(&view.shape).rev().filter(|&(_, &extent)| extent > 1) {
            let stride = u32::try_from(stride).ok().filter(|&stride| stride > 0)?;
            if pitch == 0 && stride == elements {
                elements = elements.checked_mul(extent)?;
            } else {
                pitch = greatest_common_divisor(pitch, stride);
            }
        }
        let size = view.dtype.size() as u64;
        let [start, bytes, pitch_bytes] = [view.offset, elements, pitch].map(|count| u64::from(count) * size);
        (elements < pitch).then_some(Self { start, bytes, pitch: pitch_bytes })
    }

    fn pixels(view: &View) -> Option<Self> {
        let vectors = view.offset.is_multiple_of(8)
            && view.padded_channels.is_multiple_of(8)
            && view.padded_channels >= *view.shape.get(1)?;
        if !view.is_channels_last() || !vectors {
            return None;
        }
        let dimensions = view.strides.iter().zip(&view.shape).enumerate();
        let pitch = dimensions
            .filter(|&(d, (_, &extent))| d != 1 && extent > 1)
            .fold(0, |pitch, (_, (&stride, _))| greatest_common_divisor(pitch, stride.unsigned_abs()));
        let size = view.dtype.size() as u64;
        (view.padded_channels < pitch).then(|| Self {
            start: u64::from(view.offset) * size,
            bytes: u64::from(view.padded_channels) * size,
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
            && self.start.max(other.start) < self.end.min(other.end)
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

/// For every step the earlier steps it must wait for, ascending, none implied by another (but where to find that out would
/// take too long, which happens only beyond thousands of steps).
pub fn dependencies(accesses: &[Vec<Access>]) -> Vec<Vec<u32>> {
    let mut touched = Touched::default();
    let mut order = Order::default();
    for (step, own) in accesses.iter().enumerate() {
        let mut earlier: Vec<u32> = own.iter().flat_map(|access| touched.conflicting(access)).collect();
        for access in own {
            touched.add(step as u32, access);
        }
        earlier.sort_unstable_by(|a, b| b.cmp(a));
        earlier.dedup();
        order.add(earlier.into_iter().filter(|&other| other != step as u32));
    }
    order.after
}

/// Which steps have touched which bytes since these were last written as a whole. What touched them before that is waited
/// for by whoever wrote them.
#[derive(Default)]
struct Touched {
    /// By memory and first byte: pieces that do not overlap.
    pieces: BTreeMap<(usize, u64), Piece>,
}

#[derive(Clone, Default)]
struct Piece {
    end: u64,
    writes: Vec<(u32, Access)>,
    reads: Vec<(u32, Access)>,
}

impl Touched {
    /// The steps whose accesses conflict with this one and are not known to be waited for by others that do.
    fn conflicting(&self, access: &Access) -> Vec<u32> {
        let (start, end) = (access.start, access.end);
        if start >= end {
            return Vec::new();
        }
        let from =
            self.pieces.range(..=(access.space, start)).next_back().map_or((access.space, start), |(key, _)| *key);
        let mut found = Vec::new();
        for (_, piece) in self
            .pieces
            .range(from..(access.space, end))
            .filter(|((space, _), piece)| *space == access.space && piece.end > start)
        {
            let reads = if access.written { piece.reads.as_slice() } else { &[] };
            let conflicts = piece.writes.iter().chain(reads).filter(|(_, other)| access.conflicts(other));
            found.extend(conflicts.map(|(step, _)| *step));
        }
        found
    }

    fn add(&mut self, step: u32, access: &Access) {
        let (space, start, end) = (access.space, access.start, access.end);
        if start >= end {
            return;
        }
        self.split(space, start);
        self.split(space, end);
        let mut at = start;
        while at < end {
            // A piece that starts here, or a gap up to the next one.
            let next =
                self.pieces.range((space, at)..(space, end)).next().map(|((_, start), piece)| (*start, piece.end));
            let (first, last) = match next {
                Some((first, last)) if first == at => (first, last),
                Some((first, _)) => (at, first),
                None => (at, end),
            };
            let piece = self.pieces.entry((space, first)).or_default();
            piece.end = last;
            if access.written && access.rows.is_none() {
                piece.writes.retain(|(_, other)| !access.conflicts(other));
                piece.reads.retain(|(_, other)| !access.conflicts(other));
            }
            if access.written {
                piece.writes.push((step, *access));
            } else {
                piece.reads.push((step, *access));
            }
            at = last;
        }
    }

    /// Makes a piece end at a byte, where one goes on past it.
    fn split(&mut self, space: usize, at: u64) {
        let Some(((_, start), piece)) = self.pieces.range_mut((space, 0)..(space, at)).next_back() else { return };
        if piece.end > at && *start < at {
            let rest = piece.clone();
            piece.end = at;
            self.pieces.insert((space, at), rest);
        }
    }
}

/// Steps in the order that is known so far.
#[derive(Default)]
struct Order {
    /// For every step those that it waits for.
    after: Vec<Vec<u32>>,
    /// For every step a number of first steps that all come before it.
    first: Vec<u32>,
    /// The last step that looked at each one.
    seen: Vec<u32>,
}

impl Order {
    /// Steps to look at to find out whether one implies another.
    const MOST_LOOKS: usize = 1 << 14;

    /// Adds the next step, which waits for these (descending).
    fn add(&mut self, earlier: impl Iterator<Item = u32>) {
        let step = self.after.len() as u32;
        let (mut own, mut first, mut looks) = (Vec::new(), 0, 0);
        // Steps that come before this one, and have not been looked behind.
        let mut open: BinaryHeap<u32> = BinaryHeap::new();
        for other in earlier {
            // Looks behind all later steps, so that `seen` tells of this one.
            while let Some(&latest) = open.peek().filter(|&&latest| latest > other && looks < Self::MOST_LOOKS) {
                open.pop();
                looks += 1;
                for &before in &self.after[latest as usize] {
                    if before >= first && std::mem::replace(&mut self.seen[before as usize], step) != step {
                        open.push(before);
                    }
                }
            }
            if other < first || self.seen[other as usize] == step {
                continue;
            }
            self.seen[other as usize] = step;
            open.push(other);
            own.push(other);
            first = first.max(self.first[other as usize]);
        }
        own.reverse();
        while self.seen.get(first as usize) == Some(&step) {
            first += 1;
        }
        self.after.push(own);
        self.first.push(first);
        self.seen.push(step);
    }
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
    fn products_that_write_rows_of_one_result_run_side_by_side() {
        // Columns of 3 matrices of 4 by 96.
        let columns = |first: usize, last: usize| {
            let whole = Located::plain(BufferId(0), DType::F16, &[3, 4, 96]);
            let slice = whole.sliced(&[0, 0, first], &[1; 3], &[3, 4, last - first]);
            let (range, view) = slice.operand(16).unwrap();
            let rows = Rows::of(&view);
            Access { space: 0, start: range.offset, end: range.offset + range.bytes, written: true, rows }
        };
        let steps = [(0, 48), (48, 64), (60, 96)].map(|(first, last)| vec![columns(first, last)]);
        assert_eq!(dependencies(&steps), [vec![], vec![], vec![1]]);
        // Nothing between rows, nothing but one row, and rows backwards.
        let view = |shape: &[u32], strides: &[i32]| {
            let all: i32 = shape.iter().zip(strides).map(|(&extent, &stride)| (extent as i32 - 1) * stride.abs()).sum();
            let view = View::contiguous(DType::F16, shape).unwrap();
            Rows::of(&View { strides: strides.iter().copied().collect(), offset: all as u32, ..view })
        };
        assert_eq!((view(&[4, 8], &[8, 1]), view(&[1, 8], &[64, 1]), view(&[4, 8], &[-16, 1])), (None, None, None));
        assert!(view(&[4, 8], &[16, 1]).is_some());
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

    /// The definition: every pair of steps looked at, the transitive reduction by all ancestors.
    fn reduction(accesses: &[Vec<Access>]) -> Vec<Vec<u32>> {
        let mut ancestors: Vec<HashSet<u32>> = Vec::new();
        let mut result = Vec::new();
        for (step, own) in accesses.iter().enumerate() {
            let (mut known, mut after) = (HashSet::new(), Vec::new());
            for earlier in (0..step).rev() {
                let conflict = own.iter().any(|a| accesses[earlier].iter().any(|b| a.conflicts(b)));
                if conflict && !known.contains(&(earlier as u32)) {
                    after.insert(0, earlier as u32);
                    known.extend(&ancestors[earlier]);
                    known.insert(earlier as u32);
                }
            }
            ancestors.push(known);
            result.push(after);
        }
        result
    }

    fn any_access() -> impl Strategy<Value = Access> {
        let rows = prop::option::weighted(0.3, (0_u64..3, 1_u64..3));
        (0_usize..2, 0_u64..24, 0_u64..12, prop::bool::ANY, rows).prop_map(|(space, start, bytes, written, rows)| {
            Access {
                space,
                start,
                end: start + bytes,
                written,
                rows: rows.map(|(start, bytes)| Rows { start, bytes, pitch: 5 }),
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn steps_wait_for_what_the_definition_says(steps in prop::collection::vec(prop::collection::vec(any_access(), 1..4), 0..40)) {
            prop_assert_eq!(dependencies(&steps), reduction(&steps));
        }
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
