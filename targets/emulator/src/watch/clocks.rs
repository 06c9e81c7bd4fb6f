//! What happens before what inside a block: a clock for each warp, which barriers pass on.
//!
//! An access carries the stamp of its thread: warp, lane and the warp's clock. Barriers raise the clocks of the warps that
//! arrive and tell those that wait of them, so that an earlier access is ordered before a later one if the later one's warp
//! has learnt of its stamp.

/// Who accessed something, and when: warp, lane and clock, packed. The lowest bit says that the access is a copy that has not
/// been waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// Nobody yet.
    pub const NONE: Self = Self(0);
    const CLOCKS: u32 = 1 << 21;

    /// Of a thread at a clock; `pending` where it has yet to be waited for.
    pub fn new(warp: u32, lane: u32, clock: u32, pending: bool) -> Self {
        Self((clock % Self::CLOCKS) << 11 | (warp & 31) << 6 | (lane & 31) << 1 | u32::from(pending))
    }

    /// As one number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// From [`Self::bits`].
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Whether nobody has accessed it.
    pub fn is_none(self) -> bool {
        self.0 >> 11 == 0
    }

    /// Whether it is a copy that has not been waited for.
    pub fn is_pending(self) -> bool {
        self.0 & 1 != 0
    }

    /// The warp.
    pub fn warp(self) -> u32 {
        self.0 >> 6 & 31
    }

    /// Number of the thread in its block.
    pub fn thread(self) -> u32 {
        self.0 >> 1 & 1023
    }

    fn lane(self) -> u32 {
        self.0 >> 1 & 31
    }

    /// The clock.
    pub fn clock(self) -> u32 {
        self.0 >> 11
    }
}

/// A barrier that some warps have arrived at.
#[derive(Debug, Default)]
struct Barrier {
    /// Warps and their clocks on arrival.
    arrived: Vec<(u32, u32)>,
    /// Warps that wait, a bit each.
    waiting: u32,
}

/// The clocks of a block.
#[derive(Debug)]
pub struct Clocks {
    own: Vec<u32>,
    /// For each warp the clocks of all warps that it has learnt of.
    known: Vec<Vec<u32>>,
    /// The same, up to the last fence between what is accessed directly and what asynchronous instructions access; empty
    /// before the first such fence.
    fenced: Vec<Vec<u32>>,
    barriers: [Barrier; 16],
}

impl Clocks {
    /// Of a block with so many warps.
    pub fn new(warps: u32) -> Self {
        let warps = warps as usize;
        Self {
            own: vec![1; warps],
            known: vec![vec![0; warps]; warps],
            fenced: Vec::new(),
            barriers: Default::default(),
        }
    }

    /// The stamp of a thread now.
    pub fn stamp(&self, warp: u32, lane: u32) -> Stamp {
        Stamp::new(warp, lane, self.own.get(warp as usize).copied().unwrap_or(1), false)
    }

    /// The stamp of a copy that a thread issues.
    pub fn pending(&self, warp: u32, lane: u32) -> Stamp {
        Stamp(self.stamp(warp, lane).0 | 1)
    }

    /// Whether what carries the stamp happened before what the thread does now.
    #[inline]
    pub fn ordered(&self, earlier: Stamp, warp: u32, lane: u32) -> bool {
        if earlier.warp() == warp {
            return earlier.lane() == lane || earlier.clock() < self.own[warp as usize];
        }
        self.knows(warp, earlier.warp(), earlier.clock())
    }

    /// Whether all that the warps of a mask did up to a clock happened before what a warp does now; its own lanes apart.
    #[inline]
    pub fn all_ordered(&self, mut warps: u32, clock: Stamp, warp: u32) -> bool {
        warps &= !(1 << warp);
        while warps != 0 {
            let other = warps.trailing_zeros();
            if !self.knows(warp, other, clock.clock()) {
                return false;
            }
            warps &= warps - 1;
        }
        true
    }

    fn knows(&self, warp: u32, other: u32, clock: u32) -> bool {
        self.known[warp as usize].get(other as usize).is_some_and(|&known| clock <= known)
    }

    /// All clocks that a warp has learnt of, its own among them: what a release by it covers.
    pub fn released(&self, warp: u32) -> Vec<u32> {
        let mut clocks = self.known[warp as usize].clone();
        clocks[warp as usize] = self.own[warp as usize];
        clocks
    }

    /// The warp's clock goes on: its next accesses are none that it has released before.
    pub fn tick(&mut self, warp: u32) {
        self.own[warp as usize] += 1;
    }

    /// A warp learns of clocks that were released.
    pub fn learn(&mut self, warp: u32, released: &[u32]) {
        let known = &mut self.known[warp as usize];
        known.iter_mut().zip(released).for_each(|(known, &released)| *known = released.max(*known));
    }

    /// A warp's fence for asynchronous instructions: it covers what the warp did and has learnt of.
    pub fn proxy_fence(&mut self, warp: u32) {
        if self.fenced.is_empty() {
            self.fenced = vec![vec![0; self.own.len()]; self.own.len()];
        }
        let released = self.released(warp);
        let fenced = &mut self.fenced[warp as usize];
        fenced.iter_mut().zip(released).for_each(|(fenced, released)| *fenced = released.max(*fenced));
        self.tick(warp);
    }

    /// Whether there is such a fence between what carries the stamp and what a warp does now.
    pub fn is_fenced(&self, earlier: Stamp, warp: u32) -> bool {
        let fenced = self.fenced.get(warp as usize).and_then(|fenced| fenced.get(earlier.warp() as usize));
        fenced.is_some_and(|&fenced| earlier.clock() <= fenced)
    }

    /// Lanes of a warp have synchronised.
    pub fn warp_sync(&mut self, warp: u32) {
        self.tick(warp);
    }

    /// A warp has arrived at a barrier.
    pub fn arrive(&mut self, barrier: u32, warp: u32, waits: bool) {
        let Some(barrier) = self.barriers.get_mut(barrier as usize) else { return };
        barrier.arrived.push((warp, self.own[warp as usize]));
        if waits {
            barrier.waiting |= 1 << warp;
        } else {
            self.own[warp as usize] += 1;
        }
    }

    /// All that a barrier waits for have arrived.
    pub fn complete(&mut self, barrier: u32) {
        let Some(barrier) = self.barriers.get_mut(barrier as usize) else { return };
        let Barrier { arrived, waiting } = std::mem::take(barrier);
        // The clock that those who wait have in common then. What they did before carries a lesser one.
        let next = arrived.iter().map(|&(warp, _)| self.own[warp as usize]).max().unwrap_or(0) + 1;
        let mut joined = vec![0; self.own.len()];
        for &(warp, clock) in &arrived {
            let clock = if waiting >> warp & 1 != 0 { next - 1 } else { clock };
            for (joined, &known) in joined.iter_mut().zip(&self.known[warp as usize]) {
                *joined = known.max(*joined);
            }
            joined[warp as usize] = joined[warp as usize].max(clock);
        }
        let mut fenced = vec![0; if self.fenced.is_empty() { 0 } else { self.own.len() }];
        for from in arrived.iter().filter_map(|&(warp, _)| self.fenced.get(warp as usize)) {
            fenced.iter_mut().zip(from).for_each(|(fenced, &from)| *fenced = from.max(*fenced));
        }
        for (_, to) in self.fenced.iter_mut().enumerate().filter(|(warp, _)| waiting >> warp & 1 != 0) {
            to.iter_mut().zip(&fenced).for_each(|(to, &fenced)| *to = fenced.max(*to));
        }
        for (warp, known) in self.known.iter_mut().enumerate().filter(|(warp, _)| waiting >> warp & 1 != 0) {
            known.iter_mut().zip(&joined).for_each(|(known, &joined)| *known = joined.max(*known));
            self.own[warp] = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn barriers_order_and_nothing_else_does() {
        let mut clocks = Clocks::new(3);
        let earlier = clocks.stamp(0, 5);
        assert_eq!((earlier.warp(), earlier.thread()), (0, 5));
        assert!(clocks.ordered(earlier, 0, 5) && !clocks.ordered(earlier, 0, 6) && !clocks.ordered(earlier, 1, 0));
        clocks.warp_sync(0);
        assert!(clocks.ordered(earlier, 0, 6) && !clocks.ordered(earlier, 1, 0));
        // A barrier of two warps tells the third nothing; one of the second and third then passes it on.
        let earlier = clocks.stamp(0, 0);
        for warp in [0, 1] {
            clocks.arrive(1, warp, true);
        }
        clocks.complete(1);
        assert!(clocks.ordered(earlier, 1, 0) && !clocks.ordered(earlier, 2, 0));
        for warp in [1, 2] {
            clocks.arrive(0, warp, true);
        }
        clocks.complete(0);
        assert!(clocks.ordered(earlier, 2, 0));
        assert!(!clocks.ordered(clocks.stamp(2, 0), 0, 0));
    }

    #[test]
    fn whoever_only_arrives_is_not_told() {
        let mut clocks = Clocks::new(2);
        let (producer, consumer) = (clocks.stamp(0, 0), clocks.stamp(1, 0));
        clocks.arrive(2, 0, false);
        let after = clocks.stamp(0, 0);
        clocks.arrive(2, 1, true);
        clocks.complete(2);
        assert!(clocks.ordered(producer, 1, 3) && !clocks.ordered(after, 1, 3) && !clocks.ordered(consumer, 0, 0));
    }
}
