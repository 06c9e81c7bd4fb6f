//! What the compiler needs beyond the reference kernels: targets, candidates and the pieces CUDA sources share.

pub mod completion;
pub(crate) mod elementwise;
mod half;
pub(crate) mod packing;
pub(crate) mod quotient;
mod signature;
mod source;
mod target;
mod text;
pub(crate) mod transpose;
pub(crate) mod views;
mod whole;

pub use elementwise::memory_cost;
pub use packing::{Packing, Transform};
pub(crate) use signature::Signature;
pub(crate) use source::{ARRIVE, define, prelude_for};
pub use source::{
    Arithmetic, PRELUDE, element_type, f32_literal, f64_literal, load_function, program_function, register_type,
};
pub use target::{Rate, Target};
pub use text::Text;
pub(crate) use whole::{SHARED_TABLES, Source, Tables, scaling_functions, slots_to_byte, whole_functions};

pub use crate::kernel::all_cases;

use crate::{Kernel, KernelError, MAX_OUTPUTS};

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

/// Whether a kernel fetches bytes of a constant into the level-2 cache, for a later step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchAhead {
    /// It cannot.
    #[default]
    Unable,
    /// It would if it were told to.
    Able,
    /// It does: behind its own pointers it takes those to the first byte and to the second block's share.
    Told,
}

/// One kernel launch of a candidate. All shapes are constants inside `source`; the arguments are pointers only.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    /// CUDA C++ that needs no header, with `extern "C" __global__ void ENTRY(…)`.
    pub source: Text,
    /// Name of the `__global__` function.
    pub entry: String,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub shared: u32,
    /// Pointers, in order, without those of [`FetchAhead::Told`].
    pub arguments: Vec<Argument>,
    /// Whether it fetches bytes for a later step.
    pub fetch_ahead: FetchAhead,
    /// Blocks of a cluster; 1 for none.
    pub cluster: u32,
    /// Whether the kernel waits by itself for those that it depends on, so that it may start while they still run.
    pub waits_for_inputs: bool,
    /// Whether its blocks wait for each other, so that all of them must be resident at once: the session needs as many
    /// multiprocessors as the grid has blocks, and no other such launch may run at the same time.
    pub needs_all_blocks: bool,
    /// Whether it has instructions that its architecture has and later ones do not (`sm_90a`).
    pub architecture_specific: bool,
}

/// Most bytes that a block fetches ahead: machine code of sm_90 keeps 16 bits of their sixteenth part.
const MOST_AHEAD: u64 = (1 << 20) - 16;

impl Launch {
    /// A launch of a kernel that waits for its inputs, as all kernels of this crate do, and needs nothing further.
    pub fn new(source: impl Into<Text>, entry: &str, blocks: u32, threads: u32, arguments: Vec<Argument>) -> Self {
        Self {
            source: source.into(),
            entry: entry.to_owned(),
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
            arguments,
            fetch_ahead: FetchAhead::Unable,
            cluster: 1,
            waits_for_inputs: true,
            needs_all_blocks: false,
            architecture_specific: false,
        }
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
            self.source = self.source.clone().behind(format!("#define CONSTANT_INPUTS {mask}u\n"));
        }
    }

    /// Bytes that each block would fetch ahead of so many: a multiple of 16, so that a few may be left. 0 where the kernel cannot, or has
    /// been told already.
    pub fn share_ahead(&self, bytes: u64) -> u64 {
        let able = self.fetch_ahead == FetchAhead::Able && self.grid[1..] == [1, 1];
        if able { (bytes / u64::from(self.grid[0]) / 16 * 16).min(MOST_AHEAD) } else { 0 }
    }

    /// Tells the kernel to fetch bytes for a later step, before it waits for its inputs. `false` where it cannot.
    pub fn fetch_ahead(&mut self) -> bool {
        let able = self.share_ahead(u64::MAX) > 0;
        if able {
            self.source = self.source.clone().behind("#define FETCH_AHEAD\n".into());
            self.fetch_ahead = FetchAhead::Told;
        }
        able
    }

    /// Pointers that the kernel takes.
    pub fn pointers(&self) -> usize {
        self.arguments.len() + if self.fetch_ahead == FetchAhead::Told { 2 } else { 0 }
    }
}

/// One way to run a kernel on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Algorithm as `--algorithm` names it: `tensor_core_gemm`, `direct`, `depthwise`, `generated`…
    pub algorithm: &'static str,
    /// The configuration within the algorithm, for example `64x64x32 stages 3 split 4`.
    pub configuration: String,
    /// The launches, in order; none where there is nothing to compute.
    pub launches: Vec<Launch>,
    /// Bytes of workspace.
    pub workspace: u64,
    /// Bytes of counters.
    pub counters: u64,
    /// Required packing of each input operand; empty means `Keep` for all.
    pub packing: Vec<Packing>,
    /// Expected device time in microseconds by the cost model.
    pub cost: f64,
    /// The relative L2 error that the candidate promises where that is more than what every kernel of its output's type
    /// keeps. Such a candidate is only chosen when its algorithm is forced.
    pub relaxed_tolerance: Option<f64>,
}

impl Candidate {
    /// A candidate that takes its operands as they are and needs no scratch.
    pub fn new(algorithm: &'static str, configuration: String, launches: Vec<Launch>, cost: f64) -> Self {
        Self {
            algorithm,
            configuration,
            launches,
            workspace: 0,
            counters: 0,
            packing: Vec::new(),
            cost,
            relaxed_tolerance: None,
        }
    }
}

/// Why a family has no candidate for a kernel on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsupported(pub String);

impl From<KernelError> for Unsupported {
    fn from(reason: KernelError) -> Self {
        Self(reason.to_string())
    }
}

/// Families that can run on a GPU.
pub trait Generate {
    /// All candidates for a target, at least one, in any order, of a checked kernel that has something to write; pointers of operands
    /// are 16-byte aligned.
    ///
    /// # Errors
    /// Where the family cannot run this kernel there, with a reason that names type, shape or parameter.
    fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported>;
}

impl Kernel {
    /// All candidates of the kernel on a target; see [`Generate::candidates`]. Where all outputs are empty, one that launches nothing.
    ///
    /// # Errors
    /// As there, and where the kernel's check fails.
    pub fn candidates(&self, target: &Target) -> Result<Vec<Candidate>, Unsupported> {
        let family = self.family();
        family.check()?;
        let mut outputs = (0..MAX_OUTPUTS).map_while(|number| family.output(number));
        if outputs.all(|output| output.elements() == 0) {
            return Ok(vec![Candidate::new("empty", String::new(), Vec::new(), 0.0)]);
        }
        self.generator().candidates(target)
    }
}

#[cfg(test)]
mod tests {
    use super::{FetchAhead, Launch, Unsupported, all_cases, completion};
    use crate::matmul::MatMul;
    use crate::{DType, Kernel, View};

    /// What the source says of a launch.
    fn check(launch: &Launch, name: &str) {
        let source = &launch.source;
        let waits = source.contains("wait_for_inputs();");
        assert_eq!(launch.waits_for_inputs, waits, "{name}: wait for inputs");
        let cluster = source.split("__cluster_dims__(").nth(1).and_then(|rest| rest.split(',').next());
        assert_eq!(launch.cluster.to_string(), cluster.unwrap_or("1"), "{name}: blocks of a cluster");
        assert!(launch.grid[0].is_multiple_of(launch.cluster), "{name}: whole clusters");
        let all_blocks = source.contains("#define ALL_BLOCKS_RESIDENT");
        assert_eq!(launch.needs_all_blocks, all_blocks, "{name}: resident blocks");
        let specific = source.contains("wgmma.");
        assert_eq!(launch.architecture_specific, specific, "{name}: instructions of one architecture");
        assert_eq!(
            launch.share_ahead(1 << 40) > 0,
            source.contains("fetch_ahead();"),
            "{name}: bytes for a later step"
        );
        check_fetching(launch.clone(), name);
    }

    /// What the source says of a launch that is told to fetch ahead.
    fn check_fetching(mut launch: Launch, name: &str) {
        let (before, arguments) = (launch.source.clone(), launch.arguments.len());
        let can = launch.share_ahead(1 << 40) > 0;
        assert_eq!(launch.fetch_ahead(), can, "{name}: bytes for a later step");
        if !can {
            assert!(launch.source == before && launch.pointers() == arguments, "{name}: a launch that fetches nothing");
            return;
        }
        assert_eq!(&*launch.source, format!("#define FETCH_AHEAD\n{}", &*before), "{name}");
        let entry = launch.source.rsplit(&format!(") {}(", launch.entry)).next().unwrap();
        let (parameters, body) = entry.split_once(" AHEAD_PARAMETERS) {\n    fetch_ahead();\n").expect(name);
        assert!(!parameters.contains('{') && body.contains("Operands{"), "{name}: first of all, and once");
        let more = launch.source.lines().find_map(|line| line.strip_prefix("#define AHEAD_PARAMETERS ")).expect(name);
        let count = format!("{parameters}{more}").split(',').count();
        assert_eq!((count, launch.pointers()), (arguments + 2, arguments + 2), "{name}: parameters");
        assert!(!launch.fetch_ahead(), "{name}: told twice");
    }

    #[test]
    fn blocks_fetch_equal_shares_of_multiples_of_16_bytes() {
        let able = FetchAhead::Able;
        let launch = |blocks| Launch { fetch_ahead: able, ..Launch::new(String::new(), "k", blocks, 32, vec![]) };
        assert_eq!([0, 47, 48, 95, 1000].map(|bytes| launch(3).share_ahead(bytes)), [0, 0, 16, 16, 320]);
        assert_eq!([1 << 20, 1 << 30].map(|bytes| launch(1).share_ahead(bytes)), [(1 << 20) - 16; 2]);
        assert_eq!(Launch { grid: [3, 2, 1], ..launch(3) }.share_ahead(1000), 0);
        assert_eq!(Launch { fetch_ahead: FetchAhead::Unable, ..launch(3) }.share_ahead(1000), 0);
    }

    #[test]
    fn nothing_is_launched_for_an_empty_output_and_an_unsound_kernel_is_refused() {
        let [_, orin, _] = crate::gemm::tests::targets();
        let view = |shape: &[u32]| View::contiguous(DType::F16, shape).unwrap();
        let product = |rows, depth| {
            let (a, b, output) = (view(&[rows, 8]), view(&[depth, 16]), view(&[rows, 16]));
            Kernel::MatMul(MatMul { a, b, output, epilogue: Default::default() }).candidates(&orin)
        };
        assert!(product(1, 8).unwrap().iter().all(|candidate| !candidate.launches.is_empty()));
        let empty = product(0, 8).unwrap();
        assert!(empty.len() == 1 && empty[0].launches.is_empty());
        assert!(matches!(product(1, 7), Err(Unsupported(_))));
    }

    #[test]
    fn the_fields_of_a_launch_agree_with_its_source() {
        let mut seen = [0; 4];
        for target in crate::gemm::tests::targets() {
            for kernel in all_cases() {
                for candidate in kernel.candidates(&target).into_iter().flatten() {
                    for launch in &candidate.launches {
                        let name = format!("{} {}", candidate.algorithm, candidate.configuration);
                        check(launch, &format!("{} {name} on {}", kernel.family().name(), target.name));
                        let fetches = launch.fetch_ahead == FetchAhead::Able;
                        let fields =
                            [launch.cluster > 1, launch.needs_all_blocks, launch.architecture_specific, fetches];
                        seen.iter_mut().zip(fields).for_each(|(count, field)| *count += u32::from(field));
                    }
                }
            }
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
        check(&completion::signal(), "signal");
        let watched = completion::Watched { binding: 0, dtype: DType::F16, elements: 100 };
        check(&completion::guard(&[watched], 4), "guard");
    }
}
