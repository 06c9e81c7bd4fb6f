//! Device memory that a launch writes: races between threads of a block, and between blocks that nothing orders.
//!
//! Where blocks run on several of the host's processors at once nothing orders them, and the cells are atomics. Where they
//! communicate the machine runs them on one, and releases and acquires order them.

use super::{
    clocks::{Clocks, Stamp},
    findings::Defect,
};
use crate::machine::{Access, Kind, Order};
use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// Clocks of the warps of other blocks, as far as a block has learnt of them.
pub type KnownClocks = HashMap<u32, Arc<Vec<u32>>>;

/// Adds what `from` tells.
pub fn join(to: &mut KnownClocks, from: &KnownClocks) {
    for (&block, clocks) in from {
        match to.entry(block) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Arc::clone(clocks));
            }
            std::collections::hash_map::Entry::Occupied(mut place) => {
                let kept = place.get_mut();
                if !Arc::ptr_eq(kept, clocks) && kept.iter().zip(clocks.iter()).any(|(kept, known)| known > kept) {
                    *kept = Arc::new(kept.iter().zip(clocks.iter()).map(|(kept, known)| *kept.max(known)).collect());
                }
            }
        }
    }
}

/// What orders a block after others.
#[derive(Debug, Default)]
pub struct Ordered {
    /// What the block is ordered after.
    pub known: KnownClocks,
    /// What relaxed reads saw, which a fence makes count.
    seen: KnownClocks,
    /// For each warp, what its last fence covered.
    fenced: HashMap<u32, KnownClocks>,
    /// Where the block had a part in atomics: it knows what came out, so it comes after those before.
    took_part: HashSet<u64>,
}

/// What was released at each address.
#[derive(Debug, Default)]
pub struct Releases(Mutex<HashMap<u64, KnownClocks>>);

impl Releases {
    /// A fence of a warp.
    pub fn fence(&self, ordered: &mut Ordered, clocks: &mut Clocks, block: u32, warp: u32) {
        join(&mut ordered.known, &std::mem::take(&mut ordered.seen));
        let covered = covered(ordered, clocks, block, warp);
        ordered.fenced.insert(warp, covered);
    }

    /// An access that is atomic or has an order.
    pub fn access(&self, ordered: &mut Ordered, clocks: &mut Clocks, block: u32, access: &Access<'_>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = (0..32usize).filter(|lane| access.lanes >> lane & 1 != 0);
        let releases = matches!(access.order, Order::Release | Order::AcquireRelease);
        for lane in lanes {
            if access.kind == Kind::Atomic {
                ordered.took_part.insert(access.addresses[lane]);
            }
            let at = all.entry(access.addresses[lane]).or_default();
            if access.kind != Kind::Store {
                let acquires = matches!(access.order, Order::Acquire | Order::AcquireRelease);
                join(if acquires { &mut ordered.known } else { &mut ordered.seen }, at);
            }
            if access.kind != Kind::Load {
                if releases {
                    join(at, &covered(ordered, clocks, block, access.warp));
                } else if let Some(fenced) = ordered.fenced.get(&access.warp) {
                    join(at, fenced);
                }
            }
        }
    }
}

/// What a release by a warp covers, and its clock goes on.
pub fn covered(ordered: &Ordered, clocks: &mut Clocks, block: u32, warp: u32) -> KnownClocks {
    let mut covered = ordered.known.clone();
    covered.insert(block, Arc::new(clocks.released(warp)));
    clocks.tick(warp);
    covered
}

/// A write or read of a cell: block plus one, whether it was atomic, stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    const NONE: Self = Self(0);
    /// Several blocks.
    const MANY: Self = Self(u64::MAX);
    const ATOMIC: u64 = 1 << 63;

    fn new(block: u32, stamp: Stamp, atomic: bool) -> Self {
        Self((u64::from(block) + 1) << 32 | u64::from(stamp.bits()) | if atomic { Self::ATOMIC } else { 0 })
    }

    fn block(self) -> u32 {
        ((self.0 & !Self::ATOMIC) >> 32) as u32 - 1
    }

    fn stamp(self) -> Stamp {
        Stamp::from_bits(self.0 as u32)
    }

    fn is_atomic(self) -> bool {
        self.0 & Self::ATOMIC != 0
    }
}

/// The other party of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A thread of a block, by their numbers.
    Thread(u32, u32),
    /// Several blocks.
    Blocks,
}

/// Cells of a range that a launch writes.
#[derive(Debug)]
pub struct Cells {
    range: Range<u64>,
    grain: u64,
    /// Last write and last read of each.
    cells: Vec<[AtomicU64; 2]>,
    /// Further reads since the last write, where blocks run one at a time.
    further: Mutex<HashMap<usize, Vec<Entry>>>,
    sequential: bool,
}

/// Who accesses a cell.
#[derive(Clone, Copy, Debug)]
pub struct Accessor<'a> {
    /// Number of the block.
    pub block: u32,
    /// Its clocks.
    pub clocks: &'a Clocks,
    /// What orders it after others.
    pub ordered: &'a Ordered,
    /// Warp.
    pub warp: u32,
    /// Lane.
    pub lane: u32,
}

impl Accessor<'_> {
    fn after(&self, entry: Entry) -> bool {
        if entry == Entry::NONE {
            true
        } else if entry == Entry::MANY {
            false
        } else if entry.block() == self.block {
            self.clocks.ordered(entry.stamp(), self.warp, self.lane)
        } else {
            let known = self.ordered.known.get(&entry.block());
            known
                .and_then(|clocks| clocks.get(entry.stamp().warp() as usize))
                .is_some_and(|&clock| entry.stamp().clock() <= clock)
        }
    }

    fn conflict(&self, entry: Entry) -> Option<(Defect, Other)> {
        if self.after(entry) {
            None
        } else if entry == Entry::MANY {
            Some((Defect::RaceOfBlocks, Other::Blocks))
        } else {
            let defect = if entry.block() == self.block { Defect::RaceInBlock } else { Defect::RaceOfBlocks };
            Some((defect, Other::Thread(entry.block(), entry.stamp().thread())))
        }
    }
}

impl Cells {
    /// Of a range; every access is a multiple of `grain` bytes. `sequential` where blocks run one at a time.
    pub fn new(range: Range<u64>, grain: u64, sequential: bool) -> Self {
        let count = (range.end - range.start).div_ceil(grain);
        let cells = (0..count).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]).collect();
        Self { range, grain, cells, further: Mutex::default(), sequential }
    }

    /// The range.
    pub fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// An access of one lane, of which the part in this range is looked at; what is wrong with it.
    pub fn access(&self, by: Accessor<'_>, access: &Access<'_>) -> Option<(Defect, Other)> {
        let address = access.addresses[by.lane as usize];
        let from = address.max(self.range.start) - self.range.start;
        let to = (address + u64::from(access.bytes)).min(self.range.end).saturating_sub(self.range.start);
        let strong = access.kind == Kind::Atomic || access.order != Order::Weak;
        let entry = Entry::new(by.block, by.clocks.stamp(by.warp, by.lane), strong);
        let mut found = None;
        for number in (from / self.grain) as usize..to.div_ceil(self.grain) as usize {
            let Some([write, read]) = self.cells.get(number) else { break };
            let conflict = if matches!(access.kind, Kind::Load | Kind::AsyncLoad) {
                if !strong {
                    self.note_read(by, number, read, entry);
                }
                let written = Entry(write.load(Ordering::SeqCst));
                if strong && written.is_atomic() { None } else { by.conflict(written) }
            } else {
                let written = Entry(write.swap(entry.0, Ordering::SeqCst));
                let after_atomics = strong || by.ordered.took_part.contains(&address);
                let conflict = if after_atomics && written.is_atomic() { None } else { by.conflict(written) };
                conflict.or_else(|| self.conflict_with_reads(by, number, read))
            };
            found = found.or(conflict);
        }
        found
    }

    fn note_read(&self, by: Accessor<'_>, number: usize, read: &AtomicU64, entry: Entry) {
        let before = Entry(read.swap(entry.0, Ordering::SeqCst));
        if before == Entry::NONE || by.after(before) {
            return;
        }
        if self.sequential {
            let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
            let reads = further.entry(number).or_default();
            reads.retain(|&read| !by.after(read));
            reads.push(before);
        } else if before == Entry::MANY || before.block() != by.block {
            read.store(Entry::MANY.0, Ordering::SeqCst);
        }
    }

    fn conflict_with_reads(&self, by: Accessor<'_>, number: usize, read: &AtomicU64) -> Option<(Defect, Other)> {
        let conflict = by.conflict(Entry(read.load(Ordering::SeqCst)));
        if !self.sequential {
            return conflict;
        }
        read.store(Entry::NONE.0, Ordering::SeqCst);
        let mut further = self.further.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = further.remove(&number).unwrap_or_default();
        conflict.or_else(|| earlier.into_iter().find_map(|entry| by.conflict(entry)))
    }
}
