//! Placement: every arena buffer gets an offset, buffers that are alive together never overlap.
//!
//! Offsets are assigned greedily, each buffer at the lowest gap among those already placed that live at the same time
//! (as in TFLM's greedy planner and tinygrad's). Several orders are tried and the smallest arena wins; the lower bound
//! (peak of live bytes) is reported beside it, and where it is not reached a bounded, seeded search improves the order.
//!
//! A step that writes where another value lay waits for the readers of that. On few multiprocessors this costs nothing, since each
//! step fills them. On many, branches of a network run side by side, and there only values share memory that come one after
//! the other in any case, as long as the arena stays small beside the level-2 cache.

use crate::{kernel_graph::Storage, schedule::Schedule, waits::Waits};
use floe_engine::plan::format::BLOB_ALIGNMENT;
use floe_kernels::codegen::Target;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

/// The arena.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// Offset of each buffer of the schedule's graph, `None` for those outside the arena or never used.
    pub offsets: Vec<Option<u64>>,
    /// Size of the arena.
    pub bytes: u64,
    /// Peak of live bytes, counters included.
    pub lower_bound: u64,
    /// Leading bytes that hold counters.
    pub zeroed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    buffer: usize,
    bytes: u64,
    first: usize,
    last: usize,
}

impl Block {
    fn overlaps(&self, other: &Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Multiprocessors from which on a step leaves room for another.
const MANY_MULTIPROCESSORS: u32 = 64;
/// Most blocks that are looked at in pairs for what orders them.
const MOST_ORDERED: usize = 1 << 11;

/// Places the buffers of a schedule.
pub fn place(schedule: &Schedule, target: &Target) -> Placement {
    let mut placement = Placement { offsets: vec![None; schedule.graph.buffers.len()], ..Placement::default() };
    for (number, buffer) in schedule.graph.buffers.iter().enumerate() {
        if buffer.storage == Storage::Counters {
            placement.offsets[number] = Some(placement.zeroed);
            placement.zeroed += buffer.bytes.next_multiple_of(16);
        }
    }
    placement.zeroed = placement.zeroed.next_multiple_of(BLOB_ALIGNMENT);
    let blocks = lifetimes(schedule);
    let peak = peak(&blocks, schedule.steps.len());
    let in_time = |a: usize, b: usize| blocks[a].overlaps(&blocks[b]);
    let (mut offsets, mut bytes) = best_assignment(&blocks, peak, &in_time);
    if target.multiprocessors >= MANY_MULTIPROCESSORS && blocks.len() <= MOST_ORDERED {
        let waits = Waits::of(schedule);
        let count = blocks.len();
        let pairs = (0..count * count).map(|pair| (blocks[pair / count].buffer, blocks[pair % count].buffer));
        let together: Vec<bool> = pairs.map(|(a, b)| !waits.are_ordered(a, b)).collect();
        let side_by_side = best_assignment(&blocks, peak, &|a, b| together[a * count + b]);
        if side_by_side.1 <= bytes.max(target.l2_bytes / 2) {
            (offsets, bytes) = side_by_side;
        }
    }
    for (block, offset) in blocks.iter().zip(offsets) {
        placement.offsets[block.buffer] = Some(placement.zeroed + offset);
    }
    placement.bytes = placement.zeroed + bytes;
    placement.lower_bound = placement.zeroed + peak;
    placement
}

/// First and last step of every arena buffer that is used.
fn lifetimes(schedule: &Schedule) -> Vec<Block> {
    let mut spans: Vec<Option<(usize, usize)>> = vec![None; schedule.graph.buffers.len()];
    for (step, scheduled) in schedule.steps.iter().enumerate() {
        for operand in &scheduled.operands {
            let span = spans[operand.range.buffer.0].get_or_insert((step, step));
            span.1 = step;
        }
    }
    let buffers = schedule.graph.buffers.iter().enumerate();
    buffers
        .filter(|(_, buffer)| buffer.storage == Storage::Arena)
        .filter_map(|(number, buffer)| {
            let (first, last) = spans[number]?;
            Some(Block { buffer: number, bytes: buffer.bytes.next_multiple_of(BLOB_ALIGNMENT), first, last })
        })
        .collect()
}

fn peak(blocks: &[Block], steps: usize) -> u64 {
    let mut change = vec![0i64; steps + 1];
    for block in blocks {
        change[block.first] += block.bytes as i64;
        change[block.last + 1] -= block.bytes as i64;
    }
    let mut live = 0;
    change.iter().fold(0, |most, delta| {
        live += delta;
        most.max(live)
    }) as u64
}

/// Most blocks that are placed each among all others.
const MOST_COMPARED: usize = 1 << 13;

/// Offsets and bytes of the smallest arena found in which blocks that are needed together lie apart.
fn best_assignment(blocks: &[Block], peak: u64, together: &dyn Fn(usize, usize) -> bool) -> (Vec<u64>, u64) {
    if blocks.len() > MOST_COMPARED {
        return assign_in_time(blocks);
    }
    let sorted = |key: &dyn Fn(&Block) -> (Reverse<u64>, usize)| {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&b| (key(&blocks[b]), b));
        order
    };
    let span = |block: &Block| (block.last - block.first + 1) as u64;
    let mut orders = vec![
        sorted(&|block| (Reverse(block.bytes), block.first)),
        sorted(&|block| (Reverse(block.bytes * span(block)), block.first)),
        sorted(&|block| (Reverse(span(block)), block.first)),
        sorted(&|block| (Reverse(0), block.first)),
    ];
    let mut best = (Vec::new(), u64::MAX);
    let mut best_order = Vec::new();
    for order in orders.drain(..) {
        let assigned = assign(blocks, &order, together);
        if assigned.1 < best.1 {
            (best, best_order) = (assigned, order);
        }
    }
    // Move one block to another place in the order, keep what does not get worse. The seed makes it repeatable.
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    // The work of one attempt grows with the square of the number of blocks.
    let attempts = (20_000_000 / (blocks.len() * blocks.len()).max(1)).clamp(50, 4_000);
    for _ in 0..attempts {
        if best.1 == peak || blocks.len() < 2 {
            break;
        }
        let mut order = best_order.clone();
        let moved = order.remove(next(blocks.len()));
        order.insert(next(blocks.len()), moved);
        let assigned = assign(blocks, &order, together);
        if assigned.1 <= best.1 {
            (best, best_order) = (assigned, order);
        }
    }
    if best.1 == u64::MAX { (Vec::new(), 0) } else { best }
}

/// Gives each block, as it comes to life, the lowest gap between those that live then.
fn assign_in_time(blocks: &[Block]) -> (Vec<u64>, u64) {
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&b| (blocks[b].first, Reverse(blocks[b].bytes), b));
    let (mut offsets, mut top) = (vec![0; blocks.len()], 0);
    // Gaps by offset, and living blocks by their last step.
    let mut gaps: BTreeMap<u64, u64> = BTreeMap::from([(0, u64::MAX)]);
    let mut living: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
    for b in order {
        while let Some(&Reverse((_, dead))) = living.peek().filter(|Reverse((last, _))| *last < blocks[b].first) {
            living.pop();
            let (mut start, mut bytes) = (offsets[dead], blocks[dead].bytes);
            if let Some((&before, &length)) =
                gaps.range(..start).next_back().filter(|(at, length)| **at + **length == start)
            {
                gaps.remove(&before);
                (start, bytes) = (before, length + bytes);
            }
            if let Some(length) = gaps.remove(&(start + bytes)) {
                bytes = bytes.saturating_add(length);
            }
            gaps.insert(start, bytes);
        }
        let bytes = blocks[b].bytes;
        let (&offset, &length) = gaps.iter().find(|(_, length)| **length >= bytes).expect("the last gap has no end");
        gaps.remove(&offset);
        if length > bytes {
            gaps.insert(offset + bytes, if length == u64::MAX { length } else { length - bytes });
        }
        offsets[b] = offset;
        top = top.max(offset + bytes);
        living.push(Reverse((blocks[b].last, b)));
    }
    (offsets, top)
}

/// Gives each block, in order, the lowest offset where it meets no placed block that is needed together with it.
fn assign(blocks: &[Block], order: &[usize], together: &dyn Fn(usize, usize) -> bool) -> (Vec<u64>, u64) {
    let mut offsets = vec![0; blocks.len()];
    let mut placed: Vec<usize> = Vec::with_capacity(blocks.len());
    let mut top = 0;
    for &b in order {
        let block = &blocks[b];
        // `placed` is kept in the order of offsets, so one sweep finds the lowest gap.
        let mut offset = 0;
        for &other in &placed {
            if together(other, b) {
                if offsets[other] >= offset + block.bytes {
                    break;
                }
                offset = offset.max(offsets[other] + blocks[other].bytes);
            }
        }
        offsets[b] = offset;
        top = top.max(offset + block.bytes);
        let position = placed.partition_point(|&other| offsets[other] <= offset);
        placed.insert(position, b);
    }
    (offsets, top)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        lower,
        order::{Access, dependencies},
        passes::{self, tests::Network},
        schedule::{self, StepOperand},
        selection::Selection,
        store_options::StoreOptions,
        stored::StoredGraph,
        targets,
    };
    use floe_models::Op;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn block(buffer: usize, bytes: u64, first: usize, last: usize) -> Block {
        Block { buffer, bytes, first, last }
    }

    fn in_time(blocks: &[Block]) -> impl Fn(usize, usize) -> bool {
        |a, b| blocks[a].overlaps(&blocks[b])
    }

    /// By how many steps memory in common makes the longest chain of dependencies longer.
    fn false_dependencies(target: &str, extent: usize) -> (usize, Placement) {
        // Two branches of three layers each, one after the other in the list of steps.
        let mut net = Network::new();
        let x = net.input(&[1, 64, extent, extent]);
        let ends = [(); 2].map(|()| (0..3).fold(x, |y, _| net.conv(y, 64, 3, 1)));
        let y = net.node(Op::Concat { axis: 1 }, &ends);
        net.output(y);
        let target = targets::find(target).expect("known");
        let fused = passes::fuse(net.graph).expect("fusible");
        let stored =
            StoredGraph::of(&fused, StoreOptions { host: target.is_host(), half: true, ..StoreOptions::default() });
        let graph = lower::lower(&stored).expect("every kernel has a form");
        let none = HashMap::new();
        let schedule = schedule::for_gpu(graph, Selection::new(target, &none, None, None), None).expect("candidates");
        let placement = place(&schedule, target);
        let number = |placed: bool| {
            let place = |operand: &StepOperand| {
                let buffer = operand.range.buffer.0;
                let (space, start) = placement.offsets[buffer].filter(|_| placed).map_or((buffer + 1, 0), |at| (0, at));
                operand.access(space, start + operand.range.offset)
            };
            let accesses: Vec<Vec<Access>> =
                schedule.steps.iter().map(|step| step.operands.iter().map(place).collect()).collect();
            let chains = dependencies(&accesses);
            // Links of a chain that leads from the first step to the last.
            let mut length = Vec::new();
            for after in chains {
                length.push(after.into_iter().map(|earlier| length[earlier as usize] + 1).max().unwrap_or(0));
            }
            length.into_iter().max().unwrap_or(0)
        };
        (number(true) - number(false), placement)
    }

    #[test]
    fn branches_share_no_memory_where_they_run_side_by_side() {
        let (many, few, large) = (
            false_dependencies("h200", 20),
            false_dependencies("jetson-agx-orin", 20),
            false_dependencies("h200", 700),
        );
        assert_eq!((many.0, few.0 > 0, large.0 > 0), (0, true, true));
        assert!(many.1.bytes > many.1.lower_bound && large.1.bytes == large.1.lower_bound);
    }

    #[test]
    fn a_chain_needs_only_its_two_largest_neighbours() {
        let blocks: Vec<_> = (0..10).map(|i| block(i, 256 * (1 + i as u64 % 3), i, i + 1)).collect();
        let peak = peak(&blocks, 11);
        assert_eq!(best_assignment(&blocks, peak, &in_time(&blocks)).1, peak);
    }

    proptest! {
        #[test]
        fn blocks_alive_together_never_overlap(spans in prop::collection::vec((1u64..20, 0usize..30, 0usize..10), 0..40)) {
            let blocks: Vec<_> = spans.iter().enumerate()
                .map(|(i, &(size, first, length))| block(i, size * 256, first, first + length)).collect();
            let peak = peak(&blocks, 40);
            for (offsets, bytes) in [best_assignment(&blocks, peak, &in_time(&blocks)), assign_in_time(&blocks)] {
                prop_assert!(bytes >= peak);
                for (i, a) in blocks.iter().enumerate() {
                    prop_assert!(offsets[i] + a.bytes <= bytes);
                    for (j, b) in blocks.iter().enumerate().skip(i + 1) {
                        let apart = offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                        prop_assert!(apart || !a.overlaps(b));
                    }
                }
            }
        }
    }
}
