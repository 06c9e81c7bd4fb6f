//! CUDA candidates whose blocks own units of the state: the weights of a unit lie in the registers of its threads, or are
//! read at every step, and the blocks tell each other the new state.

use super::cuda::{in_vectors, launch};
use super::{Recurrent, stack::RecurrentStack};
use crate::codegen::{ARRIVE, Candidate, Launch, Target, define};
use crate::gemm::INTRINSICS;

/// Registers of a multiprocessor.
const REGISTERS: u32 = 65_536;
/// Registers of a thread beside weights and sums.
const OTHER_REGISTERS: u32 = 52;
/// Most blocks of a cluster that every GPU with clusters can run.
const CLUSTER: u32 = 8;
/// Most sequences of a group.
const MOST_SEQUENCES: u32 = 4;
/// Bytes that a multiprocessor reads from level 2 in a cycle.
pub(super) const LEVEL_2_BYTES: f64 = 40.0;

/// How the blocks of a group tell each other the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exchange {
    /// There is one block.
    None,
    /// Stores into each other's shared memory, then a barrier over the cluster.
    Cluster,
    /// Stores into each other's shared memory that report to a barrier there.
    Messages,
    /// Words in global memory; all blocks must be resident.
    Grid,
}

impl Exchange {
    fn algorithm(self) -> &'static str {
        match self {
            Self::None => "block",
            Self::Cluster => "cluster",
            Self::Messages => "messages",
            Self::Grid => "grid",
        }
    }

    /// Cycles of an exchange between so many blocks beyond the arithmetic of a step, as measured (TUNING.md, sections 17 and 39).
    fn cycles(self, blocks: u32) -> f64 {
        match self {
            Self::None => 40.0,
            Self::Messages => 435.0,
            Self::Cluster => 1280.0,
            Self::Grid => 180.0 * f64::from(blocks).powf(0.65),
        }
    }
}

/// Where a thread finds its weights at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    /// In registers, as f32.
    Registers,
    /// In registers, two 16-bit weights in one.
    Packed,
    /// In memory, which mostly is the level-2 cache.
    Memory,
}

/// How a layer is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    exchange: Exchange,
    storage: Storage,
    /// Blocks of a group.
    blocks: u32,
    /// Units of a block.
    own: u32,
    /// Threads of a unit.
    lanes: u32,
    /// Sequences of a group.
    sequences: u32,
    /// Layers that are at work together, 1 or 2; each has groups of its own.
    layers: u32,
    /// Whether the layer above has its input weights as tensor cores take them.
    below_fragments: bool,
}

impl Recurrent {
    /// Every way to spread the units over blocks; weights are read at every step only where no registers can keep them. The layer is
    /// the second of `stack`, with the projected sums of its first.
    pub(super) fn resident_candidates(&self, target: &Target, stack: Option<&RecurrentStack>) -> Vec<Candidate> {
        let mut shapes = self.shapes(target, stack);
        if stack.is_some() || shapes.iter().any(|shape| shape.storage != Storage::Memory) {
            shapes.retain(|shape| shape.storage != Storage::Memory);
        }
        shapes.into_iter().map(|shape| self.resident(shape, target, stack)).collect()
    }

    fn shapes(&self, target: &Target, stack: Option<&RecurrentStack>) -> Vec<Shape> {
        let [_, directions, batch, units] = self.extents();
        let (layers, below_fragments) = match stack {
            Some(stack) => (2, self.has_fragments(target) && in_vectors(&stack.matrix(), 8)),
            None => (1, false),
        };
        let sequences = batch.min(MOST_SEQUENCES).next_power_of_two();
        let groups = layers * directions * batch.div_ceil(sequences);
        let clusters = target.architecture >= 90;
        let mut shapes = Vec::new();
        let spread: Vec<u32> = (0..8).map(|power| 1 << power).chain((3..=16).map(|eighths| eighths * 8)).collect();
        for blocks in spread {
            for lanes in [8, 16, 32] {
                for storage in [Storage::Registers, Storage::Packed, Storage::Memory] {
                    let own = units.div_ceil(blocks);
                    let exchange = Exchange::None;
                    let shape = Shape { exchange, storage, blocks, own, lanes, sequences, layers, below_fragments };
                    // Every block must own a unit, and its threads the registers that they need.
                    if units.div_ceil(own) != blocks || !self.fits(shape) {
                        continue;
                    }
                    // Warps without a unit leave early, which the barrier of stacked layers does not allow; the layer above waits for all
                    // blocks of the one below.
                    let whole = units.is_multiple_of(blocks) && (own * lanes).is_multiple_of(32);
                    if layers > 1 && !(whole && blocks * groups <= target.multiprocessors) {
                        continue;
                    }
                    let exchanges: &[Exchange] = match blocks {
                        1 => &[Exchange::None],
                        2..=CLUSTER if clusters => &[Exchange::Messages, Exchange::Cluster],
                        _ if blocks * groups <= target.multiprocessors => &[Exchange::Grid],
                        _ => &[],
                    };
                    shapes.extend(exchanges.iter().map(|&exchange| Shape { exchange, ..shape }));
                }
            }
        }
        shapes
    }

    fn fits(&self, shape: Shape) -> bool {
        let threads = self.threads(shape);
        let gates = self.cell.gates();
        let own = match shape.storage {
            Storage::Registers => gates * self.columns(shape),
            // Four weights at a time are unpacked; one by one they would need as many registers to be loaded.
            Storage::Packed if self.weights.dtype.size() == 2 && in_vectors(&self.weights, 4) => {
                gates * (self.columns(shape) / 2 + 4)
            }
            Storage::Packed => return false,
            // Two loads at a time are under way.
            Storage::Memory => gates * 8,
        };
        let below = match shape.layers {
            1 => 0,
            _ if shape.below_fragments => self.fragments(shape),
            _ => own,
        };
        let registers = own + below + gates * shape.sequences + OTHER_REGISTERS;
        // A thread has registers in steps of 8, and 255 at most.
        threads <= 1024 && registers <= (REGISTERS / threads / 8 * 8).min(248)
    }

    /// Whether 16-bit weights can be rows of a matrix that tensor cores multiply.
    fn has_fragments(&self, target: &Target) -> bool {
        self.weights.dtype.size() == 2 && target.has_async_copy() && in_vectors(&self.weights, 8)
    }

    /// Registers of a thread for its rows of one matrix of weights.
    fn fragments(&self, shape: Shape) -> u32 {
        let rows = 32 / shape.lanes * self.cell.gates();
        self.columns(shape) * shape.lanes / 8 * rows.div_ceil(8)
    }

    fn threads(&self, shape: Shape) -> u32 {
        (shape.own * shape.lanes).next_multiple_of(32)
    }

    /// Units of the state whose weights a thread multiplies.
    fn columns(&self, shape: Shape) -> u32 {
        let [.., units] = self.extents();
        units.div_ceil(4 * shape.lanes) * 4
    }

    fn resident(&self, shape: Shape, target: &Target, stack: Option<&RecurrentStack>) -> Candidate {
        let Shape { exchange, storage, blocks, own, lanes, sequences, layers, below_fragments } = shape;
        let [steps, directions, batch, units] = self.extents();
        let threads = self.threads(shape);
        let groups = layers * directions * batch.div_ceil(sequences);
        let vectors = in_vectors(&self.weights, 4);
        let words = exchange == Exchange::Grid || stack.is_some();
        let mut source = self.source(words, stack);
        for (name, value) in [
            ("BLOCKS", blocks),
            ("OWN", own),
            ("LANES", lanes),
            ("COLUMNS", self.columns(shape)),
            ("SEQUENCES", sequences),
            ("GROUPS", groups),
            ("THREADS", threads),
            ("WEIGHTS_IN_VECTORS", u32::from(vectors)),
            ("STORAGE_REGISTERS", Storage::Registers as u32),
            ("STORAGE_PACKED", Storage::Packed as u32),
            ("STORAGE_MEMORY", Storage::Memory as u32),
            ("STORAGE", storage as u32),
            ("EXCHANGE_NONE", Exchange::None as u32),
            ("EXCHANGE_CLUSTER", Exchange::Cluster as u32),
            ("EXCHANGE_MESSAGES", Exchange::Messages as u32),
            ("EXCHANGE_GRID", Exchange::Grid as u32),
            ("EXCHANGE", exchange as u32),
            ("STACKED", u32::from(stack.is_some())),
            ("BELOW_FRAGMENTS", u32::from(below_fragments)),
        ] {
            define(&mut source, name, value);
        }
        if words {
            // Says so to readers and tests; timing tables know the kernel by its text.
            define(&mut source, "ALL_BLOCKS_RESIDENT", 1);
            source.push_str(ARRIVE);
        }
        source.push_str(include_str!("cell.cu"));
        source.push_str(include_str!("weights.cu"));
        let cluster = if matches!(exchange, Exchange::Cluster | Exchange::Messages) { blocks } else { 1 };
        if below_fragments || cluster > 1 {
            source.push_str(INTRINSICS);
        }
        if below_fragments {
            source.push_str(include_str!("fragments.cu"));
        }
        source.push_str(include_str!("resident.cu"));
        let algorithm = match storage {
            Storage::Memory => "spread",
            Storage::Registers | Storage::Packed => exchange.algorithm(),
        };
        let state = u64::from(sequences) * u64::from(units);
        let of_groups = if exchange == Exchange::Grid { 2 * u64::from(groups) * state } else { 0 };
        let between = if stack.is_some() { u64::from(groups / 2) * u64::from(steps) * state } else { 0 };
        let arrivals = if stack.is_some() { 1 } else { u64::from(groups) };
        let (family, operands) = match stack {
            None => ("recurrent", self.signature(words)),
            Some(stack) => ("recurrent_stack", stack.signature()),
        };
        let entry = format!("{family}_{algorithm}");
        let launch = launch(source, &entry, "resident", operands, [blocks * groups, threads, cluster]);
        let launch = Launch { needs_all_blocks: words, ..launch };
        let how = match storage {
            Storage::Registers => String::new(),
            Storage::Packed => " packed".into(),
            Storage::Memory => format!(" {}", exchange.algorithm()),
        };
        Candidate {
            counters: if words { (of_groups + between) * 8 + arrivals * 4 } else { 0 },
            ..Candidate::new(
                algorithm,
                format!("blocks {blocks} lanes {lanes} sequences {sequences}{how}"),
                vec![launch],
                self.resident_cost(shape, target),
            )
        }
    }

    /// Microseconds, predicted.
    fn resident_cost(&self, shape: Shape, target: &Target) -> f64 {
        let Shape { exchange, storage, blocks, lanes, sequences, layers, .. } = shape;
        let [steps, directions, batch, units] = self.extents();
        let (threads, columns, gates) = (self.threads(shape), self.columns(shape), self.cell.gates());
        let groups = layers * directions * batch.div_ceil(sequences);
        let size = self.weights.dtype.size() as f64;
        let weights = f64::from(gates * columns * threads);
        // Of a thread's columns in registers or memory: the multiplications, or what reads the state for them.
        let of_columns = {
            // Weights that are not f32 in registers are converted at every step, at half the rate of a multiplication.
            let convert = if storage == Storage::Registers || size == 4.0 { 0.0 } else { weights / 64.0 };
            let multiply = weights * f64::from(sequences) / 128.0 + convert;
            let loads = f64::from(threads / 32 * columns / 4 * sequences * (lanes / 8));
            let reduce = f64::from(lanes.ilog2() * gates * sequences) * (8.0 + f64::from(threads) / 32.0);
            (multiply.max(loads), reduce)
        };
        // By tensor cores: a block of 32 columns takes ten instructions of a warp.
        let of_fragments = (100.0 + f64::from(threads) / 128.0 * f64::from(columns * lanes / 32) * 10.0, 60.0);
        let (multiply, reduce) = of_columns;
        let below = if shape.below_fragments { of_fragments } else { of_columns };
        let bytes = f64::from(gates) * f64::from(units).powi(2) * f64::from(directions) * size;
        let read = match storage {
            Storage::Registers | Storage::Packed => 0.0,
            Storage::Memory => {
                // What does not stay in level 2 comes from device memory again at every step.
                let missing = (bytes - target.l2_bytes as f64).max(0.0);
                let device = missing / (target.bandwidth * 1e3) * target.clock;
                600.0 + (weights * size / LEVEL_2_BYTES).max(device)
            }
        };
        let finish = 150.0 + f64::from(threads) * 0.8;
        // The layer above also waits for what the one below sends, and multiplies it (section 39).
        let exchanged = match layers {
            1 => exchange.cycles(blocks),
            _ => exchange.cycles(blocks) + below.0 + below.1 + 400.0,
        };
        let cycles = multiply.max(read) + reduce + finish + exchanged;
        let waves = f64::from((blocks * groups).div_ceil(target.multiprocessors));
        // The last of stacked layers begins a step later, and the words between them are cleared in the end.
        let (steps, bytes) = (f64::from(steps + layers - 1), bytes * f64::from(2 * layers - 1));
        let cleared =
            f64::from(layers - 1) * steps * f64::from(units * sequences) * 8.0 / (LEVEL_2_BYTES * target.clock);
        target.launch + 1.5 + bytes / (target.bandwidth * 1e3) + waves * steps * cycles / target.clock + cleared
    }
}
