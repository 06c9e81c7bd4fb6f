//! The whole way from a float model to one in 8 bits.
//!
//! Every method is measured: the outputs of the network that it leads to are compared with those in f32, and what does not bring
//! them nearer is not kept.

use crate::{
    Error, Model, Samples,
    calibrate::{self, Observations},
    checkpoint::{self, Checkpoint},
    correct,
    cost::{self, Cost},
    evaluate::{Budget, Distance, Reference},
    fold,
    insert::{self, Quantised},
    layers::{self, Layer, Left},
    normalise,
    observe::Method,
    params::{Activations, Params},
    places,
    product::{product, relative},
    ranges::{self, Choice},
    round,
    run::{self, Import, Network},
    smooth::{self, Smoothed},
    upgrade,
    weights::{self, Weights},
};
use floe_kernels::codegen::Target;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
};

/// How hard to try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Min-max ranges alone.
    Least,
    /// Everything that takes no longer than a few runs of the samples.
    #[default]
    Default,
    /// Adaptive rounding of weights too.
    High,
}

/// How to quantise.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How the model is imported and run.
    pub import: Import,
    /// Integers of activations.
    pub activations: Activations,
    /// Leaves biases as floats.
    pub float_bias: bool,
    /// How hard to try.
    pub effort: Effort,
    /// What the network may lose.
    pub budget: Option<Budget>,
    /// Where it is to run: a layer that gains no time there stays as it is.
    pub target: Option<Target>,
    /// Quantises the factors of products of two values too, as other programs do that compute these in 8 bits. Floe does not.
    pub all_products: bool,
    /// Nodes that stay as they are.
    pub keep: Vec<String>,
    /// Where to note what is found on the way.
    pub checkpoint: Option<PathBuf>,
}

/// What is told while quantising.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A phase has begun.
    Phase(&'a str),
    /// Of `total` parts `done` are.
    Parts {
        /// Finished.
        done: usize,
        /// All.
        total: usize,
    },
}

/// A method and what it did to the outputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// Name of the method.
    pub name: String,
    /// Distance from f32 with it and all that were kept before.
    pub distance: Distance,
    /// The same with biases corrected too, where that was tried.
    pub corrected: Option<Distance>,
    /// Whether it was kept.
    pub kept: bool,
}

impl Stage {
    /// The distance with biases corrected or not, whichever is less.
    pub fn best(&self) -> Distance {
        self.corrected.filter(|corrected| corrected.scores < self.distance.scores).unwrap_or(self.distance)
    }
}

/// What is known of a product in 8 bits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerReport {
    /// Relative error of the outputs with this layer alone in 8 bits, where it was measured.
    pub alone: Option<f64>,
    /// Expected microseconds on the target, in f16 and in 8 bits.
    pub expected: Option<[f64; 2]>,
    /// Squared relative error of its own results.
    pub error: f64,
}

/// The result.
#[derive(Debug)]
pub struct Quantized {
    /// The model in 8 bits.
    pub model: Model,
    /// The float model with everything folded, of which it is made.
    pub float: Model,
    /// Layers in 8 bits.
    pub layers: Vec<Layer>,
    /// What is known of them, and of those that stay floats for accuracy's or time's sake.
    pub reports: BTreeMap<String, LayerReport>,
    /// Products that are not in 8 bits.
    pub left: Vec<Left>,
    /// What values became.
    pub values: BTreeMap<String, Choice>,
    /// The methods in their order.
    pub stages: Vec<Stage>,
    /// Distance from f32 of the result.
    pub distance: Distance,
    /// Values whose channels were evened out.
    pub smoothed: Vec<Smoothed>,
    /// Nodes that were folded into others.
    pub folded: Vec<String>,
    /// Expected microseconds of a replay on the target, in f16 and as quantised.
    pub expected: Option<[f64; 2]>,
    /// Whether the budget holds, where there is one.
    pub within_budget: Option<bool>,
    /// Samples used.
    pub samples: usize,
    /// Records of an earlier run that was interrupted.
    pub resumed: usize,
}

/// Rows of each layer that are kept.
const ROWS: usize = 1024;
/// Rows for adaptive rounding.
const MANY_ROWS: usize = 4096;
/// Samples of the first look, which decides on smoothing.
const FIRST_LOOK: usize = 64;
/// Samples that the effect on the outputs is measured with.
const EVALUATED: usize = 24;
/// Samples that the effect of one layer alone is measured with.
const ALONE: usize = 8;
/// Rows that weights and biases are judged by.
const JUDGED: usize = 512;

/// Quantises a model.
///
/// # Errors
/// Where the model is refused, a sample does not fit or the host cannot run the network.
pub fn quantise(
    model: &Model,
    samples: &dyn Samples,
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Quantized, Error> {
    let mut float = model.clone();
    progress(Progress::Phase("read"));
    if samples.is_empty() {
        return Err(Error::Samples("there are no samples to calibrate with".into()));
    }
    let folded = prepare(&mut float, &options.import)?;
    let saved = match &options.checkpoint {
        Some(path) => Checkpoint::open(path, key(&float, samples, options)?)?,
        None => Checkpoint::default(),
    };
    let resumed = saved.found;
    let mut work = Work::new(float, samples, options, progress, saved)?;
    let count = samples.len();
    let everything = work.options.effort > Effort::Least;
    let first_look: Vec<usize> = spread(count, FIRST_LOOK);
    let all: Vec<usize> = (0..count).collect();
    let reference = work.reference(EVALUATED)?;
    let mut stages: Vec<Stage> = Vec::new();
    let mut smoothed = Vec::new();

    work.observe("first", if everything { &first_look } else { &all })?;
    work.choose();
    let mut first = work.measure("min-max", &reference)?;
    first.kept = true;
    let mut distance = first.best();
    stages.push(first);
    if everything {
        let plain = (work.model.clone(), work.state.clone());
        progress(Progress::Phase("even out channels"));
        let done = smooth::run(&mut work.model, &work.state.layers, &work.state.seen, options.activations)?;
        let mut evened = None;
        if !done.is_empty() {
            work.find_layers()?;
            work.observe("evened", &all)?;
            work.choose();
            let mut stage = work.measure("channels evened out", &reference)?;
            stage.kept = stage.best().scores < distance.scores;
            evened = Some(stage.kept);
            if stage.kept {
                (distance, smoothed) = (stage.best(), done);
            }
            stages.push(stage);
        }
        if evened != Some(true) {
            (work.model, work.state) = plain;
            if first_look.len() < count {
                work.observe("all", &all)?;
                work.choose();
                distance = work.measure("min-max", &reference)?.best();
            }
        }
        // Where all that help a little do not help together, those that help much may.
        for (name, share) in [("ranges by effect", 1.0), ("ranges of large effect", 0.5)] {
            work.stage(name, &reference, &mut distance, &mut stages, |work| {
                work.choose_by_effect(share);
                Ok(())
            })?;
            if stages.last().is_some_and(|stage| stage.kept) {
                break;
            }
        }
        work.stage("weights of least error", &reference, &mut distance, &mut stages, Work::weights_of_least_error)?;
        if options.effort == Effort::High {
            work.stage("adaptive rounding", &reference, &mut distance, &mut stages, Work::adapt)?;
        }
    }
    progress(Progress::Phase("expected times"));
    let expected = work.leave_what_gains_nothing()?;
    let mut best = work.write()?;
    if expected.is_some() {
        distance = reference.distance(&best, &options.import)?;
    }
    let mut within_budget = None;
    if let Some(budget) = options.budget {
        if !budget.holds(&distance) {
            work.hold(&budget, &reference)?;
            best = work.write()?;
            distance = reference.distance(&best, &options.import)?;
            stages.push(Stage { name: format!("floats kept for {budget}"), distance, corrected: None, kept: true });
        }
        within_budget = Some(budget.holds(&distance));
    }
    let expected = match (&options.target, expected) {
        (Some(target), Some(costs)) => {
            let after = cost::predict(&best, &options.import, target, &HashSet::new())?;
            Some([costs.total, after.total])
        }
        _ => None,
    };
    work.judge();
    let Work { model: float, state, saved, left, reports, floats, .. } = work;
    saved.finish()?;
    let State { layers, choices, .. } = state;
    let layers: Vec<Layer> = layers.into_iter().filter(|layer| !floats.contains(&layer.name)).collect();
    let present: HashSet<&String> = best.graph().node.iter().flat_map(|node| node.input.first()).collect();
    let values = choices.into_iter().filter(|(name, _)| present.contains(name)).collect();
    Ok(Quantized {
        float,
        layers,
        reports,
        left,
        values,
        stages,
        distance,
        smoothed,
        folded,
        expected,
        within_budget,
        samples: count,
        resumed,
        model: best,
    })
}

/// Brings a float model into the form that quantising works on. Gives the nodes that were folded.
///
/// # Errors
/// Where the model is refused.
pub fn prepare(model: &mut Model, import: &Import) -> Result<Vec<String>, Error> {
    normalise::run(model)?;
    if model.opset() < upgrade::OPSET {
        let facts = run::facts(model, import)?;
        let ranks = facts.iter().map(|(name, fact)| (name.clone(), fact.shape.len())).collect();
        upgrade::run(model, &ranks)?;
    }
    fold::run(model)
}

/// At most so many numbers below `count`, evenly.
fn spread(count: usize, most: usize) -> Vec<usize> {
    let taken = count.min(most);
    (0..taken).map(|number| number * count / taken).collect()
}

/// A digest of what decides the result.
fn key(model: &Model, samples: &dyn Samples, options: &Options) -> Result<[u8; 32], Error> {
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update(model.encode()?);
    let Options { import, activations, float_bias, effort, keep, all_products, .. } = options;
    digest.update(format!(
        "{import:?} {activations:?} {float_bias} {effort:?} {keep:?} {all_products} {}",
        samples.len()
    ));
    for number in spread(samples.len(), 4) {
        for (name, tensor) in samples.load(number)? {
            digest.update(name);
            digest.update(tensor.bytes());
        }
    }
    Ok(digest.finalize().into())
}

/// What belongs to one form of the model.
#[derive(Clone, Default)]
struct State {
    layers: Vec<Layer>,
    weights: HashMap<String, Vec<f32>>,
    biases: HashMap<String, Vec<f32>>,
    seen: Observations,
    choices: BTreeMap<String, Choice>,
    rounded: HashMap<String, Weights>,
    /// Biases that were changed.
    corrected: HashMap<String, Vec<f32>>,
}

/// What is known on the way.
struct Work<'a> {
    model: Model,
    samples: &'a dyn Samples,
    options: &'a Options,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
    saved: Checkpoint,
    state: State,
    left: Vec<Left>,
    /// Factors of products of two values, where they are quantised.
    factors: Vec<String>,
    reports: BTreeMap<String, LayerReport>,
    /// Layers that could be in 8 bits and are not.
    floats: HashSet<String>,
}

impl<'a> Work<'a> {
    fn new(
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
        };
        work.find_layers()?;
        Ok(work)
    }

    fn phase(&self, name: &str) {
        (self.progress)(Progress::Phase(name));
    }

    /// Notes that a layer is not computed in 8 bits.
    fn leave(&mut self, layer: &Layer, reason: String) {
        let operator = layer.operator().to_owned();
        self.left.push(Left { name: layer.name.clone(), operator, reason, operations: layer.operations });
    }

    /// The layers of the model as it is now, with their weights.
    fn find_layers(&mut self) -> Result<(), Error> {
        let facts = run::facts(&self.model, &self.options.import)?;
        let (layers, left) = layers::find(&self.model, &facts)?;
        self.left = left;
        if self.options.all_products {
            self.factors = layers::factors(&self.model, &facts);
            self.left.retain(|left| left.reason != layers::BOTH);
        }
        let (kept, layers): (Vec<Layer>, Vec<Layer>) =
            layers.into_iter().partition(|layer| self.options.keep.contains(&layer.name));
        kept.iter().for_each(|layer| self.leave(layer, "--keep names it".into()));
        let mut state = State { layers, ..State::default() };
        let index = self.model.index();
        for layer in &state.layers {
            let (weights, bias) = layer.parameters(&self.model, &index)?;
            let rounded = weights::rounded(&weights, &weights::largest(layer, &weights));
            state.rounded.insert(layer.name.clone(), rounded);
            state.weights.insert(layer.name.clone(), weights);
            state.biases.insert(layer.name.clone(), bias);
        }
        self.state = state;
        Ok(())
    }

    /// Runs samples.
    fn observe(&mut self, pass: &str, numbers: &[usize]) -> Result<(), Error> {
        self.phase("run samples");
        let index = self.model.index();
        // What may be quantised on the way to the layers.
        let mut watched: Vec<String> = self.state.layers.iter().map(|layer| layer.input.clone()).collect();
        let moved = self.model.graph().node.iter().filter(|node| places::moves(node) || node.op_type == "Concat");
        watched.extend(self.factors.iter().cloned());
        watched.extend(moved.flat_map(|node| node.input.iter().chain(&node.output)).cloned());
        watched.retain(|name| !name.is_empty() && !index.initializers.contains_key(name));
        watched.sort();
        watched.dedup();
        let rows = if self.options.effort == Effort::High { MANY_ROWS } else { ROWS };
        self.state.seen = match Observations::restore(&self.saved, pass) {
            Some(seen) => seen,
            None => {
                let network = Network::new(&self.model, &self.options.import, &watched)?;
                let progress = |done, total| (self.progress)(Progress::Parts { done, total });
                let seen = calibrate::run(&network, self.samples, numbers, &self.state.layers, rows, &progress)?;
                seen.save(&mut self.saved, pass)?;
                seen
            }
        };
        let mut left = Vec::new();
        let seen = &self.state.seen;
        self.state.layers.retain(|layer| {
            let reason = match seen.histograms.get(&layer.input) {
                None => "its input is the same for all samples",
                Some(histogram) if histogram.broken => "its input has infinities or NaN",
                Some(_) => return true,
            };
            left.push((layer.clone(), reason.to_owned()));
            false
        });
        left.into_iter().for_each(|(layer, reason)| self.leave(&layer, reason));
        Ok(())
    }

    /// Samples spread over all of them, with their outputs in f32.
    fn reference(&self, most: usize) -> Result<Reference, Error> {
        self.phase("measure");
        let samples = spread(self.samples.len(), most).into_iter().map(|number| self.samples.load(number));
        Reference::new(&self.model, &self.options.import, samples.collect::<Result<_, _>>()?)
    }

    /// Tries a method and keeps it if the outputs are no further off.
    fn stage(
        &mut self,
        name: &str,
        reference: &Reference,
        distance: &mut Distance,
        stages: &mut Vec<Stage>,
        method: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.phase(name);
        let State { choices, rounded, corrected, .. } = &self.state;
        let before = (choices.clone(), rounded.clone(), corrected.clone());
        method(self)?;
        let mut stage = self.measure(name, reference)?;
        stage.kept = stage.best().scores <= distance.scores;
        if stage.kept {
            *distance = stage.best();
        } else {
            (self.state.choices, self.state.rounded, self.state.corrected) = before;
        }
        stages.push(stage);
        Ok(())
    }

    /// The distance of the model as it would be written, with and without corrected biases; those are taken that are better.
    fn measure(&mut self, name: &str, reference: &Reference) -> Result<Stage, Error> {
        self.phase("measure");
        self.state.corrected.clear();
        let distance = reference.distance(&self.write()?, &self.options.import)?;
        let mut corrected = None;
        if self.options.effort > Effort::Least {
            self.correct_biases();
            let other = reference.distance(&self.write()?, &self.options.import)?;
            if other.scores >= distance.scores {
                self.state.corrected.clear();
            }
            corrected = Some(other);
        }
        Ok(Stage { name: name.into(), distance, corrected, kept: false })
    }

    /// The layers in 8 bits.
    fn enabled(&self) -> Vec<&Layer> {
        self.state.layers.iter().filter(|layer| !self.floats.contains(&layer.name)).collect()
    }

    /// Min-max ranges of all values.
    fn choose(&mut self) {
        self.state.choices = self.choices(ranges::methods(false));
    }

    /// The ranges with the least effect, where that is at most `share` of min-max's.
    fn choose_by_effect(&mut self, share: f64) {
        let tried = self.choices(ranges::methods(true));
        for (name, choice) in tried {
            if choice.errors[1] <= choice.errors[0] * share {
                self.state.choices.insert(name, choice);
            }
        }
    }

    fn choices(&self, methods: &[Method]) -> BTreeMap<String, Choice> {
        let layers = self.enabled();
        let groups =
            places::find(&self.model, &self.model.index(), &layers, &self.factors, &self.state.seen.histograms);
        let State { weights, seen, .. } = &self.state;
        ranges::choose(&groups, &layers, weights, seen, self.options.activations, methods)
    }

    /// Scales of weights with the least error, where the results of the layer say so too.
    fn weights_of_least_error(&mut self) -> Result<(), Error> {
        for layer in &self.state.layers {
            let Some(choice) = self.state.choices.get(&layer.input) else { continue };
            let rows = ranges::first_rows(layer, &self.state.seen, JUDGED);
            let inputs = choice.params.round(rows);
            let mut squares = vec![0.0f32; layer.patch()];
            for row in inputs.chunks(layer.patch()) {
                squares.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * value);
            }
            let weights = &self.state.weights[&layer.name];
            let tried = weights::rounded(weights, &weights::least_error(layer, weights, &squares));
            let exact = product(layer, rows, weights);
            let error = |weights: &Weights| relative(&exact, &product(layer, &inputs, &weights.floats()));
            if error(&tried) < error(&self.state.rounded[&layer.name]) {
                self.state.rounded.insert(layer.name.clone(), tried);
            }
        }
        Ok(())
    }

    /// Rounds weights together, judged by rows that were held back.
    fn adapt(&mut self) -> Result<(), Error> {
        let layers = self.state.layers.clone();
        for (number, layer) in layers.iter().enumerate() {
            let Some(choice) = self.state.choices.get(&layer.input) else { continue };
            let old = &self.state.rounded[&layer.name];
            let record = format!("rounded/{}", layer.name);
            let new = match self.saved.get(&record).filter(|bytes| bytes.len() == old.integers.len()) {
                Some(bytes) => {
                    Weights { integers: bytes.iter().map(|&byte| byte as i8).collect(), scales: old.scales.clone() }
                }
                None => {
                    let rows = self.state.seen.rows.get(&layer.name).map_or(&[][..], Vec::as_slice);
                    let count = rows.len() / layer.patch();
                    let held = (count / 4).min(JUDGED) * layer.patch();
                    let (judged, learnt) = rows.split_at(held);
                    let weights = &self.state.weights[&layer.name];
                    let new = round::adapt(layer, weights, &old.scales, &choice.params.round(learnt));
                    let exact = product(layer, judged, weights);
                    let inputs = choice.params.round(judged);
                    let error = |weights: &Weights| relative(&exact, &product(layer, &inputs, &weights.floats()));
                    let new = if error(&new) < error(old) { new } else { old.clone() };
                    self.saved.put(&record, new.integers.iter().map(|&value| value as u8).collect())?;
                    new
                }
            };
            self.state.rounded.insert(layer.name.clone(), new);
            (self.progress)(Progress::Parts { done: number + 1, total: layers.len() });
        }
        Ok(())
    }

    /// Takes back by how much rounding shifts the channels.
    fn correct_biases(&mut self) {
        let State { layers, weights, biases, seen, choices, rounded, corrected } = &mut self.state;
        for layer in layers.iter() {
            let Some(choice) = choices.get(&layer.input) else { continue };
            // A product without a bias of its own gets none.
            if matches!(layer.kind, layers::Kind::Matrix { .. }) && layer.bias.is_none() && layer.addition.is_none() {
                continue;
            }
            let rows = ranges::first_rows(layer, seen, ROWS);
            let floats = rounded[&layer.name].floats();
            let shift = correct::shift(layer, rows, &weights[&layer.name], &choice.params, &floats);
            let bias = biases[&layer.name].iter().zip(shift).map(|(bias, shift)| bias - shift).collect();
            corrected.insert(layer.name.clone(), bias);
        }
    }

    /// The model with the enabled layers in 8 bits.
    fn write(&self) -> Result<Model, Error> {
        self.write_layers(&self.enabled(), &self.factors)
    }

    fn write_layers(&self, layers: &[&Layer], also: &[String]) -> Result<Model, Error> {
        let groups = places::find(&self.model, &self.model.index(), layers, also, &self.state.seen.histograms);
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

    /// Leaves layers as they are that gain no time on the target, where the whole then takes no longer. Gives the cost of the
    /// model in f16.
    fn leave_what_gains_nothing(&mut self) -> Result<Option<Cost>, Error> {
        let Some(target) = self.options.target.as_ref().filter(|target| !target.is_host()) else { return Ok(None) };
        let import = &self.options.import;
        let names: HashSet<String> = self.state.layers.iter().map(|layer| layer.name.clone()).collect();
        let floats = cost::predict(&self.model, import, target, &names)?;
        let of = |cost: &Cost, name: &String| cost.nodes.get(name).copied().unwrap_or(0.0);
        let mut integers = cost::predict(&self.write()?, import, target, &names)?;
        for layer in &self.state.layers {
            let expected = [of(&floats, &layer.name), of(&integers, &layer.name)];
            self.reports.entry(layer.name.clone()).or_default().expected = Some(expected);
        }
        // What its neighbours are decides what a layer takes: again until nothing becomes faster.
        loop {
            let before = self.floats.clone();
            let useless = |layer: &&Layer| of(&integers, &layer.name) >= of(&floats, &layer.name);
            let useless: Vec<String> = self.enabled().into_iter().filter(useless).map(|l| l.name.clone()).collect();
            self.floats.extend(useless);
            if self.floats == before {
                break;
            }
            let next = cost::predict(&self.write()?, import, target, &names)?;
            if next.total > integers.total {
                self.floats = before;
                break;
            }
            integers = next;
        }
        let nothing = integers.total >= floats.total;
        for layer in self.state.layers.clone() {
            if nothing {
                self.floats.insert(layer.name.clone());
                self.leave(&layer, format!("8 bits gain no time on {} as a whole", target.name));
            } else if self.floats.contains(&layer.name) {
                self.leave(&layer, format!("it gains no time on {}", target.name));
            }
        }
        Ok(Some(floats))
    }

    /// Leaves as few layers as possible in floats for a budget to hold: those first that cost most accuracy for the time that
    /// they gain.
    fn hold(&mut self, budget: &Budget, reference: &Reference) -> Result<(), Error> {
        self.phase("effect of each layer");
        let few = self.reference(ALONE)?;
        let layers: Vec<Layer> = self.enabled().into_iter().cloned().collect();
        let mut ranked = Vec::new();
        for (number, layer) in layers.iter().enumerate() {
            let model = self.write_layers(&[layer], &[])?;
            let alone = few.distance(&model, &self.options.import)?.scores;
            let report = self.reports.entry(layer.name.clone()).or_default();
            report.alone = Some(alone);
            let gain = match report.expected {
                Some([before, after]) => (before - after).max(1e-3),
                None => layer.operations.max(1) as f64,
            };
            ranked.push((alone * alone / gain, layer.clone()));
            (self.progress)(Progress::Parts { done: number + 1, total: layers.len() });
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.name.cmp(&b.1.name)));
        self.phase("hold the budget");
        let before = self.floats.clone();
        // The fewest of the first that suffice.
        let (mut low, mut high) = (0, ranked.len());
        while low < high {
            let middle = low.midpoint(high);
            self.floats = before.clone();
            self.floats.extend(ranked[..middle].iter().map(|(_, layer)| layer.name.clone()));
            let holds = budget.holds(&reference.distance(&self.write()?, &self.options.import)?);
            if holds { high = middle } else { low = middle + 1 }
        }
        self.floats = before;
        for (_, layer) in &ranked[..low] {
            self.floats.insert(layer.name.clone());
            self.leave(layer, format!("it costs more accuracy than '{budget}' leaves"));
        }
        Ok(())
    }

    /// The error of each layer's own results.
    fn judge(&mut self) {
        for layer in &self.state.layers {
            let Some(choice) = self.state.choices.get(&layer.input) else { continue };
            let rows = ranges::first_rows(layer, &self.state.seen, 64);
            let exact = product(layer, rows, &self.state.weights[&layer.name]);
            let floats = self.state.rounded[&layer.name].floats();
            let found = product(layer, &choice.params.round(rows), &floats);
            self.reports.entry(layer.name.clone()).or_default().error = relative(&exact, &found);
        }
    }
}

impl Observations {
    fn save(&self, saved: &mut Checkpoint, pass: &str) -> Result<(), Error> {
        for (name, rows) in &self.rows {
            saved.put(&format!("{pass}/rows/{name}"), checkpoint::of_floats(rows))?;
        }
        for (name, sizes) in &self.channels {
            saved.put(&format!("{pass}/channels/{name}"), checkpoint::of_floats(sizes))?;
        }
        let histograms: HashMap<_, _> = self.histograms.iter().map(|(name, h)| (name, h.json())).collect();
        let names = |map: &HashMap<String, Vec<f32>>| map.keys().cloned().collect::<Vec<_>>();
        let all = json!({"histograms": histograms, "rows": names(&self.rows), "channels": names(&self.channels)});
        saved.put(&format!("{pass}/all"), all.to_string().into_bytes())
    }

    fn restore(saved: &Checkpoint, pass: &str) -> Option<Self> {
        let all: Value = serde_json::from_slice(saved.get(&format!("{pass}/all"))?).ok()?;
        let floats = |kind: &str| -> Option<HashMap<String, Vec<f32>>> {
            let names = all[kind].as_array()?.iter().filter_map(Value::as_str);
            let read = |name: &str| Some((name.to_owned(), saved.get(&format!("{pass}/{kind}/{name}"))?));
            names.map(|name| read(name).map(|(name, bytes)| (name, checkpoint::to_floats(bytes)))).collect()
        };
        let histograms = all["histograms"].as_object()?.iter();
        Some(Self {
            histograms: histograms
                .map(|(name, value)| Some((name.clone(), crate::observe::Histogram::of_json(value)?)))
                .collect::<Option<_>>()?,
            rows: floats("rows")?,
            channels: floats("channels")?,
        })
    }
}
