//! A model on its way to 8 bits: its layers, what the samples showed of them, and what was chosen.

use super::{Effort, LayerReport, Options, Progress, Quantized, spread, trials::Trials};
use crate::{
    Error, Model, Samples,
    calibrate::{self, Observations},
    checkpoint::Checkpoint,
    cost::{self, Cost},
    evaluate::Reference,
    gates,
    insert::{self, Quantised},
    layers::{self, Layer, Left},
    params::{Activations, Params},
    places::{self, Groups},
    ranges::Choice,
    run::{self, Network},
    smooth::Smoothed,
    weights::{self, Weights},
};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Rows of each layer that are kept.
pub(super) const ROWS: usize = 1024;
/// Rows for adaptive rounding.
const MANY_ROWS: usize = 4096;

/// What belongs to one form of the model.
#[derive(Clone, Default)]
pub(super) struct State {
    pub(super) layers: Vec<Layer>,
    pub(super) weights: HashMap<String, Vec<f32>>,
    pub(super) biases: HashMap<String, Vec<f32>>,
    pub(super) seen: Observations,
    pub(super) choices: BTreeMap<String, Choice>,
    pub(super) rounded: HashMap<String, Weights>,
    /// Biases that were changed.
    pub(super) corrected: HashMap<String, Vec<f32>>,
}

/// What is known on the way.
pub(super) struct Work<'a> {
    pub(super) model: Model,
    pub(super) samples: &'a dyn Samples,
    pub(super) options: &'a Options,
    pub(super) progress: &'a (dyn Fn(Progress<'_>) + Sync),
    pub(super) saved: Checkpoint,
    pub(super) state: State,
    pub(super) left: Vec<Left>,
    /// Factors of products of two values, where they are quantised.
    pub(super) factors: Vec<String>,
    pub(super) reports: BTreeMap<String, LayerReport>,
    /// Layers that could be in 8 bits and are not.
    pub(super) floats: HashSet<String>,
    /// Values whose channels were evened out.
    pub(super) smoothed: Vec<Smoothed>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        model: Model,
        samples: &'a dyn Samples,
        options: &'a Options,
        progress: &'a (dyn Fn(Progress<'_>) + Sync),
        saved: Checkpoint,
    ) -> Result<Self, Error> {
        let mut work = Self {
            model,
            samples,
            options,
            progress,
            saved,
            state: State::default(),
            left: Vec::new(),
            factors: Vec::new(),
            reports: BTreeMap::new(),
            floats: HashSet::new(),
            smoothed: Vec::new(),
        };
        work.find_layers()?;
        Ok(work)
    }

    pub(super) fn phase(&self, name: &str) {
        (self.progress)(Progress::Phase(name));
    }

    /// Notes that a layer is not computed in 8 bits.
    pub(super) fn leave(&mut self, layer: &Layer, reason: String) {
        let operator = layer.operator().to_owned();
        self.left.push(Left { name: layer.name.clone(), operator, reason, operations: layer.operations });
    }

    /// The layers of the model as it is now, with their weights.
    pub(super) fn find_layers(&mut self) -> Result<(), Error> {
        let facts = run::facts(&self.model, &self.options.import)?;
        let (layers, left) = layers::find(&self.model, &facts)?;
        self.left = left;
        if self.options.all_products {
            self.factors = layers::factors(&self.model, &facts);
            let both = self.left.iter_mut().filter(|left| left.reason == layers::BOTH);
            both.for_each(|left| {
                let float8 = self.options.activations == Activations::Float8 && left.operator == "MatMul";
                left.reason = if float8 { layers::BOTH_FLOAT8 } else { layers::BOTH_QUANTISED }.into();
            });
        }
        let (kept, layers): (Vec<Layer>, Vec<Layer>) =
            layers.into_iter().partition(|layer| self.options.keep.contains(&layer.name));
        kept.iter().for_each(|layer| self.leave(layer, "--keep names it".into()));
        let mut state = State { layers, ..State::default() };
        let index = self.model.index();
        for layer in &state.layers {
            let (weights, bias) = layer.parameters(&self.model, &index)?;
            let dtype = self.options.activations.weights();
            let rounded = weights::rounded(&weights, &weights::largest(layer, &weights, dtype), dtype);
            state.rounded.insert(layer.name.clone(), rounded);
            state.weights.insert(layer.name.clone(), weights);
            state.biases.insert(layer.name.clone(), bias);
        }
        self.state = state;
        Ok(())
    }

    /// Runs samples.
    pub(super) fn observe(&mut self, pass: &str, numbers: &[usize]) -> Result<(), Error> {
        self.phase("run samples");
        let index = self.model.index();
        // What may be quantised on the way to the layers.
        let mut watched: Vec<String> = self.state.layers.iter().map(|layer| layer.input.clone()).collect();
        let moved = self.model.graph().node.iter().filter(|node| places::moves(node) || node.op_type == "Concat");
        watched.extend(self.factors.iter().cloned());
        watched.extend(self.state.layers.iter().flat_map(|layer| gates::before(&self.model, &index, &layer.input)));
        watched.extend(moved.flat_map(|node| node.input.iter().chain(&node.output)).cloned());
        watched.retain(|name| !name.is_empty() && !index.initializers.contains_key(name));
        watched.sort();
        watched.dedup();
        let rows = if self.options.effort == Effort::High { MANY_ROWS } else { ROWS };
        let seen = match Observations::restore(&self.saved, pass) {
            Some(seen) => seen,
            None => {
                let network = Network::new(&self.model, &self.options.import, &watched)?;
                let progress = |done, total| (self.progress)(Progress::Parts { done, total });
                let seen = calibrate::run(&network, self.samples, numbers, &self.state.layers, rows, &progress)?;
                seen.save(&mut self.saved, pass)?;
                seen
            }
        };
        self.see(seen, "its input is the same for all samples");
        Ok(())
    }

    /// Takes what was seen, and leaves the layers whose inputs are not in it, for this reason.
    pub(super) fn see(&mut self, seen: Observations, missing: &'static str) {
        let mut left = Vec::new();
        self.state.layers.retain(|layer| {
            let reason = match seen.histograms.get(&layer.input) {
                None => missing,
                Some(histogram) if histogram.broken => "its input has infinities or NaN",
                Some(_) => return true,
            };
            left.push((layer.clone(), reason.to_owned()));
            false
        });
        left.into_iter().for_each(|(layer, reason)| self.leave(&layer, reason));
        self.state.seen = seen;
    }

    /// Samples spread over all of them, with their outputs in f32.
    pub(super) fn reference(&self, most: usize) -> Result<Reference, Error> {
        self.phase("measure");
        let samples = spread(self.samples.len(), most).into_iter().map(|number| self.samples.load(number));
        Reference::new(&self.model, &self.options.import, samples.collect::<Result<_, _>>()?)
    }

    /// The layers in 8 bits.
    pub(super) fn enabled(&self) -> Vec<&Layer> {
        self.state.layers.iter().filter(|layer| !self.floats.contains(&layer.name)).collect()
    }

    /// The values that these layers need as integers, what is averaged or gated on the way to them, and `also`.
    pub(super) fn groups(&self, layers: &[&Layer], also: &[String]) -> Groups {
        let index = self.model.index();
        let mut also = also.to_vec();
        // No kernel averages or gates floats of 8 bits on their way to a layer.
        if self.options.activations != Activations::Float8 {
            let seen = |name: &String| self.state.seen.histograms.get(name).is_some_and(|histogram| !histogram.broken);
            let before = layers.iter().map(|layer| gates::before(&self.model, &index, &layer.input));
            also.extend(before.filter(|names| names.iter().all(seen)).flatten());
        }
        places::find(&self.model, &index, layers, &also, &self.state.seen.histograms)
    }

    /// The model with the enabled layers in 8 bits.
    pub(super) fn write(&self) -> Result<Model, Error> {
        self.write_layers(&self.enabled(), &self.factors)
    }

    pub(super) fn write_layers(&self, layers: &[&Layer], also: &[String]) -> Result<Model, Error> {
        let groups = self.groups(layers, also);
        let names = groups.iter().flatten();
        let params: BTreeMap<String, Params> =
            names.filter_map(|name| Some((name.clone(), self.state.choices.get(name)?.params))).collect();
        let State { rounded, biases, corrected, .. } = &self.state;
        let quantised: Vec<Quantised<'_>> = layers
            .iter()
            .filter(|layer| params.contains_key(&layer.input))
            .map(|layer| {
                let own = layer.bias.as_ref().map(|_| biases[&layer.name].clone());
                let bias = corrected.get(&layer.name).cloned().or(own);
                Quantised { layer, weights: rounded[&layer.name].clone(), bias }
            })
            .collect();
        insert::run(&self.model, &params, &quantised, self.options.float_bias)
    }

    /// What came of it. `costs` are those of the model in f16.
    pub(super) fn outcome(
        self,
        folded: Vec<String>,
        trials: Option<Trials>,
        costs: Option<Cost>,
    ) -> Result<Quantized, Error> {
        let model = self.write()?;
        let expected = match (&self.options.target, costs) {
            (Some(target), Some(costs)) => {
                let after = cost::predict(&model, &self.options.import, target, &HashSet::new())?;
                Some([costs.total, after.total])
            }
            _ => None,
        };
        let Self { state: State { mut layers, choices, .. }, floats, saved, .. } = self;
        let resumed = saved.found;
        saved.finish()?;
        layers.retain(|layer| !floats.contains(&layer.name));
        let present: HashSet<&String> = model.graph().node.iter().flat_map(|node| node.input.first()).collect();
        let values = choices.into_iter().filter(|(name, _)| present.contains(name)).collect();
        let distance = trials.as_ref().map(|trials| trials.distance);
        let within_budget = trials.as_ref().and_then(|trials| trials.within_budget);
        Ok(Quantized {
            float: self.model,
            layers,
            reports: self.reports,
            left: self.left,
            values,
            stages: trials.map(|trials| trials.stages).unwrap_or_default(),
            distance,
            smoothed: self.smoothed,
            folded,
            expected,
            within_budget,
            samples: self.samples.len(),
            resumed,
            model,
        })
    }
}
