//! What the compiler needs beyond the host twins: targets, candidates and the pieces CUDA sources share.

pub mod completion;
pub(crate) mod elementwise;
mod half;
pub(crate) mod packing;
mod quotient;
mod source;
mod target;
pub(crate) mod views;

pub use elementwise::memory_cost;
pub use packing::{Packing, Transform};
pub use source::{
    Arithmetic, PRELUDE, element_type, f32_literal, f64_literal, load_function, program_function, register_type,
};
pub use target::{Rate, Target};

pub use crate::kernel::all_cases;

use crate::Kernel;
use crate::conv::winograd;

/// A pointer argument of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// Input operand.
    Input(usize),
    /// Output operand.
    Output(usize),
    /// Scratch, this many bytes into the candidate's workspace (256-byte aligned base).
    Workspace(u64),
    /// Counters that are zero before the first replay and that every replay must leave zero; bytes into them.
    Counters(u64),
}

/// One kernel launch of a candidate. All shapes are constants inside `source`; the arguments are pointers only.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// CUDA C++ that needs no header, with `extern "C" __global__ void ENTRY(…)`.
    pub source: String,
    /// Name of the `__global__` function.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Pointers, in order.
    pub arguments: Vec<Argument>,
}

impl Launch {
    /// Whether the kernel waits by itself for those that it depends on, so that it may start while they still run.
    pub fn waits_for_inputs(&self) -> bool {
        self.source.contains("wait_for_inputs();")
    }

    /// Whether its blocks wait for each other, so that all of them must be resident at once: the session needs as many
    /// multiprocessors as the grid has blocks, and no other such launch may run at the same time.
    pub fn needs_all_blocks(&self) -> bool {
        self.source.contains("#define ALL_BLOCKS_RESIDENT")
    }

    /// Tells the kernel which inputs no step writes, a bit each: it may read them before it waits for the others.
    /// What another launch of the same candidate made in place of an input is none.
    pub fn tell_constant_inputs(&mut self, mask: u32) {
        let own = self.arguments.iter().fold(0, |own, argument| match argument {
            Argument::Input(i) => own | 1 << i,
            _ => own,
        });
        let mask = mask & own;
        if mask != 0 {
            self.source.insert_str(0, &format!("#define CONSTANT_INPUTS {mask}u\n"));
        }
    }
}

/// One way to run a kernel on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Algorithm as `--algorithm` names it: `tensor_core_gemm`, `direct`, `depthwise`, `generated`…
    pub algorithm: &'static str,
    /// The configuration within the algorithm, for example `64x64x32 stages 3 split 4`.
    pub configuration: String,
    /// The launches, in order.
    pub launches: Vec<Launch>,
    /// Bytes of workspace.
    pub workspace: u64,
    /// Bytes of counters.
    pub counters: u64,
    /// Required packing of each input operand; empty means `Keep` for all.
    pub packing: Vec<Packing>,
    /// Expected device time in microseconds by the cost model.
    pub cost: f64,
}

impl Candidate {
    /// The relative L2 error that the candidate promises where that is more than what every kernel of its output's type
    /// keeps. Such a candidate is only chosen when its algorithm is forced.
    pub fn relaxed_tolerance(&self) -> Option<f64> {
        (self.algorithm == winograd::RELAXED).then_some(winograd::RELAXED_TOLERANCE)
    }
}

/// Why a family has no candidate for a kernel on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported(pub String);

/// Families that can run on a GPU.
pub trait Generate {
    /// All candidates for a target, at least one, in any order; pointers of operands are 16-byte aligned.
    ///
    /// # Errors
    /// Where the family cannot run this kernel there, with a reason that names type, shape or parameter.
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported>;
}

impl Kernel {
    /// All candidates of the kernel on a target; see [`Generate::candidates`].
    ///
    /// # Errors
    /// As there.
    pub fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        self.generator().candidates(target)
    }
}
