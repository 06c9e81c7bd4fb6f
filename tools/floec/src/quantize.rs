//! `floec quantize`.

use crate::{
    compile,
    output::{self, usage},
};
use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use floe_accuracy::samples;
use floe_compiler::preprocess::{self, Preprocess};
use floe_models::{Fact, ImportOptions};
use floe_quantize::{
    Error, Model, Options, Progress, Samples,
    evaluate::Budget,
    params::Activations,
    run::{self, Sample},
};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "Examples:
  floec quantize net.onnx --samples calibration/ -o net.qdq.onnx
  floec quantize net.onnx --samples photos/ -o net.qdq.onnx \\
      --preprocess 'image=rgb:640x480,cover=256,range=0..1,mean=0.485/0.456/0.406,std=0.229/0.224/0.225'
  floec quantize net.onnx --samples inputs.npz --budget 'cosine 0.999' --target jetson-orin-nano -o net.qdq.onnx

Samples are .npy and .npz files, ONNX test folders or pictures (which need --preprocess), or folders of them; a few hundred that
are like what the network will see. The result is a float ONNX model with QuantizeLinear and DequantizeLinear, which ONNX Runtime
runs too; with --symmetric also TensorRT.";

/// Quantise a float ONNX model to 8 bits with samples of its inputs.
#[derive(Args)]
#[command(after_help = EXAMPLES, after_long_help = format!("{EXAMPLES}\n\nPictures:\n{}", preprocess::HELP))]
pub struct Arguments {
    /// The ONNX model, in floats.
    model: PathBuf,
    /// Inputs to calibrate with: a file or a folder; repeatable, also as `INPUT=FILE.npy`.
    #[arg(long, value_name = "PATH", required = true)]
    samples: Vec<String>,
    /// Take this many samples at most.
    #[arg(long, value_name = "N")]
    most_samples: Option<usize>,
    /// Shape of an input that the model leaves open, for example `images=1x3x224x224`; `sr=` is a scalar.
    #[arg(long = "shape", value_name = "INPUT=1x3x224x224")]
    shapes: Vec<String>,
    /// Makes an input a constant while calibrating, for example `sr=16000`. Repeatable.
    #[arg(long = "constant", value_name = "INPUT=NUMBER")]
    constants: Vec<String>,
    /// What pictures become on their way to an input, as for `floec compile`. Repeatable.
    #[arg(long = "preprocess", value_name = "INPUT=FORMAT:WxH,…")]
    preprocess: Vec<String>,
    /// What the network may lose against f32 on the samples: `cosine 0.999`, `top-1 0.99` or `relative 0.02`. The layers that
    /// cost most stay floats until it holds.
    #[arg(long, value_name = "BUDGET")]
    budget: Option<String>,
    /// Leaves a node in floats; repeatable.
    #[arg(long, value_name = "NODE")]
    keep: Vec<String>,
    /// Integers around 0 throughout and float biases, as TensorRT asks.
    #[arg(long)]
    symmetric: bool,
    /// How hard to try: `least` is min-max ranges alone.
    #[arg(long, value_enum, default_value_t = Effort::Default)]
    effort: Effort,
    /// The model to write; `-` is standard output.
    #[arg(short, long, value_name = "MODEL.qdq.onnx")]
    output: PathBuf,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Effort {
    Least,
    Default,
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

fn import_options(arguments: &Arguments) -> anyhow::Result<ImportOptions> {
    let mut options = ImportOptions::default();
    for text in &arguments.shapes {
        let (input, extents) = compile::shape(text)?;
        if options.shapes.iter().any(|(given, _)| *given == input) {
            bail!("--shape names input '{input}' twice");
        }
        options.shapes.push((input, extents));
    }
    for text in &arguments.constants {
        let (input, value) = compile::name_and_value(text, "--constant")?;
        let number: f64 = value.parse().with_context(|| format!("--constant {text}: '{value}' is no number"))?;
        options.numbers.push((input.to_owned(), number));
    }
    Ok(options)
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
    usage(output::keep_inputs(&arguments.output, [arguments.model.as_path()]))?;
    let to_stdout = output::is_stdout(&arguments.output);
    if to_stdout && arguments.json {
        return usage(Err(anyhow!("-o - and --json both write to standard output")));
    }
    let import = usage(import_options(arguments))?;
    let parsed = arguments.preprocess.iter().map(|text| Preprocess::parse(text)).collect::<Result<Vec<_>, _>>();
    let preprocess = usage(parsed.map_err(anyhow::Error::from))?;
    let budget = arguments.budget.as_deref().map(Budget::parse).transpose();
    let budget = usage(budget.map_err(|reason| anyhow!("--budget: {reason}")))?;
    let model = located(Model::read(&arguments.model), &arguments.model)?;
    for name in &arguments.keep {
        let known = |node: &floe_models::onnx::proto::NodeProto| floe_quantize::nodes::name(node) == name;
        if !model.graph().node.iter().any(known) {
            return usage(Err(anyhow!("--keep names node '{name}', which the model does not have")));
        }
    }
    let graph = located(run::import(&model, &import), &arguments.model)?;
    let inputs: Vec<(String, Fact)> =
        graph.inputs.iter().map(|&id| (graph.value(id).name.clone(), graph.fact(id).clone())).collect();
    drop(graph);
    let mut samples = usage(samples::Samples::open(&arguments.samples, &inputs, &preprocess))?;
    if let Some(most) = arguments.most_samples {
        samples.truncate(most);
    }
    let options = Options {
        import,
        activations: if arguments.symmetric { Activations::Symmetric } else { Activations::Any },
        float_bias: arguments.symmetric,
        budget,
        keep: arguments.keep.clone(),
        plain: arguments.effort == Effort::Least,
    };
    let bar = ProgressBar::new_spinner();
    let style = |template| ProgressStyle::with_template(template).expect("a fixed template");
    let (phases, parts) = (style("{spinner} {msg}"), style("{spinner} {msg} {wide_bar} {pos}/{len} {eta}"));
    bar.set_style(phases.clone());
    bar.enable_steady_tick(std::time::Duration::from_millis(100));
    let progress = |progress: Progress<'_>| match progress {
        Progress::Phase(phase) => {
            bar.set_style(phases.clone());
            bar.set_message(phase.to_owned());
        }
        Progress::Parts { done, total } => {
            bar.set_style(parts.clone());
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        }
    };
    let result = floe_quantize::quantise(&model, &Files(samples), &options, &progress);
    bar.finish_and_clear();
    let result = located(result, &arguments.model)?;
    let bytes = located(result.model.encode(), &arguments.model)?;
    output::write_file(&arguments.output, &bytes)?;
    if to_stdout {
        return Ok(());
    }
    let mut text = format!("{}: {}\n", arguments.output.display(), output::bytes(bytes.len() as u64));
    text += &format!("  {} products in 8 bits, {} not\n", result.layers.len(), result.left.len());
    for (stage, distance) in &result.stages {
        text += &format!("  {stage}: relative error {:.5}, cosine {:.6}\n", distance.relative, distance.cosine);
    }
    output::print(&text)
}
