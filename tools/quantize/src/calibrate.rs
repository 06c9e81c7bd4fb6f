//! Runs the samples and keeps what quantising needs of the values inside: how they are distributed, how large each channel
//! becomes, and some of the rows that products multiply with.

use crate::{
    Error, Samples,
    checkpoint::{self, Checkpoint},
    layers::Layer,
    normalise::floats,
    observe::Histogram,
    random::{Random, seed},
    run::Network,
};
use floe_models::{DType, Tensor};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes of rows that are kept of a layer.
const MOST_ROW_BYTES: usize = 16 << 20;
/// Bytes of rows that are kept together.
const MOST_ALL_BYTES: usize = 1 << 30;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// How values are distributed.
    pub histograms: HashMap<String, Histogram>,
    /// The largest size in each channel of what a layer reads.
    pub channels: HashMap<String, Vec<f32>>,
    /// Rows that a layer multiplies with, by its name.
    pub rows: HashMap<String, Vec<f32>>,
}

impl Observations {
    fn merge(&mut self, other: Self) {
        for (name, histogram) in other.histograms {
            match self.histograms.get_mut(&name) {
                Some(own) => own.merge(&histogram),
                None => drop(self.histograms.insert(name, histogram)),
            }
        }
        for (name, sizes) in other.channels {
            match self.channels.get_mut(&name) {
                Some(own) => own.iter_mut().zip(sizes).for_each(|(own, size)| *own = own.max(size)),
                None => drop(self.channels.insert(name, sizes)),
            }
        }
        for (name, rows) in other.rows {
            self.rows.entry(name).or_default().extend(rows);
        }
    }

    /// Keeps what was seen in a pass.
    ///
    /// # Errors
    /// Where the checkpoint cannot be written.
    pub fn save(&self, saved: &mut Checkpoint, pass: &str) -> Result<(), Error> {
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

    /// What an earlier run kept of a pass, `None` where it did not complete it.
    pub fn restore(saved: &Checkpoint, pass: &str) -> Option<Self> {
        let all: Value = serde_json::from_slice(saved.get(&format!("{pass}/all"))?).ok()?;
        let floats = |kind: &str| -> Option<HashMap<String, Vec<f32>>> {
            let names = all[kind].as_array()?.iter().filter_map(Value::as_str);
            let read = |name: &str| Some((name.to_owned(), saved.get(&format!("{pass}/{kind}/{name}"))?));
            names.map(|name| read(name).map(|(name, bytes)| (name, checkpoint::to_floats(bytes)))).collect()
        };
        let histograms = all["histograms"].as_object()?.iter();
        Some(Self {
            histograms: histograms
                .map(|(name, value)| Some((name.clone(), Histogram::of_json(value)?)))
                .collect::<Option<_>>()?,
            rows: floats("rows")?,
            channels: floats("channels")?,
        })
    }
}

/// Runs samples. `watched` are further values whose distribution is wanted; `rows` is how many rows of each layer are kept.
///
/// # Errors
/// Where a sample cannot be read or does not fit.
pub fn run(
    network: &Network,
    samples: &dyn Samples,
    numbers: &[usize],
    layers: &[Layer],
    rows: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Observations, Error> {
    let mut readers: HashMap<&str, Vec<&Layer>> = HashMap::new();
    layers.iter().for_each(|layer| readers.entry(&layer.input).or_default().push(layer));
    let all: usize = layers.iter().map(|layer| layer.patch() * 4).sum();
    let rows = rows.min(MOST_ALL_BYTES / all.max(1)).max(1);
    let each: BTreeMap<&str, usize> = layers
        .iter()
        .map(|layer| {
            let most = rows.min(MOST_ROW_BYTES / (layer.patch() * 4).max(1)).max(16);
            (layer.name.as_str(), most.div_ceil(numbers.len().max(1)))
        })
        .collect();
    let done = AtomicUsize::new(0);
    let one = |&number: &usize| -> Result<Observations, Error> {
        let sample = samples.load(number)?;
        let mut seen = Observations::default();
        let mut visited = HashSet::new();
        network.run(&sample, &mut |name, tensor| {
            if tensor.dtype != DType::F32 || !visited.insert(name.to_owned()) {
                return;
            }
            let values = floats(tensor).unwrap_or_default();
            seen.histograms.entry(name.to_owned()).or_default().add(&values);
            for layer in readers.get(name).into_iter().flatten() {
                let sizes = channel_sizes(&values, tensor, layer);
                seen.channels.entry(name.to_owned()).or_insert(sizes);
                let mut random = Random::new(seed(&layer.name) ^ number as u64);
                let kept = seen.rows.entry(layer.name.clone()).or_default();
                let (wanted, mut row) = (each[layer.name.as_str()], 0);
                // One place in each of as many equal parts: none twice.
                let mut pick = |places: usize| {
                    row += 1;
                    ((row - 1) * places + random.below(places)) / wanted.min(places)
                };
                layer.gather(tensor, wanted, &mut pick, kept);
            }
        })?;
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, numbers.len());
        Ok(seen)
    };
    // A few samples at a time, joined in their order.
    let mut seen = Observations::default();
    for chunk in numbers.chunks(8) {
        for part in chunk.par_iter().map(one).collect::<Result<Vec<_>, _>>()? {
            seen.merge(part);
        }
    }
    Ok(seen)
}

/// The largest size in each channel.
fn channel_sizes(values: &[f32], tensor: &Tensor, layer: &Layer) -> Vec<f32> {
    let axis = layer.channel_axis(tensor.shape.len());
    let inner: usize = tensor.shape[axis + 1..].iter().product();
    let mut sizes = vec![0.0f32; tensor.shape[axis]];
    for (run, values) in values.chunks(inner.max(1)).enumerate() {
        let size = &mut sizes[run % tensor.shape[axis]];
        *size = values.iter().fold(*size, |most, value| most.max(value.abs()));
    }
    sizes
}
