//! Shared memory: races between threads of a block, reads of what nobody wrote, copies and products that nobody waited
//! for, and what other blocks of a cluster store.

use super::{
    clocks::{Clocks, Stamp},
    findings::Defect,
};
use crate::machine::{Access, Kind, WAIT_ALL};

/// What is known of one cell: as many bytes as every access so far is a multiple of.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    /// Last write, its instruction, and whether that was an atomic one.
    writer: Stamp,
    wrote: u32,
    atomic: bool,
    /// Warps that have read it since, the last read, and its instruction.
    readers: u32,
    reader: Stamp,
    read: u32,
    /// Warps of which products read it that they have not waited for.
    in_use: u32,
}

/// Flag of the instruction that wrote a cell: another block did. The stamp's clock then counts what came from others.
const REMOTE: u32 = 1 << 31;

/// Copies that an instruction of a warp issued.
#[derive(Debug)]
struct Copies {
    /// Lanes that have not waited yet.
    lanes: u32,
    bytes: u32,
    addresses: [u64; 32],
    instruction: u32,
    /// For each lane the group that they belong to.
    groups: [u32; 32],
}

/// What an instruction of a warp's products reads.
#[derive(Debug)]
struct Reads {
    lanes: u32,
    addresses: [u64; 32],
    instruction: u32,
    group: u32,
}

/// Copies and products of a warp that have not been waited for, oldest first, and groups that its lanes have committed.
#[derive(Debug, Default)]
struct Queue {
    copies: Vec<Copies>,
    committed: [u32; 32],
    reads: Vec<Reads>,
    products: u32,
}

/// The other party of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Thread in its block.
    pub thread: u32,
    /// Instruction.
    pub instruction: u32,
    /// Whether it is in another block of the cluster.
    pub remote: bool,
}

impl Other {
    fn new(stamp: Stamp, instruction: u32) -> Self {
        Self { thread: stamp.thread(), instruction: instruction & !REMOTE, remote: instruction & REMOTE != 0 }
    }
}

/// What is wrong with an access of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// What.
    pub defect: Defect,
    /// The lane.
    pub lane: u32,
    /// First byte concerned.
    pub address: u64,
    /// The other party.
    pub other: Option<Other>,
}

/// The shared memory of one block.
#[derive(Debug)]
pub struct Shared {
    bytes: u64,
    /// Bytes of a cell, a power of two up to 16.
    grain: u64,
    cells: Vec<Cell>,
    queues: Vec<Queue>,
    /// What came from other blocks so far, and how much of it each warp has waited for.
    received: u32,
    awaited: Vec<u32>,
}

impl Shared {
    /// Of a block with so many bytes and warps; accesses are expected to be multiples of `grain` bytes.
    pub fn new(bytes: u64, warps: u32, grain: u64) -> Self {
        let cells = vec![Cell::default(); bytes.div_ceil(grain) as usize];
        let queues = (0..warps).map(|_| Queue::default()).collect();
        Self { bytes, grain, cells, queues, received: 0, awaited: vec![0; warps as usize] }
    }

    /// Bytes of a cell.
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// Splits the cells until every address and length is a multiple of theirs.
    fn refine(&mut self, access: &Access<'_>) {
        let lanes = (0..32).filter(|lane| access.lanes >> lane & 1 != 0);
        let bits = lanes.fold(u64::from(access.bytes), |bits, lane| bits | access.addresses[lane]);
        while bits % self.grain != 0 {
            self.split();
        }
    }

    fn split(&mut self) {
        self.grain /= 2;
        self.cells = self.cells.iter().flat_map(|&cell| [cell, cell]).collect();
        self.cells.truncate(self.bytes.div_ceil(self.grain) as usize);
    }

    /// An access; what is wrong with it goes to `report`.
    pub fn access(&mut self, clocks: &Clocks, access: &Access<'_>, report: &mut dyn FnMut(Conflict)) {
        self.refine(access);
        let Access { instruction, warp, kind, .. } = *access;
        let (reads, writes) = match kind {
            Kind::Load | Kind::AsyncLoad => (true, false),
            Kind::Store | Kind::AsyncStore => (false, true),
            Kind::Atomic => (true, true),
            Kind::Prefetch => return,
        };
        let mut lanes = access.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let address = access.addresses[lane as usize];
            let stamp = if kind == Kind::AsyncStore { clocks.pending(warp, lane) } else { clocks.stamp(warp, lane) };
            let first = (address / self.grain) as usize;
            let count = (u64::from(access.bytes) / self.grain) as usize;
            // Outside the block's memory: the machine ends the launch.
            let Some(cells) = self.cells.get_mut(first..first + count) else { continue };
            let mut conflict = None;
            for (cell, number) in cells.iter_mut().zip(0u64..) {
                let mut found = |defect, other| {
                    conflict.get_or_insert(Conflict { defect, lane, address: address + number * self.grain, other });
                };
                let Cell { writer, wrote, atomic, .. } = *cell;
                let by_writer = Some(Other::new(writer, wrote));
                let remote = wrote & REMOTE != 0;
                if writer.is_none() {
                    if reads {
                        found(Defect::UnwrittenShared, None);
                    }
                } else if writer.is_pending() {
                    found(Defect::CopyNotAwaited, by_writer);
                } else if remote {
                    if writer.clock() > self.awaited[warp as usize] {
                        found(Defect::RaceInShared, by_writer);
                    }
                } else if !(clocks.ordered(writer, warp, lane) || kind == Kind::Atomic && atomic) {
                    found(Defect::RaceInShared, by_writer);
                } else if kind == Kind::AsyncLoad && !clocks.is_fenced(writer, warp) {
                    found(Defect::NoProxyFence, by_writer);
                }
                if writes {
                    if cell.in_use != 0 {
                        found(Defect::OperandInUse, None);
                    }
                    let by_own = cell.readers & 1 << warp != 0 && cell.reader.warp() == warp;
                    let after_own = !by_own || clocks.ordered(cell.reader, warp, lane);
                    if !(after_own && clocks.all_ordered(cell.readers, cell.reader, warp)) {
                        found(Defect::RaceInShared, Some(Other::new(cell.reader, cell.read)));
                    }
                    let atomic = kind == Kind::Atomic;
                    *cell = Cell { writer: stamp, wrote: instruction, atomic, ..Cell::default() };
                } else if kind == Kind::AsyncLoad {
                    cell.in_use |= 1 << warp;
                } else {
                    cell.note_read(clocks, stamp, instruction);
                }
            }
            if let Some(conflict) = conflict {
                report(conflict);
            }
        }
        if kind == Kind::AsyncLoad
            && let Some(queue) = self.queues.get_mut(warp as usize)
        {
            let (lanes, addresses, group) = (access.lanes, *access.addresses, queue.products);
            queue.reads.push(Reads { lanes, addresses, instruction, group });
        }
        if kind == Kind::AsyncStore
            && let Some(queue) = self.queues.get_mut(warp as usize)
        {
            let groups = queue.committed;
            let (lanes, bytes, addresses) = (access.lanes, access.bytes, *access.addresses);
            queue.copies.push(Copies { lanes, bytes, addresses, instruction, groups });
        }
    }

    /// A warp has committed a group of products.
    pub fn commit_products(&mut self, warp: u32) {
        if let Some(queue) = self.queues.get_mut(warp as usize) {
            queue.products += 1;
        }
    }

    /// A warp has waited for all of its groups of products but the latest `pending`: they have read their operands.
    pub fn wait_for_products(&mut self, clocks: &Clocks, warp: u32, pending: u32) {
        let Some(queue) = self.queues.get_mut(warp as usize) else { return };
        let (committed, stamp) = (queue.products, clocks.stamp(warp, 0));
        let (done, left) = std::mem::take(&mut queue.reads)
            .into_iter()
            .partition(|reads| reads.group.saturating_add(pending) < committed);
        queue.reads = left;
        let (grain, done): (u64, Vec<Reads>) = (self.grain, done);
        let cells_of = |reads: &Reads| {
            let Reads { lanes, addresses, .. } = *reads;
            let first = move |lane: usize| (addresses[lane] / grain) as usize;
            let lanes = (0..32usize).filter(move |lane| lanes >> lane & 1 != 0);
            lanes.flat_map(move |lane| first(lane)..first(lane) + (16 / grain) as usize)
        };
        for reads in &done {
            for number in cells_of(reads) {
                let Some(cell) = self.cells.get_mut(number) else { continue };
                cell.in_use &= !(1 << warp);
                cell.note_read(clocks, stamp, reads.instruction);
            }
        }
        // What later products read too.
        for number in queue.reads.iter().flat_map(cells_of) {
            if let Some(cell) = self.cells.get_mut(number) {
                cell.in_use |= 1 << warp;
            }
        }
    }

    /// A thread of another block, or of this one by the same way, stores; `covers` says up to which clock of each warp what
    /// this block did happened before that. Where it is `awaited`, [`Self::received`] says when it has come.
    pub fn receive(
        &mut self,
        (stamp, instruction): (Stamp, u32),
        (address, bytes): (u64, u32),
        covers: &[u32],
        awaited: bool,
    ) -> Option<Conflict> {
        while (address | u64::from(bytes)) % self.grain != 0 {
            self.split();
        }
        self.received += 1;
        let writer = Stamp::new(stamp.warp(), stamp.thread() % 32, self.received, awaited);
        let covered = |stamp: Stamp, warp: u32| covers.get(warp as usize).is_some_and(|&clock| stamp.clock() <= clock);
        let first = (address / self.grain) as usize;
        let count = (u64::from(bytes) / self.grain) as usize;
        let mut conflict = None;
        for cell in self.cells.get_mut(first..first + count).into_iter().flatten() {
            let mut found = |defect, other| {
                conflict.get_or_insert(Conflict { defect, lane: stamp.thread() % 32, address, other: Some(other) });
            };
            let by_own = !cell.writer.is_none() && cell.wrote & REMOTE == 0;
            if by_own && (cell.writer.is_pending() || !covered(cell.writer, cell.writer.warp())) {
                found(Defect::RaceInShared, Other::new(cell.writer, cell.wrote));
            }
            if cell.in_use != 0 || (0..32).any(|warp| cell.readers >> warp & 1 != 0 && !covered(cell.reader, warp)) {
                found(Defect::RaceInShared, Other::new(cell.reader, cell.read));
            }
            *cell = Cell { writer, wrote: instruction | REMOTE, ..Cell::default() };
        }
        conflict
    }

    /// What others stored has come: from now on it is there for whoever waits for it.
    pub fn arrive(&mut self, address: u64, bytes: u32) {
        let (first, count) = ((address / self.grain) as usize, (u64::from(bytes) / self.grain) as usize);
        for cell in self.cells.get_mut(first..first + count).into_iter().flatten() {
            if cell.wrote & REMOTE != 0 && cell.writer.is_pending() {
                cell.writer = Stamp::new(cell.writer.warp(), cell.writer.thread() % 32, self.received, false);
            }
        }
    }

    /// How much has come so far.
    pub fn received(&self) -> u32 {
        self.received
    }

    /// A warp has waited for what came up to then.
    pub fn note_awaited(&mut self, warp: u32, received: u32) {
        if let Some(awaited) = self.awaited.get_mut(warp as usize) {
            *awaited = received.max(*awaited);
        }
    }

    /// Lanes of a warp have committed a group.
    pub fn commit(&mut self, warp: u32, lanes: u32) {
        if let Some(queue) = self.queues.get_mut(warp as usize) {
            for (lane, committed) in queue.committed.iter_mut().enumerate() {
                *committed += lanes >> lane & 1;
            }
        }
    }

    /// Lanes of a warp have waited for all groups but the latest `pending`: what those copied is theirs now, and every
    /// other thread's behind a barrier.
    pub fn wait(&mut self, clocks: &Clocks, warp: u32, lanes: u32, pending: u32) {
        if pending == WAIT_ALL {
            self.commit(warp, lanes);
        }
        let pending = if pending == WAIT_ALL { 0 } else { pending };
        let Some(queue) = self.queues.get_mut(warp as usize) else { return };
        for copies in &mut queue.copies {
            let waiting = copies.lanes & lanes;
            for lane in (0..32u32).filter(|lane| waiting >> lane & 1 != 0) {
                if copies.groups[lane as usize] + pending >= queue.committed[lane as usize] {
                    continue;
                }
                copies.lanes &= !(1 << lane);
                let first = (copies.addresses[lane as usize] / self.grain) as usize;
                let count = (u64::from(copies.bytes) / self.grain) as usize;
                for cell in self.cells.get_mut(first..first + count).into_iter().flatten() {
                    if cell.writer.is_pending()
                        && cell.writer.thread() == warp * 32 + lane
                        && cell.wrote == copies.instruction
                    {
                        cell.writer = clocks.stamp(warp, lane);
                    }
                }
            }
        }
        queue.copies.retain(|copies| copies.lanes != 0);
    }
}

impl Cell {
    #[inline]
    fn note_read(&mut self, clocks: &Clocks, stamp: Stamp, instruction: u32) {
        // Reads that happened before this one need not be kept: whoever is ordered after this one is after them too.
        if clocks.all_ordered(self.readers, self.reader, stamp.warp()) {
            self.readers = 0;
        }
        self.readers |= 1 << stamp.warp();
        (self.reader, self.read) = (stamp, instruction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Order, Space};

    /// A block of two warps with 256 bytes, and what goes wrong in it.
    struct Block {
        shared: Shared,
        clocks: Clocks,
    }

    impl Block {
        fn new() -> Self {
            Self { shared: Shared::new(256, 2, 16), clocks: Clocks::new(2) }
        }

        /// Each lane accesses `bytes` at its number times `bytes`, plus `from`.
        fn access(&mut self, warp: u32, kind: Kind, bytes: u32, from: u64) -> Vec<Defect> {
            self.lanes(warp, kind, bytes, (0..8).map(|lane| from + lane * u64::from(bytes)))
        }

        fn lanes(&mut self, warp: u32, kind: Kind, bytes: u32, places: impl Iterator<Item = u64>) -> Vec<Defect> {
            let (mut addresses, mut lanes, mut found) = ([0; 32], 0, Vec::new());
            for (lane, place) in places.enumerate() {
                addresses[lane] = place;
                lanes |= 1 << lane;
            }
            let (space, order) = (Space::Shared, Order::Weak);
            let access = Access { instruction: 7, warp, lanes, space, kind, order, bytes, addresses: &addresses };
            self.shared.access(&self.clocks, &access, &mut |conflict| found.push(conflict.defect));
            found.dedup();
            found
        }

        fn barrier(&mut self) {
            for warp in [0, 1] {
                self.clocks.arrive(0, warp, true);
            }
            self.clocks.complete(0);
        }
    }

    #[test]
    fn a_missing_barrier_is_a_race_and_a_present_one_is_none() {
        let mut block = Block::new();
        assert_eq!(block.access(0, Kind::Load, 4, 0), [Defect::UnwrittenShared]);
        let mut block = Block::new();
        assert_eq!(block.access(0, Kind::Store, 4, 0), []);
        // A thread sees what it wrote itself; the lane beside it needs a synchronisation, another warp a barrier.
        assert_eq!(block.access(0, Kind::Load, 4, 0), []);
        assert_eq!(block.lanes(0, Kind::Load, 4, [4, 0].into_iter()), [Defect::RaceInShared]);
        assert_eq!(block.access(1, Kind::Load, 4, 0), [Defect::RaceInShared]);
        block.barrier();
        assert_eq!(block.access(1, Kind::Load, 4, 0), []);
        // Overwriting what others read needs one too, however many read it and whatever their clocks.
        block.clocks.warp_sync(1);
        assert_eq!(block.access(1, Kind::Load, 4, 0), []);
        assert_eq!(block.lanes(0, Kind::Load, 4, [0, 0, 0].into_iter()), []);
        assert_eq!(block.access(0, Kind::Store, 4, 0), [Defect::RaceInShared]);
        block.barrier();
        assert_eq!(block.access(0, Kind::Store, 4, 0), []);
    }

    #[test]
    fn cells_become_as_small_as_accesses() {
        let mut block = Block::new();
        assert_eq!(block.access(0, Kind::Store, 2, 0), []);
        assert_eq!(block.access(1, Kind::Store, 2, 16), []);
        assert_eq!(block.shared.grain(), 2);
        block.barrier();
        assert_eq!(block.access(1, Kind::Load, 4, 0), []);
        assert_eq!(block.access(1, Kind::Load, 4, 16), [Defect::UnwrittenShared]);
    }

    #[test]
    fn atomics_race_with_others_only() {
        let mut block = Block::new();
        assert_eq!(block.lanes(0, Kind::Store, 4, [0].into_iter()), []);
        block.barrier();
        for warp in [0, 1, 0] {
            assert_eq!(block.lanes(warp, Kind::Atomic, 4, [0, 0, 0].into_iter()), []);
        }
        assert_eq!(block.lanes(1, Kind::Load, 4, [0].into_iter()), [Defect::RaceInShared]);
    }

    #[test]
    fn copies_are_there_behind_the_wait_of_their_group_and_a_barrier() {
        let mut block = Block::new();
        for group in 0..2 {
            assert_eq!(block.access(0, Kind::AsyncStore, 16, group * 128), []);
            block.shared.commit(0, !0);
        }
        block.shared.wait(&block.clocks, 0, !0, 1);
        assert_eq!(block.access(0, Kind::Load, 16, 128), [Defect::CopyNotAwaited]);
        assert_eq!(block.access(0, Kind::Load, 16, 0), []);
        assert_eq!(block.access(1, Kind::Load, 16, 0), [Defect::RaceInShared]);
        block.shared.wait(&block.clocks, 0, !0, 0);
        block.barrier();
        assert_eq!(block.access(1, Kind::Load, 16, 128), []);
        assert_eq!(block.access(1, Kind::Load, 16, 0), []);
        // The next copy into the stage must wait for its readers.
        assert_eq!(block.access(0, Kind::AsyncStore, 16, 0), [Defect::RaceInShared]);
    }
}
