//! The structures inside a plan's postcard sections. Writer (compiler) and reader (engine) share them.

#[cfg(feature = "host")]
use floe_kernels::Kernel;
use floe_kernels::{DType, Dims};
use serde::{Deserialize, Serialize};

/// First bytes of every plan.
pub const MAGIC: [u8; 8] = *b"FLOEPLAN";
/// First bytes of a signature behind the plan, and of the message that it signs.
pub const SIGNATURE_MAGIC: [u8; 8] = *b"FLOESIGN";
/// Version of the format. Any change of a structure below, or of [`Kernel`], raises it.
pub const VERSION: u32 = 19;
/// First architecture with programmatic dependent launch.
pub const DEPENDENT_LAUNCH: u32 = 90;
/// Alignment of blobs in the file and of the arena's base: 256 bytes.
pub const BLOB_ALIGNMENT: u64 = 256;
/// Alignment of every operand's offset: 16 bytes.
pub const OPERAND_ALIGNMENT: u64 = 16;
/// Most operands of one step.
pub const MAX_OPERANDS: usize = 18;
/// Most earlier steps that one step names.
pub const MAX_AFTER: usize = 16;
/// Most variants of one file.
pub const MAX_VARIANTS: u32 = 64;
/// Most variants of one target, each for other shapes.
pub const MAX_SHAPES: usize = 32;
/// Most steps of one variant.
pub const MAX_STEPS: u32 = 1 << 20;
/// Most entries of a variant's kernel table, and most images.
pub const MAX_KERNELS: u32 = 1 << 16;
/// Most candidates of one variant.
pub const MAX_CANDIDATES: u32 = 1 << 16;
/// Most launches of one candidate.
pub const MAX_LAUNCHES: usize = 8;
/// Most bindings of one variant.
pub const MAX_BINDINGS: usize = 256;
/// Longest name of a binding or kernel, in bytes.
pub const MAX_NAME: usize = 255;
/// Longest [`Binding::content`], in bytes.
pub const MAX_CONTENT: usize = 511;
/// Most threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// Most dynamic shared memory of a block in bytes: 227 KiB, what compute capability 9.0 gives.
pub const MAX_SHARED: u32 = 227 * 1024;

/// Bytes of [`Region::Counter`].
pub const COUNTER_BYTES: u64 = 16;
/// Where in [`Region::Report`] the `u32` of binding 0 lies that guards write; those of the other bindings follow.
pub const REPORT_GUARD: u64 = 64;
/// Bytes of [`Region::Report`].
pub const REPORT_BYTES: u64 = REPORT_GUARD + 4 * MAX_BINDINGS as u64;

/// What the whole file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// Name and version of the compiler that wrote the file.
    pub compiler: &'a str,
    /// Number of variants, at least 1.
    pub variants: u32,
}

/// Where an operand lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Region {
    /// The plan's constants; never written.
    Weights,
    /// The arena: activations, workspace, counters.
    Arena,
    /// Binding number `.0`.
    Binding(u16),
    /// [`COUNTER_BYTES`] of device memory of a session's own, which begins with the number of the last replay that
    /// finished, a `u32`. Replays are numbered from 1; the number after 2³² - 1 is 1 again.
    Counter,
    /// [`REPORT_BYTES`] of page-locked host memory, which the host reads while the device works. It begins with a copy of
    /// the counter; at [`REPORT_GUARD`] there is a `u32` for each binding: the number of the last replay that left a NaN
    /// or an infinity there, 0 where none did.
    Report,
}

/// A range of bytes that a step reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// Where.
    pub region: Region,
    /// First byte, a multiple of [`OPERAND_ALIGNMENT`] unless the host runs the step (then of the element size).
    pub offset: u64,
    /// Bytes that the step may touch.
    pub bytes: u64,
    /// Whether the step writes it (outputs and workspace).
    pub written: bool,
}

/// Which way a binding goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Direction {
    /// The user writes it before a replay.
    Input,
    /// The user reads it after a replay.
    Output,
    /// Persists between replays: an input whose next value is what the plan's last copy step wrote; zero after reset.
    State,
}

/// A named input, output or state. Bytes are row-major in the model's element type, whatever the plan computes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding<'a> {
    /// Name in the model.
    pub name: &'a str,
    /// Which way.
    pub direction: Direction,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Dims,
    /// What it holds, for programs that show it, in the words of [`Content`](super::content::Content); empty for a tensor of the network.
    pub content: &'a str,
}

impl Binding<'_> {
    /// Bytes of the whole tensor, row-major without gaps; `None` where the number overflows.
    pub fn bytes(&self) -> Option<u64> {
        let elements = self.shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(u64::from(extent)))?;
        elements.checked_mul(self.dtype.size() as u64)
    }
}

/// Stands for the kernel of a host step in an engine without the feature `host`: never decodes.
#[cfg(not(feature = "host"))]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Kernel {
    /// No bytes decode to this.
    #[serde(skip)]
    None,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant)]
pub enum Action {
    /// Run a reference kernel. Operands: inputs, outputs, then workspace if it needs any.
    Host(Kernel),
    /// Launch a CUDA kernel with one pointer for each operand, in order.
    Launch {
        /// Number in the variant's kernel table.
        kernel: u32,
        /// Blocks.
        grid: [u32; 3],
        /// Threads of a block.
        block: [u32; 3],
        /// Dynamic shared memory in bytes.
        shared: u32,
    },
}

/// One step. A replay runs steps in order, or concurrently where neither depends on the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// On what.
    pub operands: heapless::Vec<Operand, MAX_OPERANDS>,
    /// Earlier steps that must have finished: numbers, ascending. At most 16; the compiler adds joins through later steps
    /// where more would be needed.
    pub after: heapless::Vec<u32, MAX_AFTER>,
    /// Whether the launch may begin before the steps in `after` have finished, since its kernel waits for them by itself
    /// (programmatic dependent launch). Never on the host and before compute capability 9.0.
    pub overlaps: bool,
}

/// What a step is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Computes a part of the network.
    Network,
    /// Watches outputs and states for NaN and infinity: touches [`Region::Report`]. Sessions leave it out unless asked.
    Guard,
    /// Tells the host that the replay has finished: writes [`Region::Counter`]. Sessions leave it out unless asked.
    Signal,
}

impl Step {
    /// Upper bound, but for a constant factor, of the operations of a host step: arithmetic, and elements that are moved. 0 for
    /// a launch.
    #[cfg(feature = "host")]
    pub fn host_operations(&self) -> u64 {
        match &self.action {
            Action::Host(kernel) => kernel.family().host_operations(),
            Action::Launch { .. } => 0,
        }
    }

    /// What it is for. In a plan the steps of the network come first, then guards, then one signal or none; guards need it.
    /// The last two wait for everything before them, so their `after` is empty.
    pub fn purpose(&self) -> Purpose {
        let of_operand = |operand: &Operand| match operand.region {
            Region::Counter if operand.written => Purpose::Signal,
            Region::Counter | Region::Report => Purpose::Guard,
            Region::Weights | Region::Arena | Region::Binding(_) => Purpose::Network,
        };
        self.operands.iter().map(of_operand).max().unwrap_or(Purpose::Network)
    }
}

/// A CUDA function inside an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelEntry<'a> {
    /// Number of the image in the variant's image table.
    pub image: u32,
    /// Name of the function.
    pub name: &'a str,
}

/// How a kernel image is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImageKind {
    /// Machine code for exactly the variant's architecture.
    #[default]
    Cubin,
    /// PTX, compiled by the driver when loaded; NUL-terminated (the writer appends the NUL where it is missing). Runs on the variant's architecture and later ones.
    Ptx,
}

/// A kernel image: a range of the images blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Image {
    /// First byte in the images blob, a multiple of 16.
    pub offset: u64,
    /// Bytes there, without padding.
    pub bytes: u64,
    /// Bytes that the driver is given, with the NUL of PTX: more than `bytes` where these are deflated (RFC 1951).
    pub unpacked: u64,
}

impl Image {
    /// Whether it has to be unpacked.
    pub const fn is_packed(&self) -> bool {
        self.unpacked != self.bytes
    }
}

/// What a variant needs; the fixed part of its description. The writer fills in the counts at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantHeader<'a> {
    /// Name of the target it was compiled for. Variants of one target stand behind one another and differ in shapes only.
    pub target: &'a str,
    /// Compute capability times ten; 0 for the host.
    pub architecture: u32,
    /// Multiprocessors of the GPU that its algorithms were chosen for; 0 for the host.
    pub tuned_for: u32,
    /// How its images are stored.
    pub image_kind: ImageKind,
    /// Oldest CUDA driver interface that loads the images, as `cuDriverGetVersion` counts; 0 for the host.
    pub driver: u32,
    /// NVRTC that compiled the images, for example `12.6`; empty for the host.
    pub nvrtc: &'a str,
    /// `f32` or `f16`.
    pub precision: &'a str,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Largest number of live bytes at any step: no placement can be smaller.
    pub arena_lower_bound: u64,
    /// Fewest multiprocessors that a session may have: kernels whose blocks wait for each other need all their blocks resident
    /// at once. 0 where there is no such kernel.
    pub multiprocessors: u32,
    /// Leading bytes of the arena that are zero before the first replay (counters).
    pub zeroed_bytes: u64,
    /// Number of steps.
    pub steps: u32,
    /// Number of entries in the kernel table.
    pub kernels: u32,
    /// Number of images.
    pub images: u32,
    /// Number of bindings.
    pub bindings: u32,
    /// Number of candidates; 0 unless it is a candidates plan.
    pub candidates: u32,
}

/// Why a step is as it is. Not read by the engine; `floec inspect` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepNote<'a> {
    /// Nodes of the model, comma-separated.
    pub sources: &'a str,
    /// Why the step stores f32 in a variant of f16, `; ` between reasons; empty where it does not.
    pub reasons: &'a str,
    /// Family, for example `conv`.
    pub family: &'a str,
    /// Algorithm, for example `tensor_core_gemm`.
    pub algorithm: &'a str,
    /// Configuration, for example `64x64x32 stages 3`.
    pub configuration: &'a str,
    /// Bytes read and written.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Expected microseconds.
    pub expected: f64,
    /// Whether `expected` was measured (timing table) or modelled.
    pub measured: bool,
    /// Runner-up `algorithm configuration`, empty where there was none.
    pub runner_up: &'a str,
    /// Its expected microseconds.
    pub runner_up_expected: f64,
    /// Microseconds that the target's arithmetic and memory allow at best: the larger of `flops` over the peak rate and
    /// `bytes` over the bandwidth of its description; 0 where there is no work.
    pub floor: f64,
}

/// What a measurement puts into an operand of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// Constant of the plan: read, and in a replay no other step has just touched it.
    Constant,
    /// Activation: read, and in a replay just written by an earlier step.
    Input,
    /// Written.
    Output,
    /// Scratch.
    Workspace,
    /// Counters: zero before and after every run.
    Counters,
}

/// An operand of a candidate: memory of its own, without contents in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CandidateOperand {
    /// What it is for.
    pub role: Role,
    /// Type of its elements; bytes where there are none.
    pub dtype: DType,
    /// Bytes that the candidate may touch.
    pub bytes: u64,
}

/// A pointer argument of a candidate's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CandidateArgument {
    /// Number of the candidate's operand.
    pub operand: u8,
    /// Bytes into it, a multiple of [`OPERAND_ALIGNMENT`].
    pub offset: u64,
}

/// A launch of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CandidateLaunch<'a> {
    /// Its image: a range of the candidate images' blob, which candidates may share.
    pub image: Image,
    /// Name of the function.
    pub name: &'a str,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// As [`Step::overlaps`], after the launch or copy before it.
    pub overlaps: bool,
    /// Pointers, in order.
    pub arguments: heapless::Vec<CandidateArgument, MAX_OPERANDS>,
}

/// One way to run a node, to be timed on the device. A replay never reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate<'a> {
    /// Number of the problem that it solves: candidates of one problem compete, and stand behind each other.
    pub problem: u32,
    /// The problem for people: family, shapes and types.
    pub description: &'a str,
    /// Key of its entry in a timing table: a hash of the generated sources, launches and memory.
    pub key: &'a str,
    /// Algorithm, for example `tensor_core_gemm`.
    pub algorithm: &'a str,
    /// Configuration, for example `64x64x32 stages 3`.
    pub configuration: &'a str,
    /// Microseconds by the cost model.
    pub expected: f64,
    /// Its memory.
    pub operands: heapless::Vec<CandidateOperand, MAX_OPERANDS>,
    /// Its launches, each after the one before it.
    pub launches: heapless::Vec<CandidateLaunch<'a>, MAX_LAUNCHES>,
}
