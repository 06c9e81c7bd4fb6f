//! Clusters: blocks that run together, meet at a barrier of their own and store into each other's shared memory.
//!
//! The blocks of a cluster take turns on one thread of the host. What one stores for another arrives before anything else
//! runs, so that a store and the bytes that it reports to a barrier there are one step.

use super::Launch;
use super::arrival;
use super::block::{Block, Environment, Progress};
use super::fault::{Fault, FaultKind};
use super::lanes::{Registers, Slot, lanes_of};
use super::memory::{Memory, Words};
use super::program::Program;
use super::reader::{Address, Reader, Result};
use super::transfer::{Refused, addresses, write_bytes};
use super::watch::{RemoteStore, Watch};
use crate::ptx::Type;

/// Most blocks of a cluster that every GPU can run.
pub(super) const MOST_BLOCKS: u32 = 8;
/// Addresses in the window of a cluster: the block's rank plus one from this bit on, the offset in its memory below.
const RANK: u32 = 24;

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// The address in another block's shared memory that corresponds to one in this block's.
    Map {
        d: Slot,
        a: Slot,
        rank: Slot,
    },
    Arrive {
        releases: bool,
    },
    Wait,
    /// Of words, which may report themselves to a barrier beside them.
    Store {
        address: Address,
        barrier: Option<Address>,
        slots: [Slot; 4],
        count: u32,
    },
}

/// Decodes the instruction if it is one of clusters.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Option<Op>> {
    let operands = reader.operands();
    let opcode = reader.opcode;
    match opcode {
        "mapa" => {
            if !reader.takes("shared::cluster") || reader.r#type()? != Type::U32 || operands.len() != 3 {
                return Err("this form".to_owned());
            }
            let (a, rank) = (reader.value(&operands[1], Type::U32)?, reader.value(&operands[2], Type::U32)?);
            Ok(Some(Op::Map { d: reader.destination(&operands[0], 4)?, a, rank }))
        }
        "barrier" if reader.takes("cluster") => {
            reader.takes("aligned");
            if reader.takes("arrive") {
                let _ = reader.takes("release");
                Ok(Some(Op::Arrive { releases: !reader.takes("relaxed") }))
            } else if reader.takes("wait") {
                reader.takes("acquire");
                Ok(Some(Op::Wait))
            } else {
                Err("this form".to_owned())
            }
        }
        "st" if reader.takes("shared::cluster") => {
            let asynchronous = reader.takes("async") && reader.takes("mbarrier::complete_tx::bytes");
            let _ = reader.takes("weak");
            let count = reader.choice(&[("v2", 2), ("v4", 4)]).unwrap_or(1);
            let r#type = reader.r#type()?;
            let sources = operands.get(1).map_or(&[][..], |operand| reader.elements(operand));
            let fits = operands.len() == if asynchronous { 3 } else { 2 };
            if !fits || r#type.bytes() != 4 || sources.len() != count as usize {
                return Err("this form".to_owned());
            }
            let address = reader.address(&operands[0])?;
            let mut slots = [Slot::SINK; 4];
            for (slot, operand) in slots.iter_mut().zip(sources) {
                *slot = reader.value(operand, r#type)?;
            }
            let barrier = if asynchronous { Some(reader.address(&operands[2])?) } else { None };
            Ok(Some(Op::Store { address, barrier, slots, count }))
        }
        _ => Ok(None),
    }
}

/// What one instruction of a warp stores into the shared memory of one block.
#[derive(Clone, Debug)]
pub(super) struct Message {
    rank: u32,
    warp: u32,
    instruction: u32,
    lanes: u32,
    bytes: u32,
    addresses: [u64; 32],
    data: [Words; 32],
    barriers: Option<[u64; 32]>,
}

/// Executes `mapa`.
pub(super) fn map(r: &mut Registers<'_>, lanes: u32, d: Slot, a: Slot, rank: Slot) {
    let (a, rank) = (r.row(a), r.row(rank));
    let mapped = std::array::from_fn(|lane| (rank[lane].wrapping_add(1) << RANK) | (a[lane] & ((1 << RANK) - 1)));
    r.set_row(d, &mapped, lanes);
}

/// What a store sends, a message for each block that it stores to.
pub(super) fn send(
    (address, barrier): (&Address, Option<&Address>),
    slots: &[Slot],
    r: &Registers<'_>,
    mut lanes: u32,
    (warp, instruction, own): (u32, u32, u32),
    outbox: &mut Vec<Message>,
) -> std::result::Result<(), Refused> {
    let bytes = 4 * slots.len() as u32;
    let split = |address: u64| {
        let offset = address & ((1 << RANK) - 1);
        // An address of the block itself lies in the cluster's window too.
        if address >> RANK == 0 { (own, offset) } else { ((address >> RANK) as u32 - 1, offset) }
    };
    let places = addresses(r, address).map(split);
    let barriers = barrier.map(|barrier| addresses(r, barrier).map(split));
    while lanes != 0 {
        let rank = places[lanes.trailing_zeros() as usize].0;
        let mut message = Message {
            rank,
            warp,
            instruction,
            lanes: 0,
            bytes,
            addresses: places.map(|(_, offset)| offset),
            data: [[0; 4]; 32],
            barriers: barriers.map(|barriers| barriers.map(|(_, offset)| offset)),
        };
        for lane in lanes_of(lanes).filter(|lane| places[*lane].0 == rank) {
            let address = places[lane].1;
            if address % u64::from(bytes) != 0 {
                return Err((FaultKind::Misaligned { address, bytes }, lane));
            }
            if let Some((of, address)) = barriers.map(|barriers| barriers[lane])
                && of != rank
            {
                return Err((FaultKind::Arrival { address, what: "is in another block than the store" }, lane));
            }
            message.lanes |= 1 << lane;
            for (word, slot) in message.data[lane].iter_mut().zip(slots) {
                *word = r.row(*slot)[lane];
            }
        }
        lanes &= !message.lanes;
        outbox.push(message);
    }
    Ok(())
}

/// The blocks of a cluster; of a launch without clusters, one block.
pub(super) struct Cluster<'p, W: Watch> {
    /// By rank.
    blocks: Vec<Block<'p, W>>,
    /// Whose turn it is.
    turn: usize,
}

/// Places of a cluster's blocks by rank.
fn places(program: &Program, first: [u32; 3]) -> impl Iterator<Item = [u32; 3]> {
    let [x, y, z] = program.cluster;
    (0..x * y * z).map(move |rank| [first[0] + rank % x, first[1] + rank / x % y, first[2] + rank / x / y])
}

impl<'p, W: Watch> Cluster<'p, W> {
    /// At the first instruction; `first` is the block of rank 0.
    pub fn new(program: &'p Program, launch: &Launch<'_>, shared: u32, first: [u32; 3], watch: &W) -> Self {
        let blocks = places(program, first).map(|index| Block::new(program, launch, shared, index, watch));
        Self { blocks: blocks.collect(), turn: 0 }
    }

    /// Makes it another cluster of the same launch.
    pub fn restart(&mut self, program: &Program, launch: &Launch<'_>, first: [u32; 3], watch: &W) {
        self.turn = 0;
        for (block, index) in self.blocks.iter_mut().zip(places(program, first)) {
            block.restart(program, launch, index, watch);
        }
    }

    /// Runs until all blocks end, one polls memory, or the fuel is spent.
    pub fn run<M: Memory>(&mut self, e: &mut Environment<'_, '_, M, W>) -> std::result::Result<Progress, Fault> {
        let mut idle = 0;
        while idle < self.blocks.len() {
            let block = &mut self.blocks[self.turn];
            let progress = block.run(e)?;
            idle = if block.moved { 0 } else { idle + 1 };
            if !block.outbox.is_empty() {
                self.deliver(e.watch)?;
                continue;
            }
            if self.meet(e.watch) {
                idle = 0;
            }
            self.turn = (self.turn + 1) % self.blocks.len();
            if progress == Progress::Paused {
                return Ok(Progress::Paused);
            }
        }
        match self.blocks.iter().find(|block| !block.is_done()) {
            None => Ok(Progress::Done),
            Some(block) => {
                let (arrived, expected) = self.arrived();
                Err(block.stuck(arrived, expected))
            }
        }
    }

    /// Hands what was watched to the watch when a fault has ended the launch.
    pub fn end(&mut self, watch: &W) {
        self.blocks.iter_mut().for_each(|block| block.end(watch));
    }

    /// Threads that have arrived at the cluster's barrier, and those that have not returned.
    fn arrived(&self) -> (u32, u32) {
        (self.blocks.iter().map(|block| block.cluster_barrier.arrived).sum(), self.blocks.iter().map(Block::live).sum())
    }

    /// Lets the threads at the cluster's barrier go on if all have come.
    fn meet(&mut self, watch: &W) -> bool {
        let (arrived, live) = self.arrived();
        if arrived == 0 || arrived < live {
            return false;
        }
        for block in &mut self.blocks {
            block.cluster_barrier.arrived = 0;
            block.cluster_barrier.phase += 1;
        }
        if W::ACTIVE {
            let mut watched: Vec<&mut W::Block> =
                self.blocks.iter_mut().filter_map(|block| block.watched.as_mut()).collect();
            watch.cluster_complete(&mut watched);
        }
        true
    }

    /// Puts what the block whose turn it is has sent where it belongs.
    fn deliver(&mut self, watch: &W) -> std::result::Result<(), Fault> {
        let from = self.turn;
        for message in std::mem::take(&mut self.blocks[from].outbox) {
            let Message { rank, warp, instruction, lanes, bytes, addresses, data, barriers } = message;
            let fault = |kind, block: &Block<'_, W>| Fault {
                kind,
                instruction: Some(instruction),
                block: block.index,
                thread: None,
            };
            let to = rank as usize;
            let kind = match self.blocks.get(to) {
                None => Some("does not exist"),
                Some(block) if block.is_done() => Some("has ended"),
                Some(_) => None,
            };
            if let Some(what) = kind {
                return Err(fault(FaultKind::Remote { rank, what }, &self.blocks[from]));
            }
            let available = self.blocks[to].shared.len() as u32;
            if let Some(lane) = lanes_of(lanes).find(|lane| addresses[*lane] + u64::from(bytes) > u64::from(available))
            {
                let kind = FaultKind::Shared { address: addresses[lane], bytes, available };
                return Err(fault(kind, &self.blocks[from]));
            }
            if W::ACTIVE {
                let store =
                    RemoteStore { instruction, warp, lanes, bytes, addresses: &addresses, barriers: barriers.as_ref() };
                if let Ok([a, b]) = self.blocks.get_disjoint_mut([from, to]) {
                    if let (Some(a), Some(b)) = (&mut a.watched, &mut b.watched) {
                        watch.remote_store(a, Some(b), &store);
                    }
                } else if let Some(own) = &mut self.blocks[from].watched {
                    watch.remote_store(own, None, &store);
                }
            }
            let block = &mut self.blocks[to];
            for lane in lanes_of(lanes) {
                write_bytes(&mut block.shared, addresses[lane] as usize, bytes, data[lane]);
                let Some(barriers) = &barriers else { continue };
                let complete = arrival::receive(&mut block.arrivals, barriers[lane], bytes);
                let complete = complete.map_err(|kind| fault(kind, block))?;
                if let (true, true, Some(watched)) = (W::ACTIVE, complete, &mut block.watched) {
                    watch.arrival_complete(watched, barriers[lane]);
                }
            }
        }
        Ok(())
    }
}
