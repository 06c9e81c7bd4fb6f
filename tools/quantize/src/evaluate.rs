//! How far a network's outputs are from those in f32.

use crate::{Error, run::Sample, Model, normalise::floats, run::Network};
use floe_models::{ImportOptions, Tensor};
use serde_json::{Value, json};

/// A distance between outputs, over all samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Distance {
    /// `‖a − b‖ / ‖a‖`, of the worst output.
    pub relative: f64,
    /// Mean cosine, of the worst output.
    pub cosine: f64,
    /// Share of rows (along the last dimension) that keep their largest element, of the worst output.
    pub top1: f64,
}

impl Distance {
    /// For a report.
    pub fn json(&self) -> Value {
        json!({"relative": self.relative, "cosine": self.cosine, "top1": self.top1})
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
    outputs: Vec<Vec<Tensor>>,
}

impl Reference {
    /// Runs the network in f32.
    ///
    /// # Errors
    /// Where it cannot run.
    pub fn new(model: &Model, options: &ImportOptions, samples: Vec<Sample>) -> Result<Self, Error> {
        let outputs = Network::new(model, options, &[])?.all(&samples)?;
        Ok(Self { samples, outputs })
    }

    /// How far another form of the network is from it.
    ///
    /// # Errors
    /// Where it cannot run.
    pub fn distance(&self, model: &Model, options: &ImportOptions) -> Result<Distance, Error> {
        let outputs = Network::new(model, options, &[])?.all(&self.samples)?;
        Ok(distance(&self.outputs, &outputs))
    }
}

/// The distance between outputs: by sample, then by output.
pub fn distance(exact: &[Vec<Tensor>], approximate: &[Vec<Tensor>]) -> Distance {
    let count = exact.first().map_or(0, Vec::len);
    let mut worst = Distance { relative: 0.0, cosine: 1.0, top1: 1.0 };
    for output in 0..count {
        let (mut error, mut norm, mut cosine, mut same, mut rows) = (0.0, 0.0, 0.0, 0usize, 0usize);
        for (exact, approximate) in exact.iter().zip(approximate) {
            let (Some(a), Some(b)) = (floats(&exact[output]), floats(&approximate[output])) else { continue };
            let width = exact[output].shape.last().copied().unwrap_or(1).max(1);
            let (mut products, mut of_a, mut of_b) = (0.0f64, 0.0f64, 0.0f64);
            for (&a, &b) in a.iter().zip(&b) {
                let (a, b) = (f64::from(a), f64::from(b));
                // What is no number is as far off as can be.
                let b = if b.is_finite() { b } else { f64::MAX.sqrt() };
                error += (a - b) * (a - b);
                products += a * b;
                of_a += a * a;
                of_b += b * b;
            }
            norm += of_a;
            let sizes = (of_a * of_b).sqrt();
            cosine += if sizes > 0.0 { products / sizes } else { f64::from(u8::from(of_a == of_b)) };
            for (a, b) in a.chunks(width).zip(b.chunks(width)) {
                same += usize::from(largest(a) == largest(b));
                rows += 1;
            }
        }
        if rows > 0 {
            worst.relative = worst.relative.max((error / norm.max(f64::MIN_POSITIVE)).sqrt());
            worst.cosine = worst.cosine.min(cosine / exact.len() as f64);
            worst.top1 = worst.top1.min(same as f64 / rows as f64);
        }
    }
    worst
}

fn largest(values: &[f32]) -> usize {
    values.iter().enumerate().fold(0, |best, (index, value)| if *value > values[best] { index } else { best })
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
        assert_eq!(distance(&exact, &exact), Distance { relative: 0.0, cosine: 1.0, top1: 1.0 });
        let broken = [vec![tensor(&[f32::NAN, 0.0]), tensor(&[3.0, 4.0])]];
        assert!(distance(&exact, &broken).relative > 1e100);
    }
}
