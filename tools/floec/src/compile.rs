//! `floec compile` and `floec targets`.

use crate::{
    compare,
    frames::{PostprocessArguments, PreprocessArguments},
    import::{ImportArguments, name_and_value},
    keys,
    output::{self, usage},
};
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use floe::{host_functions::HostLibrary, session::DeviceKind};
use floe_accuracy::{
    budget::{self, Budget, Decision, Metric, Search},
    compare::Subject,
};
use floe_compiler::{
    fused::FusedGraph,
    pipeline::{self, CompileOptions, Precision, Progress},
    postprocess, preprocess, targets,
};
use floe_engine::plan::Plan;
use floe_kernels::codegen::Target;
use floe_timings::Timings;
use indicatif::ProgressBar;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

const EXAMPLES: &str = "Examples:
  floec compile resnet50.onnx --target jetson-orin-nano -o resnet50.floe
  floec compile detector.onnx --target host --target h200 --shape images=1x3x640x640 -o detector.floe
  floec compile detector.onnx --target jetson-orin-nano --shape images=1x3x320x320,1x3x640x640 -o detector.floe
  floec compile encoder.onnx --target host --shape ids=1x64,1x128,1x256 --shape mask=1x64,1x128,1x256 -o encoder.floe
  floec compile net.onnx --target a100 --precision f32 --algorithm conv1=simt_gemm -o net.floe

Outputs whose extent depends on data (after NonMaxSuppression, NonZero, Compress, Unique) have room for the most elements
there can be. For such an output NAME the plan has another one, NAME.count (i64, scalar): how many elements along the
dimension that depends on data are there. What lies past them has no meaning; indices that an operator finds are -1 there.

A camera's frame in place of a tensor (--help tells the options):
  floec compile resnet18.onnx --target jetson-orin-nano -o resnet18.floe \\
      --preprocess 'image=rgb:640x480,cover=256,antialias,range=0..1,mean=0.485/0.456/0.406,std=0.229/0.224/0.225'
  floec compile detector.onnx --target jetson-orin-nano -o detector.floe \\
      --preprocess 'images=nv12:1920x1080,letterbox,pad=114,range=0..1' \\
      --postprocess 'output0=yolov8,threshold=0.4'
  floec compile blazeface-front.onnx --target host -o face.floe \\
      --preprocess 'input:0=rgb:640x480,letterbox,range=-1..1' \\
      --postprocess 'Identity_2:0+Identity_3:0=blazeface,scores=Identity:0+Identity_1:0,most=16'

Selection by measurement, here for an H200 (the workstation needs no GPU):
  floec compile net.onnx --target h200 --candidates -o candidates.floe       on the workstation
  floe measure candidates.floe -o h200.timings                               on the device
  floec compile net.onnx --target h200 --timings h200.timings -o net.floe    on the workstation";

/// Compile an ONNX model into a plan.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\nFrames of a camera:\n{}\n\nReady results:\n{}", preprocess::HELP, postprocess::HELP))]
#[command(
    mut_arg("postprocess", |argument| {
        argument.help("Makes results of outputs, for example `logits=softmax,topk:5`, `masks=argmax` or boxes (see --help). Repeatable")
    }),
    mut_arg("host_library", |argument| argument.requires("budget")),
)]
pub struct Arguments {
    /// The ONNX model.
    model: PathBuf,
    /// Machine to compile for; repeat it for several variants in one plan. `floec targets` lists them.
    #[arg(long = "target", value_name = "NAME", required = true)]
    targets: Vec<String>,
    #[command(flatten)]
    import: ImportArguments,
    /// Arithmetic on a GPU; the host always computes in f32. `auto` is f16 but for the layers that --budget needs in f32.
    #[arg(long, value_enum, default_value_t = PrecisionArgument::F16)]
    precision: PrecisionArgument,
    /// With --precision auto: what must hold against the host's f32, 'cosine 0.9999', 'relative 0.01', 'top-1 0.99' or
    /// 'boxes 0.98'. The fewest and cheapest layers stay f32 that hold it on the samples of --inputs; they are printed as
    /// --keep-f32 options, and the plan's reasons name them.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
    /// Samples for --budget: .npz and .npy files, folders of them, ONNX test folders, or pictures with --preprocess;
    /// repeatable. Without it, four random ones.
    #[arg(long = "inputs", value_name = "PATH", num_args = 1.., requires = "budget")]
    inputs: Vec<String>,
    /// Computes and stores the result of a model node in f32 although the plan is f16; repeatable. For networks that lose
    /// accuracy in f16: the first and the last layers are the usual ones.
    #[arg(long = "keep-f32", value_name = "NODE")]
    keep_f32: Vec<String>,
    /// With --budget: samples on which the target's plan is run on a GPU in software, to confirm what the host decided; 0 for
    /// none.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "budget")]
    confirm: usize,
    /// Makes an input the state of the plan whose next value is an output: it stays on the device from replay to replay and
    /// is zero at first. Repeatable. The output is no output of the plan any more; reading the state gives it.
    #[arg(long = "state", value_name = "OUT=IN")]
    states: Vec<String>,
    /// Changes what the import may take, for example `weight-bytes=17179869184`: value-bytes, weight-bytes, constant-bytes,
    /// fold-bytes, fold-operations or nodes. Repeatable. The defaults are beyond what networks for devices need, and keep
    /// small hostile files from exhausting memory or time.
    #[arg(long = "limit", value_name = "NAME=NUMBER")]
    limits: Vec<String>,
    #[command(flatten)]
    host_library: HostLibrary,
    #[command(flatten)]
    preprocess: PreprocessArguments,
    #[command(flatten)]
    postprocess: PostprocessArguments,
    /// Forces the algorithm of a node, for example `conv1=direct`; `floec inspect` shows names and choices.
    #[arg(long = "algorithm", value_name = "NODE=NAME")]
    algorithms: Vec<String>,
    /// Timing table that `floe measure` wrote; repeatable, later ones overrule earlier ones. Where a table has candidates of
    /// a node for the target's GPU and number of multiprocessors, their times choose; elsewhere the cost model does.
    #[arg(long, value_name = "FILE")]
    timings: Vec<PathBuf>,
    /// Write a candidates plan: besides what a replay needs it holds the most promising candidates of every kernel, about N
    /// each, for `floe measure`.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16")]
    candidates: Option<usize>,
    /// NVRTC library, or the folder that holds it, in place of the one that is found.
    #[arg(long, value_name = "PATH")]
    nvrtc: Option<PathBuf>,
    /// Store PTX, which the driver compiles when the plan is loaded, in place of machine code: runs on later
    /// architectures too, starts slower.
    #[arg(long)]
    ptx: bool,
    /// Give the plan a version, which its signature covers: a device may refuse versions below one that it names (`floe run
    /// --least-version`), so that nobody takes it back to a plan with a known fault.
    #[arg(long, value_name = "N", default_value_t = 0)]
    plan_version: u32,
    /// Sign the plan with this private key: PEM, as `floec keygen` and OpenSSL write it. Every kernel is compiled afresh, so
    /// that nothing is signed that came from a file.
    #[arg(long, value_name = "KEY")]
    sign: Option<PathBuf>,
    /// With --sign: take kernels from the cache all the same. Whoever can write to the cache then decides what is signed.
    #[arg(long, requires = "sign")]
    trust_cache: bool,
    /// The plan to write; `-` is standard output.
    #[arg(short, long, value_name = "PLAN.floe")]
    output: PathBuf,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The model.
    pub fn model(&self) -> &Path {
        &self.model
    }

    /// Whether a target is named.
    pub fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The plan to write: in place of standard output, `plan` from now on.
    pub fn output_or(&mut self, plan: &Path) -> PathBuf {
        if output::is_stdout(&self.output) {
            self.output = plan.to_owned();
        }
        self.output.clone()
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum PrecisionArgument {
    F32,
    F16,
    Auto,
}

/// List the machines that plans can be compiled for.
#[derive(Args)]
pub struct TargetArguments {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn options(arguments: &Arguments) -> anyhow::Result<CompileOptions> {
    let found: Result<Vec<_>, _> = arguments.targets.iter().map(|name| targets::find(name).cloned()).collect();
    let found = found?;
    for (number, target) in found.iter().enumerate() {
        if found[..number].contains(target) {
            bail!("--target {} is given twice", target.name);
        }
    }
    let (mut import, further_shapes) = arguments.import.options_and_further_shapes()?;
    if !further_shapes.is_empty() && arguments.candidates.is_some() {
        bail!(
            "--candidates goes with one --shape: measure one shape after another, and give all timing tables to --timings"
        );
    }
    let pair = |text: &String, option| name_and_value(text, option).map(|(a, b)| (a.to_owned(), b.to_owned()));
    let states = arguments.states.iter().map(|text| pair(text, "--state")).collect::<Result<Vec<_>, _>>()?;
    for text in &arguments.limits {
        let (name, value) = name_and_value(text, "--limit")?;
        let value: u64 = value.parse().with_context(|| format!("--limit {text}: '{value}' is no whole number"))?;
        import.limits.set(name, value).map_err(|reason| anyhow::anyhow!("--limit {text}: {reason}"))?;
    }
    let mut algorithms = HashMap::new();
    for text in &arguments.algorithms {
        let (node, algorithm) = name_and_value(text, "--algorithm")?;
        if algorithms.insert(node.to_owned(), algorithm.to_owned()).is_some() {
            bail!("--algorithm names node '{node}' twice");
        }
    }
    if found.iter().all(Target::is_host) {
        const ONE_KERNEL: &str = "the host has one implementation of each kernel";
        for (option, given, reason) in [
            ("--algorithm", !algorithms.is_empty(), ONE_KERNEL),
            ("--candidates", arguments.candidates.is_some(), ONE_KERNEL),
            ("--keep-f32", !arguments.keep_f32.is_empty(), "the host computes in f32 throughout"),
            ("--precision auto", arguments.budget.is_some(), "the host computes in f32 throughout"),
        ] {
            if given {
                bail!("{option} needs a GPU among the targets: {reason}");
            }
        }
    }
    Ok(CompileOptions {
        targets: found,
        import,
        further_shapes,
        states,
        preprocess: arguments.preprocess.parse()?,
        postprocess: arguments.postprocess.parse()?,
        precision: match arguments.precision {
            PrecisionArgument::F32 => Precision::F32,
            PrecisionArgument::F16 | PrecisionArgument::Auto => Precision::F16,
        },
        algorithms,
        timings: timings(&arguments.timings)?,
        candidates: arguments.candidates,
        keep_f32: arguments.keep_f32.clone(),
        nvrtc: arguments.nvrtc.clone(),
        ptx: arguments.ptx,
        version: arguments.plan_version,
        without_cache: arguments.sign.is_some() && !arguments.trust_cache,
        ..CompileOptions::default()
    })
}

/// The budget of `--precision auto`; `None` for another precision.
fn budget(arguments: &Arguments) -> anyhow::Result<Option<Budget>> {
    match (arguments.precision, &arguments.budget) {
        (PrecisionArgument::Auto, Some(text)) => {
            Ok(Some(text.parse().map_err(|error: String| anyhow!("--budget {error}"))?))
        }
        (PrecisionArgument::Auto, None) => bail!("--precision auto needs a --budget, for example 'cosine 0.9999'"),
        (_, Some(_)) => bail!("--budget goes with --precision auto"),
        (_, None) => Ok(None),
    }
}

/// Finds the layers that a budget needs in f32 and notes them in the options.
fn decide(
    arguments: &Arguments,
    budget: Budget,
    options: &mut CompileOptions,
    bar: &ProgressBar,
) -> anyhow::Result<Decision> {
    let name = arguments.model.display().to_string();
    // Without the frame of --preprocess: samples are the network's own inputs.
    let own = CompileOptions { preprocess: Vec::new(), postprocess: Vec::new(), ..options.clone() };
    let own = if budget.metric == Metric::Boxes {
        CompileOptions { postprocess: options.postprocess.clone(), ..own }
    } else {
        own
    };
    let phase = |progress: Progress<'_>| {
        if let Progress::Phase(phase) = progress {
            bar.set_message(phase.to_owned());
        }
    };
    let fused = compare::compiled(pipeline::import_and_fuse(&arguments.model, &own, &phase), &name)?;
    let facts: Vec<_> =
        fused.inputs.iter().map(|id| (fused.values[id.0].name.clone(), fused.values[id.0].fact.clone())).collect();
    let mut samples = usage(compare::samples(&arguments.inputs, &facts, &arguments.preprocess, 1, None))?;
    let costs = options.targets.iter().find(|target| !target.is_host()).map(|target| costs(&fused, target, &own));
    let progress = |what: &str, done: usize, all: usize| bar.set_message(format!("{what}: {done} of {all}"));
    let functions = usage(arguments.host_library.load())?;
    let search = Search {
        fused: &fused,
        budget,
        samples: &samples,
        keep_f32: &options.keep_f32,
        functions: &functions,
        costs: &costs.unwrap_or_default(),
        progress: &progress,
    };
    let mut decision = compare::measured(budget::search(&search)).with_context(|| format!("'{name}'"))?;
    options.budget_f32 = decision.kept.iter().map(|layer| (layer.node.clone(), layer.effect)).collect();
    let Some(target) = options.targets.iter().find(|target| !target.is_host()).filter(|_| arguments.confirm > 0) else {
        return Ok(decision);
    };
    let own = CompileOptions { budget_f32: options.budget_f32.clone(), ptx: true, ..own };
    let plan = compare::compiled(pipeline::compile_exposed(&fused, target, &own, None, &phase), &name)?;
    bar.set_message("confirm in software".to_owned());
    samples.truncate(arguments.confirm);
    let subject = Subject::Plan { plan: &plan, target: &target.name, device: DeviceKind::Emulated };
    let outputs = floe_accuracy::compare::Options { functions, layers: false, ..Default::default() };
    let confirmed = floe_accuracy::compare::compare(
        &fused,
        subject,
        &samples,
        None,
        outputs,
        &|_, _| false,
        &mut |_, _| Ok(()),
        &|_| (),
    )
    .context("the plan cannot be run in software; --confirm 0 leaves that out")?;
    decision.confirmed = budget.score(&confirmed.outputs).map(|score| (score, samples.len()));
    if !budget.holds(&confirmed.outputs) {
        let score = decision.confirmed.map_or(f64::NAN, |(score, _)| score);
        bail!(
            "'{name}': the host's f16 holds --budget '{budget}', but the plan for {} does not: {score} on {} samples. Ask for \
             a little more than is needed",
            target.name,
            samples.len()
        );
    }
    Ok(decision)
}

/// Microseconds that f32 in place of f16 costs each node on a target, by measured times and the cost model.
fn costs(fused: &FusedGraph, target: &Target, options: &CompileOptions) -> HashMap<String, f64> {
    let expected = |precision: Precision| {
        let options = CompileOptions { precision, ..options.clone() };
        let mut times: HashMap<String, f64> = HashMap::new();
        if let Ok(schedule) = pipeline::schedule(fused, target, &options) {
            for step in &schedule.steps {
                *times.entry(step.note.node.clone()).or_default() += step.note.expected;
            }
        }
        times
    };
    let (single, mut half) = (expected(Precision::F32), expected(Precision::F16));
    single
        .into_iter()
        .map(|(node, time)| (time - half.remove(&node).unwrap_or(0.0), node))
        .map(|(cost, node)| (node, cost.max(0.0)))
        .collect()
}

/// Reads timing tables; `None` where none is given.
fn timings(files: &[PathBuf]) -> anyhow::Result<Option<Timings>> {
    let mut all = None;
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read '{name}'"))?;
        let read: Timings = text.parse().with_context(|| format!("'{name}' is not a timing table"))?;
        all.get_or_insert_with(Timings::default).merge(read);
    }
    Ok(all)
}

/// Runs `floec compile`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let inputs = [&arguments.model].into_iter().chain(&arguments.timings).chain(&arguments.sign);
    output::keep_inputs(&arguments.output, inputs.map(PathBuf::as_path))?;
    let to_stdout = output::is_stdout(&arguments.output);
    if to_stdout && arguments.json {
        return usage(Err(anyhow!("-o - and --json both write to standard output")));
    }
    let mut options = usage(options(arguments))?;
    let budget = usage(budget(arguments))?;
    let key = usage(arguments.sign.as_deref().map(keys::private).transpose())?;
    let bar = output::spinner();
    let progress = |progress: Progress<'_>| match progress {
        Progress::Phase(phase) => output::begin(&bar, phase),
        Progress::Kernels { done, total } => output::count(&bar, done, total, ""),
    };
    let decided = budget.map(|budget| decide(arguments, budget, &mut options, &bar)).transpose();
    let decision = match decided {
        Ok(decision) => decision,
        Err(error) => {
            bar.finish_and_clear();
            return Err(error);
        }
    };
    let compiled = pipeline::compile(&arguments.model, &options, &progress);
    bar.finish_and_clear();
    let mut compiled = compare::compiled(compiled, &arguments.model.display().to_string())?;
    if let Some(key) = &key {
        compiled.bytes = keys::sign(&Plan::parse(&compiled.bytes)?, key)?;
    }
    output::write_file(&arguments.output, &compiled.bytes)?;
    if to_stdout {
        return Ok(());
    }

    if arguments.json {
        let variants: Vec<_> = compiled
            .variants
            .iter()
            .map(|variant| {
                serde_json::json!({
                    "target": variant.target,
                    "inputs": variant.inputs.iter().map(|(name, extents)| serde_json::json!({"name": name, "shape": extents})).collect::<Vec<_>>(),
                    "steps": variant.steps, "images": variant.images,
                    "image_bytes": variant.image_bytes, "weight_bytes": variant.weight_bytes,
                    "arena_bytes": variant.arena_bytes, "arena_lower_bound": variant.arena_lower_bound,
                    "expected_us": variant.expected,
                    "timings": variant.measured.map(|(measured, kernels)| serde_json::json!({"measured": measured, "kernels": kernels})),
                    "candidates": variant.candidates.0,
                    "problems": variant.candidates.1,
                    "spills": variant.spills.iter().map(|(node, bytes)| serde_json::json!({"node": node, "bytes": bytes})).collect::<Vec<_>>(),
                })
            })
            .collect();
        let mut report =
            serde_json::json!({"plan": arguments.output, "bytes": compiled.bytes.len(), "variants": variants});
        if let Some(decision) = &decision {
            report["budget"] = decision.json();
        }
        return output::print(&format!("{report:#}\n"));
    }
    let mut text = decision.as_ref().map(Decision::text).unwrap_or_default();
    text += &format!("{}: {}\n", arguments.output.display(), output::bytes(compiled.bytes.len() as u64));
    let shapes = options.further_shapes.len() + 1;
    for variant in &compiled.variants {
        text += &format!(
            "  {}{}: {} steps, weights {}, {} kernel images {}, arena {} (lower bound {})",
            variant.target,
            if shapes > 1 { format!(" with {}", described(&variant.inputs)) } else { String::new() },
            variant.steps,
            output::bytes(variant.weight_bytes),
            variant.images,
            output::bytes(variant.image_bytes),
            output::bytes(variant.arena_bytes),
            output::bytes(variant.arena_lower_bound),
        );
        if variant.expected > 0.0 {
            text += &format!(", expected {:.0} µs", variant.expected);
        }
        text.push('\n');
        if let Some((measured, kernels)) = variant.measured {
            text += &format!("    timings: {measured} of {kernels} kernels measured\n");
        }
        if let (candidates @ 1.., problems) = variant.candidates {
            text +=
                &format!("    candidates: {candidates} for {problems} different kernels; `floe measure` times them\n");
        }
        for (node, bytes) in &variant.spills {
            text += &format!("    warning: the kernel of node '{node}' spills {bytes} bytes of registers\n");
        }
    }
    output::print(&text)
}

/// Inputs with their extents, as --shape takes them.
fn described(inputs: &[(String, Vec<u32>)]) -> String {
    let extents = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
    inputs.iter().map(|(name, shape)| format!("{name}={}", extents(shape))).collect::<Vec<_>>().join(", ")
}

/// Runs `floec targets`.
pub fn targets(arguments: &TargetArguments) -> anyhow::Result<()> {
    let all = targets::all();
    if arguments.json {
        return output::print(&format!("{:#}\n", serde_json::to_value(all)?));
    }
    let mut text = String::new();
    for target in all {
        let architecture = if target.is_host() { "-".to_owned() } else { format!("sm_{}", target.architecture) };
        text += &format!("{:18} {architecture:6}  {}\n", target.name, target.description);
    }
    output::print(&text)
}
