//! A plan against the host's f32: outputs, then layer by layer where the error first appears and how it grows.
//!
//! Layers are the nodes of the fused graph. A target stores what some of them make; what a kernel keeps in registers has no
//! error of its own, and the next stored value shows it. The plan that runs is the usual one, kernel by kernel, but for an
//! output that holds everything which it stores ([`floe_compiler::exposed`]).

use crate::{
    headroom::Range,
    metrics::{Bound, Error},
    network::{Arithmetic, Network},
    samples::{Sample, Samples},
    scores::{Scores, table},
    target,
};
use anyhow::{Context, Result};
use floe::{host_functions::HostFunctions, session::DeviceKind};
use floe_compiler::{fused::FusedGraph, pipeline::ExposedPlan};
use floe_kernels::DType;
use floe_models::{Tensor, TensorId};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::{collections::HashMap, fmt::Write};

/// Relative error of one rounding to f16; below it, errors are not followed.
const ROUNDING: f64 = 1.0 / 2048.0;

/// What is compared with the host's f32.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// The host itself: with results from elsewhere only.
    Host,
    /// The host, with values stored as an f16 variant stores them.
    Simulated {
        /// Nodes that stay f32.
        keep_f32: &'a [String],
    },
    /// A target's plan.
    Plan {
        /// The plan.
        plan: &'a ExposedPlan,
        /// Name of the target.
        target: &'a str,
        /// Where it runs.
        device: DeviceKind,
    },
}

/// How to compare, and what to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the host calls for operators from outside of Floe.
    pub functions: HostFunctions,
    /// An element that is further off counts as beyond.
    pub bound: Bound,
    /// A layer's relative error beyond which it is named as the first.
    pub threshold: f64,
    /// Whether inner values are compared too.
    pub layers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { functions: HostFunctions::default(), bound: Bound::default(), threshold: 1e-2, layers: true }
    }
}

/// A value that a layer makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    /// The fused node.
    pub node: String,
    /// Names of the model's nodes.
    pub sources: Vec<String>,
    /// The value's name.
    pub value: String,
    /// How the subject stores it, where that is known.
    pub stored: Option<DType>,
    /// Its error; `None` where the subject does not store it.
    pub error: Option<Error>,
    /// The largest relative error of what it is made of.
    pub incoming: f64,
    /// Its numbers in f32.
    pub range: Range,
}

impl Layer {
    /// Relative error; infinite where numbers are not finite that should be.
    pub fn relative(&self) -> Option<f64> {
        self.error.map(|error| if error.unfinite > 0 { f64::INFINITY } else { error.relative() })
    }

    /// How many times the error of what it is made of, or one rounding, it is off; `None` where both are not finite.
    pub fn growth(&self) -> Option<f64> {
        let growth = self.relative()? / self.incoming.max(ROUNDING);
        (!growth.is_nan()).then_some(growth)
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The model.
    pub model: String,
    /// What ran, in words.
    pub subject: String,
    /// Samples.
    pub samples: usize,
    /// The subject's outputs against the host's f32.
    pub outputs: Scores,
    /// The subject's outputs against results from elsewhere.
    pub reference: Option<Scores>,
    /// The host's outputs against these.
    pub host_reference: Option<Scores>,
    /// In the order in which they are computed.
    pub layers: Vec<Layer>,
    /// The layer's relative error beyond which it is named.
    pub threshold: f64,
}

/// What one sample adds.
struct Part {
    sample: Sample,
    expected: Vec<(String, Tensor)>,
    /// Outputs, then dumped values.
    found: Vec<(String, Tensor)>,
    layers: Vec<(TensorId, Option<Error>, Range)>,
}

/// What to do with each sample's outputs and wanted inner values of the subject: the name of the sample, and tensors by name.
pub type Dump<'a> = dyn FnMut(&str, &[(String, Tensor)]) -> Result<()> + 'a;

/// Compares. `reference` are results from elsewhere, sample by sample; `dumped` names the inner values, or the nodes that make
/// them, that `dump` gets besides the outputs; `progress` is told of finished samples.
///
/// # Errors
/// Returns an error if the host or the device cannot run the network, or a sample does not fit.
#[allow(clippy::too_many_arguments)]
pub fn compare(
    fused: &FusedGraph,
    subject: Subject<'_>,
    samples: &Samples,
    reference: Option<&Samples>,
    options: Options,
    dumped: &(dyn Fn(&str, &str) -> bool + Sync),
    dump: &mut Dump<'_>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Comparison> {
    let host = Network::new_with(fused, Arithmetic::F32, &options.functions)?;
    let mut makers: HashMap<TensorId, usize> = HashMap::new();
    for (number, node) in fused.nodes.iter().enumerate() {
        makers.extend(node.outputs.iter().map(|&id| (id, number)));
    }
    let is_dumped = |id: TensorId| {
        let node = makers.get(&id).map(|&number| &fused.nodes[number]);
        node.is_some_and(|node| {
            let name = &fused.values[id.0].name;
            dumped(name, &node.name) || node.sources.iter().any(|source| dumped(name, &source.name))
        })
    };
    let mut gathered: HashMap<TensorId, (Option<Error>, Range)> = HashMap::new();
    let mut comparison = Comparison {
        model: fused.name.clone(),
        subject: String::new(),
        samples: samples.len(),
        outputs: Scores::new(options.bound),
        reference: reference.map(|_| Scores::new(options.bound)),
        host_reference: reference.map(|_| Scores::new(options.bound)),
        layers: Vec::new(),
        threshold: options.threshold,
    };
    let mut done = 0;
    let mut take = |part: Part, comparison: &mut Comparison| -> Result<()> {
        let Part { sample, expected, found, layers } = part;
        comparison.outputs.add(&expected, &found);
        if let Some(reference) = reference.filter(|reference| done < reference.len()) {
            let wanted = reference.load(done)?.inputs;
            comparison.reference.iter_mut().for_each(|scores| scores.add(&wanted, &found));
            comparison.host_reference.iter_mut().for_each(|scores| scores.add(&wanted, &expected));
        }
        for (id, error, range) in layers {
            let (all, ranges) = gathered.entry(id).or_default();
            ranges.merge(&range);
            if let Some(error) = error {
                all.get_or_insert_default().merge(&error);
            }
        }
        dump(&sample.name, &found)?;
        done += 1;
        progress(done);
        Ok(())
    };
    let name = |id: TensorId| fused.values[id.0].name.clone();
    let storage;
    match subject {
        Subject::Host | Subject::Simulated { .. } => {
            let simulated = match subject {
                Subject::Simulated { keep_f32 } => {
                    Some(Network::new_with(fused, Arithmetic::F16 { keep_f32 }, &options.functions)?)
                }
                _ => None,
            };
            let one = |number: usize| -> Result<Part> {
                let sample = samples.load(number)?;
                let mut values: HashMap<TensorId, Tensor> = HashMap::new();
                let mut extra = Vec::new();
                let mut found = match &simulated {
                    Some(simulated) => {
                        let wanted = |id| options.layers || is_dumped(id);
                        simulated.watch(&sample.inputs, &wanted, &mut |id, tensor| {
                            if is_dumped(id) {
                                extra.push((name(id), tensor.clone()));
                            }
                            values.insert(id, tensor.clone());
                        })?
                    }
                    None => Vec::new(),
                };
                let mut layers = Vec::new();
                let expected =
                    host.watch(&sample.inputs, &|id| options.layers || is_dumped(id), &mut |id, tensor| {
                        if simulated.is_none() && is_dumped(id) {
                            extra.push((name(id), tensor.clone()));
                        }
                        if options.layers && is_compared(tensor.dtype) {
                            layers.push(layer(id, tensor, values.remove(&id).as_ref(), options.bound));
                        }
                    })?;
                if simulated.is_none() {
                    found.clone_from(&expected);
                }
                found.append(&mut extra);
                Ok(Part { sample, expected, found, layers })
            };
            comparison.subject = match subject {
                Subject::Host => "the host in f32".to_owned(),
                _ => "f16 simulated on the host".to_owned(),
            };
            let together = rayon::current_num_threads().max(1);
            for first in (0..samples.len()).step_by(together) {
                let numbers: Vec<usize> = (first..samples.len().min(first + together)).collect();
                let parts: Vec<Result<Part>> = numbers.into_par_iter().map(one).collect();
                for part in parts {
                    take(part?, &mut comparison)?;
                }
            }
            storage =
                simulated.map(|network| network.storage().iter().map(|storage| storage.dtype).collect::<Vec<_>>());
        }
        Subject::Plan { plan, target, device } => {
            let mut loaded = (0..samples.len()).map(|number| samples.load(number));
            let device = target::replay(plan, target, device, &mut loaded, &mut |sample, replayed| {
                let mut layers = Vec::new();
                let mut failed = None;
                let expected = host.watch(&sample.inputs, &|_| options.layers, &mut |id, tensor| {
                    if is_compared(tensor.dtype) {
                        match replayed.value(id, &fused.values[id.0].fact) {
                            Ok(found) => layers.push(layer(id, tensor, found.as_ref(), options.bound)),
                            Err(error) => failed = Some(error),
                        }
                    }
                })?;
                if let Some(error) = failed {
                    return Err(error);
                }
                let mut found = replayed.outputs.clone();
                for id in plan.values.iter().map(|value| value.id).filter(|&id| is_dumped(id)) {
                    if let Some(tensor) = replayed.value(id, &fused.values[id.0].fact)? {
                        found.push((name(id), tensor));
                    }
                }
                take(Part { sample, expected, found, layers }, &mut comparison)
            })?;
            comparison.subject = format!("{target} on {device}");
            let mut stored = vec![DType::F32; fused.values.len()];
            plan.values.iter().for_each(|value| stored[value.id.0] = value.located.dtype);
            storage = Some(stored);
        }
    }
    comparison.layers = assemble(fused, &makers, &gathered, storage.as_deref());
    Ok(comparison)
}

/// Whether a value of this type has an error worth a line: floats, and what is quantised.
fn is_compared(dtype: DType) -> bool {
    dtype.is_float() || dtype.is_byte()
}

fn layer(id: TensorId, expected: &Tensor, found: Option<&Tensor>, bound: Bound) -> (TensorId, Option<Error>, Range) {
    let numbers = expected.to_f64();
    let mut range = Range::default();
    range.add(&numbers);
    (id, found.map(|found| Error::of(&numbers, &found.to_f64(), bound)), range)
}

/// The layers in the graph's order, with the errors of what they are made of.
fn assemble(
    fused: &FusedGraph,
    makers: &HashMap<TensorId, usize>,
    gathered: &HashMap<TensorId, (Option<Error>, Range)>,
    storage: Option<&[DType]>,
) -> Vec<Layer> {
    let relative = |error: &Error| if error.unfinite > 0 { f64::INFINITY } else { error.relative() };
    // A value that is not stored hands on the error of what it is made of.
    let mut errors: HashMap<TensorId, f64> = HashMap::new();
    let mut layers = Vec::new();
    for node in &fused.nodes {
        let incoming = node.inputs.iter().filter(|id| makers.contains_key(id));
        let incoming = incoming.filter_map(|id| errors.get(id)).fold(0.0, |a: f64, &b| a.max(b));
        for id in &node.outputs {
            let found = gathered.get(id);
            errors.insert(*id, found.and_then(|(error, _)| error.as_ref()).map_or(incoming, relative));
            let Some((error, range)) = found else { continue };
            layers.push(Layer {
                node: node.name.clone(),
                sources: node.sources.iter().map(|source| source.name.clone()).collect(),
                value: fused.values[id.0].name.clone(),
                stored: storage.map(|storage| storage[id.0]).filter(|_| error.is_some()),
                error: *error,
                incoming,
                range: *range,
            });
        }
    }
    layers
}

impl Comparison {
    /// The layer where the error first appears: the first that is not finite where it should be, or whose relative error is
    /// beyond the threshold.
    pub fn first(&self) -> Option<&Layer> {
        self.layers.iter().find(|layer| layer.relative().is_some_and(|relative| relative > self.threshold))
    }

    /// The layer where the error grows most, among those with an error above ten roundings.
    pub fn steepest(&self) -> Option<&Layer> {
        let grown = self.layers.iter().filter(|layer| layer.relative().is_some_and(|error| error > 10.0 * ROUNDING));
        grown.max_by(|a, b| a.growth().unwrap_or(0.0).total_cmp(&b.growth().unwrap_or(0.0)))
    }

    /// Whether all outputs are finite that should be.
    pub fn is_finite(&self) -> bool {
        self.outputs.is_finite()
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {} against the host's f32, {} samples\n", self.model, self.subject, self.samples);
        text += &self.outputs.text();
        for (what, scores) in
            [("this against the reference", &self.reference), ("the host's f32 against it", &self.host_reference)]
        {
            if let Some(scores) = scores {
                // Writing into a string cannot fail.
                let _ = write!(text, "{what}:\n{}", scores.text());
            }
        }
        let stored = self.layers.iter().filter(|layer| layer.error.is_some()).count();
        if stored > 0 {
            let _ = writeln!(text, "layers: {stored} values are stored, {} are computed", self.layers.len());
            text += &self.layer_table();
            text += &self.verdict();
        }
        let troubles = self.troubles();
        if !troubles.is_empty() {
            let _ = writeln!(text, "headroom in f16:");
            for (layer, trouble) in troubles {
                let _ = writeln!(text, "  {} ({}): {trouble}", layer.node, layer.value);
            }
        }
        text
    }

    /// Values that f16 does not hold well, and those where an error grows many times: terms cancel.
    pub fn troubles(&self) -> Vec<(&Layer, String)> {
        const MANY: f64 = 8.0;
        let trouble = |layer: &Layer| {
            let (relative, growth) = (layer.relative().unwrap_or(0.0), layer.growth().unwrap_or(0.0));
            let cancels = growth.is_finite() && growth > MANY && relative > 10.0 * ROUNDING;
            let cancels = cancels.then(|| {
                format!("the error grows {growth:.0} times, to {relative:.1e}: terms cancel, or a rounding falls to the other side")
            });
            layer.range.trouble().or(cancels)
        };
        self.layers.iter().filter_map(|layer| Some((layer, trouble(layer)?))).collect()
    }

    fn layer_table(&self) -> String {
        let mut rows =
            vec![["", "stored", "relative", "growth", "largest |x|", "", "value", "node"].map(str::to_owned)];
        for (number, layer) in self.layers.iter().enumerate() {
            let (Some(error), Some(relative)) = (&layer.error, layer.relative()) else { continue };
            let note = if error.unfinite > 0 {
                format!("{} of {} not finite", error.unfinite, error.elements)
            } else {
                String::new()
            };
            rows.push([
                number.to_string(),
                layer.stored.map_or("", DType::name).to_owned(),
                if relative.is_finite() { format!("{relative:.2e}") } else { "-".to_owned() },
                layer
                    .growth()
                    .filter(|growth| growth.is_finite())
                    .map_or("-".to_owned(), |growth| format!("{growth:.1}")),
                format!("{:.3e}", layer.range.largest()),
                note,
                // Names are long: numbers stay in sight in front of them.
                layer.value.clone(),
                layer.node.clone(),
            ]);
        }
        table(&rows, &[true, false, true, true, true, false, false, false])
    }

    fn verdict(&self) -> String {
        let named = |layer: &Layer| {
            let relative = layer.relative().unwrap_or(0.0);
            let error = match layer.error {
                Some(error) if error.unfinite > 0 => {
                    format!("{} of {} numbers are not finite", error.unfinite, error.elements)
                }
                _ => format!(
                    "relative error {relative:.2e}, {:.1} times what it is made of",
                    layer.growth().unwrap_or(0.0)
                ),
            };
            format!("node '{}', value '{}': {error}", layer.node, layer.value)
        };
        let mut text = match self.first() {
            Some(layer) => format!("the error first exceeds {:.0e} at {}\n", self.threshold, named(layer)),
            None => format!("no layer's relative error exceeds {:.0e}\n", self.threshold),
        };
        if let Some(layer) = self.steepest() {
            let _ = writeln!(text, "it grows most at {}", named(layer));
        }
        text
    }

    /// The report as JSON.
    pub fn json(&self) -> Value {
        let finite = |number: f64| number.is_finite().then_some(number);
        let layer = |layer: &Layer| {
            let range = &layer.range;
            json!({
                "node": layer.node, "sources": layer.sources, "value": layer.value,
                "stored": layer.stored.map(DType::name),
                "relative_l2": layer.error.map(|error| error.relative()),
                "cosine": layer.error.map(|error| error.cosine()),
                "largest": layer.error.map(|error| error.largest),
                "not_finite": layer.error.map(|error| error.unfinite),
                "incoming": finite(layer.incoming),
                "growth": layer.growth().and_then(finite),
                "headroom": {
                    "min": finite(range.min), "max": finite(range.max), "elements": range.elements,
                    "overflow": range.overflow, "denormal": range.denormal, "lost": range.lost,
                    "f16_rounding": range.rounding(DType::F16), "bf16_rounding": range.rounding(DType::Bf16),
                    "trouble": range.trouble(),
                },
            })
        };
        let name = |layer: Option<&Layer>| layer.map(|layer| json!({"node": layer.node, "value": layer.value}));
        json!({
            "model": self.model, "subject": self.subject, "samples": self.samples,
            "outputs": self.outputs.json(),
            "reference": self.reference.as_ref().map(Scores::json),
            "host_against_reference": self.host_reference.as_ref().map(Scores::json),
            "threshold": self.threshold,
            "first": name(self.first()), "steepest": name(self.steepest()),
            "layers": self.layers.iter().map(layer).collect::<Vec<_>>(),
        })
    }
}

/// Reads results from elsewhere for the outputs of a network.
///
/// # Errors
/// Returns an error if there are none, or they do not fit.
pub fn reference(paths: &[String], fused: &FusedGraph, samples: usize) -> Result<Samples> {
    let outputs: Vec<_> =
        fused.outputs.iter().map(|id| (fused.values[id.0].name.clone(), fused.values[id.0].fact.clone())).collect();
    let found = Samples::open_results(paths, &outputs).context("--reference")?;
    anyhow::ensure!(
        found.len() == samples,
        "--reference holds {} results for {samples} samples: both need the same number, in the same order",
        found.len()
    );
    Ok(found)
}
