//! Layers that stay floats although 8 bits could do them: those that gain no time, and those that a budget cannot afford.

use super::{Progress, Stage, trials::Trials, work::Work};
use crate::{
    Error,
    cost::{self, Cost},
    evaluate::{Budget, Reference},
    layers::Layer,
};
use std::collections::HashSet;

/// Samples that the effect of one layer alone is measured with.
const ALONE: usize = 8;

impl Work<'_> {
    /// Leaves layers as they are that gain no time on the target, where the whole then takes no longer. Gives the cost of the
    /// model in f16.
    pub(super) fn leave_what_gains_nothing(&mut self) -> Result<Option<Cost>, Error> {
        self.phase("expected times");
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

    /// Leaves layers in floats until a budget holds, or none is left.
    pub(super) fn hold(&mut self, budget: &Budget, trials: &mut Trials) -> Result<(), Error> {
        if !budget.holds(&trials.distance) {
            let ranked = self.ranked()?;
            self.leave_fewest(&ranked, budget, &trials.reference)?;
            let distance = trials.reference.distance(&self.write()?, &self.options.import)?;
            trials.distance = distance;
            trials.stages.push(Stage {
                name: format!("floats kept for {budget}"),
                distance,
                corrected: None,
                kept: true,
            });
        }
        trials.within_budget = Some(budget.holds(&trials.distance));
        Ok(())
    }

    /// The layers in 8 bits, those first that cost most accuracy for the time that they gain.
    fn ranked(&mut self) -> Result<Vec<Layer>, Error> {
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
        Ok(ranked.into_iter().map(|(_, layer)| layer).collect())
    }

    /// Leaves the fewest of the first layers in floats for which a budget holds.
    fn leave_fewest(&mut self, ranked: &[Layer], budget: &Budget, reference: &Reference) -> Result<(), Error> {
        self.phase("hold the budget");
        let before = self.floats.clone();
        let (mut low, mut high) = (0, ranked.len());
        while low < high {
            let middle = low.midpoint(high);
            self.floats = before.clone();
            self.floats.extend(ranked[..middle].iter().map(|layer| layer.name.clone()));
            let holds = budget.holds(&reference.distance(&self.write()?, &self.options.import)?);
            if holds { high = middle } else { low = middle + 1 }
        }
        self.floats = before;
        for layer in &ranked[..low] {
            self.floats.insert(layer.name.clone());
            self.leave(layer, format!("it costs more accuracy than '{budget}' leaves"));
        }
        Ok(())
    }
}
