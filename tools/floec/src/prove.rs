//! `floec prove`: runs a plan on a GPU in software, with every access watched.

use crate::{
    compare,
    import::ImportArguments,
    inspect,
    output::{self, usage},
    shapes::{self, Shape},
};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use floe::{
    emulated::Emulated,
    host_functions::{HostFunctions, HostLibrary},
    inputs::{self, Source},
    outputs::{self, Output},
    session::{DeviceKind, Place, Request, Session},
    shapes::InputShape,
    tensor::numbers,
};
use floe_compiler::{
    fused::{FusedGraph, FusedNode, FusedOp},
    pipeline::{self, CompileOptions},
    targets,
};
use floe_emulator::{
    driver::{KernelCoverage, Mode},
    watch::{counts::Tally, findings::Finding},
};
use floe_engine::{
    host::Block,
    plan::{
        Plan, Variant,
        format::{Action, Binding, Direction, Step},
    },
};
use floe_kernels::{Kernel, codegen::Target};
use floe_models::Op;
use serde_json::{Value, json};
use std::{
    fmt::Write,
    path::{Path, PathBuf},
    time::Instant,
};

/// Run a plan on a GPU in software with every access watched: no GPU is needed.
#[derive(Args)]
#[command(after_help = "Examples:
  floec prove resnet50.onnx --target jetson-orin-nano --shape image=1x3x224x224
  floec prove detector.floe --target jetson-orin-nano --inputs images=frame.npy --json
  floec prove detector.onnx --target jetson-orin-nano --shape images=1x3x320x320,1x3x640x640

Every load and store is held to the operand that its pointer belongs to. Findings are: accesses outside it, stores into what
a step only reads, misaligned accesses, reads of bytes that nobody wrote, races between threads, blocks and steps, copies
that nobody waited for, barriers that not all threads reach. A plan must hold PTX (--ptx); a model is compiled so. Of several shapes
each is run, or with --inputs the one of the files; of a plan's shapes, those that --shape gives.

Exit codes: 0 where nothing was found; 1 where something was; 2 bad usage or input, such as a plan that holds machine code.")]
pub struct Arguments {
    /// An ONNX model, or a plan with PTX.
    file: PathBuf,
    /// Target to compile for, or the plan's variant to run.
    #[arg(long, value_name = "NAME", required = true)]
    target: String,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    host_library: HostLibrary,
    /// Contents of an input; repeatable. Others are random.
    #[arg(long = "inputs", visible_alias = "input", value_name = "NAME=FILE.npy")]
    inputs: Vec<Source>,
    /// Seed of random inputs: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Run without watches: outputs, times and coverage only.
    #[arg(long)]
    unwatched: bool,
    /// Name every instruction that was never executed.
    #[arg(long)]
    coverage: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How far an output is from the host's.
struct Error {
    name: String,
    /// Largest absolute difference, and the Euclidean norm of all differences over that of the reference; `None` where one
    /// of the two is not finite and the other differs.
    measured: Option<(f64, f64)>,
}

/// What came of a plan.
struct Report {
    model: String,
    target: String,
    precision: String,
    steps: usize,
    seconds: f64,
    tally: Tally,
    findings: Vec<Finding>,
    coverage: Vec<KernelCoverage>,
    /// `None` without a host variant.
    errors: Option<Vec<Error>>,
}

/// Runs `floec prove`; whether nothing was found.
pub fn run(arguments: &Arguments) -> Result<()> {
    let functions = usage(arguments.host_library.load())?;
    let mut is_model = false;
    let compile = || {
        is_model = true;
        options(arguments)
    };
    let bytes = plan_bytes(&arguments.file, &functions, compile, |_| Ok(()))?;
    let asked = if is_model { Vec::new() } else { usage(arguments.import.shapes_of_plan())? };
    let mut file = vec![Block::ZERO; bytes.len().div_ceil(size_of::<Block>())];
    let aligned: &mut [u8] = bytemuck::cast_slice_mut(&mut file);
    aligned[..bytes.len()].copy_from_slice(&bytes);
    let plan = usage(inspect::parse(&aligned[..bytes.len()], &arguments.file))?;
    let whole = plan.verify_blobs();
    usage(whole.map_err(|error| anyhow!("'{}' is damaged: {error}", arguments.file.display())))?;
    let mut reports = Vec::new();
    for number in proven(&plan, arguments, &asked)? {
        reports.push(prove(&plan, number, arguments, functions.clone())?);
    }
    let text = if arguments.json {
        format!("{:#}\n", shapes::json(&reports, Report::json))
    } else {
        shapes::text(&reports, |report| report.text(arguments.coverage))
    };
    output::print(&text)?;
    match reports.iter().map(|(_, report)| report.findings.len()).sum() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

/// What a GPU in software is asked to run.
fn request(arguments: &Arguments) -> Request {
    Request { device: DeviceKind::Emulated, variant: Some(arguments.target.clone()), ..Request::default() }
}

/// The shapes to run, by their numbers among those of the target: those that are asked for, that of the files that are given, or all.
fn proven(plan: &Plan<'_>, arguments: &Arguments, asked: &[Vec<InputShape>]) -> Result<Vec<usize>> {
    let (_, variant) = Emulated::choose(plan, &request(arguments))?;
    let number = |shape: &[InputShape]| {
        let chosen = usage(floe::shapes::choose(&variant, shape, &arguments.inputs).map_err(Into::into))?;
        variant.shapes().position(|shape| shape.number() == chosen.number()).context("a shape is one of its target's")
    };
    match (asked, &arguments.inputs[..]) {
        ([], []) => Ok((0..variant.shapes().len()).collect()),
        ([], _) => Ok(vec![number(&[])?]),
        (asked, _) => asked.iter().map(|shape| number(shape)).collect(),
    }
}

/// The variant for the shape of this number among those of its target.
fn shape<'p>(variant: &Variant<'p>, number: usize) -> Result<Variant<'p>> {
    variant.shapes().nth(number).context("every target of a plan has all of its shapes")
}

/// The inputs' extents.
fn extents(variant: &Variant<'_>) -> Shape {
    let inputs = variant.bindings().filter(|binding| binding.direction == Direction::Input);
    let extents = |binding: Binding<'_>| binding.shape.iter().map(|&extent| extent as usize).collect();
    inputs.map(|binding| (binding.name.to_owned(), extents(binding))).collect()
}

/// How a model is compiled: with PTX and line numbers.
fn options(arguments: &Arguments) -> Result<CompileOptions> {
    let (import, further_shapes) = arguments.import.options_and_further_shapes()?;
    Ok(CompileOptions {
        targets: vec![usage(targets::find(&arguments.target).map_err(Into::into))?.clone()],
        import,
        further_shapes,
        ptx: true,
        lines: true,
        ..CompileOptions::default()
    })
}

/// A plan's file, or what a model compiles to: for the targets of the options, and for the host. `look` sees the model before.
pub(crate) fn plan_bytes(
    file: &Path,
    functions: &HostFunctions,
    options: impl FnOnce() -> Result<CompileOptions>,
    look: impl FnOnce(&FusedGraph) -> Result<()>,
) -> Result<Vec<u8>> {
    let name = file.display();
    let bytes = usage(std::fs::read(file).with_context(|| format!("cannot read '{name}'")))?;
    if bytes.starts_with(&floe_engine::plan::format::MAGIC) {
        return Ok(bytes);
    }
    drop(bytes);
    let mut options = options()?;
    let fused = compare::compiled(pipeline::import_and_fuse(file, &options, &|_| ()), &name.to_string())?;
    look(&fused)?;
    // What the host has no function for cannot be compared with it.
    let on_host = |node: &FusedNode| match &node.op {
        FusedOp::Operator(Op::Custom(operator)) => functions.has(&operator.description.full_name()),
        _ => true,
    };
    if fused.nodes.iter().all(on_host) && !options.targets.iter().any(Target::is_host) {
        options.targets.push(targets::find("host")?.clone());
    }
    let compiled = pipeline::compile_imported(fused, file, &options, &|_| ());
    Ok(compare::compiled(compiled, &name.to_string())?.bytes)
}

/// Proves one shape, by its number among those of the target.
fn prove(plan: &Plan<'_>, number: usize, arguments: &Arguments, functions: HostFunctions) -> Result<(Shape, Report)> {
    let (mut emulated, variant) = Emulated::choose(plan, &request(arguments))?;
    let variant = shape(&variant, number)?;
    let extents = extents(&variant);
    emulated.set_mode(if arguments.unwatched { Mode::Count } else { Mode::Watch });
    let header = variant.header().clone();
    let mut session = emulated.session(variant)?;
    let given = inputs::gather(&session, &arguments.inputs, Some(arguments.seed))?;
    let start = Instant::now();
    let replayed = given
        .iter()
        .try_for_each(|input| session.write(input.binding, &input.bytes))
        .and_then(|()| session.replay())
        .and_then(|()| outputs::read(&mut session));
    let seconds = start.elapsed().as_secs_f64();
    drop(session);
    let findings = emulated.emulator().findings();
    let found = match replayed {
        Ok(found) => Some(found),
        // A launch that could not go on is among the findings.
        Err(error) if findings.is_empty() => return Err(error.context(emulated.emulator().message())),
        Err(_) => None,
    };
    let errors = match (found, host(plan, number, arguments, functions)?) {
        (Some(found), Some(expected)) => {
            Some(expected.iter().zip(&found).map(|(expected, found)| error(expected, found)).collect())
        }
        _ => None,
    };
    let mut tally = Tally::default();
    emulated.emulator().counts().iter().for_each(|step| tally.add(&step.tally));
    let report = Report {
        model: plan.model().to_owned(),
        target: header.target.to_owned(),
        precision: header.precision.to_owned(),
        steps: header.steps as usize,
        seconds,
        tally,
        findings,
        coverage: emulated.emulator().coverage(),
        errors,
    };
    Ok((extents, report))
}

/// What the plan's host variant makes of the same inputs; `None` where it has none that these functions suffice for.
fn host<'p>(
    plan: &Plan<'p>,
    number: usize,
    arguments: &Arguments,
    functions: HostFunctions,
) -> Result<Option<Vec<Output<'p>>>> {
    let on_host = |step: &Step| match &step.action {
        Action::Host(Kernel::Custom(operator)) => functions.has(&operator.name),
        _ => true,
    };
    let runs = |variant: Variant<'_>| variant.is_host() && variant.steps().all(|step| on_host(&step));
    if !plan.variants().any(runs) {
        return Ok(None);
    }
    let (mut place, variant) =
        Place::choose(plan, &Request { device: DeviceKind::Host, functions, ..Request::default() })?;
    let mut session: Session<'_, '_> = place.session(shape(&variant, number)?)?;
    for input in inputs::gather(&session, &arguments.inputs, Some(arguments.seed))? {
        session.write(input.binding, &input.bytes)?;
    }
    session.replay()?;
    Ok(Some(outputs::read(&mut session)?))
}

fn error(expected: &Output<'_>, found: &Output<'_>) -> Error {
    let [expected_numbers, found_numbers] =
        [expected, found].map(|output| numbers(output.binding.dtype, &output.bytes));
    let (mut largest, mut difference, mut norm) = (0f64, 0f64, 0f64);
    for (a, b) in expected_numbers.iter().zip(&found_numbers).filter(|(a, b)| a != b && !(a.is_nan() && b.is_nan())) {
        largest = if (a - b).is_finite() { largest.max((a - b).abs()) } else { f64::INFINITY };
        difference += (a - b) * (a - b);
    }
    for a in expected_numbers.iter().filter(|a| a.is_finite()) {
        norm += a * a;
    }
    let relative = if difference == 0.0 { 0.0 } else { (difference / norm).sqrt() };
    let measured = (largest.is_finite() && relative.is_finite()).then_some((largest, relative));
    Error { name: expected.binding.name.to_owned(), measured }
}

impl Report {
    fn text(&self, all: bool) -> String {
        let Self { model, target, precision, steps, seconds, tally, .. } = self;
        let mut text = format!(
            "{model} for {target} ({precision}): {steps} steps, {} launches, {} instructions in {seconds:.1} s\n",
            tally.launches, tally.instructions
        );
        // Writing into a string cannot fail.
        for finding in &self.findings {
            let _ = writeln!(text, "FINDING  {finding}");
        }
        let _ = writeln!(text, "findings: {}", self.findings.len());
        let (mut instructions, mut executed, mut branches, mut both) = (0, 0, 0, 0);
        for KernelCoverage { uncovered, .. } in &self.coverage {
            instructions += uncovered.instructions;
            executed += uncovered.instructions - uncovered.never.len();
            branches += uncovered.branches;
            both += uncovered.both;
        }
        let kernels = self.coverage.len();
        let _ = writeln!(
            text,
            "coverage: {executed} of {instructions} instructions and {both} of {branches} branches (both ways), \
             {kernels} kernels"
        );
        for KernelCoverage { kernel, uncovered } in self.coverage.iter().filter(|_| all) {
            for place in &uncovered.never {
                let _ = writeln!(text, "  {kernel}: never executed {place}");
            }
            for (place, what) in &uncovered.one_way {
                let _ = writeln!(text, "  {kernel}: {what} {place}");
            }
        }
        match &self.errors {
            None => {
                text += "error against the host's f32: not measured, since there is no host variant, or --host-library lacks a function for it\n"
            }
            Some(errors) => {
                for Error { name, measured } in errors {
                    let _ = match measured {
                        Some((largest, relative)) => {
                            writeln!(text, "error of {name}: largest {largest:.3e}, relative L2 {relative:.3e}")
                        }
                        None => writeln!(text, "error of {name}: not finite"),
                    };
                }
            }
        }
        text
    }

    fn json(&self) -> Value {
        let findings = self.findings.iter().map(|finding| {
            let place = finding.place.as_ref().map(|place| {
                json!({
                    "instruction": place.instruction, "ptx_line": place.ptx_line,
                    "cuda_file": place.cuda_line.as_ref().map(|(file, _)| file),
                    "cuda_line": place.cuda_line.as_ref().map(|(_, line)| line),
                })
            });
            json!({
                "defect": finding.defect.name(), "kernel": finding.kernel, "step": finding.step, "nodes": finding.nodes,
                "place": place, "block": finding.block, "thread": finding.thread, "operand": finding.operand,
                "detail": finding.detail, "count": finding.count,
            })
        });
        let coverage = self.coverage.iter().map(|KernelCoverage { kernel, uncovered }| {
            let place = |place: &floe_emulator::watch::findings::Place| place.to_string();
            json!({
                "kernel": kernel, "instructions": uncovered.instructions, "branches": uncovered.branches,
                "branches_both_ways": uncovered.both,
                "never_executed": uncovered.never.iter().map(place).collect::<Vec<_>>(),
                "one_way": uncovered.one_way.iter().map(|(at, what)| json!([place(at), what])).collect::<Vec<_>>(),
            })
        });
        let error = |error: &Error| {
            json!({
                "output": error.name, "largest": error.measured.map(|(largest, _)| largest),
                "relative_l2": error.measured.map(|(_, relative)| relative),
            })
        };
        json!({
            "model": self.model, "target": self.target, "precision": self.precision, "steps": self.steps,
            "seconds": self.seconds,
            "counts": {
                "launches": self.tally.launches, "instructions": self.tally.instructions,
                "loaded_bytes": self.tally.loaded, "stored_bytes": self.tally.stored,
                "shared_bytes": self.tally.shared, "bank_conflicts": self.tally.bank_conflicts,
            },
            "findings": findings.collect::<Vec<_>>(),
            "coverage": coverage.collect::<Vec<_>>(),
            "errors": self.errors.as_ref().map(|errors| errors.iter().map(error).collect::<Vec<_>>()),
        })
    }
}
