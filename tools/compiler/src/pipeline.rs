//! From a model file to the bytes of a plan.

use crate::{
    ahead,
    assembly::Assembly,
    candidates::CandidateParts,
    completion,
    emit::{self, EmitError, Pool, Variant, VariantIdentity},
    evaluate::HostEvaluator,
    exposed::{self, ExposedValue},
    forms::Forms,
    fuse_kernels,
    fused::FusedGraph,
    legality::{self, Illegal},
    lower::{LowerError, Places, lower_with_places},
    nvrtc::{self, Compiled, Compiler, Request},
    passes::{self, PassError},
    place::{self, Placement},
    postprocess::{Postprocess, PostprocessError},
    preprocess::{Preprocess, PreprocessError},
    schedule::{self, Schedule, StepAction},
    selection::{ScheduleError, Selection},
    store_options::StoreOptions,
    stored::StoredGraph,
    weights_along_k,
};
use floe_engine::plan::{
    Plan, PlanError, PlanWriter,
    format::{Direction, ImageKind, MAX_BINDINGS, MAX_STEPS},
};
use floe_kernels::codegen::Target;
use floe_models::{Graph, ImportError, ImportOptions, TensorId};
use floe_timings::Timings;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Element type of the arithmetic on a GPU. The host always computes in f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// f32 throughout.
    F32,
    /// f16 storage and tensor cores, f32 accumulation.
    #[default]
    F16,
}

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// Targets, one variant each.
    pub targets: Vec<Target>,
    /// Shapes and constants for the import.
    pub import: ImportOptions,
    /// Further shapes, each in place of all of `import`: a variant more of every target, with the same weights.
    pub further_shapes: Vec<Vec<(String, Vec<usize>)>>,
    /// Inputs that become frames of a camera.
    pub preprocess: Vec<Preprocess>,
    /// Outputs that become results.
    pub postprocess: Vec<Postprocess>,
    /// Arithmetic on GPUs.
    pub precision: Precision,
    /// Stores values on the host in [`CompileOptions::precision`] as well, which shows what f16 rounds without a GPU.
    pub half_on_host: bool,
    /// Forced algorithms: node and algorithm.
    pub algorithms: HashMap<String, String>,
    /// Measured times, which overrule the cost model where they are about the target.
    pub timings: Option<Timings>,
    /// Puts the candidates of every kernel into the plan, for `floe measure`: so many at most for each.
    pub candidates: Option<usize>,
    /// Model nodes that an f16 variant computes and stores in f32.
    pub keep_f32: Vec<String>,
    /// Further ones, which a budget of accuracy needs, each with what f16 there alone does: the relative error of the outputs.
    pub budget_f32: Vec<(String, f64)>,
    /// Outputs that are inputs of the next replay: output and input by name. The input becomes a state of the plan, the
    /// output is no output any more.
    pub states: Vec<(String, String)>,
    /// NVRTC to use in place of the one that is found.
    pub nvrtc: Option<PathBuf>,
    /// Store PTX, which the driver compiles when it loads the plan, in place of machine code.
    pub ptx: bool,
    /// Compile every kernel, also those that the user's cache holds.
    pub without_cache: bool,
    /// The plan's version, which a device may ask to be no less than another.
    pub version: u32,
    /// Let PTX tell which lines of the CUDA sources it comes from.
    pub lines: bool,
}

impl CompileOptions {
    /// The import of each shape, in the plan's order.
    pub fn imports(&self) -> impl Iterator<Item = ImportOptions> {
        let further = |shapes: &Vec<_>| ImportOptions { shapes: shapes.clone(), ..self.import.clone() };
        std::iter::once(self.import.clone()).chain(self.further_shapes.iter().map(further))
    }
}

/// What the compiler tells while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A phase has begun.
    Phase(&'a str),
    /// Of `total` kernels `done` are compiled.
    Kernels {
        /// Finished.
        done: usize,
        /// All.
        total: usize,
    },
}

/// What became of one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct VariantReport {
    /// Name of the target.
    pub target: String,
    /// Steps of a replay.
    pub steps: usize,
    /// Names and extents of the inputs.
    pub inputs: Vec<(String, Vec<u32>)>,
    /// Kernel images: those that the target's variants before do not have.
    pub images: usize,
    /// Bytes of these kernel images.
    pub image_bytes: u64,
    /// Bytes of constants: of those that the target's variants before do not have.
    pub weight_bytes: u64,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Lower bound of the arena.
    pub arena_lower_bound: u64,
    /// Expected time of a replay in microseconds by measured times and the cost model, 0 for the host.
    pub expected: f64,
    /// Kernels that measured times chose, and all kernels; `None` without a timing table.
    pub measured: Option<(usize, usize)>,
    /// Candidates for a measurement, and the problems that they solve.
    pub candidates: (usize, usize),
    /// Kernels that spill registers: node and bytes. Empty is good.
    pub spills: Vec<(String, u32)>,
}

/// A compiled plan.
#[derive(Clone, Debug)]
pub struct CompiledPlan {
    /// The file.
    pub bytes: Vec<u8>,
    /// One report a variant.
    pub variants: Vec<VariantReport>,
}

/// Why a model could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// Reading the model.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// `--preprocess` does not fit the model.
    #[error(transparent)]
    Preprocess(#[from] PreprocessError),
    /// `--postprocess` does not fit the model.
    #[error(transparent)]
    Postprocess(#[from] PostprocessError),
    /// A pass.
    #[error(transparent)]
    Pass(#[from] PassError),
    /// A form behind the passes breaks a rule: a defect of the compiler.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// Lowering.
    #[error("for target '{target}': {source}")]
    Lower {
        /// The target.
        target: String,
        /// What is wrong.
        source: LowerError,
    },
    /// `--keep-f32` names a node that is not in the fused graph.
    #[error("--keep-f32 names node '{0}', which the compiled network does not have; `floec inspect` lists the nodes")]
    NoSuchNode(String),
    /// `--state` names what cannot be one.
    #[error("--state {output}={input}: {reason}")]
    State {
        /// The output.
        output: String,
        /// The input.
        input: String,
        /// What is wrong.
        reason: String,
    },
    /// A further shape does not go with those before it.
    #[error("--shape: the {number}. shape {reason}")]
    Shapes {
        /// Which one, counted from 1.
        number: usize,
        /// What is wrong.
        reason: String,
    },
    /// More inputs and outputs than a plan holds.
    #[error(
        "the network has {count} inputs and outputs; a plan holds {MAX_BINDINGS} at most. --constant and --state leave fewer"
    )]
    Bindings {
        /// How many, states counted once.
        count: usize,
    },
    /// A longer replay than a plan holds.
    #[error("for target '{target}': a replay would have {count} steps; a plan holds {MAX_STEPS} at most")]
    Steps {
        /// The target.
        target: String,
        /// How many.
        count: usize,
    },
    /// Selection.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// NVRTC.
    #[error(transparent)]
    Nvrtc(#[from] nvrtc::Error),
    /// Emission.
    #[error(transparent)]
    Emit(#[from] EmitError),
    /// The engine's check refused the plan: a mistake of the compiler.
    #[error("the compiled plan does not pass the engine's check, which is a defect of the compiler: {0}")]
    Check(String),
}

impl CompileError {
    /// Whether another option, or another file, would mend it.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Import(error) => matches!(
                error,
                ImportError::Read { .. }
                    | ImportError::NotOnnx { .. }
                    | ImportError::Truncated { .. }
                    | ImportError::Malformed { .. }
                    | ImportError::Tensor { .. }
                    | ImportError::Input { .. }
                    | ImportError::ShapeMissing { .. }
                    | ImportError::ShapeMismatch { .. }
                    | ImportError::UnknownInput { .. }
            ),
            Self::Preprocess(_)
            | Self::Postprocess(_)
            | Self::NoSuchNode(_)
            | Self::State { .. }
            | Self::Shapes { .. }
            | Self::Schedule(ScheduleError::NoSuchNode(_) | ScheduleError::NoSuchAlgorithm { .. }) => true,
            Self::Pass(_)
            | Self::Illegal(_)
            | Self::Lower { .. }
            | Self::Bindings { .. }
            | Self::Steps { .. }
            | Self::Schedule(_)
            | Self::Nvrtc(_)
            | Self::Emit(_)
            | Self::Check(_) => false,
        }
    }

    /// Whether the compiler is wrong, and not the model or an option: a form between the stages breaks a rule, passes undo
    /// each other, or the engine refuses the plan.
    pub fn is_defect(&self) -> bool {
        matches!(self, Self::Pass(PassError::Illegal(_) | PassError::Unsettled) | Self::Illegal(_) | Self::Check(_))
    }
}

/// Name and version that plans carry.
pub const COMPILER: &str = concat!("floec ", env!("CARGO_PKG_VERSION"));

/// Imports a model, makes frames of its inputs and results of its outputs, and runs every pass up to fusion.
///
/// # Errors
/// Where the model cannot be read, a frame or a result does not fit it or a pass finds the graph illegal.
pub fn import_and_fuse(
    model: &Path,
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<FusedGraph, CompileError> {
    progress(Progress::Phase("import"));
    let evaluator = HostEvaluator::within(&options.import.limits);
    let graph = floe_models::import(model, &options.import, &evaluator)?;
    between_camera_and_results(graph, options, &evaluator, progress)
}

/// As [`import_and_fuse`], of a model that is in memory: without external data, and under its graph's own name.
///
/// # Errors
/// As [`import_and_fuse`].
pub fn import_bytes_and_fuse(
    model: &[u8],
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<FusedGraph, CompileError> {
    progress(Progress::Phase("import"));
    let evaluator = HostEvaluator::within(&options.import.limits);
    let graph = floe_models::from_bytes(model, None, &options.import, &evaluator)?;
    between_camera_and_results(graph, options, &evaluator, progress)
}

/// Makes frames of inputs and results of outputs, and runs every pass up to fusion.
fn between_camera_and_results(
    mut graph: Graph,
    options: &CompileOptions,
    evaluator: &HostEvaluator,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<FusedGraph, CompileError> {
    let mut placements = Vec::new();
    for preprocess in &options.preprocess {
        placements.push((preprocess.input.clone(), preprocess.apply(&mut graph)?));
    }
    for postprocess in &options.postprocess {
        postprocess.apply(&mut graph, &placements)?;
    }
    fuse_with(graph, evaluator, progress)
}

/// Runs every pass up to fusion.
///
/// # Errors
/// Where a pass finds the graph illegal.
pub fn fuse(graph: Graph, progress: &(dyn Fn(Progress<'_>) + Sync)) -> Result<FusedGraph, CompileError> {
    fuse_with(graph, &HostEvaluator::default(), progress)
}

fn fuse_with(
    graph: Graph,
    evaluator: &HostEvaluator,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<FusedGraph, CompileError> {
    progress(Progress::Phase("simplify"));
    let graph = passes::simplify(graph, evaluator)?;
    progress(Progress::Phase("fuse"));
    Ok(passes::fuse(graph)?)
}

/// Compiles a model file into a plan. The same input gives the same bytes.
///
/// # Errors
/// What went wrong, naming file, node or target.
pub fn compile(
    model: &Path,
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<CompiledPlan, CompileError> {
    compile_imported(import_and_fuse(model, options, progress)?, model, options, progress)
}

/// As [`compile`], where [`import_and_fuse`] has made the first shape.
///
/// # Errors
/// As [`compile`].
pub fn compile_imported(
    first: FusedGraph,
    model: &Path,
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<CompiledPlan, CompileError> {
    let mut assembly = Assembly::new(options, progress);
    assembly.add(&first)?;
    // One shape at a time: networks may be large.
    drop(first);
    for import in options.imports().skip(1) {
        assembly.add(&import_and_fuse(model, &CompileOptions { import, ..options.clone() }, progress)?)?;
    }
    assembly.finish()
}

/// Compiles a fused graph into a plan.
///
/// # Errors
/// As [`compile`].
pub fn compile_fused(
    fused: &FusedGraph,
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<CompiledPlan, CompileError> {
    let mut assembly = Assembly::new(options, progress);
    assembly.add(fused)?;
    assembly.finish()
}

/// Compares the options with the network.
pub(crate) fn check(fused: &FusedGraph, options: &CompileOptions) -> Result<(), CompileError> {
    let known = |name: &&String| fused.nodes.iter().any(|node| node.is_named(name));
    let budget_f32 = options.budget_f32.iter().map(|(name, _)| name);
    if let Some(unknown) = options.keep_f32.iter().chain(budget_f32).find(|name| !known(name)) {
        return Err(CompileError::NoSuchNode(unknown.clone()));
    }
    check_states(fused, &options.states)?;
    let count = fused.inputs.len() + fused.outputs.len() - options.states.len();
    if count > MAX_BINDINGS {
        return Err(CompileError::Bindings { count });
    }
    Ok(())
}

/// A plan that hands out what it stores.
#[derive(Clone, Debug)]
pub struct ExposedPlan {
    /// The file: a usual plan but for one more output, [`exposed::NAME`].
    pub bytes: Vec<u8>,
    /// The values of the fused graph that can be read after a replay.
    pub values: Vec<ExposedValue>,
}

/// Compiles a fused graph for a target into a plan that computes the same as the one that
/// [`compile_fused`] makes, kernel by kernel, and hands out every value that its steps store. Of a plan of several shapes, `forms` are
/// those of the shapes before.
///
/// # Errors
/// As [`compile`].
pub fn compile_exposed(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    forms: Option<&mut Forms>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<ExposedPlan, CompileError> {
    check_states(fused, &options.states)?;
    let (mut schedule, places) = completed(fused, target, options, forms, progress)?;
    let values = exposed::expose(&mut schedule, &places);
    legality::debug(|| legality::schedule::check(&schedule, target, "expose"))?;
    let placement = place::place(&schedule, target);
    let mut pool = Pool::default();
    let (mut variant, _) = finished(schedule, &placement, target, options, &mut pool, progress)?;
    pool.move_into(&mut variant);
    let bytes = PlanWriter::new(&emit::printable(&fused.name), COMPILER).variant(variant.parts()).finish();
    Plan::parse(&bytes).map_err(|error: PlanError| CompileError::Check(error.to_string()))?;
    Ok(ExposedPlan { bytes, values })
}

/// Every state is an output and an input of one type and shape, and neither is part of another state.
fn check_states(fused: &FusedGraph, states: &[(String, String)]) -> Result<(), CompileError> {
    for (number, (output, input)) in states.iter().enumerate() {
        let refuse = |reason: String| CompileError::State { output: output.clone(), input: input.clone(), reason };
        let find = |ids: &[TensorId], name: &str, what: &str| {
            let values = || ids.iter().map(|id| &fused.values[id.0]);
            let names = || values().map(|value| value.name.as_str()).collect::<Vec<_>>().join(", ");
            let found = values().find(|value| value.name == name);
            found
                .map(|value| &value.fact)
                .ok_or_else(|| refuse(format!("the model has no {what} '{name}', only {}", names())))
        };
        let (next, now) = (find(&fused.outputs, output, "output")?, find(&fused.inputs, input, "input")?);
        if next != now {
            return Err(refuse(format!(
                "the output is {:?} {:?}, the input {:?} {:?}",
                next.dtype, next.shape, now.dtype, now.shape
            )));
        }
        if states[..number].iter().any(|(other, state)| other == output || state == input) {
            return Err(refuse("one of them is part of another state".into()));
        }
    }
    Ok(())
}

/// Lowers and schedules a fused graph for a target.
///
/// # Errors
/// Where a node cannot run there.
pub fn schedule(fused: &FusedGraph, target: &Target, options: &CompileOptions) -> Result<Schedule, CompileError> {
    Ok(schedule_with_places(fused, target, options, None)?.0)
}

fn schedule_with_places(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    mut forms: Option<&mut Forms>,
) -> Result<(Schedule, Places), CompileError> {
    let half = options.precision == Precision::F16 && (options.half_on_host || !target.is_host());
    let (keep_f32, states) = (options.keep_f32.as_slice(), options.states.as_slice());
    let budget_f32 = options.budget_f32.as_slice();
    let stored = StoredGraph::of(fused, StoreOptions { host: target.is_host(), half, keep_f32, budget_f32, states });
    legality::debug(|| legality::stored::check(&stored, "store"))?;
    let lowered = lower_with_places(&stored);
    let (kernels, places) = lowered.map_err(|source| CompileError::Lower { target: target.name.clone(), source })?;
    legality::debug(|| legality::kernels::check(&kernels, "lower"))?;
    legality::debug(|| legality::kernels::check_reasons(&kernels, half, "lower"))?;
    let schedule = match target.is_host() {
        true => schedule::for_host(kernels)?,
        false => {
            let timings = options.timings.as_ref();
            let mut selection = Selection::new(target, &options.algorithms, timings, options.candidates);
            let kernels = weights_along_k::run(kernels);
            legality::debug(|| legality::kernels::check(&kernels, "weights_along_k"))?;
            let kernels = fuse_kernels::run(kernels, &mut selection, forms.as_deref_mut());
            legality::debug(|| legality::kernels::check(&kernels, "fuse_kernels"))?;
            legality::debug(|| legality::kernels::check_reasons(&kernels, half, "fuse_kernels"))?;
            schedule::for_gpu(kernels, selection, forms)?
        }
    };
    legality::debug(|| legality::schedule::check(&schedule, target, "select"))?;
    Ok((schedule, places))
}

/// Everything up to the compilation of kernels: the steps, those behind the network included, and where their buffers lie.
///
/// # Errors
/// As [`schedule()`], and where a replay has more steps than a plan holds.
pub fn scheduled_and_placed(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(Schedule, Placement), CompileError> {
    placed(fused, target, options, None, progress)
}

fn placed(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    forms: Option<&mut Forms>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(Schedule, Placement), CompileError> {
    let (schedule, _) = completed(fused, target, options, forms, progress)?;
    progress(Progress::Phase(&format!("{}: place", target.name)));
    let placement = place::place(&schedule, target);
    Ok((schedule, placement))
}

/// The steps, those behind the network included, and where the values lie.
fn completed(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    forms: Option<&mut Forms>,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(Schedule, Places), CompileError> {
    progress(Progress::Phase(&format!("{}: select", target.name)));
    let (mut schedule, places) = schedule_with_places(fused, target, options, forms)?;
    if !target.is_host() {
        completion::append(&mut schedule);
        legality::debug(|| legality::schedule::check(&schedule, target, "completion"))?;
        ahead::fetch(&mut schedule, target);
        legality::debug(|| legality::schedule::check(&schedule, target, "ahead"))?;
    }
    let count = schedule.steps.len();
    if count > MAX_STEPS as usize {
        return Err(CompileError::Steps { target: target.name.clone(), count });
    }
    Ok((schedule, places))
}

/// A target's variant for one shape; what it shares with those for others goes into the pool.
pub(crate) fn variant(
    fused: &FusedGraph,
    target: &Target,
    options: &CompileOptions,
    forms: Option<&mut Forms>,
    pool: &mut Pool,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(Variant, VariantReport), CompileError> {
    let (schedule, placement) = placed(fused, target, options, forms, progress)?;
    finished(schedule, &placement, target, options, pool, progress)
}

/// Compiles the kernels of a schedule and writes its variant.
fn finished(
    mut schedule: Schedule,
    placement: &Placement,
    target: &Target,
    options: &CompileOptions,
    pool: &mut Pool,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<(Variant, VariantReport), CompileError> {
    let image_kind = if options.ptx { ImageKind::Ptx } else { ImageKind::Cubin };
    let mut candidates = CandidateParts::default();
    let (compiled, identity) = if target.is_host() {
        (Vec::new(), VariantIdentity::of(target))
    } else {
        progress(Progress::Phase(&format!("{}: compile kernels", target.name)));
        let mut compiler = Compiler::find(target, options.nvrtc.as_deref())?;
        if options.without_cache {
            compiler = compiler.with_cache(None);
        }
        let mut requests = requests(&schedule, target, image_kind);
        if options.lines {
            requests.iter_mut().for_each(|request| request.options.push("-lineinfo".to_owned()));
        }
        let compiled = compiler.compile_all(&requests, &|done, total| progress(Progress::Kernels { done, total }))?;
        if options.candidates.is_some() {
            progress(Progress::Phase(&format!("{}: compile candidates", target.name)));
            let requests = schedule.problems.requests(target.architecture, image_kind).into_iter();
            let requests: Vec<Request> = requests.map(|request| request.for_target(target)).collect();
            let report = |done, total| progress(Progress::Kernels { done, total });
            let compiled = compiler.try_compile_all(&requests, &report);
            candidates = CandidateParts::new(&schedule.problems, &compiled, target.architecture, image_kind);
        }
        let identity = VariantIdentity {
            image_kind,
            driver: compiler.driver(target, image_kind),
            nvrtc: compiler.version(),
            precision: if options.precision == Precision::F16 { "f16" } else { "f32" },
            ..VariantIdentity::of(target)
        };
        (compiled, identity)
    };
    let (weights, (images, image_bytes)) = (pool.weight_bytes(), pool.images());
    let mut variant = emit::emit_into(pool, &mut schedule, placement, &compiled, identity)?;
    variant.candidates = candidates;
    let mut report = report(&schedule, placement, &compiled, &variant);
    let (all_images, all_image_bytes) = pool.images();
    (report.images, report.image_bytes) = (all_images - images, all_image_bytes - image_bytes);
    report.weight_bytes = pool.weight_bytes() - weights;
    if options.timings.is_some() && !target.is_host() {
        report.measured = Some(schedule.measured);
    }
    Ok((variant, report))
}

/// One request for each launch, in order.
fn requests(schedule: &Schedule, target: &Target, image: ImageKind) -> Vec<Request> {
    let launches = schedule.steps.iter().filter_map(|step| match &step.action {
        StepAction::Launch(launch) => Some(Request::of(launch, target.architecture, image).for_target(target)),
        StepAction::Host(_) => None,
    });
    launches.collect()
}

fn report(schedule: &Schedule, placement: &Placement, compiled: &[Compiled], variant: &Variant) -> VariantReport {
    let mut spills = Vec::new();
    for (step, compiled) in schedule.steps.iter().zip(compiled) {
        if let Some(resources) = &compiled.resources {
            let bytes = resources.spill_stores + resources.spill_loads;
            if bytes != 0 {
                spills.push((step.note.node.clone(), bytes));
            }
        }
    }
    let inputs = variant.bindings.iter().filter(|binding| binding.direction == Direction::Input);
    let inputs = inputs.map(|binding| (binding.name.clone(), binding.shape.to_vec()));
    VariantReport {
        target: variant.identity.target.clone(),
        steps: variant.steps.len(),
        inputs: inputs.collect(),
        images: 0,
        image_bytes: 0,
        weight_bytes: 0,
        arena_bytes: placement.bytes,
        arena_lower_bound: placement.lower_bound,
        expected: schedule.steps.iter().map(|step| step.note.expected).sum(),
        measured: None,
        candidates: variant.candidates.count(),
        spills,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets;
    use floe_models::{DType, Fact, Node, Op, op::Unary};

    #[test]
    fn more_inputs_than_a_plan_holds_are_an_error_of_the_model() {
        let compiled = |inputs: usize| {
            let mut graph = Graph { name: "wide".into(), ..Graph::default() };
            for number in 0..inputs {
                let input = graph.add_value(format!("x{number}"), Fact::new(DType::F32, &[1]));
                graph.inputs.push(input);
            }
            let output = graph.add_value("y", Fact::new(DType::F32, &[1]));
            let (name, inputs) = ("relu".to_owned(), vec![graph.inputs[0]]);
            let op = Op::Unary(Unary::Relu);
            graph.nodes.push(Node { name, op, inputs, outputs: vec![output], sources: Vec::new() });
            graph.outputs.push(output);
            let host = targets::find("host").unwrap().clone();
            let options = CompileOptions { targets: vec![host], ..CompileOptions::default() };
            compile_fused(&fuse(graph, &|_| ()).unwrap(), &options, &|_| ())
        };
        assert!(compiled(MAX_BINDINGS - 1).is_ok());
        let error = compiled(300).unwrap_err().to_string();
        assert!(error.starts_with("the network has 301 inputs and outputs; a plan holds 256 at most"), "{error}");
    }
}
