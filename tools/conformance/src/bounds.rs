//! What a network on the GPU is held to against its host variant, as `bounds.toml` says.

use anyhow::{Context, Result, ensure};
use floe::selftest::agreement::Bound;
use serde::Deserialize;

/// A network with bounds of its own.
#[derive(Clone, Debug, Deserialize)]
struct Exception {
    /// Its name, without `-second`.
    name: String,
    /// `f16` or `f32`.
    precision: String,
    /// Why, as measured.
    reason: String,
    /// The network that is held to a bound in its stead.
    instead: Option<String>,
    #[serde(flatten)]
    bound: Bound,
}

/// Bounds of all networks.
#[derive(Clone, Debug, Deserialize)]
pub struct Bounds {
    f32: Bound,
    f16: Bound,
    #[serde(rename = "network")]
    exceptions: Vec<Exception>,
}

/// What one network is held to.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The bound of its outputs; empty where another network is held in its stead.
    pub bound: Bound,
    /// Why, where it is not that of other networks.
    pub reason: Option<String>,
    /// The network that is held to a bound in its stead.
    pub instead: Option<String>,
}

impl Held {
    /// The bound of its outputs; none where another network is held in its stead, and not even integers are comparable.
    pub fn comparable(&self) -> Option<Bound> {
        self.instead.is_none().then_some(self.bound)
    }
}

impl Bounds {
    /// The bounds that are part of this program.
    ///
    /// # Errors
    /// Returns an error if `bounds.toml` cannot be understood, or if an exception neither has a bound nor names a network.
    pub fn embedded() -> Result<Self> {
        let bounds: Self = toml::from_str(include_str!("bounds.toml")).context("bounds.toml")?;
        for Exception { name, precision, bound, instead, .. } in &bounds.exceptions {
            let held = *bound != Bound::default();
            ensure!(held != instead.is_some(), "bounds.toml: {name} {precision} has either bounds or `instead`");
        }
        Ok(bounds)
    }

    /// What a network's plan of a precision is held to. `-second`, which names a network's second shape, changes nothing.
    pub fn of(&self, network: &str, precision: &str) -> Held {
        let name = network.strip_suffix("-second").unwrap_or(network);
        let exceptions = || self.exceptions.iter().filter(|exception| exception.precision == precision);
        match exceptions().find(|exception| exception.name == name) {
            Some(Exception { bound, reason, instead, .. }) => {
                Held { bound: *bound, reason: Some(reason.clone()), instead: instead.clone() }
            }
            None => Held { bound: if precision == "f16" { self.f16 } else { self.f32 }, reason: None, instead: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floe::selftest::agreement::Agreement;

    fn violation(bound: &Bound, a: &[f64], b: &[f64]) -> Option<String> {
        bound.violation(&Agreement::of(a, b, bound.spared.unwrap_or(0.0)), a.len() > 1)
    }

    #[test]
    fn bounds_see_size_direction_and_nan() {
        let Bounds { f32, f16, .. } = Bounds::embedded().unwrap();
        let absolute = |limit| Bound { absolute: Some(limit), ..Bound::default() };
        assert_eq!(violation(&f32, &[1.0, 2.0], &[1.0, 2.0]), None);
        assert!(violation(&f32, &[1.0, 2.0], &[1.0, 2.001]).unwrap().contains("times"));
        // One number has no direction but a size.
        assert_eq!(violation(&f16, &[0.5], &[0.501]), None);
        assert!(violation(&f16, &[0.5], &[0.6]).unwrap().contains("L2"));
        assert!(violation(&f16, &[1.0, 1.005], &[1.005, 1.0]).unwrap().contains("largest"));
        assert!(violation(&f16, &[1.0, 2.0], &[1.0, 2.3]).unwrap().contains("cosine"));
        for bound in [f32, f16, absolute(1.0), Bound { element: Some(1.0), ..Bound::default() }] {
            assert!(violation(&bound, &[1.0], &[f64::NAN]).is_some(), "{bound:?}");
        }
        assert!(violation(&absolute(0.1), &[1.0], &[1.2]).is_some());
        assert!(violation(&Bound::EXACT, &[1.0], &[1.5]).is_some());
    }

    /// A large output with f16's errors in all of its elements.
    fn large() -> (Vec<f64>, Vec<f64>) {
        let element = |index: usize| ((index * 7919 % 10_007) as f64 / 5003.5 - 1.0) * 3.0;
        let reference: Vec<f64> = (0..262_144).map(element).collect();
        let result = reference.iter().map(|&x| half::f16::from_f64(x).to_f64()).collect();
        (reference, result)
    }

    #[test]
    fn a_few_wrong_elements_of_a_large_output_are_seen_in_f16() {
        let bounds = Bounds::embedded().unwrap();
        let (reference, mut result) = large();
        assert_eq!(violation(&bounds.f16, &reference, &result), None);
        // One small element is as wrong as its neighbours are large.
        let small = reference.iter().position(|x| x.abs() < 0.01).unwrap();
        result[small] = 1.0;
        let message = violation(&bounds.f16, &reference, &result).unwrap();
        assert!(message.contains("an element"), "{message}");
        // No norm sees that.
        let norms = Bound { element: None, ..bounds.f16 };
        assert_eq!(violation(&norms, &reference, &result), None);
    }

    #[test]
    fn only_the_part_that_is_spared_is_spared() {
        let mlsd = Bounds::embedded().unwrap().of("mlsd-tiny-512", "f16").bound;
        let (reference, mut result) = large();
        let spared = (mlsd.spared.unwrap() * reference.len() as f64) as usize;
        for result in result.iter_mut().take(spared) {
            *result += 0.35;
        }
        assert_eq!(violation(&mlsd, &reference, &result), None);
        result[spared] += 0.35;
        assert!(violation(&mlsd, &reference, &result).unwrap().contains("an element"));
    }

    #[test]
    fn a_second_shape_has_the_exception_of_its_network() {
        let bounds = Bounds::embedded().unwrap();
        assert_eq!(bounds.of("mlsd-tiny-512-second", "f32").bound.terms, Some(2.0));
        assert_eq!(bounds.of("swift-f0", "f16"), Held { bound: bounds.f16, reason: None, instead: None });
        // Whatever stands in for a network is held to what all are held to.
        for Exception { precision, instead, .. } in bounds.exceptions.iter() {
            if let Some(instead) = instead {
                assert_eq!(bounds.of(instead, precision).reason, None);
            }
        }
    }
}
