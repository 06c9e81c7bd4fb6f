//! A block: warps that take turns, lanes that part and come together again.
//!
//! Lanes of a warp that are at the same instruction form a group. The group that is furthest behind in the text runs,
//! until it comes to where another one waits; then they are one. Compilers lay code out so that this is where paths
//! join. Instructions that name the lanes they need hold a group until these have come.

use super::arrival::{self, Barriers};
use super::barrier::{self, Barrier};
use super::cluster::{self, Message};
use super::fault::{Fault, FaultKind};
use super::lanes::{ALL, Registers, Slot};
use super::memory::{Finder, Memory};
use super::moves::Place;
use super::program::{Op, Program};
use super::transfer::{Context, Refused};
use super::watch::{Arrival, Order, Watch};
use super::{Launch, access, bits, carry, compare, convert, float, half, integer, matrix, moves, warp, wgmma};

/// Instructions that a warp executes before another one has a turn.
const TURN: u32 = 1 << 14;
/// Polls of memory by one block before another block has a turn.
const POLLS: u32 = 2;

/// How often each instruction was executed, and which way its branches went.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub executed: Vec<u64>,
    /// Bit 0: some lane jumped; bit 1: some lane did not.
    pub ways: Vec<u8>,
}

/// Lanes at the same instruction.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u32,
    lanes: u32,
    /// Waits for other lanes to come to the same instruction.
    held: bool,
    /// Has had its turn while others could run.
    rested: bool,
}

struct Warp<'p> {
    registers: Registers<'p>,
    groups: Vec<Group>,
    /// Lanes that have returned, or never were.
    gone: u32,
    /// Barrier that the warp waits at, and where a reduction's result goes.
    #[allow(clippy::type_complexity)]
    waits: Option<(u32, Option<(barrier::Kind, Slot)>, u32)>,
    local: Vec<u8>,
    executed: u64,
    /// Phase of the cluster's barrier that each lane arrived in.
    met: [u32; 32],
}

/// What a warp's turn ended with.
enum Pause {
    Turn,
    Done,
    Barrier(u32),
    /// Nothing was executed: all of it waits for other warps or blocks.
    Idle,
    /// Something was sent to blocks of the cluster.
    Sent,
}

/// The part of a block in the barrier of its cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClusterBarrier {
    /// Threads arrived in this phase.
    pub arrived: u32,
    /// Phases completed.
    pub phase: u32,
}

pub(super) struct Block<'p, W: Watch> {
    pub(super) index: [u32; 3],
    pub(super) shared: Vec<u8>,
    warps: Vec<Warp<'p>>,
    barriers: [Barrier; 16],
    /// Barriers in shared memory.
    pub(super) arrivals: Barriers,
    pub(super) cluster_barrier: ClusterBarrier,
    /// What is on its way to blocks of the cluster.
    pub(super) outbox: Vec<Message>,
    pub(super) watched: Option<W::Block>,
    /// Whether the last run executed anything.
    pub(super) moved: bool,
    polls: u32,
}

/// What a block is run with.
pub(super) struct Environment<'e, 'm, M, W> {
    pub program: &'e Program,
    pub launch: &'e Launch<'e>,
    pub finder: Finder<'m, M>,
    pub watch: &'e W,
    pub tally: Tally,
    /// Instructions that may still be executed before the budget is asked again.
    pub fuel: u64,
}

/// Whether a block has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// It polls memory, or its fuel is spent.
    Paused,
    /// It waits for others of its cluster, or has sent them something.
    Waiting,
}

impl<'p, W: Watch> Block<'p, W> {
    /// A block at its first instruction.
    pub fn new(program: &'p Program, launch: &Launch<'_>, shared_bytes: u32, index: [u32; 3], watch: &W) -> Self {
        let threads: u32 = launch.block.iter().product();
        let local = program.layout.local_bytes as usize * 32;
        let warps = (0..threads.div_ceil(32)).map(|warp| {
            let present = if threads - 32 * warp >= 32 { ALL } else { (1 << (threads % 32)) - 1 };
            Warp {
                registers: Registers::new(program.rows as usize, program.predicates as usize, &program.constants),
                groups: vec![Group { at: 0, lanes: present, held: false, rested: false }],
                gone: !present,
                waits: None,
                local: vec![0; local],
                executed: 0,
                met: [0; 32],
            }
        });
        Self {
            index,
            shared: vec![0; shared_bytes as usize],
            warps: warps.collect(),
            barriers: [Barrier::default(); 16],
            arrivals: Barriers::new(),
            cluster_barrier: ClusterBarrier::default(),
            outbox: Vec::new(),
            watched: Some(watch.block_start(index)),
            moved: false,
            polls: 0,
        }
    }

    /// Makes it another block of the same launch, at its first instruction.
    pub fn restart(&mut self, program: &Program, launch: &Launch<'_>, index: [u32; 3], watch: &W) {
        let threads: u32 = launch.block.iter().product();
        self.index = index;
        self.shared.fill(0);
        self.barriers = [Barrier::default(); 16];
        self.arrivals.clear();
        self.cluster_barrier = ClusterBarrier::default();
        self.outbox.clear();
        self.watched = Some(watch.block_start(index));
        self.polls = 0;
        for (warp, state) in self.warps.iter_mut().enumerate() {
            let rest = threads - 32 * warp as u32;
            let present = if rest >= 32 { ALL } else { (1 << rest) - 1 };
            for row in &program.cleared.0 {
                state.registers.rows[*row as usize].0 = [0; 32];
            }
            for predicate in &program.cleared.1 {
                state.registers.predicates[*predicate as usize] = 0;
            }
            state.groups.clear();
            state.groups.push(Group { at: 0, lanes: present, held: false, rested: false });
            state.gone = !present;
            state.waits = None;
            state.local.fill(0);
            state.executed = 0;
            state.met = [0; 32];
        }
    }

    /// Runs until the block ends, polls memory, sends something, can do nothing by itself, or the fuel is spent.
    pub fn run<M: Memory>(&mut self, e: &mut Environment<'_, '_, M, W>) -> Result<Progress, Fault> {
        self.polls = 0;
        self.moved = false;
        loop {
            let (mut moved, mut done) = (false, true);
            for w in 0..self.warps.len() {
                let warp = &self.warps[w];
                if warp.groups.is_empty() {
                    continue;
                }
                done = false;
                if warp.waits.is_some() {
                    continue;
                }
                match self.turn(w, e)? {
                    Pause::Idle => continue,
                    Pause::Sent => {
                        self.moved = true;
                        return Ok(Progress::Waiting);
                    }
                    Pause::Turn => {}
                    Pause::Done => {
                        for barrier in 0..16 {
                            self.complete(barrier, e.watch);
                        }
                    }
                    Pause::Barrier(barrier) => self.complete(barrier, e.watch),
                }
                moved = true;
            }
            if done {
                self.end(e.watch);
                return Ok(Progress::Done);
            }
            if !moved {
                return Ok(Progress::Waiting);
            }
            self.moved = true;
            if e.fuel == 0 || self.polls > POLLS * self.warps.len() as u32 {
                return Ok(Progress::Paused);
            }
        }
    }

    /// Tells the watch that nothing more comes of this block.
    pub fn end(&mut self, watch: &W) {
        if let Some(watched) = self.watched.take() {
            watch.block_end(watched);
        }
    }

    pub fn is_done(&self) -> bool {
        self.warps.iter().all(|warp| warp.groups.is_empty())
    }

    /// Threads that have not returned.
    pub fn live(&self) -> u32 {
        self.warps.iter().map(|warp| (!warp.gone).count_ones()).sum()
    }

    /// Lets the threads at a barrier go on if all have come.
    fn complete(&mut self, index: u32, watch: &W) {
        let barrier = self.barriers[index as usize];
        if !barrier.is_complete(self.live()) {
            return;
        }
        if let Some(watched) = &mut self.watched
            && W::ACTIVE
        {
            watch.barrier_complete(watched, index);
        }
        for warp in &mut self.warps {
            let Some((_, result, lanes)) = warp.waits.take_if(|(waits, ..)| *waits == index) else { continue };
            match result {
                Some((barrier::Kind::Count, d)) => {
                    warp.registers.set_row(d, &[barrier.reduced(barrier::Kind::Count); 32], lanes)
                }
                Some((kind, d)) => warp.registers.set_predicate(d, barrier.reduced(kind), lanes),
                None => {}
            }
        }
        self.barriers[index as usize] = Barrier::default();
    }

    /// Every warp waits for something, and so do the other blocks of the cluster, of whose threads so many are at its
    /// barrier.
    pub fn stuck(&self, arrived: u32, expected: u32) -> Fault {
        let waiting = self.warps.iter().enumerate().find_map(|(w, warp)| warp.waits.map(|(barrier, ..)| (w, barrier)));
        let Some((w, barrier)) = waiting else {
            let instruction = self.warps.iter().find_map(|warp| warp.groups.first()).map(|group| group.at);
            let kind = FaultKind::Waiting { arrived, expected };
            return Fault { kind, instruction, block: self.index, thread: None };
        };
        let state = self.barriers[barrier as usize];
        let expected = state.expected.unwrap_or_else(|| self.live());
        let kind = FaultKind::Barrier { barrier, arrived: state.threads, expected };
        let instruction = self.warps[w].groups.first().map(|group| group.at.saturating_sub(1));
        Fault { kind, instruction, block: self.index, thread: None }
    }

    /// Runs one warp until it waits, ends, or has had its turn.
    fn turn<M: Memory>(&mut self, w: usize, e: &mut Environment<'_, '_, M, W>) -> Result<Pause, Fault> {
        let Self { index, shared, warps, barriers, arrivals, cluster_barrier, outbox, watched, polls, .. } = self;
        let Some(watched) = watched else { return Ok(Pause::Done) };
        let count = warps.len() as u32;
        let warp = &mut warps[w];
        let program = e.program;
        let fault = |kind, at: u32, lane: Option<usize>| {
            let thread = lane.map(|lane| thread(e.launch.block, 32 * w as u32 + lane as u32));
            Fault { kind, instruction: Some(at), block: *index, thread }
        };
        let mut turn = TURN.min(u32::try_from(e.fuel).unwrap_or(TURN));
        let begun = turn;
        macro_rules! pause {
            ($pause:expr) => {{
                let used = u64::from(begun - turn);
                e.fuel -= used.min(e.fuel);
                warp.executed += used;
                return Ok($pause);
            }};
        }
        'groups: loop {
            let Some(chosen) = choose(&mut warp.groups) else {
                let Some(held) = warp.groups.first() else { pause!(Pause::Done) };
                let missing = !warp.gone & !held.lanes;
                return Err(fault(FaultKind::Convergence { missing }, held.at, None));
            };
            let Group { mut at, mut lanes, .. } = warp.groups.swap_remove(chosen);
            // Where this group meets the next.
            let stop = warp.groups.iter().map(|group| group.at).filter(|other| *other > at).min().unwrap_or(u32::MAX);
            loop {
                if at >= stop {
                    warp.groups.push(Group { at, lanes, held: false, rested: false });
                    continue 'groups;
                }
                if turn == 0 {
                    warp.groups.push(Group { at, lanes, held: false, rested: true });
                    pause!(Pause::Turn);
                }
                turn -= 1;
                let step = &program.code[at as usize];
                e.tally.executed[at as usize] += 1;
                let guard = warp.registers.predicate(step.guard) ^ u32::from(step.negated).wrapping_neg();
                let active = lanes & guard;
                let r = &mut warp.registers;
                macro_rules! hold_for {
                    ($needed:expr) => {
                        let missing = $needed & !warp.gone & !lanes;
                        if missing != 0 {
                            turn += 1;
                            e.tally.executed[at as usize] -= 1;
                            warp.groups.push(Group { at, lanes, held: true, rested: false });
                            continue 'groups;
                        }
                    };
                }
                // What it waits for comes from others, of which some may be lanes of this warp.
                macro_rules! wait {
                    () => {{
                        turn += 1;
                        e.tally.executed[at as usize] -= 1;
                        warp.groups.push(Group { at, lanes, held: false, rested: true });
                        if warp.groups.iter().all(|group| group.held || group.rested) {
                            pause!(if turn == begun { Pause::Idle } else { Pause::Turn });
                        }
                        continue 'groups;
                    }};
                }
                macro_rules! context {
                    () => {
                        Context {
                            program,
                            finder: &mut e.finder,
                            watch: e.watch,
                            watched,
                            shared,
                            local: &mut warp.local,
                            parameters: e.launch.parameters,
                            warp: w as u32,
                            instruction: at,
                        }
                    };
                }
                let refused = |(kind, lane): Refused| fault(kind, at, Some(lane));
                if active == 0 && !matches!(step.op, Op::Branch(_)) {
                    at += 1;
                    continue;
                }
                if W::ACTIVE
                    && let Some(rows) = program.rows_used.get(at as usize)
                {
                    e.watch.registers(watched, w as u32, at, rows);
                }
                match &step.op {
                    Op::Carry(op) => carry::execute(op, r, active),
                    Op::Integer(op) => integer::execute(op, r, active),
                    Op::Float(op) => float::execute(op, r, active),
                    Op::Half(op) => half::execute(op, r, active),
                    Op::Convert(op) => convert::execute(op, r, active),
                    Op::Compare(op) => compare::execute(op, r, active),
                    Op::Bits(op) => bits::execute(op, r, active),
                    Op::Move(op) => {
                        let place = Place {
                            block: *index,
                            grid: e.launch.grid,
                            extent: e.launch.block,
                            cluster: program.cluster,
                            warp: w as u32,
                            warps: count,
                            dynamic_shared: e.launch.dynamic_shared,
                            total_shared: shared.len() as u32,
                            clock: warp.executed + u64::from(begun - turn),
                        };
                        moves::execute(op, r, active, &place);
                    }
                    Op::Access(op) => {
                        let polling = match op {
                            access::Op::Load(load) => load.order != Order::Weak,
                            access::Op::Atomic { .. } => true,
                            _ => false,
                        };
                        *polls += u32::from(polling);
                        context!().execute(op, r, active).map_err(refused)?;
                        if polling && matches!(op, access::Op::Load(_)) {
                            // What it waits for comes from others.
                            warp.groups.push(Group { at: at + 1, lanes, held: false, rested: true });
                            pause!(Pause::Turn);
                        }
                    }
                    Op::Branch(target) => {
                        e.tally.ways[at as usize] |= u8::from(active != 0) | u8::from(active != lanes) << 1;
                        if active == lanes {
                            at = *target;
                        } else if active == 0 {
                            at += 1;
                            continue;
                        } else {
                            warp.groups.push(Group { at: *target, lanes: active, held: false, rested: false });
                            warp.groups.push(Group { at: at + 1, lanes: lanes & !active, held: false, rested: false });
                            continue 'groups;
                        }
                        if !warp.groups.is_empty() {
                            warp.groups.push(Group { at, lanes, held: false, rested: false });
                            continue 'groups;
                        }
                        continue;
                    }
                    Op::Multiply(op) => {
                        hold_for!(ALL);
                        matrix::multiply(op, &mut warp.registers);
                        if W::ACTIVE {
                            e.watch.warp_sync(watched, w as u32, active);
                        }
                    }
                    Op::LoadMatrix(op) => {
                        hold_for!(ALL);
                        context!().load_matrix(op, &mut warp.registers).map_err(refused)?;
                    }
                    Op::Warp(op) => {
                        let members = super::lanes::lanes_of(active).fold(0, |all, lane| all | op.members(r, lane));
                        hold_for!(members);
                        warp::execute(op, &mut warp.registers, active);
                        if W::ACTIVE && members != 0 {
                            e.watch.warp_sync(watched, w as u32, active);
                        }
                    }
                    Op::Barrier(op) => {
                        hold_for!(ALL);
                        let r = &warp.registers;
                        let first = active.trailing_zeros() as usize;
                        let number = r.row(op.barrier)[first];
                        let Some(barrier) = barriers.get_mut(number as usize) else {
                            return Err(fault(FaultKind::NoBarrier(number), at, Some(first)));
                        };
                        if W::ACTIVE {
                            let (instruction, exited) = (at, warp.gone);
                            let arrival = Arrival {
                                instruction,
                                warp: w as u32,
                                lanes: active,
                                exited,
                                barrier: number,
                                waits: op.waits,
                            };
                            e.watch.barrier_arrive(watched, &arrival);
                        }
                        barrier.threads += active.count_ones();
                        barrier.padded += 32;
                        barrier.expected = op.count.map(|slot| r.row(slot)[first]).or(barrier.expected);
                        let mut result = None;
                        if let Some(reduce) = &op.reduce {
                            let (slot, negated) = reduce.source;
                            let value = r.predicate(slot) ^ u32::from(negated).wrapping_neg();
                            barrier.held += (value & active).count_ones();
                            result = Some((reduce.kind, reduce.d));
                        }
                        if op.waits {
                            warp.waits = Some((number, result, active));
                        }
                        warp.groups.push(Group { at: at + 1, lanes, held: false, rested: false });
                        pause!(Pause::Barrier(number));
                    }
                    Op::Arrival(op) => {
                        let state = (&mut *arrivals, shared.len());
                        let watch = (e.watch, &mut *watched, w as u32);
                        if !arrival::execute(op, r, active, state, watch).map_err(refused)? {
                            wait!();
                        }
                    }
                    Op::Cluster(cluster::Op::Map { d, a, rank }) => cluster::map(r, active, *d, *a, *rank),
                    Op::Cluster(cluster::Op::Arrive { releases }) => {
                        cluster_barrier.arrived += active.count_ones();
                        super::lanes::lanes_of(active).for_each(|lane| warp.met[lane] = cluster_barrier.phase);
                        if W::ACTIVE {
                            e.watch.cluster_arrive(watched, w as u32, *releases);
                        }
                    }
                    Op::Cluster(cluster::Op::Wait) => {
                        if super::lanes::lanes_of(active).any(|lane| warp.met[lane] == cluster_barrier.phase) {
                            wait!();
                        }
                        if W::ACTIVE {
                            e.watch.cluster_awaited(watched, w as u32);
                        }
                    }
                    Op::Cluster(cluster::Op::Store { address, barrier, slots, count }) => {
                        let place = (w as u32, at, rank(*index, program.cluster));
                        let slots = &slots[..*count as usize];
                        cluster::send((address, barrier.as_ref()), slots, r, active, place, outbox).map_err(refused)?;
                        warp.groups.push(Group { at: at + 1, lanes, held: false, rested: false });
                        pause!(Pause::Sent);
                    }
                    Op::Group(op) => {
                        hold_for!(ALL);
                        if W::ACTIVE {
                            e.watch.warp_sync(watched, w as u32, active);
                            match op {
                                wgmma::Op::Commit => e.watch.products_commit(watched, w as u32),
                                wgmma::Op::Wait(pending) => e.watch.products_wait(watched, w as u32, *pending),
                                wgmma::Op::Fence | wgmma::Op::Multiply(_) => {}
                            }
                        }
                        if let wgmma::Op::Multiply(op) = op {
                            context!().multiply_tiles(op, &mut warp.registers).map_err(refused)?;
                            if W::ACTIVE {
                                e.watch.products_issue(watched, w as u32, at, &mut op.rows_of_sums());
                            }
                        }
                    }
                    Op::Return => {
                        warp.gone |= active;
                        lanes &= !active;
                        // Those that wait for the lanes that are gone may wait no more.
                        warp.groups.iter_mut().for_each(|group| group.held = false);
                        if lanes == 0 {
                            if warp.groups.is_empty() {
                                pause!(Pause::Done);
                            }
                            continue 'groups;
                        }
                    }
                    Op::Trap => return Err(fault(FaultKind::Trap, at, Some(active.trailing_zeros() as usize))),
                }
                at += 1;
            }
        }
    }
}

/// Joins groups that are at the same instruction and returns the one to run, if any can.
fn choose(groups: &mut Vec<Group>) -> Option<usize> {
    if groups.len() == 1 {
        return (!groups[0].held).then_some(0);
    }
    groups.sort_unstable_by_key(|group| group.at);
    groups.dedup_by(|next, group| {
        let same = next.at == group.at;
        if same {
            *group = Group { at: group.at, lanes: group.lanes | next.lanes, held: false, rested: false };
        }
        same
    });
    if let Some(chosen) = groups.iter().position(|group| !group.held && !group.rested) {
        return Some(chosen);
    }
    groups.iter_mut().for_each(|group| group.rested = false);
    groups.iter().position(|group| !group.held)
}

/// Number of a block in its cluster.
pub(super) fn rank(block: [u32; 3], cluster: [u32; 3]) -> u32 {
    let [x, y, z]: [u32; 3] = std::array::from_fn(|axis| block[axis] % cluster[axis]);
    x + cluster[0] * (y + cluster[1] * z)
}

/// Place of a thread in its block.
fn thread(extent: [u32; 3], linear: u32) -> [u32; 3] {
    let [x, y, _] = extent;
    [linear % x, linear / x % y, linear / x / y]
}
