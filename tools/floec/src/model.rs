//! `floec inspect MODEL.onnx`: what a model holds, and whether Floe runs it.

use crate::{
    import::{self, ImportArguments},
    inspect::{graph, page},
    output::{self, usage},
};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use floe_compiler::{
    pipeline::{self, CompileError, CompileOptions},
    schedule::Schedule,
    selection::ScheduleError,
    targets,
};
use floe_kernels::codegen::Target;
use floe_models::{
    ImportError,
    custom::Operators,
    onnx::{
        self,
        proto::{DimensionValue, GraphProto, ModelProto, ValueInfoProto},
    },
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
};

/// Why several shapes are refused.
const ONE_SHAPE: &str = "a model is inspected in one shape: leave the commas out, or compile it and inspect the plan";

/// What only a model has.
#[derive(Args)]
#[command(mut_arg("shapes", import::one_shape))]
pub struct Options {
    /// Of a model: also say whether this target runs it, in how many steps, and how long one replay is expected to take.
    /// Repeatable; the host is always tried.
    #[arg(long = "target", value_name = "NAME")]
    targets: Vec<String>,
    #[command(flatten)]
    import: ImportArguments,
}

impl Options {
    /// Returns an error if there are any: plans have neither open shapes nor other targets.
    pub fn none(&self) -> Result<()> {
        if self.targets.is_empty() && self.import.is_empty() {
            return Ok(());
        }
        usage(Err(anyhow!("--target, --shape, --constant and --operators are for models, and the file is a plan")))
    }
}

/// What is known of a model.
pub struct Inspected {
    /// What it holds, and who runs it.
    pub report: Value,
    /// Its steps on the targets that run it.
    schedules: Vec<(&'static Target, Schedule)>,
    /// Nodes that are not supported, with what is wrong.
    refused: BTreeMap<String, String>,
    is_refused: bool,
}

impl Inspected {
    /// The report as text.
    pub fn text(&self) -> String {
        output::harmless(&text(&self.report))
    }

    /// The report as a page of HTML.
    pub fn page(&self, model: &ModelProto) -> String {
        let graph = model.graph.clone().unwrap_or_default();
        page::model(&self.report, &graph::model(&graph, &self.report, &self.refused), &self.schedules)
    }

    /// Returns an error if some node is not supported.
    pub fn verdict(&self, path: &Path) -> Result<()> {
        if self.is_refused { bail!("'{}' is not supported as it stands", path.display()) } else { Ok(()) }
    }
}

/// Finds out what the model at `path` holds, and whether Floe runs it.
pub fn inspect(path: &Path, model: &ModelProto, bytes: usize, options: &Options) -> Result<Inspected> {
    let report = contents(model, path, bytes);
    let mut inspected = Inspected { report, schedules: Vec::new(), refused: BTreeMap::new(), is_refused: false };
    let mut support = support(path, options, &mut inspected)?;
    if support["open"] == true {
        // Known without any shape.
        let unknown = unknown(model, &options.import.options(ONE_SHAPE)?.operators);
        inspected.is_refused |= !unknown.is_empty();
        support["unknown_operators"] = json!(unknown);
    }
    inspected.report["support"] = support;
    Ok(inspected)
}

/// Operators of a model that Floe does not know and the model does not define, each once.
fn unknown(model: &ModelProto, described: &Operators) -> BTreeSet<String> {
    let qualified = |domain: &str, name: &str| match domain {
        "" | "ai.onnx" => name.to_owned(),
        domain => format!("{domain}::{name}"),
    };
    let mut known: HashSet<String> =
        floe_models::operators().iter().map(|operator| qualified(operator.domain, operator.name)).collect();
    known.extend(model.functions.iter().map(|function| qualified(&function.domain, &function.name)));
    known.extend(described.descriptions().map(|operator| qualified(&operator.domain, operator.name)));
    let nodes = model.graph.iter().flat_map(|graph| &graph.node);
    nodes.map(|node| qualified(&node.domain, &node.op_type)).filter(|name| !known.contains(name)).collect()
}

/// What stands in the file.
fn contents(model: &ModelProto, path: &Path, bytes: usize) -> Value {
    let empty = GraphProto::default();
    let graph = model.graph.as_ref().unwrap_or(&empty);
    let constants: HashSet<&str> = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let values = |values: &[ValueInfoProto]| -> Vec<Value> {
        values.iter().filter(|value| !constants.contains(value.name.as_str())).map(binding).collect()
    };
    let elements = |dims: &[i64]| dims.iter().map(|&extent| extent.max(0) as u64).product::<u64>();
    let parameters: u64 = graph.initializer.iter().map(|tensor| elements(&tensor.dims)).sum();
    let mut operators = BTreeMap::<String, usize>::new();
    for node in &graph.node {
        let domain = if node.domain.is_empty() { String::new() } else { format!("{}::", node.domain) };
        *operators.entry(domain + &node.op_type).or_default() += 1;
    }
    let opsets = model.opset_import.iter().map(|set| {
        let domain = if set.domain.is_empty() { "ai.onnx" } else { &set.domain };
        json!({"domain": domain, "version": set.version})
    });
    json!({
        "model": path.file_name().unwrap_or_default().to_string_lossy(),
        "bytes": bytes,
        "ir_version": model.ir_version,
        "producer": model.producer_name,
        "operator_sets": opsets.collect::<Vec<_>>(),
        "inputs": values(&graph.input),
        "outputs": values(&graph.output),
        "parameters": parameters,
        "tensors": graph.initializer.len(),
        "nodes": graph.node.len(),
        "operators": operators,
    })
}

/// Name, element type and extents of an input or output; a symbol or null where an extent is open.
fn binding(value: &ValueInfoProto) -> Value {
    let tensor = value.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let shape = tensor.and_then(|tensor| tensor.shape.as_ref()).map(|shape| {
        let extent = |value: &Option<DimensionValue>| match value {
            Some(DimensionValue::Value(extent)) => json!(extent),
            Some(DimensionValue::Param(symbol)) => json!(symbol),
            None => Value::Null,
        };
        shape.dim.iter().map(|dimension| extent(&dimension.value)).collect::<Vec<_>>()
    });
    let dtype = tensor.map(|tensor| onnx::data_type_name(tensor.elem_type.into()));
    json!({"name": value.name, "dtype": dtype, "shape": shape})
}

/// What importing and scheduling say, by target; schedules and refused nodes go to `inspected`.
fn support(path: &Path, options: &Options, inspected: &mut Inspected) -> Result<Value> {
    let import = options.import.options(ONE_SHAPE)?;
    let names = options.targets.iter().map(String::as_str).filter(|name| *name != "host");
    let found: Result<Vec<_>> = ["host"].into_iter().chain(names).map(|name| Ok(targets::find(name)?)).collect();
    let targets = usage(found)?;
    let options = CompileOptions { import, ..CompileOptions::default() };
    let fused = match pipeline::import_and_fuse(path, &options, &|_| ()) {
        Ok(fused) => fused,
        Err(error) => {
            // What a shape would mend is not refused.
            let open = matches!(
                &error,
                CompileError::Import(
                    ImportError::Input { .. }
                        | ImportError::ShapeMissing { .. }
                        | ImportError::ShapeMismatch { .. }
                        | ImportError::UnknownInput { .. }
                )
            );
            inspected.is_refused = !open;
            if let CompileError::Import(error) = &error {
                inspected.refused = refused_nodes(error);
            }
            return Ok(json!({"import": message(&error.into()), "open": open}));
        }
    };
    let mut rows = Vec::new();
    for target in targets {
        rows.push(match pipeline::schedule(&fused, target, &options) {
            Ok(schedule) => {
                let notes = || schedule.steps.iter().map(|step| &step.note);
                let expected = (!target.is_host()).then(|| notes().map(|note| note.expected).sum::<f64>());
                let (steps, flops) = (schedule.steps.len(), notes().map(|note| note.flops).sum::<u64>());
                inspected.schedules.push((target, schedule));
                json!({"target": target.name, "steps": steps, "flops": flops, "expected_us": expected})
            }
            Err(error) => {
                inspected.is_refused = true;
                if let CompileError::Schedule(ScheduleError::Unsupported { node, reason, .. }) = &error {
                    inspected.refused.insert(node.clone(), format!("for {}: {reason}", target.name));
                }
                json!({"target": target.name, "refused": message(&error.into())})
            }
        });
    }
    Ok(json!({"targets": rows}))
}

/// The nodes that an import names, with what is wrong.
fn refused_nodes(error: &ImportError) -> BTreeMap<String, String> {
    match error {
        ImportError::Unsupported(refusals) => {
            refusals.nodes().iter().map(|refusal| (refusal.node.clone(), refusal.error.to_string())).collect()
        }
        ImportError::Node { node, .. } => BTreeMap::from([(node.clone(), error.to_string())]),
        _ => BTreeMap::new(),
    }
}

fn message(error: &anyhow::Error) -> String {
    crate::message(error)
}

fn text(report: &Value) -> String {
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let sets = items(&report["operator_sets"]);
    let sets: Vec<_> = sets.iter().map(|set| format!("{} {}", string(&set["domain"]), set["version"])).collect();
    let producer = Some(string(&report["producer"])).filter(|name| !name.is_empty());
    let mut text = format!(
        "{} · ONNX model · {} · IR {} · {}{}\n",
        string(&report["model"]),
        output::bytes(number(&report["bytes"])),
        report["ir_version"],
        sets.join(", "),
        producer.map_or(String::new(), |name| format!(" · by {name}")),
    );
    for (direction, values) in [("input", &report["inputs"]), ("output", &report["outputs"])] {
        for value in items(values) {
            let extents: Vec<_> = items(&value["shape"])
                .iter()
                .map(|extent| extent.as_str().map_or_else(|| extent.to_string().replace("null", "?"), str::to_owned))
                .collect();
            let shape =
                if value["shape"].is_null() { "of any rank".to_owned() } else { format!("[{}]", extents.join(", ")) };
            text += &format!("  {direction:6} {}: {} {shape}\n", string(&value["name"]), string(&value["dtype"]));
        }
    }
    text += &format!("  parameters: {} in {} tensors\n", report["parameters"], report["tensors"]);
    let mut operators: Vec<(String, u64)> = report["operators"]
        .as_object()
        .map(|counts| counts.iter().map(|(name, count)| (name.clone(), number(count))).collect())
        .unwrap_or_default();
    operators.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), name.clone()));
    let operators: Vec<_> = operators.iter().map(|(name, count)| format!("{name} {count}")).collect();
    text += &format!("  nodes: {} ({})\n", report["nodes"], operators.join(", "));
    let support = &report["support"];
    if let Some(reason) = support["import"].as_str() {
        let unknown: Vec<_> = items(&support["unknown_operators"]).iter().map(string).collect();
        if !unknown.is_empty() {
            text += &format!("  not supported: {}\n", unknown.join(", "));
        }
        text += &format!("  {}: {reason}\n", if support["open"] == true { "not determined" } else { "not supported" });
    }
    for row in items(&support["targets"]) {
        text += &match row["refused"].as_str() {
            Some(reason) => format!("  {}: refused: {reason}\n", string(&row["target"])),
            None => format!(
                "  {}: {} steps, {:.1} MFLOP{}\n",
                string(&row["target"]),
                row["steps"],
                number(&row["flops"]) as f64 / 1e6,
                row["expected_us"].as_f64().map_or(String::new(), |us| format!(", expected {us:.0} µs in f16")),
            ),
        };
    }
    text
}
