//! `floec selftest-bundle`: what `floe selftest` runs on a device, in one file.

use crate::{
    import::ImportArguments,
    output::{self, usage},
    prove,
};
use anyhow::{Context, Result, anyhow};
use clap::{Args, ValueEnum};
use floe::{
    host_functions::HostFunctions,
    selftest::{
        agreement::Bound,
        bundle::{self, Check, FORMAT, Manifest},
    },
};
use floe_accuracy::{
    compare::{Options, Subject, compare},
    samples::Samples,
    scores::Score,
};
use floe_compiler::{
    emit::VariantIdentity,
    fused::FusedGraph,
    nvrtc::Compiler,
    pipeline::{self, CompileOptions},
    targets,
};
use floe_conformance::{
    cases::{self, Case},
    selftest::{self, Entry},
    sources,
};
use floe_engine::plan::format::ImageKind;
use floe_kernels::codegen::Target;
use indicatif::ProgressBar;
use rayon::prelude::*;
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

/// Make a file with which `floe selftest` tests a device: kernels of every family, networks, inputs and references.
#[derive(Args)]
#[command(after_help = "Examples:
  floec selftest-bundle --target jetson-orin-nano -o orin-nano.selftest
  floec selftest-bundle --target jetson-orin-nano resnet50.onnx --shape image=1x3x224x224 -o orin-nano.selftest
  floec selftest-bundle --target jetson-orin-nano resnet50.floe detector.floe -o orin-nano.selftest
  floec selftest-bundle --target jetson-orin-nano --family conv --ptx -o conv.selftest
  floe selftest orin-nano.selftest                                                on the device

Of each algorithm of each kernel family, for each combination of element types, the smallest case is in it: the same that
`floe-verify kernels --smallest` runs. References are computed here, by the reference kernels and by the networks' host variants.
Without a network, a classifier of digits is in it. A plan that is given has a variant for the target and one for the host. A network
of several shapes is a case in each.")]
pub struct Arguments {
    /// Networks: ONNX models, or plans.
    #[arg(value_name = "MODEL|PLAN")]
    networks: Vec<PathBuf>,
    /// Target of the device; `floec targets` lists them.
    #[arg(long, value_name = "NAME")]
    target: String,
    /// Only kernels of this family; repeatable.
    #[arg(long = "family", value_name = "NAME")]
    families: Vec<String>,
    #[command(flatten)]
    import: ImportArguments,
    /// Precision of the models' plans on a GPU.
    #[arg(long, value_enum, default_value_t = Precision::F16)]
    precision: Precision,
    /// Seed of the networks' inputs: floats in [-1, 1), integers 0 or 1.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Store PTX, which the device's driver compiles, in place of machine code. `floe selftest --device emulated` needs it.
    #[arg(long)]
    ptx: bool,
    /// NVRTC library, or the folder that holds it; by default the most suitable one that is found.
    #[arg(long, value_name = "PATH")]
    nvrtc: Option<PathBuf>,
    /// The bundle.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// Precision of plans.
#[derive(Clone, Copy, ValueEnum)]
enum Precision {
    F16,
    F32,
}

/// Runs `floec selftest-bundle`.
pub fn run(arguments: &Arguments) -> Result<()> {
    output::keep_inputs(&arguments.output, arguments.networks.iter().map(PathBuf::as_path))?;
    let target = usage(targets::find(&arguments.target).map_err(Into::into))?;
    let mut cases = usage(cases::cases(target, &arguments.families))?;
    cases::keep_smallest(&mut cases);
    let bar = output::bar("{msg} {wide_bar} {pos}/{len}");
    // First what may be wrong: kernels take long, and are right.
    bar.set_message("networks");
    let entries = networks(arguments, target).and_then(|networks| {
        let mut entries = kernels(arguments, target, &cases, &bar)?;
        entries.extend(networks);
        Ok(entries)
    });
    bar.finish_and_clear();
    let (cases, parts): (Vec<_>, Vec<_>) = entries?.into_iter().unzip();
    let manifest = Manifest {
        format: FORMAT,
        target: target.name.clone(),
        made_by: pipeline::COMPILER.to_owned(),
        commit: sources::COMMIT.to_owned(),
        sources: sources::digests().map(|(group, digest)| (group.to_owned(), digest.to_owned())).collect(),
        whole: arguments.families.is_empty(),
        cases,
    };
    let bytes = bundle::bytes(&manifest, &parts)?;
    output::write_file(&arguments.output, &bytes)?;
    if output::is_stdout(&arguments.output) {
        return Ok(());
    }
    let networks = manifest.cases.iter().filter(|case| case.family == bundle::NETWORKS).count();
    output::print(&format!(
        "{}: {}, {} kernels and {networks} networks for {}\n",
        arguments.output.display(),
        output::bytes(bytes.len() as u64),
        manifest.cases.len() - networks,
        target.name,
    ))
}

/// The kernel cases, compiled.
fn kernels(arguments: &Arguments, target: &Target, cases: &[Case], bar: &ProgressBar) -> Result<Vec<Entry>> {
    let image = if arguments.ptx { ImageKind::Ptx } else { ImageKind::Cubin };
    let mut identity = VariantIdentity { image_kind: image, ..VariantIdentity::of(target) };
    let mut compiled = Vec::new();
    if !target.is_host() {
        let compiler = Compiler::find(target, arguments.nvrtc.as_deref())?;
        identity = VariantIdentity { driver: compiler.driver(target, image), nvrtc: compiler.version(), ..identity };
        let requests = cases.iter().flat_map(|case| case.requests(target.architecture, image));
        let requests: Vec<_> = requests.map(|(_, request)| request).collect();
        bar.set_message("compile kernels");
        bar.set_length(requests.len() as u64);
        compiled = compiler.compile_all(&requests, &|done, _| bar.set_position(done as u64))?;
    }
    let mut images = compiled.as_slice();
    let mut work = Vec::new();
    for case in cases {
        for candidate in case.candidates.iter().flatten() {
            let (own, rest) = images.split_at(candidate.launches.len());
            images = rest;
            work.push((case, candidate, own));
        }
    }
    bar.set_message("references");
    bar.set_length(work.len() as u64);
    bar.set_position(0);
    let entry = |(case, candidate, images): (&Case, _, _)| {
        let entry = selftest::kernel(case, candidate, images, identity.clone()).with_context(|| case.what());
        bar.inc(1);
        entry
    };
    work.into_par_iter().map(entry).collect()
}

/// The networks that are named, or else the classifier of digits.
fn networks(arguments: &Arguments, target: &Target) -> Result<Vec<Entry>> {
    let (import, further_shapes) = arguments.import.options_and_further_shapes()?;
    let options = CompileOptions {
        targets: vec![target.clone()],
        import,
        further_shapes,
        precision: match arguments.precision {
            Precision::F16 => pipeline::Precision::F16,
            Precision::F32 => pipeline::Precision::F32,
        },
        ptx: arguments.ptx,
        nvrtc: arguments.nvrtc.clone(),
        ..CompileOptions::default()
    };
    let mut entries: Vec<Entry> = Vec::new();
    let mut taken = HashSet::new();
    for path in &arguments.networks {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if !taken.insert(name.clone()) {
            return usage(Err(anyhow!("two networks are called {name}: rename one of the files")));
        }
        let mut outputs = Vec::new();
        let simulate = |fused: &FusedGraph| {
            if !target.is_host() && matches!(arguments.precision, Precision::F16) {
                outputs = in_f16(fused, arguments.seed)?;
            }
            Ok(())
        };
        let plan = prove::plan_bytes(path, &HostFunctions::default(), || Ok(options.clone()), simulate)?;
        let of_network = selftest::network(plan, &name, &target.name, arguments.seed)?;
        if let [(bundle::Case { check: Check::Network { bound, .. }, .. }, _), ..] = of_network.as_slice() {
            warn_of_f16(path, &outputs, bound);
        }
        entries.extend(of_network);
    }
    if arguments.networks.is_empty() {
        if !arguments.import.is_empty() {
            return usage(Err(anyhow!("--shape, --constant and --operators are for a model, and none is given")));
        }
        let plan = selftest::digits(options)?;
        entries.extend(selftest::network(plan, "digits", &target.name, arguments.seed)?);
    }
    Ok(entries)
}

/// How far f16 takes outputs, as the host simulates it. Of several shapes it is the first.
fn in_f16(fused: &FusedGraph, seed: u64) -> Result<Vec<Score>> {
    let facts = fused.inputs.iter().map(|id| &fused.values[id.0]).map(|value| (value.name.clone(), value.fact.clone()));
    let samples = Samples::random(&facts.collect::<Vec<_>>(), 1, seed);
    let (subject, simulation) = (Subject::Simulated { keep_f32: &[] }, Options { layers: false, ..Options::default() });
    let found = compare(fused, subject, &samples, None, simulation, &|_, _| false, &mut |_, _| Ok(()), &|_| ())?;
    Ok(found.outputs.outputs)
}

/// Warns of outputs that f16 itself takes beyond the bound of the network's cases: such a case fails on every device, and says
/// nothing of one.
fn warn_of_f16(path: &Path, outputs: &[Score], bound: &Bound) {
    for output in outputs {
        let (cosine, relative) = (output.error.cosine(), output.error.relative());
        if bound.cosine.is_some_and(|least| cosine < least) || bound.l2.is_some_and(|most| relative > most) {
            log::warn!(
                "{}: f16 itself takes output '{}' to a cosine of {cosine:.4} and a relative error of {relative:.1e}, beyond the bound of a \
                 self-test: it would fail on every device. Give --precision f32, or a plan of `floec compile --precision auto`",
                path.display(),
                output.name,
            );
        }
    }
}
