//! `compile`: a model into a plan, as `floec compile` does it, with arguments in place of options.

use crate::{
    errors::{self, usage},
    plan::Plan,
    worker::interruptible,
};
use floe_compiler::{
    fused::FusedGraph,
    pipeline::{self, CompileError, CompileOptions, CompiledPlan, Precision},
    postprocess::Postprocess,
    preprocess::Preprocess,
    selection::ScheduleError,
    targets,
};
use floe_models::{ImportError, ImportOptions, Limits, custom::Operators};
use floe_timings::Timings;
use pyo3::prelude::*;
use std::{collections::HashMap, fs, io, path::PathBuf};

/// The arguments of `floe.compile`, which the package has made plain.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    targets: Vec<String>,
    /// As `--shape` has them.
    shapes: Vec<String>,
    constants: Vec<(String, f64)>,
    operators: Vec<PathBuf>,
    limits: Vec<(String, u64)>,
    states: Vec<(String, String)>,
    preprocess: Vec<String>,
    postprocess: Vec<String>,
    precision: String,
    keep_f32: Vec<String>,
    algorithms: HashMap<String, String>,
    timings: Vec<PathBuf>,
    candidates: Option<usize>,
    nvrtc: Option<PathBuf>,
    ptx: bool,
    version: u32,
}

/// A model in a file, or in memory.
#[derive(FromPyObject)]
pub enum Model {
    /// The bytes of an ONNX file.
    Bytes(Vec<u8>),
    /// An ONNX file.
    File(PathBuf),
}

impl Model {
    fn fused(&self, options: &CompileOptions) -> Result<FusedGraph, CompileError> {
        match self {
            Self::Bytes(bytes) => pipeline::import_bytes_and_fuse(bytes, options, &|_| ()),
            Self::File(path) => pipeline::import_and_fuse(path, options, &|_| ()),
        }
    }
}

impl Options {
    fn checked(self) -> PyResult<CompileOptions> {
        let find = |name: &String| targets::find(name).cloned().map_err(|error| usage(error.to_string()));
        let targets = self.targets.iter().map(find).collect::<PyResult<Vec<_>>>()?;
        if targets.is_empty() {
            return Err(usage("target: name at least one; floe.targets() lists them"));
        }
        for (number, target) in targets.iter().enumerate() {
            if targets[..number].contains(target) {
                return Err(usage(format!("target: '{}' is given twice", target.name)));
            }
        }
        let mut further_shapes = floec::shapes(&self.shapes).map_err(|error| usage(floec::message(&error)))?;
        let shapes = further_shapes.remove(0);
        if !further_shapes.is_empty() && self.candidates.is_some() {
            return Err(usage(
                "candidates: this goes with one shape; measure one after another, and give all tables to timings",
            ));
        }
        let operators = Operators::load(self.operators.iter().map(PathBuf::as_path));
        let operators = operators.map_err(|error| usage(format!("operators: {error}")))?;
        let precision = match self.precision.as_str() {
            "f16" => Precision::F16,
            "f32" => Precision::F32,
            other => return Err(usage(format!("precision: '{other}' is none; give 'f16' or 'f32'"))),
        };
        if targets.iter().all(|target| target.is_host()) {
            let given = [
                ("algorithms", !self.algorithms.is_empty()),
                ("candidates", self.candidates.is_some()),
                ("keep_f32", !self.keep_f32.is_empty()),
            ];
            if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
                return Err(usage(format!("{name}: this is for GPUs, and the only target is the host")));
            }
        }
        let mut limits = Limits::default();
        for (name, value) in self.limits {
            limits.set(&name, value).map_err(|reason| usage(format!("limits: {reason}")))?;
        }
        let parsed = self.preprocess.iter().map(|text| Preprocess::parse(text)).collect::<Result<_, _>>();
        let preprocess = parsed.map_err(|error| usage(format!("preprocess: {error}")))?;
        let parsed = self.postprocess.iter().map(|text| Postprocess::parse(text)).collect::<Result<_, _>>();
        let postprocess = parsed.map_err(|error| usage(format!("postprocess: {error}")))?;
        let mut timings: Option<Timings> = None;
        for file in &self.timings {
            let named =
                |error: io::Error| io::Error::new(error.kind(), format!("timings '{}': {error}", file.display()));
            let table: Timings = fs::read_to_string(file)
                .map_err(named)?
                .parse()
                .map_err(|error| usage(format!("timings: '{}' is no timing table: {error}", file.display())))?;
            timings.get_or_insert_with(Timings::default).merge(table);
        }
        Ok(CompileOptions {
            targets,
            import: ImportOptions { shapes, numbers: self.constants, operators, limits, ..ImportOptions::default() },
            further_shapes,
            states: self.states,
            preprocess,
            postprocess,
            precision,
            algorithms: self.algorithms,
            timings,
            candidates: self.candidates,
            keep_f32: self.keep_f32,
            nvrtc: self.nvrtc,
            ptx: self.ptx,
            version: self.version,
            ..CompileOptions::default()
        })
    }
}

/// Compiles a model; one with several shapes comes in a file. Returns the plan, and what became of each of its variants as JSON.
///
/// # Errors
/// Raises CompileError if the compiler refuses the model, and UsageError if an argument is wrong.
#[pyfunction]
pub fn compile(py: Python<'_>, model: Model, name: String, options: Options) -> PyResult<(Plan, String)> {
    let options = options.checked()?;
    let compiled = interruptible(py, move || -> Result<CompiledPlan, CompileError> {
        match &model {
            Model::File(path) => pipeline::compile(path, &options, &|_| ()),
            Model::Bytes(_) => pipeline::compile_fused(&model.fused(&options)?, &options, &|_| ()),
        }
    })?;
    let compiled = compiled.map_err(|error| errors::compile(py, &name, error))?;
    let variants: Vec<_> = compiled
        .variants
        .iter()
        .map(|variant| {
            serde_json::json!({
                "target": variant.target, "steps": variant.steps, "images": variant.images,
                "image_bytes": variant.image_bytes, "weight_bytes": variant.weight_bytes,
                "arena_bytes": variant.arena_bytes, "arena_lower_bound": variant.arena_lower_bound,
                "expected_us": variant.expected, "spills": variant.spills,
            })
        })
        .collect();
    Ok((Plan::of(py, &compiled.bytes, "the compiled plan".to_owned())?, serde_json::json!(variants).to_string()))
}

/// All nodes of a model that are not supported, as JSON: by the import, else by the targets.
///
/// # Errors
/// Raises CompileError if the model cannot be read for another reason, such as an open shape.
#[pyfunction]
pub fn unsupported(
    py: Python<'_>,
    model: Model,
    name: String,
    targets: Vec<String>,
    shapes: Vec<(String, Vec<usize>)>,
    constants: Vec<(String, f64)>,
) -> PyResult<String> {
    let find = |name: &String| targets::find(name).cloned().map_err(|error| usage(error.to_string()));
    let targets = targets.iter().map(find).collect::<PyResult<Vec<_>>>()?;
    let import = ImportOptions { shapes, numbers: constants, ..ImportOptions::default() };
    let options = CompileOptions { import, ..CompileOptions::default() };
    let found = interruptible(py, move || -> Result<Vec<serde_json::Value>, CompileError> {
        let fused = match model.fused(&options) {
            Err(CompileError::Import(error)) if error.is_unsupported() => {
                let found = refusals(&error);
                return if found.is_empty() { Err(error.into()) } else { Ok(found) };
            }
            other => other?,
        };
        let mut found = Vec::new();
        for target in &targets {
            match pipeline::schedule(&fused, target, &options) {
                Err(CompileError::Lower { source, .. }) => {
                    found.push(refusal(&source.node, &source.op, Some(&target.name), &source.reason));
                }
                Err(CompileError::Schedule(ScheduleError::Unsupported { node, family, reason, .. })) => {
                    found.push(refusal(&node, &family, Some(&target.name), &reason));
                }
                other => drop(other?),
            }
        }
        Ok(found)
    })?;
    Ok(serde_json::json!(found.map_err(|error| errors::compile(py, &name, error))?).to_string())
}

/// The nodes that an import refused; none where it refused something else.
fn refusals(error: &ImportError) -> Vec<serde_json::Value> {
    match error {
        ImportError::Unsupported(all) => all.nodes().iter().flat_map(|refused| refusals(&refused.error)).collect(),
        ImportError::Node { node, operator, problem } => vec![refusal(node, operator, None, &problem.to_string())],
        ImportError::Branch { source, .. } => refusals(source),
        _ => Vec::new(),
    }
}

fn refusal(node: &str, operator: &str, target: Option<&str>, reason: &str) -> serde_json::Value {
    serde_json::json!({"node": node, "operator": operator, "target": target, "reason": reason})
}
