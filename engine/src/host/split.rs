//! Cuts a session's memory into the disjoint slices that a reference kernel takes. Entirely safe: written ranges are cut out in
//! ascending order, and what lies between them is shared by the operands that are only read.

use crate::plan::format::MAX_OPERANDS;

/// A range of the session's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub start: usize,
    pub bytes: usize,
}

impl Range {
    fn end(self) -> Option<usize> {
        self.start.checked_add(self.bytes)
    }
}

/// Memory with some ranges cut out.
pub(super) struct Split<'m> {
    /// Cut ranges, in the order in which they were asked for.
    pub written: heapless::Vec<&'m mut [u8], MAX_OPERANDS>,
    /// What is left, with where each piece starts.
    rest: heapless::Vec<(usize, &'m [u8]), { MAX_OPERANDS + 1 }>,
}

impl<'m> Split<'m> {
    /// Cuts `written` out of `memory`; `None` where two of them overlap or one lies outside.
    pub fn new(memory: &'m mut [u8], written: &[Range]) -> Option<Self> {
        let mut split = Self { written: heapless::Vec::new(), rest: heapless::Vec::new() };
        for _ in written {
            split.written.push(&mut []).ok()?;
        }
        let (mut tail, mut position) = (memory, 0);
        let mut uncut = written.iter().filter(|range| range.bytes > 0).count();
        // From the lowest range to the highest; one that begins inside another is never reached.
        let next = |position| {
            let ahead = |range: &Range| range.bytes > 0 && range.start >= position;
            written.iter().zip(0usize..).filter(|(range, _)| ahead(range)).min_by_key(|(range, _)| range.start)
        };
        while let Some((&range, index)) = next(position) {
            let (before, after) = tail.split_at_mut_checked(range.start.checked_sub(position)?)?;
            let (cut, after) = after.split_at_mut_checked(range.bytes)?;
            split.rest.push((position, before)).ok()?;
            *split.written.get_mut(index)? = cut;
            (tail, position) = (after, range.end()?);
            uncut = uncut.saturating_sub(1);
        }
        if uncut > 0 {
            return None;
        }
        split.rest.push((position, tail)).ok()?;
        Some(split)
    }

    /// The bytes of a range that is only read; `None` where it touches a cut one or lies outside.
    pub fn read(&self, range: Range) -> Option<&'m [u8]> {
        if range.bytes == 0 {
            return Some(&[]);
        }
        self.rest.iter().find_map(|&(start, piece)| {
            let from = range.start.checked_sub(start)?;
            piece.get(from..from.checked_add(range.bytes)?)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_in_any_order_and_shares_the_rest() {
        let mut memory: [u8; 10] = core::array::from_fn(|i| i as u8);
        let range = |start, bytes| Range { start, bytes };
        let split = Split::new(&mut memory, &[range(7, 2), range(2, 3), range(4, 0)]).unwrap();
        assert_eq!(split.written[0], [7, 8]);
        assert_eq!(split.written[1], [2, 3, 4]);
        assert!(split.written[2].is_empty());
        assert_eq!(split.read(range(0, 2)), Some(&[0, 1][..]));
        assert_eq!(split.read(range(5, 2)), Some(&[5, 6][..]));
        assert_eq!(split.read(range(6, 1)), Some(&[6][..]));
        assert_eq!(split.read(range(9, 1)), Some(&[9][..]));
        assert_eq!(split.read(range(1, 2)), None);
        assert_eq!(split.read(range(9, 2)), None);
    }

    #[test]
    fn refuses_overlapping_cuts() {
        let mut memory = [0; 10];
        let range = |start, bytes| Range { start, bytes };
        assert!(Split::new(&mut memory, &[range(2, 3), range(4, 1)]).is_none());
        assert!(Split::new(&mut memory, &[range(8, 3)]).is_none());
        assert!(Split::new(&mut memory, &[range(usize::MAX, 3)]).is_none());
    }
}
