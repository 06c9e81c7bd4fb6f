//! Launches: all blocks of a grid, by clusters; without clusters each block is one.
//!
//! Blocks that cannot talk to one another run in parallel, each to its end. Where a kernel has atomics on global memory
//! or loads that poll it, they run on one thread, in order, all of them resident if need be: a block that polls gives
//! way to the next, so that grid barriers complete, and results are the same every time.

use super::block::{Environment, Progress, Tally};
use super::cluster::{Cluster, MOST_BLOCKS};
use super::fault::{Fault, FaultKind};
use super::memory::{Finder, Memory};
use super::program::Program;
use super::watch::Watch;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Blocks along x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Block of parameters: each argument at the offset of its [`Parameter`](crate::ptx::Parameter).
    pub parameters: &'a [u8],
}

/// What a launch may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Instructions of warps, all together.
    pub instructions: u64,
    /// Bytes of shared memory of a block, static and dynamic.
    pub shared_bytes: u32,
    /// Bytes that blocks which wait for one another may take on the host.
    pub resident_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { instructions: 1 << 36, shared_bytes: 227 << 10, resident_bytes: 4 << 30 }
    }
}

/// What a launch executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By instruction: how many warps executed it, or part of them.
    pub executed: Vec<u64>,
    /// By instruction: which ways a branch went.
    pub taken: Vec<Taken>,
}

/// Which ways a branch went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Some thread jumped.
    pub jumped: bool,
    /// Some thread went on to the next instruction.
    pub fell_through: bool,
}

/// Most instructions that are taken from the budget at a time.
const FUEL: u64 = 1 << 18;

/// Runs a kernel over a grid.
///
/// # Errors
/// Returns the fault of the first block that has one, in the order of the grid. What other blocks did stays done.
pub fn launch<M: Memory, W: Watch>(
    program: &Program,
    launch: &Launch<'_>,
    memory: &M,
    watch: &W,
    limits: &Limits,
) -> Result<Counts, Fault> {
    let shared = check(program, launch, limits).map_err(|reason| Fault {
        kind: FaultKind::Launch(reason),
        instruction: None,
        block: [0; 3],
        thread: None,
    })?;
    let run = Run { program, launch, memory, watch, limits, shared, spent: AtomicU64::new(0) };
    let clusters = (0..3).map(|axis| u64::from(launch.grid[axis] / program.cluster[axis])).product();
    let tally = if program.communicates { run.together(clusters)? } else { run.apart(clusters)? };
    let count = program.len();
    let taken = |ways: &u8| Taken { jumped: ways & 1 != 0, fell_through: ways & 2 != 0 };
    Ok(Counts { executed: tally.executed[..count].to_vec(), taken: tally.ways[..count].iter().map(taken).collect() })
}

/// Checks a launch against the kernel and the machine; returns the bytes of shared memory of a block.
fn check(program: &Program, launch: &Launch<'_>, limits: &Limits) -> Result<u32, String> {
    let Launch { grid, block, dynamic_shared, parameters } = launch;
    let threads: u64 = block.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul);
    if grid.contains(&0) || grid[0] > i32::MAX as u32 || grid[1] > 65535 || grid[2] > 65535 {
        return Err(format!("grid {grid:?}"));
    }
    if threads == 0 || threads > 1024 || block[2] > 64 {
        return Err(format!("block {block:?}"));
    }
    let most =
        program.max_threads.map(|extents| extents.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul));
    if most.is_some_and(|most| threads > most) {
        return Err(format!(
            "block {block:?} of a kernel compiled for {:?} at most",
            program.max_threads.unwrap_or_default()
        ));
    }
    if program.required_threads.is_some_and(|required| required != *block) {
        return Err(format!(
            "block {block:?} of a kernel compiled for {:?}",
            program.required_threads.unwrap_or_default()
        ));
    }
    let in_cluster = program.cluster.iter().map(|extent| u64::from(*extent)).fold(1, u64::saturating_mul);
    if in_cluster == 0 || in_cluster > u64::from(MOST_BLOCKS) {
        return Err(format!("clusters of {:?} blocks, of which there may be {MOST_BLOCKS}", program.cluster));
    }
    if (0..3).any(|axis| grid[axis] % program.cluster[axis] != 0) {
        return Err(format!("grid {grid:?} of clusters of {:?} blocks", program.cluster));
    }
    let shared = match *dynamic_shared {
        0 => Some(program.static_shared()),
        bytes => program.layout.dynamic_start().checked_add(bytes),
    };
    let shared = shared.filter(|shared| *shared <= limits.shared_bytes);
    let shared = shared.ok_or_else(|| format!("{dynamic_shared} bytes of dynamic shared memory"))?;
    let wanted = program.parameter_bytes() as usize;
    if parameters.len() < wanted {
        return Err(format!("{} bytes of parameters of {wanted}", parameters.len()));
    }
    Ok(shared)
}

struct Run<'a, M, W> {
    program: &'a Program,
    launch: &'a Launch<'a>,
    memory: &'a M,
    watch: &'a W,
    limits: &'a Limits,
    /// Bytes of shared memory of a block.
    shared: u32,
    /// Instructions taken from the budget.
    spent: AtomicU64,
}

impl<'a, M: Memory, W: Watch> Run<'a, M, W> {
    fn environment(&self) -> Environment<'a, 'a, M, W> {
        let count = self.program.code.len();
        Environment {
            program: self.program,
            launch: self.launch,
            finder: Finder::new(self.memory),
            watch: self.watch,
            tally: Tally { executed: vec![0; count], ways: vec![0; count] },
            fuel: 0,
        }
    }

    /// Fills up the fuel from the budget.
    fn refuel(&self, e: &mut Environment<'_, '_, M, W>, block: [u32; 3]) -> Result<(), Fault> {
        if e.fuel > 0 {
            return Ok(());
        }
        // A small share, so that what other threads hold and do not need is little.
        let share = (self.limits.instructions / 256).clamp(1, FUEL);
        let before = self.spent.fetch_add(share, Ordering::Relaxed);
        e.fuel = share.min(self.limits.instructions.saturating_sub(before));
        if e.fuel == 0 {
            let kind = FaultKind::Budget(self.limits.instructions);
            return Err(Fault { kind, instruction: None, block, thread: None });
        }
        Ok(())
    }

    /// First block of a cluster.
    fn index(&self, cluster: u64) -> [u32; 3] {
        let [width, height, depth] = self.program.cluster;
        let [x, y] = [self.launch.grid[0] / width, self.launch.grid[1] / height].map(u64::from);
        [(cluster % x) as u32 * width, (cluster / x % y) as u32 * height, (cluster / x / y) as u32 * depth]
    }

    /// Blocks on as many threads as there are, each block to its end.
    fn apart(&self, clusters: u64) -> Result<Tally, Fault> {
        let next = AtomicU64::new(0);
        let first_fault: Mutex<Option<(u64, Fault)>> = Mutex::new(None);
        let count = self.program.code.len();
        let total = Mutex::new(Tally { executed: vec![0; count], ways: vec![0; count] });
        let work = || {
            let mut e = self.environment();
            let mut state: Option<Cluster<'_, W>> = None;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= clusters {
                    break;
                }
                let index = self.index(number);
                let cluster = match &mut state {
                    Some(cluster) => {
                        cluster.restart(self.program, self.launch, index, self.watch);
                        cluster
                    }
                    None => state.insert(Cluster::new(self.program, self.launch, self.shared, index, self.watch)),
                };
                let result = loop {
                    match self.refuel(&mut e, index).and_then(|()| cluster.run(&mut e)) {
                        Ok(Progress::Done) => break Ok(()),
                        Ok(_) => {}
                        Err(fault) => break Err(fault),
                    }
                };
                if let Err(fault) = result {
                    // No block after this one begins; those before it have begun.
                    next.store(clusters, Ordering::Relaxed);
                    cluster.end(self.watch);
                    let mut first = first_fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    if first.as_ref().is_none_or(|(other, _)| number < *other) {
                        *first = Some((number, fault));
                    }
                    break;
                }
            }
            let mut total = total.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            total.executed.iter_mut().zip(&e.tally.executed).for_each(|(sum, count)| *sum += count);
            total.ways.iter_mut().zip(&e.tally.ways).for_each(|(all, ways)| *all |= ways);
        };
        let workers = (rayon::current_num_threads() as u64).min(clusters);
        if workers <= 1 {
            work();
        } else {
            rayon::scope(|scope| (0..workers).for_each(|_| scope.spawn(|_| work())));
        }
        match first_fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some((_, fault)) => Err(fault),
            None => Ok(total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)),
        }
    }

    /// Blocks that may wait for one another, by turns.
    fn together(&self, clusters: u64) -> Result<Tally, Fault> {
        let mut resident = VecDeque::new();
        let result = self.turns(clusters, &mut resident);
        resident.iter_mut().for_each(|(cluster, _): &mut (Cluster<'_, W>, _)| cluster.end(self.watch));
        result
    }

    /// Keeps in `resident` the blocks that have begun and not ended.
    fn turns(&self, clusters: u64, resident: &mut VecDeque<(Cluster<'a, W>, [u32; 3])>) -> Result<Tally, Fault> {
        let mut e = self.environment();
        let threads: u64 = self.launch.block.iter().map(|extent| u64::from(*extent)).product();
        let warps = threads.div_ceil(32);
        let bytes = u64::from(self.shared)
            + warps * (u64::from(self.program.rows) * 128 + u64::from(self.program.layout.local_bytes) * 32 + 256);
        let bytes = bytes * u64::from(self.program.cluster.iter().product::<u32>());
        let mut spare: Vec<Cluster<'_, W>> = Vec::new();
        let mut begun = 0;
        while begun < clusters || !resident.is_empty() {
            // A new block first: who waits for it would only wait.
            let (mut cluster, index) = if begun < clusters {
                let index = self.index(begun);
                begun += 1;
                let cluster = match spare.pop() {
                    Some(mut cluster) => {
                        cluster.restart(self.program, self.launch, index, self.watch);
                        cluster
                    }
                    None => Cluster::new(self.program, self.launch, self.shared, index, self.watch),
                };
                (cluster, index)
            } else {
                match resident.pop_front() {
                    Some(next) => next,
                    None => break,
                }
            };
            let progress = self.refuel(&mut e, index).and_then(|()| cluster.run(&mut e));
            match progress {
                Ok(Progress::Done) => spare.push(cluster),
                Err(fault) => {
                    resident.push_back((cluster, index));
                    return Err(fault);
                }
                Ok(_) => {
                    resident.push_back((cluster, index));
                    if resident.len() as u64 * bytes > self.limits.resident_bytes {
                        let kind = FaultKind::Resident(self.limits.resident_bytes);
                        return Err(Fault { kind, instruction: None, block: index, thread: None });
                    }
                }
            }
        }
        Ok(e.tally)
    }
}
