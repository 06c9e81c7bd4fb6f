//! The whole way from a float model to one in 8 bits.
//!
//! Every method is measured: the outputs of the network that it leads to are compared with those in f32, and what does not bring
//! them nearer is not kept.

mod floats;
mod methods;
mod options;
mod outcome;
mod trials;
mod work;

pub use options::{Effort, Options, Progress};
pub use outcome::{LayerReport, Quantized, Stage};

use crate::{Error, Model, Samples, checkpoint::Checkpoint, observe::Method, prepare, run::Sample, table::Table};
use sha2::{Digest, Sha256};
use trials::Trials;
use work::Work;

/// Samples that the effect on the outputs is measured with.
const EVALUATED: usize = 24;

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
    progress(Progress::Phase("read"));
    if samples.is_empty() {
        return Err(Error::Samples("there are no samples to calibrate with".into()));
    }
    let mut float = model.clone();
    let folded = prepare::run(&mut float, &options.import, options.activations.opset())?;
    let saved = match &options.checkpoint {
        Some(path) => Checkpoint::open(path, key(&float, samples, options)?)?,
        None => Checkpoint::default(),
    };
    let mut work = Work::new(float, samples, options, progress, saved)?;
    let mut trials = Trials::new(work.reference(EVALUATED)?);
    work.try_methods(&mut trials)?;
    let costs = work.leave_what_gains_nothing()?;
    if costs.is_some() {
        trials.distance = trials.reference.distance(&work.write()?, &options.import)?;
    }
    if let Some(budget) = options.budget {
        work.hold(&budget, &mut trials)?;
    }
    work.judge();
    work.outcome(folded, Some(trials), costs)
}

/// Quantises a model with the ranges of a table. Without samples there is nothing to judge a method by: none is tried, and no
/// effort, budget or checkpoint is heeded.
///
/// # Errors
/// Returns an error if the model is refused, or if the table has no range of what any of its products reads.
pub fn quantise_by_table(
    model: &Model,
    table: &Table,
    options: &Options,
    progress: &(dyn Fn(Progress<'_>) + Sync),
) -> Result<Quantized, Error> {
    progress(Progress::Phase("read"));
    let mut float = model.clone();
    let folded = prepare::run(&mut float, &options.import, options.activations.opset())?;
    let no_samples: Vec<Sample> = Vec::new();
    let mut work = Work::new(float, &no_samples, options, progress, Checkpoint::default())?;
    let (seen, layers) = (table.observations(), &work.state.layers);
    if !layers.is_empty() && !layers.iter().any(|layer| seen.histograms.contains_key(&layer.input)) {
        return Err(Error::Table(
            "the calibration table names nothing that a product reads; make it of this model, whose values have these names"
                .into(),
        ));
    }
    work.see(seen, "the calibration table has no range of its input");
    work.choose(Method::Table);
    let costs = work.leave_what_gains_nothing()?;
    work.outcome(folded, None, costs)
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
