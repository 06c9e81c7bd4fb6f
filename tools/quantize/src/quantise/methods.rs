//! The methods: ranges, channels evened out, weights and biases.

use super::{
    Effort, Progress, spread,
    trials::Trials,
    work::{ROWS, State, Work},
};
use crate::{
    Error, correct,
    layers::Kind,
    observe::{METHODS, Method},
    params::Activations,
    product::{product, relative},
    ranges::{self, Choice},
    round, smooth,
    weights::{self, Weights},
};
use std::collections::BTreeMap;

/// Samples of the first look, which decides on smoothing.
const FIRST_LOOK: usize = 64;
/// Rows that weights and biases are judged by.
const JUDGED: usize = 512;

impl Work<'_> {
    /// Takes min-max ranges, and tries as many methods as the effort allows.
    pub(super) fn try_methods(&mut self, trials: &mut Trials) -> Result<(), Error> {
        let all: Vec<usize> = (0..self.samples.len()).collect();
        if self.options.effort == Effort::Least {
            self.observe("first", &all)?;
            self.choose(Method::MinMax);
            return trials.first(self, "min-max");
        }
        let first_look = spread(all.len(), FIRST_LOOK);
        self.observe("first", &first_look)?;
        self.choose(Method::MinMax);
        trials.first(self, "min-max")?;
        if !self.even_out(trials, &all)? && first_look.len() < all.len() {
            trials.attempt(self, "min-max of all samples", |work| {
                work.observe("all", &all)?;
                work.choose(Method::MinMax);
                Ok(())
            })?;
        }
        // Where all that help a little do not help together, those that help much may.
        for (name, share) in [("ranges by effect", 1.0), ("ranges of large effect", 0.5)] {
            let by_effect = |work: &mut Self| {
                work.choose_by_effect(share);
                Ok(())
            };
            if trials.attempt(self, name, by_effect)? {
                break;
            }
        }
        trials.attempt(self, "weights of least error", Self::weights_of_least_error)?;
        // Its steps are those of integers.
        if self.options.effort == Effort::High && self.options.activations != Activations::Float8 {
            trials.attempt(self, "adaptive rounding", Self::adapt)?;
        }
        Ok(())
    }

    /// Evens out channels where that brings the outputs nearer; says whether it does.
    fn even_out(&mut self, trials: &mut Trials, samples: &[usize]) -> Result<bool, Error> {
        self.phase("even out channels");
        let plain = (self.model.clone(), self.state.clone());
        let smoothed = smooth::run(&mut self.model, &self.state.layers, &self.state.seen, self.options.activations)?;
        if !smoothed.is_empty() {
            self.find_layers()?;
            self.observe("evened", samples)?;
            self.choose(Method::MinMax);
            if trials.nearer(self, "channels evened out")? {
                self.smoothed = smoothed;
                return Ok(true);
            }
        }
        (self.model, self.state) = plain;
        Ok(false)
    }

    /// Ranges of all values by one method.
    pub(super) fn choose(&mut self, method: Method) {
        self.state.choices = self.choices(&[method]);
    }

    /// The ranges with the least effect, where that is at most `share` of min-max's.
    fn choose_by_effect(&mut self, share: f64) {
        let tried = self.choices(&METHODS);
        for (name, choice) in tried {
            if choice.errors.is_some_and(|[first, best]| best <= first * share) {
                self.state.choices.insert(name, choice);
            }
        }
    }

    fn choices(&self, methods: &[Method]) -> BTreeMap<String, Choice> {
        let layers = self.enabled();
        let groups = self.groups(&layers, &self.factors);
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
            let dtype = self.options.activations.weights();
            let tried = weights::rounded(weights, &weights::least_error(layer, weights, &squares, dtype), dtype);
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
            let new = match self.saved.get(&record).filter(|bytes| bytes.len() == old.elements.len()) {
                Some(bytes) => {
                    let elements = bytes.iter().map(|&byte| byte as i8).collect();
                    Weights { dtype: old.dtype, elements, scales: old.scales.clone() }
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
                    self.saved.put(&record, new.elements.iter().map(|&value| value as u8).collect())?;
                    new
                }
            };
            self.state.rounded.insert(layer.name.clone(), new);
            (self.progress)(Progress::Parts { done: number + 1, total: layers.len() });
        }
        Ok(())
    }

    /// Takes back by how much rounding shifts the channels.
    pub(super) fn correct_biases(&mut self) {
        let State { layers, weights, biases, seen, choices, rounded, corrected } = &mut self.state;
        for layer in layers.iter() {
            let Some(choice) = choices.get(&layer.input) else { continue };
            // A product without a bias of its own gets none.
            if matches!(layer.kind, Kind::Matrix { .. }) && layer.bias.is_none() && layer.addition.is_none() {
                continue;
            }
            let rows = ranges::first_rows(layer, seen, ROWS);
            let floats = rounded[&layer.name].floats();
            let shift = correct::shift(layer, rows, &weights[&layer.name], &choice.params, &floats);
            let bias = biases[&layer.name].iter().zip(shift).map(|(bias, shift)| bias - shift).collect();
            corrected.insert(layer.name.clone(), bias);
        }
    }

    /// The error of each layer's own results.
    pub(super) fn judge(&mut self) {
        for layer in &self.state.layers {
            let Some(choice) = self.state.choices.get(&layer.input) else { continue };
            let rows = ranges::first_rows(layer, &self.state.seen, 64);
            let exact = product(layer, rows, &self.state.weights[&layer.name]);
            let floats = self.state.rounded[&layer.name].floats();
            let found = product(layer, &choice.params.round(rows), &floats);
            self.reports.entry(layer.name.clone()).or_default().error = Some(relative(&exact, &found));
        }
    }
}
