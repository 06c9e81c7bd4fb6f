//! What is watched while kernels run. A file for each watch:
//!
//! | file | finds |
//! |---|---|
//! | [`operands`] | accesses outside the operand that the pointer belongs to, stores into what a step only reads |
//! | here | reads of device memory that nobody wrote, barriers that a part of a warp does not reach |
//! | [`shared`] | races in shared memory, reads of what nobody wrote there, copies that nobody waited for |
//! | [`products`] | uses of registers that products add to, before the wait |
//! | [`cluster`] | what blocks of a cluster know of one another; races of remote stores |
//! | [`device`] | races between threads of a block and between blocks in device memory |
//! | [`steps`] | races between steps that the graph leaves unordered |
//! | [`coverage`] | instructions that were never executed |
//! | [`counts`] | instructions, bytes and bank conflicts |

pub mod clocks;
pub mod cluster;
pub mod counts;
pub mod coverage;
pub mod device;
pub mod findings;
pub mod operands;
pub mod products;
pub mod shared;
pub mod steps;

use crate::machine::{Access, Arrival, Fault, FaultKind, Kind, Launch, Order, Program, RemoteStore, Space, Watch};
use clocks::Clocks;
use cluster::Exchange;
use counts::Tally;
use device::{Accessor, Cells, Ordered, Other, Releases};
use findings::{Defect, Finding, OfLaunch, Place};
use operands::{Held, Operands};
use products::Products;
use shared::{Conflict, Shared};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Which step a launch is, for people.
#[derive(Clone, Debug, Default)]
pub struct Label {
    /// Number of the step.
    pub step: u32,
    /// Nodes of the model.
    pub nodes: String,
}

/// Watches one launch.
#[derive(Debug)]
pub struct Watcher<'a> {
    program: &'a Program,
    label: &'a Label,
    grid: [u32; 3],
    block: [u32; 3],
    operands: Operands<'a>,
    cells: Vec<Cells>,
    releases: Releases,
    /// Whether races between blocks are told, or only noted in `raced`: where blocks run at the same time it would depend on
    /// chance which instruction of a race is the later one.
    tells_races: bool,
    raced: AtomicBool,
    shared_bytes: u64,
    /// What cells of shared memory came down to in the blocks so far.
    grain: AtomicU64,
    done: Mutex<(OfLaunch, Tally)>,
}

/// What is kept of a block.
#[derive(Debug)]
pub struct Block {
    number: u32,
    at: [u32; 3],
    clocks: Clocks,
    shared: Shared,
    products: Products,
    ordered: Ordered,
    exchange: Exchange,
    found: OfLaunch,
    tally: Tally,
}

impl<'a> Watcher<'a> {
    /// Of a launch on its operands. `tells_races` where blocks run one at a time.
    pub fn new(
        program: &'a Program,
        launch: &Launch<'_>,
        label: &'a Label,
        operands: Operands<'a>,
        tells_races: bool,
    ) -> Self {
        let grain = operands::smallest_access(program);
        let sequential = program.communicates();
        let cells = operands.written_ranges().into_iter().map(|range| Cells::new(range, grain, sequential)).collect();
        Self {
            program,
            label,
            grid: launch.grid,
            block: launch.block,
            operands,
            cells,
            releases: Releases::default(),
            tells_races: tells_races || sequential,
            raced: AtomicBool::new(false),
            shared_bytes: u64::from(program.static_shared()) + u64::from(launch.dynamic_shared),
            grain: AtomicU64::new(16),
            done: Mutex::default(),
        }
    }

    /// Whether blocks raced and that was not told.
    pub fn raced(&self) -> bool {
        self.raced.load(Ordering::Relaxed)
    }

    /// What was found and counted. A fault of the launch is a finding too.
    pub fn finish(self, fault: Option<&Fault>) -> (OfLaunch, Tally) {
        let finding = fault.map(|fault| {
            let (defect, operand) = match (&fault.kind, fault.instruction) {
                (FaultKind::Misaligned { .. }, _) => (Defect::Misaligned, String::new()),
                (FaultKind::Barrier { .. } | FaultKind::Convergence { .. }, _) => {
                    (Defect::DivergentBarrier, String::new())
                }
                (&FaultKind::Address { address, bytes }, Some(instruction)) => {
                    match self.operands.hold(instruction, address, bytes, false) {
                        Held::Outside(said) => (Defect::OutsideOperand, said),
                        Held::Inside(_) => (Defect::Fault, String::new()),
                    }
                }
                _ => (Defect::Fault, String::new()),
            };
            let finding = Finding {
                defect,
                kernel: self.program.name().to_owned(),
                step: self.label.step,
                nodes: self.label.nodes.clone(),
                place: fault.instruction.map(|instruction| Place::of(self.program, instruction)),
                block: fault.block,
                thread: fault.thread.unwrap_or_default(),
                operand,
                detail: fault.to_string(),
                count: 0,
            };
            ((fault.instruction, defect), finding)
        });
        let (mut found, tally) = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((key, finding)) = finding {
            found.note(key, 0, 1, || finding);
        }
        (found, tally)
    }

    fn warps(&self) -> u32 {
        self.threads().div_ceil(32)
    }

    fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    fn thread(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.block.map(|extent| extent.max(1));
        [number % x, number / x % y, number / x / y]
    }

    fn block_at(&self, number: u32) -> [u32; 3] {
        let [x, y, _] = self.grid.map(|extent| extent.max(1));
        [number % x, number / x % y, number / x / y]
    }

    /// Notes a defect of an instruction.
    fn note(
        &self,
        block: &mut Block,
        defect: Defect,
        instruction: u32,
        thread: u32,
        text: impl FnOnce() -> (String, String),
    ) {
        let (number, at) = (u64::from(block.number), block.at);
        block.found.note((Some(instruction), defect), number, 1, || {
            let (operand, detail) = text();
            Finding {
                defect,
                kernel: self.program.name().to_owned(),
                step: self.label.step,
                nodes: self.label.nodes.clone(),
                place: Some(Place::of(self.program, instruction)),
                block: at,
                thread: self.thread(thread),
                operand,
                detail,
                count: 0,
            }
        });
    }

    fn shared(&self, block: &mut Block, access: &Access<'_>) {
        let mut conflicts = Vec::new();
        block.shared.access(&block.clocks, access, &mut |conflict| conflicts.push(conflict));
        for conflict in conflicts {
            let thread = access.warp * 32 + conflict.lane;
            self.note(block, conflict.defect, access.instruction, thread, || self.in_shared(&conflict));
        }
    }

    /// A conflict in shared memory, in words: where, and with whom.
    fn in_shared(&self, conflict: &Conflict) -> (String, String) {
        let other = conflict.other.map(|other| {
            let [x, y, z] = self.thread(other.thread);
            let block = if other.remote { " of a block of the cluster" } else { "" };
            format!("with thread {x},{y},{z}{block} at {}", Place::of(self.program, other.instruction))
        });
        (format!("shared memory, byte {}", conflict.address), other.unwrap_or_default())
    }

    fn global(&self, block: &mut Block, access: &Access<'_>) {
        let Access { instruction, warp, kind, bytes, .. } = *access;
        if kind == Kind::Atomic || access.order != Order::Weak {
            self.releases.access(&mut block.ordered, &mut block.clocks, block.number, access);
        }
        let (reads, writes) = match kind {
            Kind::Load | Kind::AsyncLoad => (true, false),
            Kind::Store | Kind::AsyncStore => (false, true),
            Kind::Atomic => (true, true),
            Kind::Prefetch => (false, false),
        };
        let common = self.operands.common(instruction, access);
        let mut lanes = access.lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros();
            lanes &= lanes - 1;
            let address = access.addresses[lane as usize];
            let held = match common {
                Some(operand) => Held::Inside(operand),
                None => self.operands.hold(instruction, address, bytes, writes),
            };
            let thread = warp * 32 + lane;
            let operand = match held {
                Held::Inside(operand) if writes && !operand.is_written() => {
                    self.note(block, Defect::StoreToInput, instruction, thread, || {
                        (operand.at(address, bytes), String::new())
                    });
                    continue;
                }
                Held::Inside(operand) => operand,
                Held::Outside(said) => {
                    self.note(block, Defect::OutsideOperand, instruction, thread, || (said, String::new()));
                    continue;
                }
            };
            if kind == Kind::Prefetch {
                continue;
            }
            if reads && !operand.was_written(address, bytes) {
                self.note(block, Defect::Unwritten, instruction, thread, || {
                    (operand.at(address, bytes), String::new())
                });
            }
            if writes {
                operand.mark(address, bytes);
            }
            operand.touch(address, bytes, reads, writes, instruction);
            for cells in operand.regions().iter().filter_map(|&number| self.cells.get(number)) {
                let by = Accessor { block: block.number, clocks: &block.clocks, ordered: &block.ordered, warp, lane };
                let Some((defect, other)) = cells.access(by, access) else { continue };
                if defect == Defect::RaceOfBlocks && !self.tells_races {
                    self.raced.store(true, Ordering::Relaxed);
                    continue;
                }
                self.note(block, defect, instruction, thread, || {
                    let other = match other {
                        Other::Blocks => "with several blocks".to_owned(),
                        Other::Thread(block, thread) => {
                            let ([a, b, c], [x, y, z]) = (self.block_at(block), self.thread(thread));
                            format!("with thread {x},{y},{z} of block {a},{b},{c}")
                        }
                    };
                    (operand.at(address, bytes), other)
                });
            }
        }
    }
}

impl Watch for Watcher<'_> {
    type Block = Block;

    fn block_start(&self, at: [u32; 3]) -> Block {
        let number = (at[2] * self.grid[1] + at[1]) * self.grid[0] + at[0];
        let grain = self.grain.load(Ordering::Relaxed);
        Block {
            number,
            at,
            clocks: Clocks::new(self.warps()),
            shared: Shared::new(self.shared_bytes, self.warps(), grain),
            products: Products::default(),
            ordered: Ordered::default(),
            exchange: Exchange::default(),
            found: OfLaunch::default(),
            tally: Tally::default(),
        }
    }

    fn block_end(&self, block: Block) {
        self.grain.fetch_min(block.shared.grain(), Ordering::Relaxed);
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.0.add(block.found);
        done.1.add(&block.tally);
    }

    fn access(&self, block: &mut Block, access: &Access<'_>) {
        block.tally.access(access);
        match access.space {
            Space::Shared => self.shared(block, access),
            Space::Global => self.global(block, access),
        }
    }

    fn async_commit(&self, block: &mut Block, warp: u32, lanes: u32) {
        block.shared.commit(warp, lanes);
    }

    fn async_wait(&self, block: &mut Block, warp: u32, lanes: u32, pending: u32) {
        block.shared.wait(&block.clocks, warp, lanes, pending);
    }

    fn barrier_arrive(&self, block: &mut Block, arrival: &Arrival) {
        let in_warp = self.threads().saturating_sub(arrival.warp * 32).min(32);
        let all = if in_warp == 32 { !0 } else { (1u32 << in_warp) - 1 };
        let missing = all & !arrival.lanes;
        if missing != 0 {
            let lane = missing.trailing_zeros();
            self.note(block, Defect::DivergentBarrier, arrival.instruction, arrival.warp * 32 + lane, || {
                let why = if arrival.exited >> lane & 1 != 0 { "has returned before" } else { "is elsewhere" };
                (String::new(), format!("the thread {why}"))
            });
        }
        block.clocks.arrive(arrival.barrier, arrival.warp, arrival.waits);
    }

    fn barrier_complete(&self, block: &mut Block, barrier: u32) {
        block.clocks.complete(barrier);
    }

    fn warp_sync(&self, block: &mut Block, warp: u32, _: u32) {
        block.clocks.warp_sync(warp);
    }

    fn fence(&self, block: &mut Block, warp: u32, _: u32) {
        self.releases.fence(&mut block.ordered, &mut block.clocks, block.number, warp);
    }

    fn proxy_fence(&self, block: &mut Block, warp: u32) {
        block.clocks.proxy_fence(warp);
    }

    fn products_commit(&self, block: &mut Block, warp: u32) {
        block.shared.commit_products(warp);
        block.products.commit(warp);
    }

    fn products_wait(&self, block: &mut Block, warp: u32, pending: u32) {
        block.shared.wait_for_products(&block.clocks, warp, pending);
        block.products.wait(warp, pending);
    }

    fn products_issue(&self, block: &mut Block, warp: u32, instruction: u32, rows: &mut dyn Iterator<Item = u32>) {
        block.products.issue(warp, instruction, rows);
    }

    fn registers(&self, block: &mut Block, warp: u32, instruction: u32, rows: &[u32]) {
        if let Some(other) = block.products.user(warp, rows) {
            self.note(block, Defect::SumInUse, instruction, warp * 32, || {
                ("a register".to_owned(), format!("which {} adds to", Place::of(self.program, other)))
            });
        }
    }

    fn arrival(&self, block: &mut Block, warp: u32, barrier: u64, completes: bool) {
        block.arrive_at(warp, barrier, completes);
    }

    fn arrival_complete(&self, block: &mut Block, barrier: u64) {
        block.complete_at(barrier);
    }

    fn arrival_awaited(&self, block: &mut Block, warp: u32, barrier: u64) {
        block.awaited_at(warp, barrier);
    }

    fn remote_store(&self, from: &mut Block, to: Option<&mut Block>, store: &RemoteStore<'_>) {
        for conflict in cluster::store(from, to, store) {
            let thread = store.warp * 32 + conflict.lane;
            self.note(from, conflict.defect, store.instruction, thread, || self.in_shared(&conflict));
        }
    }

    fn cluster_arrive(&self, block: &mut Block, warp: u32, releases: bool) {
        block.arrive_in_cluster(warp, releases);
    }

    fn cluster_complete(&self, blocks: &mut [&mut Block]) {
        cluster::complete(blocks);
    }

    fn cluster_awaited(&self, block: &mut Block, warp: u32) {
        block.awaited_in_cluster(warp);
    }
}

/// Counts without looking for defects.
#[derive(Debug, Default)]
pub struct Counter(Mutex<Tally>);

impl Counter {
    /// What was counted.
    pub fn finish(self) -> Tally {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Counter {
    type Block = Tally;

    fn block_start(&self, _: [u32; 3]) -> Tally {
        Tally::default()
    }

    fn block_end(&self, block: Tally) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&block);
    }

    fn access(&self, block: &mut Tally, access: &Access<'_>) {
        block.access(access);
    }

    fn async_commit(&self, _: &mut Tally, _: u32, _: u32) {}
    fn async_wait(&self, _: &mut Tally, _: u32, _: u32, _: u32) {}
    fn barrier_arrive(&self, _: &mut Tally, _: &Arrival) {}
    fn barrier_complete(&self, _: &mut Tally, _: u32) {}
    fn warp_sync(&self, _: &mut Tally, _: u32, _: u32) {}
    fn fence(&self, _: &mut Tally, _: u32, _: u32) {}
}
