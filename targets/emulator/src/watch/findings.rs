//! What the watches find: each defect once for a kernel's instruction and kind, with a count, in an order that does not depend
//! on how blocks were spread over the host's processors.

use crate::machine::Program;
use std::{collections::BTreeMap, fmt};

/// What is wrong with an access, a barrier or a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// An access that is not inside the operand whose pointer it uses.
    OutsideOperand,
    /// A store into an operand that the step only reads.
    StoreToInput,
    /// An address that is no multiple of the bytes accessed.
    Misaligned,
    /// A read of device memory that nobody has written in this replay or at INIT.
    Unwritten,
    /// A read of shared memory that the block has not written.
    UnwrittenShared,
    /// A read of the destination of an asynchronous copy that its thread has not waited for.
    CopyNotAwaited,
    /// A write to what a product reads whose warp has not waited for it.
    OperandInUse,
    /// A use of the registers that a product adds to, whose warp has not waited for it.
    SumInUse,
    /// A product's read of what was written directly, without a fence between.
    NoProxyFence,
    /// Two threads of a block, at least one of which writes, without a barrier between, in shared memory.
    RaceInShared,
    /// The same in device memory.
    RaceInBlock,
    /// Two blocks of a launch, at least one of which writes, with nothing that orders them.
    RaceOfBlocks,
    /// Two steps, at least one of which writes, that the graph leaves unordered.
    RaceOfSteps,
    /// A barrier that a part of a warp does not reach.
    DivergentBarrier,
    /// The launch could not go on.
    Fault,
}

impl Defect {
    /// Name for reports that others read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OutsideOperand => "outside_operand",
            Self::StoreToInput => "store_to_input",
            Self::Misaligned => "misaligned",
            Self::Unwritten => "unwritten",
            Self::UnwrittenShared => "unwritten_shared",
            Self::CopyNotAwaited => "copy_not_awaited",
            Self::OperandInUse => "operand_in_use",
            Self::SumInUse => "sum_in_use",
            Self::NoProxyFence => "no_proxy_fence",
            Self::RaceInShared => "race_in_shared",
            Self::RaceInBlock => "race_in_block",
            Self::RaceOfBlocks => "race_of_blocks",
            Self::RaceOfSteps => "race_of_steps",
            Self::DivergentBarrier => "divergent_barrier",
            Self::Fault => "fault",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::OutsideOperand => "access outside its operand",
            Self::StoreToInput => "store into an operand that the step only reads",
            Self::Misaligned => "misaligned access",
            Self::Unwritten => "read of bytes that nobody wrote",
            Self::UnwrittenShared => "read of shared memory that the block did not write",
            Self::CopyNotAwaited => "use of a copy's destination before its wait",
            Self::OperandInUse => "write to operands of a product before its wait",
            Self::SumInUse => "use of a product's sums before its wait",
            Self::NoProxyFence => "read of a product's operands without a fence after their writes",
            Self::RaceInShared => "race in shared memory",
            Self::RaceInBlock => "race between threads of a block",
            Self::RaceOfBlocks => "race between blocks",
            Self::RaceOfSteps => "race between steps without an order",
            Self::DivergentBarrier => "barrier that not all threads reach",
            Self::Fault => "launch that cannot go on",
        }
    }
}

/// Where in a kernel something happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Instruction, for example `ld.global.nc.v4.u32`.
    pub instruction: String,
    /// Its line in the PTX.
    pub ptx_line: u32,
    /// File and line in the CUDA source, where the PTX tells them.
    pub cuda_line: Option<(String, u32)>,
}

impl Place {
    /// Of an instruction of a kernel.
    pub fn of(program: &Program, instruction: u32) -> Self {
        Self {
            instruction: program.text(instruction).to_owned(),
            ptx_line: program.ptx_line(instruction),
            cuda_line: program.cuda_line(instruction).map(|(file, line)| (file.to_owned(), line)),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (PTX line {}", self.instruction, self.ptx_line)?;
        match &self.cuda_line {
            Some((file, line)) => write!(f, ", {file}:{line})"),
            None => write!(f, ")"),
        }
    }
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub defect: Defect,
    /// Kernel.
    pub kernel: String,
    /// Step of the plan, or number of the launch in its graph.
    pub step: u32,
    /// Nodes of the model that the step is for; empty where that is not known.
    pub nodes: String,
    /// Instruction; `None` where a launch as a whole is at fault.
    pub place: Option<Place>,
    /// Block of the first thread that did it.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// The operand, or shared memory, and where in it.
    pub operand: String,
    /// The other party of a race and further particulars.
    pub detail: String,
    /// How often it happened, over all threads and steps.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { defect, kernel, step, nodes, place, block, thread, operand, detail, count } = self;
        write!(f, "{} in {kernel}, step {step}", defect.words())?;
        if !nodes.is_empty() {
            write!(f, " ({nodes})")?;
        }
        if let Some(place) = place {
            write!(f, "\n    {place}")?;
            let [(x, y, z), (u, v, w)] = [block, thread].map(|[x, y, z]| (x, y, z));
            write!(f, ", block {x},{y},{z} thread {u},{v},{w}")?;
        }
        if !operand.is_empty() {
            write!(f, "\n    {operand}")?;
        }
        if !detail.is_empty() {
            write!(f, "\n    {detail}")?;
        }
        if *count > 1 { write!(f, "\n    {count} times") } else { Ok(()) }
    }
}

/// What findings of one launch are told apart by: the instruction (its number, or `None`) and the defect.
type Key = (Option<u32>, Defect);

/// Findings of a launch, or of a part of its blocks.
#[derive(Debug, Default)]
pub struct OfLaunch {
    found: BTreeMap<Key, (u64, Finding)>,
}

impl OfLaunch {
    /// Notes something that happened in a block (by its number), `times` at once. The finding is made up only where it is
    /// the block's first of its kind.
    pub fn note(&mut self, key: Key, block: u64, times: u64, finding: impl FnOnce() -> Finding) {
        let (_, found) = self.found.entry(key).or_insert_with(|| (block, Finding { count: 0, ..finding() }));
        found.count += times;
    }

    /// Whether anything was found.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Adds those of another block: of two of a kind the one of the earlier block stays.
    pub fn add(&mut self, other: Self) {
        for (key, (block, finding)) in other.found {
            match self.found.entry(key) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert((block, finding));
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    let (first, kept) = place.get_mut();
                    let count = kept.count + finding.count;
                    if block < *first {
                        (*first, *kept) = (block, finding);
                    }
                    kept.count = count;
                }
            }
        }
    }
}

/// Findings of everything that was launched.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Finding>,
    numbers: BTreeMap<(usize, Key), usize>,
}

impl Findings {
    /// Adds those of a launch of a kernel, by its number.
    pub fn add(&mut self, kernel: usize, launch: OfLaunch) {
        for (key, (_, finding)) in launch.found {
            match self.numbers.entry((kernel, key)) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(self.found.len());
                    self.found.push(finding);
                }
                std::collections::btree_map::Entry::Occupied(place) => {
                    self.found[*place.get()].count += finding.count;
                }
            }
        }
    }

    /// All, in the order of the steps that first showed them.
    pub fn all(&self) -> &[Finding] {
        &self.found
    }
}
