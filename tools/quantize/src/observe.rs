//! What values a tensor has over the samples, and between which ends it could be quantised.
//!
//! | method | ends | source |
//! |---|---|---|
//! | min-max | the least and the largest value | Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference", 2018 |
//! | percentile | what all but a share of the values lies between | Wu et al., "Integer quantization for deep learning inference", 2020 |
//! | entropy | the least Kullback-Leibler divergence of the quantised distribution | Migacz, "8-bit inference with TensorRT", 2017 |
//! | MSE | the least mean squared error | Sung et al., "Resiliency of deep neural networks under quantization", 2015; Banner et al., "Post training 4-bit quantization of convolutional networks", 2019 |

use crate::params::{Activations, Params};
use serde_json::{Value, json};

/// Bins on either side of 0.
const SIDE: usize = 4096;

/// How often a tensor has which values. Bins are of one width, which is a power of two and doubles when values do not fit: they
/// can be joined exactly, whatever the order of the samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Least value.
    pub min: f32,
    /// Largest value.
    pub max: f32,
    /// Whether a value was no number, or infinite.
    pub broken: bool,
    /// Width of a bin: 2 to this power.
    exponent: i32,
    bins: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { min: f32::INFINITY, max: f32::NEG_INFINITY, broken: false, exponent: -120, bins: vec![0; 2 * SIDE] }
    }
}

/// A way to choose between which ends a tensor is quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// The least and the largest value.
    MinMax,
    /// All but this share of values, in millionths.
    Percentile(u32),
    /// Least divergence of the distributions.
    Entropy,
    /// Least mean squared error.
    Mse,
    /// What a calibration table says.
    Table,
}

/// All methods that are tried on samples.
pub const METHODS: [Method; 6] = [
    Method::MinMax,
    Method::Percentile(10),
    Method::Percentile(100),
    Method::Percentile(1000),
    Method::Entropy,
    Method::Mse,
];

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MinMax => f.write_str("min-max"),
            Self::Percentile(outside) => write!(f, "percentile {}", 100.0 - f64::from(*outside) / 1e4),
            Self::Entropy => f.write_str("entropy"),
            Self::Mse => f.write_str("MSE"),
            Self::Table => f.write_str("calibration table"),
        }
    }
}

impl Histogram {
    /// Adds values.
    pub fn add(&mut self, values: &[f32]) {
        let (mut min, mut max) = (f32::INFINITY, f32::NEG_INFINITY);
        let mut sum = 0.0f32;
        for &value in values {
            min = min.min(value);
            max = max.max(value);
            sum += value * 0.0;
        }
        if sum.is_nan() {
            self.broken = true;
            return;
        }
        if values.is_empty() {
            return;
        }
        (self.min, self.max) = (self.min.min(min), self.max.max(max));
        self.widen(exponent_for(max.abs().max(min.abs())));
        let per_width = (-self.exponent as f32).exp2();
        for &value in values {
            // Rounds down; the largest size is within.
            let bin = (value * per_width + SIDE as f32) as usize;
            self.bins[bin.min(2 * SIDE - 1)] += 1;
        }
    }

    /// Adds what another one has seen.
    pub fn merge(&mut self, other: &Self) {
        self.broken |= other.broken;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        self.widen(other.exponent);
        let mut other = other.clone();
        other.widen(self.exponent);
        self.bins.iter_mut().zip(&other.bins).for_each(|(bin, more)| *bin += more);
    }

    /// Makes bins at least this wide.
    fn widen(&mut self, exponent: i32) {
        if self.exponent < exponent && self.bins.iter().all(|&count| count == 0) {
            self.exponent = exponent;
        }
        while self.exponent < exponent {
            self.exponent += 1;
            let mut wider = vec![0; 2 * SIDE];
            for half in 0..SIDE {
                // Bins on both sides of 0 move towards it.
                wider[SIDE / 2 + half] = self.bins[2 * half] + self.bins[2 * half + 1];
            }
            self.bins = wider;
        }
    }

    /// For a checkpoint.
    pub fn json(&self) -> Value {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        let bins: Vec<[u64; 2]> = filled.map(|(bin, &count)| [bin as u64, count]).collect();
        let ends = [self.min.to_bits(), self.max.to_bits()];
        json!({"ends": ends, "broken": self.broken, "exponent": self.exponent, "bins": bins})
    }

    /// From a checkpoint; `None` where it is none.
    pub fn of_json(value: &Value) -> Option<Self> {
        let end = |number: usize| Some(f32::from_bits(u32::try_from(value["ends"][number].as_u64()?).ok()?));
        let exponent = i32::try_from(value["exponent"].as_i64()?).ok()?;
        let mut read =
            Self { min: end(0)?, max: end(1)?, broken: value["broken"].as_bool()?, exponent, ..Self::default() };
        for pair in value["bins"].as_array()? {
            *read.bins.get_mut(usize::try_from(pair[0].as_u64()?).ok()?)? = pair[1].as_u64()?;
        }
        Some(read)
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.bins.iter().sum()
    }

    fn width(&self) -> f32 {
        (self.exponent as f32).exp2()
    }

    /// Centre of a bin, within the values seen.
    fn centre(&self, bin: usize) -> f32 {
        ((bin as f32 - SIDE as f32 + 0.5) * self.width()).clamp(self.min, self.max)
    }

    /// Ends of the range by a method.
    pub fn range(&self, method: Method, activations: Activations) -> (f32, f32) {
        if self.count() == 0 {
            return (0.0, 0.0);
        }
        match method {
            Method::MinMax | Method::Table => (self.min, self.max),
            Method::Percentile(outside) => self.percentile(f64::from(outside) / 1e6),
            Method::Entropy => self.entropy(),
            Method::Mse => self.least_error(activations),
        }
    }

    /// What all but `outside` of the values lies between; as many are below it as above it, of a tensor with both signs.
    fn percentile(&self, outside: f64) -> (f32, f32) {
        let total = self.count() as f64;
        let share = if self.min >= 0.0 || self.max <= 0.0 { outside } else { outside / 2.0 };
        let end = |bins: &mut dyn Iterator<Item = usize>| {
            let mut seen = 0.0;
            for bin in bins {
                seen += self.bins[bin] as f64;
                if seen > share * total {
                    return bin;
                }
            }
            0
        };
        let low = end(&mut (0..2 * SIDE)) as f32 - SIDE as f32;
        let high = end(&mut (0..2 * SIDE).rev()) as f32 + 1.0 - SIDE as f32;
        ((low * self.width()).max(self.min).min(0.0), (high * self.width()).min(self.max).max(0.0))
    }

    /// Centres and counts of the bins that hold something.
    fn filled(&self) -> (Vec<f32>, Vec<f32>) {
        let filled = self.bins.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bin, &count)| (self.centre(bin), count as f32)).unzip()
    }

    /// Least squared error: both ends are drawn in together, then each by itself.
    fn least_error(&self, activations: Activations) -> (f32, f32) {
        let (min, max) = (self.min.min(0.0), self.max.max(0.0));
        let filled = self.filled();
        let error = |low: f32, high: f32| match activations {
            Activations::Any => squared_error(&filled, &Params::affine(low, high)),
            Activations::Symmetric => squared_error(&filled, &Params::symmetric(high.max(-low))),
            Activations::Float8 => squared_error(&filled, &Params::float8(high.max(-low))),
        };
        let shares = || (1..=32).rev().map(|step| step as f32 / 32.0);
        let mut best = (error(min, max), min, max);
        let try_range = |low: f32, high: f32, best: &mut (f64, f32, f32)| {
            let error = error(low, high);
            if error < best.0 {
                *best = (error, low, high);
            }
        };
        shares().for_each(|share| try_range(min * share, max * share, &mut best));
        for _ in 0..2 {
            if min < 0.0 {
                shares().for_each(|share| try_range(min * share, best.2, &mut best));
            }
            if max > 0.0 {
                shares().for_each(|share| try_range(best.1, max * share, &mut best));
            }
        }
        (best.1, best.2)
    }

    /// Least divergence between the sizes that were seen, cut off, and the same in 128 steps.
    fn entropy(&self) -> (f32, f32) {
        const STEPS: usize = 128;
        let mut sizes = vec![0.0f64; SIDE];
        for (size, total) in sizes.iter_mut().enumerate() {
            *total = (self.bins[SIDE + size] + self.bins[SIDE - 1 - size]) as f64;
        }
        // Zeros are exact whatever the range.
        let zeros = sizes[0];
        sizes[0] = sizes[1].min(zeros);
        let used = SIDE - sizes.iter().rev().take_while(|count| **count == 0.0).count();
        if used <= STEPS {
            return (self.min.min(0.0), self.max.max(0.0));
        }
        let all: f64 = sizes.iter().sum();
        let mut best = (f64::INFINITY, used);
        let mut inside: f64 = sizes[..STEPS].iter().sum();
        for end in STEPS + 1..=used {
            inside += sizes[end - 1];
            if !(end - STEPS).is_multiple_of(32) && end != used {
                continue;
            }
            let outside = all - inside;
            let mut divergence = 0.0;
            for step in 0..STEPS {
                let (first, last) = (step * end / STEPS, (step + 1) * end / STEPS);
                let bins = &sizes[first..last];
                let total: f64 = bins.iter().sum();
                let filled = bins.iter().filter(|count| **count > 0.0).count().max(1) as f64;
                for (offset, &count) in bins.iter().enumerate() {
                    let clipped = if first + offset + 1 == end { outside } else { 0.0 };
                    let p = (count + clipped) / all;
                    if p > 0.0 {
                        let q = if count > 0.0 { total / filled / inside } else { 1e-12 };
                        divergence += p * (p / q).ln();
                    }
                }
            }
            if divergence < best.0 {
                best = (divergence, end);
            }
        }
        let limit = best.1 as f32 * self.width();
        (self.min.max(-limit).min(0.0), self.max.min(limit).max(0.0))
    }
}

/// Squared error of quantising values that occur so often.
fn squared_error((values, counts): &(Vec<f32>, Vec<f32>), params: &Params) -> f64 {
    let parts = values.chunks(256).zip(counts.chunks(256)).map(|(values, counts)| {
        let errors = values.iter().zip(counts).map(|(&value, count)| {
            let error = params.rounded(value) - value;
            count * error * error
        });
        f64::from(errors.sum::<f32>())
    });
    parts.sum()
}

/// Bins of this power of two hold a size on one side of 0.
fn exponent_for(size: f32) -> i32 {
    let mut exponent = -120;
    if size > 0.0 {
        exponent = (size / SIDE as f32).log2().floor() as i32;
        while (exponent as f32).exp2() * SIDE as f32 <= size {
            exponent += 1;
        }
    }
    exponent.max(-120)
}

/// The ends in 8 bits: integers around 0 where that is free or asked for, or floats.
pub fn params((low, high): (f32, f32), activations: Activations) -> Params {
    let (low, high) = (low.min(0.0), high.max(0.0));
    match activations {
        Activations::Symmetric => Params::symmetric(high.max(-low)),
        Activations::Float8 => Params::float8(high.max(-low)),
        // Up to a fiftieth of the steps for sums without corrections.
        Activations::Any if low < 0.0 && high.max(-low) * 2.0 <= (high - low) * 1.02 => {
            Params::symmetric(high.max(-low))
        }
        Activations::Any => Params::affine(low, high),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;
    use floe_models::DType;

    fn of(values: &[f32]) -> Histogram {
        let mut histogram = Histogram::default();
        histogram.add(values);
        histogram
    }

    #[test]
    fn order_and_parts_do_not_matter() {
        let values: Vec<f32> = normal(1, 5000).iter().enumerate().map(|(i, v)| v * (1.0 + i as f32 / 100.0)).collect();
        let whole = of(&values);
        let mut parts = Histogram::default();
        values.chunks(313).rev().for_each(|part| parts.add(part));
        assert_eq!(whole, parts);
        let mut merged = of(&values[..100]);
        merged.merge(&of(&values[100..]));
        assert_eq!(whole, merged);
        assert_eq!((whole.count(), whole.min), (5000, values.iter().copied().fold(0.0, f32::min)));
    }

    #[test]
    fn percentiles_are_those_of_the_sorted_values() {
        let mut values = normal(2, 100_000);
        let histogram = of(&values);
        values.sort_by(f32::total_cmp);
        let (low, high) = histogram.range(Method::Percentile(1000), Activations::Any);
        assert!((low - values[50]).abs() < 0.02 && (high - values[100_000 - 51]).abs() < 0.02, "{low} {high}");
    }

    /// One value far outside: min-max spends the steps on it, the others do not.
    #[test]
    fn outliers_do_not_widen_the_range() {
        let mut values = normal(3, 50_000);
        values[77] = 300.0;
        let histogram = of(&values);
        let error = |method| {
            let params = params(histogram.range(method, Activations::Any), Activations::Any);
            let bulk = values.iter().filter(|value| value.abs() < 10.0);
            bulk.map(|&value| f64::from(params.rounded(value) - value).powi(2)).sum::<f64>()
        };
        let min_max = error(Method::MinMax);
        for method in [Method::Percentile(100), Method::Entropy] {
            assert!(error(method) < min_max / 100.0, "{method}: {} {min_max}", error(method));
        }
        // One of a million: the squared error as a whole is least.
        values[77] = 0.0;
        let mut histogram = of(&[20.0]);
        (0..20).for_each(|_| histogram.add(&values));
        let total = |method| {
            let params = params(histogram.range(method, Activations::Any), Activations::Any);
            squared_error(&histogram.filled(), &params)
        };
        for method in METHODS {
            assert!(total(Method::Mse) <= total(method) * 1.001, "{method}");
        }
        assert!(total(Method::Mse) < total(Method::MinMax) / 2.0);
    }

    #[test]
    fn what_is_no_number_is_noticed() {
        assert!(of(&[1.0, f32::NAN]).broken && of(&[f32::INFINITY]).broken && !of(&[1e30]).broken);
    }

    #[test]
    fn symmetric_where_that_is_free() {
        let any = |low, high| params((low, high), Activations::Any);
        assert_eq!((any(0.0, 4.0).zero, any(0.0, 4.0).dtype), (0, DType::U8));
        assert_eq!((any(-4.0, 4.0).zero, any(-4.0, 4.0).dtype), (0, DType::I8));
        assert!(any(-0.3, 4.0).zero > 0);
        assert_eq!(params((-0.3, 4.0), Activations::Symmetric).zero, 0);
    }
}
