//! How far a network's outputs are from those in f32.

use crate::{
    Error, Model, nodes,
    run::{Import, Network, Sample},
};
use floe_accuracy::metrics;
use floe_models::{Tensor, onnx::proto::NodeProto};
use rayon::prelude::*;
use serde_json::{Value, json};

/// A distance between outputs, over all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// `‖a − b‖ / ‖a‖` over all samples, of the worst output.
    pub relative: f64,
    /// The same in front of a last softmax, whose results hardly show how far the scores are off; what methods are judged by.
    pub scores: f64,
    /// Cosine of the angle between all samples' values, of the worst output.
    pub cosine: f64,
    /// Share of rows of scores that keep their largest element, of the worst output; 1 where there are no scores.
    pub top1: f64,
}

impl Distance {
    /// For a report.
    pub fn json(&self) -> Value {
        json!({"relative": self.relative, "scores": self.scores, "cosine": self.cosine, "top1": self.top1})
    }
}

/// What a network may lose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Budget {
    /// Least cosine.
    Cosine(f64),
    /// Least share of rows that keep their largest element.
    Top1(f64),
    /// Largest relative error.
    Relative(f64),
}

impl Budget {
    /// Reads `cosine 0.999`, `top-1 0.99` or `relative 0.02`.
    ///
    /// # Errors
    /// Returns an error if it is none of them.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = "write 'cosine 0.999', 'top-1 0.99' or 'relative 0.02'";
        let (kind, number) = text.trim().split_once(|c: char| c.is_whitespace() || c == '=').ok_or(wanted)?;
        let number = number.trim();
        let value = match number.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|value| value / 100.0),
            None => number.parse(),
        };
        let value = value.map_err(|_| format!("'{number}' is no number; {wanted}"))?;
        if !(0.0..=1.0).contains(&value) {
            return Err(format!("{number} is not between 0 and 1; {wanted}"));
        }
        match kind {
            "cosine" => Ok(Self::Cosine(value)),
            "top-1" | "top1" => Ok(Self::Top1(value)),
            "relative" => Ok(Self::Relative(value)),
            _ => Err(format!("'{kind}' is no budget; {wanted}")),
        }
    }

    /// Whether a distance is within it.
    pub fn holds(&self, distance: &Distance) -> bool {
        match *self {
            Self::Cosine(least) => distance.cosine >= least,
            Self::Top1(least) => distance.top1 >= least,
            Self::Relative(most) => distance.relative <= most,
        }
    }
}

impl std::fmt::Display for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cosine(value) => write!(f, "cosine {value}"),
            Self::Top1(value) => write!(f, "top-1 {value}"),
            Self::Relative(value) => write!(f, "relative {value}"),
        }
    }
}

/// Samples with the outputs that the network has for them in f32.
#[derive(Debug)]
pub struct Reference {
    samples: Vec<Sample>,
    /// Values in front of a last softmax.
    scores: Vec<String>,
    found: Vec<Found>,
}

/// Outputs of a run, and scores by the place of their names.
type Found = (Vec<Tensor>, Vec<Tensor>);

impl Reference {
    /// Runs the network in f32.
    ///
    /// # Errors
    /// Where it cannot run.
    pub fn new(model: &Model, import: &Import, samples: Vec<Sample>) -> Result<Self, Error> {
        let graph = model.graph();
        let last = |node: &&NodeProto| {
            (nodes::is(node, "Softmax") || nodes::is(node, "LogSoftmax"))
                && graph.output.iter().any(|output| node.output.contains(&output.name))
        };
        let scores = graph.node.iter().filter(last).map(|node| node.input[0].clone()).collect();
        let mut reference = Self { samples, scores, found: Vec::new() };
        reference.found = reference.run(model, import)?;
        Ok(reference)
    }

    fn run(&self, model: &Model, import: &Import) -> Result<Vec<Found>, Error> {
        let network = Network::new(model, import, &self.scores)?;
        let one = |sample: &Sample| {
            let mut scores = vec![Tensor::f32(&[0], &[]); self.scores.len()];
            let outputs = network.run(sample, &mut |name, tensor| {
                if let Some(place) = self.scores.iter().position(|known| known == name) {
                    scores[place] = tensor.clone();
                }
            })?;
            Ok((outputs, scores))
        };
        self.samples.par_iter().map(one).collect()
    }

    /// How far another form of the network is from it.
    ///
    /// # Errors
    /// Where it cannot run.
    pub fn distance(&self, model: &Model, import: &Import) -> Result<Distance, Error> {
        let (exact, exact_scores): (Vec<_>, Vec<_>) = self.found.iter().cloned().unzip();
        let (outputs, scores): (Vec<_>, Vec<_>) = self.run(model, import)?.into_iter().unzip();
        let mut found = distance(&exact, &outputs);
        let of_scores = distance(&exact_scores, &scores).relative;
        found.scores = if self.scores.is_empty() { found.relative } else { of_scores };
        Ok(found)
    }
}

/// The distance between outputs: by sample, then by output.
pub fn distance(exact: &[Vec<Tensor>], approximate: &[Vec<Tensor>]) -> Distance {
    let count = exact.first().map_or(0, Vec::len);
    let mut worst = Distance { relative: 0.0, scores: 0.0, cosine: 1.0, top1: 1.0 };
    for output in 0..count {
        let (mut error, mut agreement) = (metrics::Error::default(), metrics::Agreement::default());
        for (exact, approximate) in exact.iter().zip(approximate).map(|(a, b)| (&a[output], &b[output])) {
            if !exact.dtype.is_float() {
                continue;
            }
            let (a, b) = (exact.to_f64(), approximate.to_f64());
            error.add(&a, &b, metrics::Bound::default());
            if let Some(classes) = metrics::classes(&exact.shape, &a) {
                agreement.add(&a, &b, classes);
            }
        }
        if error.elements > 0 {
            let broken = error.unfinite > 0;
            worst.relative = worst.relative.max(if broken { f64::INFINITY } else { error.relative() });
            worst.cosine = worst.cosine.min(if broken { -1.0 } else { error.cosine() });
            worst.top1 = worst.top1.min(agreement.share_1());
        }
    }
    worst.scores = worst.relative;
    worst
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_refused() {
        assert_eq!(Budget::parse("cosine 0.999"), Ok(Budget::Cosine(0.999)));
        assert_eq!(Budget::parse("top-1 99.5%"), Ok(Budget::Top1(0.995)));
        assert_eq!(Budget::parse(" relative=0.02 "), Ok(Budget::Relative(0.02)));
        for wrong in ["", "cosine", "cosine x", "cosine 2", "mAP 0.5"] {
            assert!(Budget::parse(wrong).unwrap_err().contains("cosine 0.999"), "{wrong}");
        }
    }

    #[test]
    fn the_worst_output_counts() {
        let tensor = |values: &[f32]| Tensor::f32(&[1, values.len()], values);
        let exact = [vec![tensor(&[1.0, 0.0]), tensor(&[3.0, 4.0])]];
        let near = [vec![tensor(&[1.0, 0.0]), tensor(&[4.0, 3.0])]];
        let found = distance(&exact, &near);
        assert!((found.cosine - 24.0 / 25.0).abs() < 1e-12 && (found.relative - 0.08f64.sqrt()).abs() < 1e-12);
        assert_eq!(found.top1, 0.0);
        assert_eq!(distance(&exact, &exact), Distance { relative: 0.0, scores: 0.0, cosine: 1.0, top1: 1.0 });
        let broken = [vec![tensor(&[f32::NAN, 0.0]), tensor(&[3.0, 4.0])]];
        assert!(distance(&exact, &broken).relative == f64::INFINITY);
    }
}
