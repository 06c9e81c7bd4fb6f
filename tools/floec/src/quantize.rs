//! `floec quantize`.

use crate::{
    frames::PreprocessArguments,
    import::{self, ImportArguments},
    output::{self, usage},
};
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use floe::host_functions::HostLibrary;
use floe_accuracy::samples;
use floe_compiler::{preprocess, targets};
use floe_models::Fact;
use floe_quantize::{
    Effort, Error, Model, Options, Progress, Samples,
    evaluate::Budget,
    packed,
    params::Activations,
    report,
    run::{self, Import, Sample},
    table::Table,
};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  floec quantize net.onnx --samples calibration/ -o net.qdq.onnx
  floec quantize net.onnx --samples photos/ -o net.qdq.onnx \\
      --preprocess 'image=rgb:640x480,cover=256,range=0..1,mean=0.485/0.456/0.406,std=0.229/0.224/0.225'
  floec quantize net.onnx --samples inputs.npz --budget 'cosine 0.999' --target jetson-orin-nano -o net.qdq.onnx
  floec quantize net.onnx --calibration calibration.json -o net.qdq.onnx
  floec quantize net.onnx --samples calibration/ --format fp8 -o net.fp8.onnx

Samples are .npy and .npz files, ONNX test folders or pictures (which need --preprocess), or folders of them; a few hundred that
are like what the network will see. With --calibration in their place, ranges are those of a table, and nothing is measured: no
other method is tried. Layers without a range of what they read stay floats. The result is a float ONNX model with QuantizeLinear and DequantizeLinear, which ONNX Runtime
runs too; with --symmetric also TensorRT. Of floats of 8 bits (--format fp8) ONNX Runtime's CPU has to run with basic optimisations.";

/// Why several shapes are refused.
const ONE_SHAPE: &str = "ranges are measured in one shape: leave the commas out, and give the shape of the samples. The quantised model \
    keeps its open extents: `floec compile` takes it in several shapes";

/// Quantise a float ONNX model to 8 bits with samples of its inputs.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\nPictures:\n{}", preprocess::HELP))]
#[command(
    mut_arg("shapes", import::one_shape),
    mut_arg("constants", |argument| {
        argument.help("Makes an input a constant while calibrating, for example `sr=16000`. Repeatable")
    }),
    mut_arg("preprocess", |argument| {
        argument.help("What pictures become on their way to an input, as for `floec compile`. Repeatable")
    }),
)]
pub struct Arguments {
    /// The ONNX model, in floats.
    model: PathBuf,
    /// Inputs to calibrate with: a file or a folder; repeatable, also as `INPUT=FILE.npy`.
    #[arg(long, value_name = "PATH", required_unless_present = "calibration")]
    samples: Vec<String>,
    /// Ranges of values in place of samples: the `calibration.json` that ONNX Runtime writes, or a calibration table of TensorRT.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["samples", "most_samples", "preprocess", "budget", "effort", "weights"])]
    calibration: Option<PathBuf>,
    /// Take this many samples at most.
    #[arg(long, value_name = "N")]
    most_samples: Option<usize>,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    host_library: HostLibrary,
    #[command(flatten)]
    preprocess: PreprocessArguments,
    /// What the network may lose against f32 on the samples: `cosine 0.999`, `top-1 0.99` or `relative 0.02`. The layers that
    /// cost most stay floats until it holds.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
    /// Leaves a node in floats; repeatable.
    #[arg(long, value_name = "NODE")]
    keep: Vec<String>,
    /// What values and weights become: integers of 8 bits, or floats of 8 bits (E4M3), which are less exact, need no zero points and
    /// no narrow ranges, and lie in a model of opset 19.
    #[arg(long, value_enum, default_value_t = FormatArgument::Int8)]
    format: FormatArgument,
    /// Integers around 0 throughout and float biases, as TensorRT asks.
    #[arg(long)]
    symmetric: bool,
    /// Quantises the factors of products of two values too, such as those of attention, for programs that compute these in
    /// 8 bits. Floe does so with --format fp8, and computes them in floats where they are integers.
    #[arg(long)]
    all_products: bool,
    /// Machine that the plan will be for: layers that gain no time there stay floats, and the report tells what is saved.
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// How hard to try: `least` is min-max ranges alone, `high` adds adaptive rounding of the weights.
    #[arg(long, value_enum, default_value_t = EffortArgument::Default)]
    effort: EffortArgument,
    /// Quantises only the weights of matrix products, to MatMulNBits with error compensation; everything else stays float.
    #[arg(long, value_enum, value_name = "TYPE", conflicts_with_all = ["budget", "target", "symmetric", "effort"])]
    weights: Option<WeightsArgument>,
    /// With --weights: so many weights have a scale and a zero point together, a power of two from 16 on.
    #[arg(long, value_name = "N", requires = "weights", default_value_t = 32)]
    group: usize,
    /// The model to write; `-` is standard output.
    #[arg(short, long, value_name = "MODEL.qdq.onnx")]
    output: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EffortArgument {
    Least,
    Default,
    High,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FormatArgument {
    Int8,
    Fp8,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WeightsArgument {
    Int8,
    Int4,
}

/// Samples of the files that the command line names.
struct Files(samples::Samples);

impl Samples for Files {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn load(&self, number: usize) -> Result<Sample, Error> {
        self.0.load(number).map(|sample| sample.inputs).map_err(|error| Error::Samples(format!("{error:#}")))
    }
}

/// An error of the quantiser, with the exit code that it has.
fn located<T>(result: Result<T, Error>, model: &Path) -> anyhow::Result<T> {
    result.or_else(|error| {
        let is_usage = error.is_usage();
        let error = Err(error).with_context(|| format!("cannot quantise '{}'", model.display()));
        if is_usage { usage(error) } else { error }
    })
}

/// Runs `floec quantize`.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let read = std::iter::once(&arguments.model).chain(&arguments.calibration);
    output::keep_inputs(&arguments.output, read.map(PathBuf::as_path))?;
    let to_stdout = output::is_stdout(&arguments.output);
    if to_stdout && arguments.json {
        return usage(Err(anyhow!("-o - and --json both write to standard output")));
    }
    if arguments.format == FormatArgument::Fp8 {
        let others = [
            (arguments.weights.is_some(), "--weights: it packs integers of 4 or 8 bits"),
            (arguments.symmetric, "--symmetric: floats of 8 bits always lie around 0"),
            (arguments.effort == EffortArgument::High, "--effort high: adaptive rounding is one of integers"),
        ];
        if let Some((_, why)) = others.iter().find(|(given, _)| *given) {
            return usage(Err(anyhow!("--format fp8 cannot be used with {why}")));
        }
    }
    let import =
        Import { options: arguments.import.options(ONE_SHAPE)?, functions: usage(arguments.host_library.load())? };
    let preprocess = arguments.preprocess.parse()?;
    let budget = arguments.budget.as_deref().map(Budget::parse).transpose();
    let budget = usage(budget.map_err(|reason| anyhow!("--budget: {reason}")))?;
    let model = located(Model::read(&arguments.model), &arguments.model)?;
    for name in &arguments.keep {
        let known = |node: &floe_models::onnx::proto::NodeProto| floe_quantize::nodes::name(node) == name;
        if !model.graph().node.iter().any(known) {
            return usage(Err(anyhow!("--keep names node '{name}', which the model does not have")));
        }
    }
    let table = arguments.calibration.as_deref().map(Table::read).transpose();
    let table = located(table, &arguments.model)?;
    let graph = located(run::import(&model, &import), &arguments.model)?;
    let inputs: Vec<(String, Fact)> =
        graph.inputs.iter().map(|&id| (graph.value(id).name.clone(), graph.fact(id).clone())).collect();
    drop(graph);
    let mut samples = match table {
        Some(_) => samples::Samples::random(&inputs, 0, 0),
        None => usage(samples::Samples::open(&arguments.samples, &inputs, &preprocess))?,
    };
    if let Some(most) = arguments.most_samples {
        samples.truncate(most);
    }
    let target = usage(arguments.target.as_deref().map(targets::find).transpose().map_err(anyhow::Error::from))?;
    let bar = output::spinner();
    let progress = |progress: Progress<'_>| match progress {
        Progress::Phase(phase) => output::begin(&bar, phase),
        Progress::Parts { done, total } => output::count(&bar, done, total, " {eta}"),
    };
    let samples = Files(samples);
    let (bytes, report) = if let Some(weights) = arguments.weights {
        if arguments.group < 16 || !arguments.group.is_power_of_two() {
            return usage(Err(anyhow!("--group {}: give a power of two from 16 on", arguments.group)));
        }
        let form = (if weights == WeightsArgument::Int8 { 8 } else { 4 }, arguments.group);
        let result = packed::run(&model, &samples, &import, &arguments.keep, form, &progress);
        bar.finish_and_clear();
        let result = located(result, &arguments.model)?;
        (located(result.model.encode(), &arguments.model)?, report::packed(&result))
    } else {
        let place = !to_stdout && (arguments.output.is_file() || !arguments.output.exists());
        let options = Options {
            import,
            activations: match (arguments.format, arguments.symmetric) {
                (FormatArgument::Fp8, _) => Activations::Float8,
                (FormatArgument::Int8, true) => Activations::Symmetric,
                (FormatArgument::Int8, false) => Activations::Any,
            },
            float_bias: arguments.symmetric,
            budget,
            target: target.cloned(),
            all_products: arguments.all_products,
            keep: arguments.keep.clone(),
            effort: match arguments.effort {
                EffortArgument::Least => Effort::Least,
                EffortArgument::Default => Effort::Default,
                EffortArgument::High => Effort::High,
            },
            checkpoint: place.then(|| {
                let mut name = arguments.output.clone().into_os_string();
                name.push(".checkpoint");
                name.into()
            }),
        };
        let result = match &table {
            Some(table) => floe_quantize::quantise_by_table(&model, table, &options, &progress),
            None => floe_quantize::quantise(&model, &samples, &options, &progress),
        };
        bar.finish_and_clear();
        let result = located(result, &arguments.model)?;
        (located(result.model.encode(), &arguments.model)?, report::eight_bits(&result, &options))
    };
    output::write_file(&arguments.output, &bytes)?;
    if to_stdout {
        return Ok(());
    }
    if arguments.json {
        let mut report = report.clone();
        report["model"] = serde_json::json!(arguments.output);
        report["bytes"] = serde_json::json!(bytes.len());
        output::print(&format!("{report:#}\n"))?;
    } else {
        let head = format!("{}: {}\n", arguments.output.display(), output::bytes(bytes.len() as u64));
        output::print(&(head + &report::text(&report)))?;
    }
    match report["within_budget"].as_bool() {
        Some(false) => bail!(
            "the budget does not hold although no layer is left to keep in floats; the model is written all the same"
        ),
        _ => Ok(()),
    }
}
