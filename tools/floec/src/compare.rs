//! `floec compare`: a target's plan against the host's f32, layer by layer.

use crate::{
    error_page,
    frames::{PostprocessArguments, PreprocessArguments},
    import::ImportArguments,
    output::{self, usage, written},
    shapes::{self, Shape},
};
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use floe::{host_functions::HostLibrary, npy::Array, npz, session::DeviceKind};
use floe_accuracy::{
    budget::Budget,
    compare::{self, Comparison, Options, Subject},
    network::MissingFunction,
    samples::{self, Samples},
};
use floe_compiler::{
    forms::Forms,
    pipeline::{self, CompileOptions, Precision, Progress},
    targets,
};
use floe_models::{Fact, Tensor};
use indicatif::ProgressBar;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Compare a target's plan with the host's f32: outputs, then layer by layer.
#[derive(Args)]
#[command(after_help = "Examples:
  floec compare resnet50.onnx --target jetson-orin-nano --inputs samples --html error.html
  floec compare detector.onnx --target h200 --inputs frames.npz --reference results.npz --json
  floec compare net.onnx --target h200 --device simulated --inputs samples --dump-dir out
  floec compare detector.onnx --target h200 --shape images=1x3x320x320,1x3x640x640

Samples are .npz files with an array for each input, .npy files (NAME=FILE.npy where there are several inputs), folders of
these with a sample a file, ONNX test folders, Polygraphy's .json, or pictures (.png, .jpg) with --preprocess. An array with more rows than the
input holds several samples. Without --inputs, they are random.

The plan runs on a GPU where it suits one, else on a GPU in software. A kernel that computes several layers stores the last
one's result only: the table has what the plan stores, under the names of the model. `simulated` is the host with the
rounding of an f16 variant: fast enough for thousands of samples.

With several shapes, each is compared in the kernels that a plan of all of them has for it. Samples fit all of them if they are random
or pictures; compare other ones shape by shape.

Exit codes: 0 compared; 1 where --budget is not held or an output is not finite that should be; 2 bad usage or input.")]
#[command(
    mut_arg("preprocess", |argument| argument.value_name("INPUT=rgb:WxH,…").help(
        "How pictures become an input, in the words of `floec compile`; the picture's own size takes the place of the frame's"
    )),
    mut_arg("postprocess", |argument| {
        argument.help("Makes results of outputs, as `floec compile` does: boxes are then matched by overlap")
    }),
)]
pub struct Arguments {
    /// The ONNX model.
    model: PathBuf,
    /// Machine to compile for; `host` compares the host with --reference only.
    #[arg(long, value_name = "NAME", required = true)]
    target: String,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    host_library: HostLibrary,
    /// Samples: files and folders; repeatable.
    #[arg(long = "inputs", visible_alias = "input", value_name = "PATH", num_args = 1..)]
    inputs: Vec<String>,
    /// Use the first N samples.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    samples: Option<u32>,
    /// Seed of random samples: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    preprocess: PreprocessArguments,
    #[command(flatten)]
    postprocess: PostprocessArguments,
    /// Results from elsewhere for the same samples, in the same forms: arrays by the names of outputs, or output_0.pb in ONNX
    /// test folders.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    reference: Vec<String>,
    /// Where to run; by default on a GPU that the plan suits, else on one in software.
    #[arg(long, value_enum)]
    device: Option<Device>,
    /// Arithmetic of the plan.
    #[arg(long, value_enum, default_value_t = PrecisionArgument::F16)]
    precision: PrecisionArgument,
    /// Keeps the result of a model node in f32; repeatable.
    #[arg(long = "keep-f32", value_name = "NODE")]
    keep_f32: Vec<String>,
    /// What must hold, else the exit code is 1: 'cosine 0.9999', 'relative 0.01', 'top-1 0.99' or 'boxes 0.98'.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
    /// A layer whose relative error is beyond this is named as the first.
    #[arg(long, value_name = "X", default_value_t = 1e-2)]
    threshold: f64,
    /// Compare outputs only.
    #[arg(long)]
    outputs_only: bool,
    /// Write the value of this name, or the values that this node makes, to --dump-dir beside the outputs; repeatable.
    #[arg(long = "dump", value_name = "NODE", requires = "dump_dir")]
    dump: Vec<String>,
    /// Write every value that is stored.
    #[arg(long, requires = "dump_dir")]
    dump_all: bool,
    /// Write what the plan computes to this folder: a file SAMPLE.npz for each sample, with its outputs by name. With several
    /// shapes, the first has the folder shape-1 in it, the second shape-2 and so on.
    #[arg(long, value_name = "DIR")]
    dump_dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Also write a page with a plot.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Device {
    /// The host in f32.
    Host,
    /// A GPU.
    Cuda,
    /// A GPU in software.
    Emulated,
    /// The host, with values rounded where an f16 plan stores f16.
    Simulated,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PrecisionArgument {
    F32,
    F16,
}

/// What the accuracy crates say; a function that is missing on the host is another option's to mend.
pub fn measured<T>(result: Result<T>) -> Result<T> {
    result.or_else(|error| if error.is::<MissingFunction>() { usage(Err(error)) } else { Err(error) })
}

fn options(arguments: &Arguments) -> Result<CompileOptions> {
    let target = targets::find(&arguments.target)?.clone();
    if target.is_host() && matches!(arguments.device, Some(Device::Cuda | Device::Emulated)) {
        bail!("--target host runs on no GPU: name a GPU's target, or leave --device out");
    }
    if target.is_host() && arguments.device.is_none() && arguments.reference.is_empty() && arguments.dump_dir.is_none()
    {
        bail!("--target host is compared with itself: give --reference, or --device simulated to see what f16 does");
    }
    if arguments.threshold.is_nan() || arguments.threshold <= 0.0 {
        bail!("--threshold is a number above 0");
    }
    if arguments.device == Some(Device::Simulated) && arguments.precision == PrecisionArgument::F32 {
        bail!("--device simulated shows what f16 rounds; --precision f32 rounds nothing");
    }
    let (import, further_shapes) = arguments.import.options_and_further_shapes()?;
    Ok(CompileOptions {
        targets: vec![target],
        import,
        further_shapes,
        postprocess: arguments.postprocess.parse()?,
        precision: if arguments.precision == PrecisionArgument::F32 { Precision::F32 } else { Precision::F16 },
        keep_f32: arguments.keep_f32.clone(),
        ptx: true,
        ..CompileOptions::default()
    })
}

/// The samples of a command line; a few random ones where it names none.
pub fn samples(
    paths: &[String],
    inputs: &[(String, Fact)],
    preprocess: &PreprocessArguments,
    seed: u64,
    most: Option<u32>,
) -> Result<Samples> {
    const RANDOM: u32 = 4;
    let words = preprocess.parse()?;
    if paths.is_empty() {
        return Ok(Samples::random(inputs, most.unwrap_or(RANDOM) as usize, seed));
    }
    let mut samples = Samples::open(paths, inputs, &words)?;
    if let Some(most) = most {
        samples.truncate(most as usize);
    }
    Ok(samples)
}

/// Runs `floec compare`.
pub fn run(arguments: &Arguments) -> Result<()> {
    let options = usage(options(arguments))?;
    let budget: Option<Budget> = usage(
        arguments.budget.as_deref().map(str::parse).transpose().map_err(|error: String| anyhow!("--budget {error}")),
    )?;
    if let Some(html) = &arguments.html {
        output::keep_inputs(html, [arguments.model.as_path()])?;
        if output::is_stdout(html) && arguments.json {
            return usage(Err(anyhow!("--html - and --json both write to standard output")));
        }
    }
    let bar = output::spinner();
    let compared = all_shapes(arguments, &options, &bar);
    bar.finish_and_clear();
    let compared = compared?;
    if let Some(html) = &arguments.html {
        output::write_file(html, error_page::render(&compared).as_bytes())?;
    }
    if !arguments.html.as_deref().is_some_and(output::is_stdout) {
        output::print(&if arguments.json {
            format!("{:#}\n", shapes::json(&compared, Comparison::json))
        } else {
            shapes::text(&compared, Comparison::text)
        })?;
    }
    for (shape, comparison) in &compared {
        let held = held(comparison, budget.as_ref());
        if compared.len() > 1 { held.with_context(|| shapes::describe(shape)) } else { held }?;
    }
    Ok(())
}

/// Returns an error if the budget is not held or, without one, an output is not finite that should be.
fn held(comparison: &Comparison, budget: Option<&Budget>) -> Result<()> {
    if let Some(budget) = budget {
        let scores = comparison.reference.as_ref().unwrap_or(&comparison.outputs);
        let Some(score) = budget.score(scores) else {
            return usage(Err(anyhow!("--budget '{budget}': no output has this metric")));
        };
        if !budget.holds(scores) {
            bail!("the budget '{budget}' is not held: it is {score}");
        }
    } else if !comparison.is_finite() {
        bail!("an output holds NaN or infinities where the host's f32 does not");
    }
    Ok(())
}

/// Each shape of the options, in the kernels that a plan of all of them has for it.
fn all_shapes(arguments: &Arguments, options: &CompileOptions, bar: &ProgressBar) -> Result<Vec<(Shape, Comparison)>> {
    let mut forms = Forms::default();
    let several = !options.further_shapes.is_empty();
    let mut compared = Vec::new();
    for (number, import) in options.imports().enumerate() {
        let shape = import.shapes.clone();
        let own = CompileOptions { import, ..options.clone() };
        let dump = arguments.dump_dir.as_deref();
        let one = if several {
            forms.begin();
            let words = shapes::describe(&shape);
            let dump = dump.map(|folder| folder.join(format!("shape-{}", number + 1)));
            let one = one_shape(arguments, &own, Some(&mut forms), dump.as_deref(), bar);
            one.context(words)?
        } else {
            one_shape(arguments, &own, None, dump, bar)?
        };
        compared.push((shape, one));
    }
    Ok(compared)
}

fn one_shape(
    arguments: &Arguments,
    options: &CompileOptions,
    forms: Option<&mut Forms>,
    dump_folder: Option<&Path>,
    bar: &ProgressBar,
) -> Result<Comparison> {
    let functions = usage(arguments.host_library.load())?;
    let phase = |progress: Progress<'_>| match progress {
        Progress::Phase(phase) => bar.set_message(phase.to_owned()),
        Progress::Kernels { done, total } => bar.set_message(format!("kernels: {done} of {total}")),
    };
    let name = arguments.model.display();
    let fused = compiled(pipeline::import_and_fuse(&arguments.model, options, &phase), &name.to_string())?;
    if let Some(unknown) = arguments.keep_f32.iter().find(|name| !fused.nodes.iter().any(|node| node.is_named(name))) {
        return usage(Err(anyhow!(
            "--keep-f32 names node '{unknown}', which the network does not have; without it, this command lists the nodes"
        )));
    }
    let facts: Vec<_> =
        fused.inputs.iter().map(|id| (fused.values[id.0].name.clone(), fused.values[id.0].fact.clone())).collect();
    let samples = usage(samples(&arguments.inputs, &facts, &arguments.preprocess, arguments.seed, arguments.samples))?;
    let reference = match arguments.reference.as_slice() {
        [] => None,
        paths => Some(usage(compare::reference(paths, &fused, samples.len()))?),
    };
    for name in &arguments.dump {
        let has = fused
            .nodes
            .iter()
            .any(|node| node.is_named(name) || node.outputs.iter().any(|id| fused.values[id.0].name == *name));
        if !has {
            return usage(Err(anyhow!(
                "--dump {name}: the network has no such node or value; without it, this command lists them"
            )));
        }
    }
    let wanted: HashSet<&str> = arguments.dump.iter().map(String::as_str).collect();
    let dumped = |value: &str, node: &str| arguments.dump_all || wanted.contains(value) || wanted.contains(node);
    let mut taken = HashSet::new();
    let mut dump = |sample: &str, tensors: &[(String, Tensor)]| match dump_folder {
        Some(folder) => {
            written(format_args!("cannot make folder '{}'", folder.display()), std::fs::create_dir_all(folder))?;
            let mut name = samples::file_name(sample);
            let mut number = 2;
            while !taken.insert(name.clone()) {
                name = format!("{}_{number}", samples::file_name(sample));
                number += 1;
            }
            output::write_file(&folder.join(format!("{name}.npz")), &packed(tensors)?)
        }
        None => Ok(()),
    };
    let count = samples.len();
    let progress = |done: usize| bar.set_message(format!("sample {done} of {count}"));
    let mut run = |subject: Subject<'_>| {
        let options = Options {
            functions: functions.clone(),
            threshold: arguments.threshold,
            layers: !arguments.outputs_only,
            ..Options::default()
        };
        let reference = reference.as_ref();
        measured(compare::compare(&fused, subject, &samples, reference, options, &dumped, &mut dump, &progress))
    };
    let target = &options.targets[0];
    let device = match arguments.device {
        Some(Device::Simulated) => return run(Subject::Simulated { keep_f32: &options.keep_f32 }),
        Some(Device::Host) => return run(Subject::Host),
        None if target.is_host() => return run(Subject::Host),
        Some(Device::Emulated) => DeviceKind::Emulated,
        Some(Device::Cuda) => DeviceKind::Cuda,
        None => DeviceKind::Auto,
    };
    let plan = compiled(pipeline::compile_exposed(&fused, target, options, forms, &phase), &name.to_string())?;
    bar.set_message("run".to_owned());
    let has_gpu = || floe_cuda_device(target.architecture);
    let device = match device {
        DeviceKind::Auto if has_gpu() => DeviceKind::Cuda,
        DeviceKind::Auto => DeviceKind::Emulated,
        device => device,
    };
    run(Subject::Plan { plan: &plan, target: &target.name, device })
}

/// Whether there is a GPU that runs PTX for an architecture.
fn floe_cuda_device(architecture: u32) -> bool {
    floe_cuda::Device::open(floe_cuda::Options::default())
        .is_ok_and(|device| device.info().architecture >= architecture)
}

/// Errors of the compiler, those that another command line would not have marked so.
pub fn compiled<T>(result: Result<T, pipeline::CompileError>, name: &str) -> Result<T> {
    result.or_else(|error| {
        let is_usage = error.is_usage();
        let error = Err(error).with_context(|| format!("cannot compile '{name}'"));
        if is_usage { usage(error) } else { error }
    })
}

/// Tensors as a .npz file; of several with one name the first.
fn packed(tensors: &[(String, Tensor)]) -> Result<Vec<u8>> {
    let mut taken = HashSet::new();
    let arrays = tensors.iter().filter(|(name, _)| taken.insert(name.as_str())).map(|(name, tensor)| {
        let shape = tensor.shape.iter().map(|&extent| extent as u64).collect();
        (name.as_str(), Array { dtype: tensor.dtype, shape, bytes: tensor.bytes() })
    });
    npz::bytes(arrays.collect::<Vec<_>>())
}
