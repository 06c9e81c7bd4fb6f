//! Candidates for the device to time: collected while a schedule is made, compiled, and put into a candidates plan.

use crate::{
    kernel_graph::{KernelGraph, KernelNode},
    nvrtc::{Compiled, Request},
    selection,
};
use floe_engine::plan::{
    OwnedImage,
    format::{
        self, CandidateArgument, CandidateLaunch, CandidateOperand, DEPENDENT_LAUNCH, Image, ImageKind, MAX_LAUNCHES,
        MAX_OPERANDS, Role,
    },
    lay_out_images,
};
use floe_kernels::{
    DType, Kernel,
    codegen::{Argument, Candidate, Packing},
};
use std::collections::{HashMap, HashSet};

/// Candidates that the cost model finds this many times as slow as its favourite are not measured, except for
/// [`OF_EACH_ALGORITHM`].
const HOPELESS: f64 = 2.5;
/// Of each algorithm so many candidates are measured, however slow the cost model finds them and however many others there
/// are.
const OF_EACH_ALGORITHM: usize = 2;

/// A node of the network, or several equal ones, with the candidates that compete for it.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What is computed.
    pub kernel: Kernel,
    /// Inputs as the node has them, packed for no candidate.
    pub inputs: Vec<CandidateOperand>,
    /// Outputs.
    pub outputs: Vec<CandidateOperand>,
    /// The candidates, the cheapest first.
    pub candidates: Vec<Candidate>,
}

impl Problem {
    /// A node with its candidates.
    pub fn new(graph: &KernelGraph, node: &KernelNode, candidates: &[Candidate]) -> Self {
        let family = node.kernel.family();
        let inputs = node.inputs.iter().enumerate().map(|(number, range)| CandidateOperand {
            role: if graph.constant(range.buffer).is_some() { Role::Constant } else { Role::Input },
            // An operand without a view is a bias.
            dtype: family.input(number).map_or(DType::F32, |view| view.dtype),
            bytes: range.bytes,
        });
        let outputs = node.outputs.iter().enumerate().map(|(number, range)| CandidateOperand {
            role: Role::Output,
            dtype: family.output(number).map_or(DType::U8, |view| view.dtype),
            bytes: range.bytes,
        });
        Self {
            kernel: node.kernel.clone(),
            inputs: inputs.collect(),
            outputs: outputs.collect(),
            candidates: candidates.to_vec(),
        }
    }
}

/// Every problem once: nodes whose candidates are the same are one problem.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    all: Vec<Problem>,
    known: HashSet<Vec<String>>,
    /// Most candidates of one problem, beside [`OF_EACH_ALGORITHM`].
    most: usize,
}

impl Problems {
    /// No problems yet; of each that is added about `most` candidates are kept.
    pub fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Adds a problem unless it is known; drops candidates that are hopeless.
    pub fn add(&mut self, mut problem: Problem) {
        let limit = problem.candidates.first().map_or(0.0, |best| HOPELESS * best.cost);
        let mut of_algorithm: HashMap<&str, usize> = HashMap::new();
        let mut kept = 0;
        problem.candidates.retain(|candidate| {
            let count = of_algorithm.entry(candidate.algorithm).or_default();
            *count += 1;
            let keep = *count <= OF_EACH_ALGORITHM || (candidate.cost <= limit && kept < self.most);
            kept += usize::from(keep);
            keep
        });
        if self.known.insert(problem.candidates.iter().map(selection::key).collect()) {
            self.all.push(problem);
        }
    }

    /// One request for each launch of each candidate, in order.
    pub fn requests(&self, architecture: u32, image: ImageKind) -> Vec<Request> {
        let launches = self.candidates().flat_map(|(_, candidate)| &candidate.launches);
        launches.map(|launch| Request::of(launch, architecture, image)).collect()
    }

    /// Every candidate, with its problem.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = (&Problem, &Candidate)> {
        self.all.iter().flat_map(|problem| problem.candidates.iter().map(move |candidate| (problem, candidate)))
    }
}

/// The candidates of a variant, with the blob of their images.
#[derive(Clone, Debug, Default)]
pub struct CandidateParts {
    candidates: Vec<OwnedCandidate>,
    /// The blob.
    pub images: Vec<u8>,
}

/// As [`format::Candidate`], owning what that borrows.
#[derive(Clone, Debug)]
struct OwnedCandidate {
    problem: u32,
    description: String,
    key: String,
    algorithm: &'static str,
    configuration: String,
    expected: f64,
    operands: heapless::Vec<CandidateOperand, MAX_OPERANDS>,
    launches: Vec<OwnedLaunch>,
}

#[derive(Clone, Debug)]
struct OwnedLaunch {
    image: Image,
    name: String,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    overlaps: bool,
    arguments: heapless::Vec<CandidateArgument, MAX_OPERANDS>,
}

impl CandidateParts {
    /// Puts candidates and their compiled launches together; `compiled` has a result for each of
    /// [`Problems::requests`]. What does not compile, or has more operands or launches than a plan holds, is left out
    /// with a warning.
    pub fn new<E: std::fmt::Display>(
        problems: &Problems,
        mut compiled: &[Result<Compiled, E>],
        architecture: u32,
        kind: ImageKind,
    ) -> Self {
        let mut images: Vec<OwnedImage> = Vec::new();
        let mut numbers: HashMap<&[u8], usize> = HashMap::new();
        let mut candidates = Vec::new();
        // Places in `images` of the launches, until it is known where the images lie.
        let mut places = Vec::new();
        let mut problem = 0;
        for each in &problems.all {
            let before = candidates.len();
            for candidate in &each.candidates {
                let (own, rest) = compiled.split_at(candidate.launches.len());
                compiled = rest;
                let built: Result<Vec<&Compiled>, &E> = own.iter().map(Result::as_ref).collect();
                let owned = match &built {
                    Ok(_) => OwnedCandidate::new(problem, each, candidate, architecture >= DEPENDENT_LAUNCH),
                    Err(error) => Err(error.to_string()),
                };
                let (built, owned) = match (built, owned) {
                    (Ok(built), Ok(owned)) => (built, owned),
                    (_, owned) => {
                        let title = format!("{} {}", candidate.algorithm, candidate.configuration);
                        let reason = owned.err().unwrap_or_default();
                        let problem = selection::describe(&each.kernel);
                        log::warn!("candidate {title} of {problem} is left out: {reason}");
                        continue;
                    }
                };
                for kernel in built {
                    places.push(*numbers.entry(&kernel.bytes).or_insert_with(|| {
                        images.push(OwnedImage::plain(kind, kernel.bytes.clone()));
                        images.len() - 1
                    }));
                }
                candidates.push(owned);
            }
            problem += u32::from(candidates.len() > before);
        }
        let (table, images) = lay_out_images(&images);
        for (launch, place) in candidates.iter_mut().flat_map(|candidate| &mut candidate.launches).zip(places) {
            launch.image = table[place];
        }
        Self { candidates, images }
    }

    /// Number of candidates, and of the problems that they solve.
    pub fn count(&self) -> (usize, usize) {
        (self.candidates.len(), self.candidates.last().map_or(0, |last| last.problem as usize + 1))
    }

    /// The plan's form.
    pub fn borrowed(&self) -> Vec<format::Candidate<'_>> {
        self.candidates.iter().map(OwnedCandidate::borrowed).collect()
    }
}

impl OwnedCandidate {
    fn new(number: u32, problem: &Problem, candidate: &Candidate, overlaps: bool) -> Result<Self, String> {
        let mut operands = heapless::Vec::new();
        let scratch = |role, bytes| CandidateOperand { role, dtype: DType::U8, bytes };
        for (input, &operand) in problem.inputs.iter().enumerate() {
            let view = problem.kernel.family().input(input);
            let packed = match candidate.packing.get(input) {
                None | Some(Packing::Keep) => operand,
                Some(Packing::View(view)) => {
                    let bytes = view.bytes().map_err(|error| error.to_string())?;
                    CandidateOperand { dtype: view.dtype, bytes, ..operand }
                }
                Some(Packing::Transform(transform)) => {
                    let result = view.and_then(|view| transform.result(view));
                    let (dtype, bytes) = result.ok_or("an operand that cannot be transformed")?;
                    CandidateOperand { dtype, bytes, ..operand }
                }
            };
            operands.push(packed).map_err(|_| "too many operands")?;
        }
        let extra = [scratch(Role::Workspace, candidate.workspace), scratch(Role::Counters, candidate.counters)];
        operands.extend_from_slice(&problem.outputs).map_err(|_| "too many operands")?;
        operands.extend_from_slice(&extra).map_err(|_| "too many operands")?;
        let (outputs, workspace) = (problem.inputs.len(), operands.len() - 2);
        let argument = |argument: &Argument| {
            let (operand, offset) = match *argument {
                Argument::Input(input) => (input, 0),
                Argument::Output(output) => (outputs + output, 0),
                Argument::Workspace(offset) => (workspace, offset),
                Argument::Counters(offset) => (workspace + 1, offset),
            };
            CandidateArgument { operand: operand as u8, offset }
        };
        let launches: Result<Vec<OwnedLaunch>, String> = candidate
            .launches
            .iter()
            .map(|launch| {
                let mut arguments = heapless::Vec::new();
                for each in launch.arguments.iter().map(argument) {
                    arguments.push(each).map_err(|_| "too many arguments")?;
                }
                Ok(OwnedLaunch {
                    image: Image { offset: 0, bytes: 0, unpacked: 0 },
                    name: launch.entry.clone(),
                    grid: launch.grid,
                    block: launch.block,
                    shared: launch.shared,
                    overlaps: overlaps && launch.waits_for_inputs,
                    arguments,
                })
            })
            .collect();
        let launches = launches?;
        if launches.len() > MAX_LAUNCHES {
            return Err(format!("{} launches", launches.len()));
        }
        Ok(Self {
            problem: number,
            description: selection::describe(&problem.kernel),
            key: selection::key(candidate),
            algorithm: candidate.algorithm,
            configuration: candidate.configuration.clone(),
            expected: candidate.cost,
            operands,
            launches,
        })
    }

    fn borrowed(&self) -> format::Candidate<'_> {
        format::Candidate {
            problem: self.problem,
            description: &self.description,
            key: &self.key,
            algorithm: self.algorithm,
            configuration: &self.configuration,
            expected: self.expected,
            operands: self.operands.clone(),
            // `new` compared their number with the capacity.
            launches: self.launches.iter().map(OwnedLaunch::borrowed).collect(),
        }
    }
}

impl OwnedLaunch {
    fn borrowed(&self) -> CandidateLaunch<'_> {
        CandidateLaunch {
            image: self.image,
            name: &self.name,
            grid: self.grid,
            block: self.block,
            shared: self.shared,
            overlaps: self.overlaps,
            arguments: self.arguments.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe_kernels::{View, codegen::Launch, copy::Copy};

    fn launch(source: &str, arguments: Vec<Argument>) -> Launch {
        Launch::new(source.to_owned(), "k", 2, 64, arguments)
    }

    fn candidate(algorithm: &'static str, source: &str, cost: f64) -> Candidate {
        Candidate::new(
            algorithm,
            source.into(),
            vec![launch(source, vec![Argument::Input(0), Argument::Output(0)])],
            cost,
        )
    }

    fn problem(candidates: Vec<Candidate>) -> Problem {
        let view = View::contiguous(DType::F16, &[3, 8]).unwrap();
        let operand = |role| CandidateOperand { role, dtype: DType::F16, bytes: 48 };
        Problem {
            kernel: Kernel::Copy(Copy { source: view.clone(), destination: view }),
            inputs: vec![operand(Role::Constant)],
            outputs: vec![operand(Role::Output)],
            candidates,
        }
    }

    fn image(bytes: &[u8]) -> Result<Compiled, &'static str> {
        Ok(Compiled { bytes: bytes.to_vec(), resources: None, log: String::new() })
    }

    #[test]
    fn hopeless_candidates_are_dropped_but_no_algorithm_is() {
        let mut problems = Problems::new(24);
        let mut all: Vec<Candidate> =
            (0..40).map(|i| candidate("gemm", &format!("gemm {i}"), 1.0 + f64::from(i) / 100.0)).collect();
        all.push(candidate("gemm", "gemm slow", 3.5));
        all.extend((0..5).map(|i| candidate("direct", &format!("direct {i}"), 50.0 + f64::from(i))));
        problems.add(problem(all));
        let kept: Vec<&str> = problems.candidates().map(|(_, candidate)| candidate.configuration.as_str()).collect();
        assert_eq!(kept.len(), 24 + OF_EACH_ALGORITHM);
        assert_eq!((kept[23], &kept[24..]), ("gemm 23", &["direct 0", "direct 1"][..]));
    }

    #[test]
    fn equal_problems_and_equal_images_are_held_once() {
        let mut problems = Problems::new(24);
        let mut two = candidate("gemm", "b", 2.0);
        two.packing = vec![Packing::View(View::contiguous(DType::F16, &[8, 8]).unwrap())];
        (two.workspace, two.counters) = (512, 16);
        two.launches.push(launch("c", vec![Argument::Workspace(256), Argument::Counters(0)]));
        problems.add(problem(vec![candidate("gemm", "a", 1.0), two.clone()]));
        problems.add(problem(vec![candidate("gemm", "d", 1.0)]));
        problems.add(problem(vec![candidate("gemm", "a", 1.0), two]));
        let requests = problems.requests(90, ImageKind::Cubin);
        assert_eq!(requests.iter().map(|request| &request.source[..1]).collect::<String>(), "abcd");
        let compiled = [image(b"one"), image(b"two"), image(b"one"), image(b"one")];
        let parts = CandidateParts::new(&problems, &compiled, 90, ImageKind::Cubin);
        assert_eq!(parts.count(), (3, 2));
        assert_eq!(parts.images, b"one\0\0\0\0\0\0\0\0\0\0\0\0\0two");
        let borrowed = parts.borrowed();
        assert_eq!(borrowed[1].description, "copy 3x8:f16 -> 3x8:f16");
        let bytes: Vec<u64> = borrowed[1].operands.iter().map(|operand| operand.bytes).collect();
        assert_eq!(bytes, [128, 48, 512, 16], "the packed input, the output, workspace and counters");
        let last = &borrowed[1].launches[1];
        let arguments: Vec<_> = last.arguments.iter().map(|argument| (argument.operand, argument.offset)).collect();
        assert_eq!(arguments, [(2, 256), (3, 0)]);
        assert!(last.overlaps && last.image == borrowed[0].launches[0].image);
        assert!(!CandidateParts::new(&problems, &compiled, 87, ImageKind::Cubin).borrowed()[0].launches[0].overlaps);
    }

    #[test]
    fn what_does_not_compile_is_left_out() {
        let mut problems = Problems::new(24);
        let mut two = candidate("gemm", "a", 1.0);
        two.launches.push(launch("b", vec![]));
        problems.add(problem(vec![two]));
        problems.add(problem(vec![candidate("gemm", "c", 1.0), candidate("gemm", "d", 2.0)]));
        let compiled = [Err("no such instruction"), image(b"b"), image(b"c"), image(b"d")];
        let parts = CandidateParts::new(&problems, &compiled, 90, ImageKind::Cubin);
        let kept: Vec<_> = parts.borrowed().iter().map(|each| (each.problem, each.configuration)).collect();
        assert_eq!(kept, [(0, "c"), (0, "d")]);
    }
}
