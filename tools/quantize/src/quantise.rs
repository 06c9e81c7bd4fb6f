//! The whole way from a float model to one in 8 bits.

use crate::{
    Error, Model, Samples,
    calibrate::{self, Observations},
    evaluate::{Budget, Distance, Reference},
    fold,
    insert::{self, Quantised},
    layers::{self, Layer, Left},
    normalise,
    params::{Activations, Params},
    places,
    ranges::{self, Choice},
    run::{self, Network},
    upgrade,
    weights::{self, Weights},
};
use floe_models::{Fact, ImportOptions};
use std::collections::{BTreeMap, HashMap};

/// How to quantise.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Shapes and constants of inputs.
    pub import: ImportOptions,
    /// Integers of activations.
    pub activations: Activations,
    /// Leaves biases as floats.
    pub float_bias: bool,
    /// What the network may lose.
    pub budget: Option<Budget>,
    /// Nodes that stay as they are.
    pub keep: Vec<String>,
    /// Only the least: min-max and one pass.
    pub plain: bool,
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

/// The result.
#[derive(Debug)]
pub struct Quantized {
    /// The model in 8 bits.
    pub model: Model,
    /// The float model with everything folded, of which it is made.
    pub float: Model,
    /// Layers in 8 bits.
    pub layers: Vec<Layer>,
    /// Products that are not.
    pub left: Vec<Left>,
    /// What values became.
    pub values: BTreeMap<String, Choice>,
    /// Distances from f32, with the name of what was added last.
    pub stages: Vec<(String, Distance)>,
    /// Nodes that were folded into others.
    pub folded: Vec<String>,
}

/// Rows of each layer that are kept.
const ROWS: usize = 1024;
/// Samples that the effect on the outputs is measured with.
const EVALUATED: usize = 16;

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
    let folded = prepare(&mut float, &options.import)?;
    if samples.is_empty() {
        return Err(Error::Samples("there are no samples to calibrate with".into()));
    }
    let mut work = Work::new(float, samples, options, progress)?;
    work.observe()?;
    let reference = work.reference()?;
    let mut stages = Vec::new();
    work.choose(false);
    let mut best = work.write()?;
    let mut distance = reference.distance(&best, &options.import)?;
    stages.push(("min-max".to_owned(), distance));
    if !options.plain {
        let before = work.choices.clone();
        work.choose(true);
        let model = work.write()?;
        let next = reference.distance(&model, &options.import)?;
        stages.push(("ranges by effect".to_owned(), next));
        if next.relative <= distance.relative {
            (best, distance) = (model, next);
        } else {
            work.choices = before;
        }
    }
    let _ = distance;
    Ok(Quantized {
        model: best,
        float: work.model,
        layers: work.layers,
        left: work.left,
        values: work.choices,
        stages,
        folded,
    })
}

/// Brings a float model into the form that quantising works on. Gives the nodes that were folded.
///
/// # Errors
/// Where the model is refused.
pub fn prepare(model: &mut Model, import: &ImportOptions) -> Result<Vec<String>, Error> {
    normalise::run(model)?;
    if model.opset() < upgrade::OPSET {
        let facts = run::facts(model, import)?;
        let ranks = facts.iter().map(|(name, fact)| (name.clone(), fact.shape.len())).collect();
        upgrade::run(model, &ranks)?;
    }
    fold::run(model)
}

/// What is known on the way.
struct Work<'a> {
    model: Model,
    samples: &'a dyn Samples,
    options: &'a Options,
    progress: &'a (dyn Fn(Progress<'_>) + Sync),
    #[allow(dead_code)]
    facts: HashMap<String, Fact>,
    layers: Vec<Layer>,
    left: Vec<Left>,
    weights: HashMap<String, Vec<f32>>,
    biases: HashMap<String, Vec<f32>>,
    seen: Observations,
    choices: BTreeMap<String, Choice>,
    rounded: HashMap<String, Weights>,
}

impl<'a> Work<'a> {
    fn new(
        model: Model,
        samples: &'a dyn Samples,
        options: &'a Options,
        progress: &'a (dyn Fn(Progress<'_>) + Sync),
    ) -> Result<Self, Error> {
        let facts = run::facts(&model, &options.import)?;
        let (mut layers, mut left) = layers::find(&model, &facts)?;
        layers.retain(|layer| {
            let kept = options.keep.contains(&layer.name);
            if kept {
                let reason = "--keep names it".into();
                left.push(Left { name: layer.name.clone(), operator: operator(layer), reason, operations: layer.operations });
            }
            !kept
        });
        let mut work = Self {
            model,
            samples,
            options,
            progress,
            facts,
            layers,
            left,
            weights: HashMap::new(),
            biases: HashMap::new(),
            seen: Observations::default(),
            choices: BTreeMap::new(),
            rounded: HashMap::new(),
        };
        work.read_parameters()?;
        Ok(work)
    }

    fn read_parameters(&mut self) -> Result<(), Error> {
        let index = self.model.index();
        for layer in &self.layers {
            let (weights, bias) = layer.parameters(&self.model, &index)?;
            let rounded = weights::rounded(&weights, &weights::largest(layer, &weights));
            self.rounded.insert(layer.name.clone(), rounded);
            self.weights.insert(layer.name.clone(), weights);
            self.biases.insert(layer.name.clone(), bias);
        }
        Ok(())
    }

    /// Runs all samples.
    fn observe(&mut self) -> Result<(), Error> {
        (self.progress)(Progress::Phase("run samples"));
        let index = self.model.index();
        // What may be quantised on the way to the layers.
        let mut watched: Vec<String> = self.layers.iter().map(|layer| layer.input.clone()).collect();
        let moved = self.model.graph().node.iter().filter(|node| places::moves(node) || node.op_type == "Concat");
        watched.extend(moved.flat_map(|node| node.input.iter().chain(&node.output)).cloned());
        watched.retain(|name| !name.is_empty() && !index.initializers.contains_key(name));
        watched.sort();
        watched.dedup();
        let network = Network::new(&self.model, &self.options.import, &watched)?;
        let numbers: Vec<usize> = (0..self.samples.len()).collect();
        let progress = |done, total| (self.progress)(Progress::Parts { done, total });
        self.seen = calibrate::run(&network, self.samples, &numbers, &self.layers, ROWS, &progress)?;
        let mut left = Vec::new();
        let seen = &self.seen;
        self.layers.retain(|layer| {
            let reason = match seen.histograms.get(&layer.input) {
                None => "its input is the same for all samples",
                Some(histogram) if histogram.broken => "its input has infinities or NaN",
                Some(_) => return true,
            };
            left.push(Left {
                name: layer.name.clone(),
                operator: operator(layer),
                reason: reason.into(),
                operations: layer.operations,
            });
            false
        });
        self.left.extend(left);
        Ok(())
    }

    /// Samples spread over all of them, with their outputs in f32.
    fn reference(&self) -> Result<Reference, Error> {
        (self.progress)(Progress::Phase("measure"));
        let count = self.samples.len().min(EVALUATED);
        let numbers = (0..count).map(|number| number * self.samples.len() / count);
        let samples = numbers.map(|number| self.samples.load(number)).collect::<Result<_, _>>()?;
        Reference::new(&self.model, &self.options.import, samples)
    }

    fn choose(&mut self, by_effect: bool) {
        (self.progress)(Progress::Phase("choose ranges"));
        let layers: Vec<&Layer> = self.layers.iter().collect();
        let groups = places::find(&self.model, &self.model.index(), &layers, &self.seen.histograms);
        let methods = ranges::methods(by_effect);
        self.choices =
            ranges::choose(&groups, &layers, &self.weights, &self.seen, self.options.activations, methods);
    }

    fn write(&self) -> Result<Model, Error> {
        let params: BTreeMap<String, Params> =
            self.choices.iter().map(|(name, choice)| (name.clone(), choice.params)).collect();
        let quantised: Vec<Quantised<'_>> = self
            .layers
            .iter()
            .map(|layer| Quantised {
                layer,
                weights: self.rounded[&layer.name].clone(),
                bias: layer.bias.as_ref().map(|_| self.biases[&layer.name].clone()),
            })
            .collect();
        insert::run(&self.model, &params, &quantised, self.options.float_bias)
    }
}

fn operator(layer: &Layer) -> String {
    if matches!(layer.kind, layers::Kind::Conv(_)) { "Conv".into() } else { "MatMul".into() }
}
