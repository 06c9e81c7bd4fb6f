//! How near the outputs of a network are to its reference, and how near they must be.

use crate::{outputs::Output, tensor::numbers};
use floe_engine::plan::format::Binding;
use serde::{Deserialize, Serialize};

/// Agreement of two lists of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Cosine of the angle between them.
    pub cosine: f64,
    /// Relative L2 error.
    pub l2: f64,
    /// Largest `|a − b| / max(|a|, rms)`, where `rms` is the root mean square of the reference's finite elements, after
    /// leaving out the part of the elements that is spared.
    pub element: f64,
    /// Largest `|a − b|`.
    pub absolute: f64,
    /// Largest `|a − b| / (1e-5·max(1, max|a|) + 1e-4·|a|)`.
    pub terms: f64,
    /// Whether the largest element is at the same place, or one that the reference holds within 1e-3 of its largest.
    pub same_top: bool,
}

impl Agreement {
    /// Of a reference and a result. The part `spared` of the elements, those that are furthest off, does not count for
    /// [`element`](Self::element).
    pub fn of(reference: &[f64], result: &[f64], spared: f64) -> Self {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norms = dot(reference, reference).sqrt() * dot(result, result).sqrt();
        let cosine = if reference == result { 1.0 } else { dot(reference, result) / norms };
        let largest = reference.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        // Infinities may agree.
        let distances = || reference.iter().zip(result).map(|(&a, b)| (a, if a == *b { 0.0 } else { (a - b).abs() }));
        // `max` would drop a NaN.
        let larger = |worst: f64, part: f64| if part.is_nan() || worst.is_nan() { f64::NAN } else { worst.max(part) };
        let part = |distance: f64, whole: f64| if distance == 0.0 { 0.0 } else { distance / whole };
        let terms = distances().map(|(a, d)| part(d, 1e-5 * largest.max(1.0) + 1e-4 * a.abs())).fold(0.0, larger);
        let absolute = distances().map(|(_, distance)| distance).fold(0.0, larger);
        let distance = distances().map(|(_, distance)| distance * distance).sum::<f64>().sqrt();
        // A tensor of zeros has no relative error.
        let norm = dot(reference, reference).sqrt();
        let l2 = if norm == 0.0 { distance } else { distance / norm };
        let finite = || reference.iter().filter(|a| a.is_finite());
        let rms = (finite().map(|a| a * a).sum::<f64>() / finite().count().max(1) as f64).sqrt();
        // The worst first, and NaN before all.
        let mut parts: Vec<f64> = distances().map(|(a, d)| part(d, a.abs().max(rms)).abs()).collect();
        parts.sort_unstable_by(|a, b| b.total_cmp(a));
        let element = parts.get((spared * parts.len() as f64) as usize).copied().unwrap_or(0.0);
        let top = |numbers: &[f64]| crate::tensor::largest(numbers, 1).first().copied();
        let same_top = match (top(reference), top(result)) {
            (Some(a), Some(b)) => a == b || reference[a] - reference[b] <= 1e-3 * largest,
            (None, None) => true,
            _ => false,
        };
        Self { cosine, l2, element, absolute, terms, same_top }
    }

    /// The worst of both by each measure.
    pub fn worst(self, other: Self) -> Self {
        let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        Self {
            cosine: -larger(-self.cosine, -other.cosine),
            l2: larger(self.l2, other.l2),
            element: larger(self.element, other.element),
            absolute: larger(self.absolute, other.absolute),
            terms: larger(self.terms, other.terms),
            same_top: self.same_top && other.same_top,
        }
    }
}

/// How far a floating-point output may be from the host's: what is given must hold. Outputs that are not floats are the
/// same in every bit. `bounds.toml` says what each bound means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Every element within this many times `1e-5·max(1, max|a|) + 1e-4·|a|`: see [`Agreement::terms`].
    pub terms: Option<f64>,
    /// Every element within this distance.
    pub absolute: Option<f64>,
    /// Least cosine of the angle between both; vectors keep their largest element.
    pub cosine: Option<f64>,
    /// Largest relative L2 error: what a cosine does not see, such as the only element of an output.
    pub l2: Option<f64>,
    /// Every element within this part of its own size or of the root mean square, whichever is larger: what a norm does
    /// not see, such as a few wrong elements in a large output.
    pub element: Option<f64>,
    /// Part of the elements that is not held to `element`.
    pub spared: Option<f64>,
}

impl Bound {
    /// The bound of what must agree in every bit.
    pub const EXACT: Self =
        Self { terms: None, absolute: Some(0.0), cosine: None, l2: None, element: None, spared: None };

    /// What an agreement violates, or `None`. `vector` tells whether the output is one, with a largest element to keep.
    pub fn violation(&self, agreement: &Agreement, vector: bool) -> Option<String> {
        // Written so that NaN violates.
        let within = |value: f64, limit: f64| value <= limit;
        let beyond = |value: f64, limit: Option<f64>| limit.filter(|&limit| !within(value, limit));
        if let Some(limit) = beyond(agreement.terms, self.terms) {
            return Some(format!("an element is {:.1} times its bound off, more than {limit}", agreement.terms));
        }
        if let Some(limit) = beyond(agreement.absolute, self.absolute) {
            return Some(format!("an element is {:.1e} off, more than {limit}", agreement.absolute));
        }
        if let Some(least) = self.cosine.filter(|&least| !within(least, agreement.cosine)) {
            return Some(format!("cosine {:.6} < {least}", agreement.cosine));
        }
        if let Some(limit) = beyond(agreement.l2, self.l2) {
            return Some(format!("relative L2 error {:.1e} > {limit}", agreement.l2));
        }
        if let Some(limit) = beyond(agreement.element, self.element) {
            let off = agreement.element;
            return Some(format!(
                "an element is {off:.1e} of its size or of the root mean square off, more than {limit}"
            ));
        }
        (self.cosine.is_some() && vector && !agreement.same_top).then(|| "another element is the largest".to_owned())
    }
}

/// Outputs against their references, in the same order: the worst agreement of floats by each measure, and what is wrong.
/// Outputs that are not floats agree in every bit. Without a bound, nothing is wrong.
pub fn of_outputs(
    bound: Option<Bound>,
    expected: &[Output<'_>],
    found: &[Output<'_>],
) -> (Option<Agreement>, Vec<String>) {
    let mut failures = Vec::new();
    let mut worst: Option<Agreement> = None;
    for (expected, found) in expected.iter().zip(found) {
        let Binding { name, dtype, ref shape, .. } = expected.binding;
        let bound = if dtype.is_float() { bound } else { bound.map(|_| Bound::EXACT) };
        let (expected, found) = (numbers(dtype, &expected.bytes), numbers(dtype, &found.bytes));
        let agreement = Agreement::of(&expected, &found, bound.and_then(|bound| bound.spared).unwrap_or(0.0));
        let vector = shape.iter().copied().max().is_some_and(|longest| longest as usize == expected.len());
        let violation = bound.and_then(|bound| bound.violation(&agreement, vector));
        failures.extend(violation.map(|violation| format!("output {name}: {violation}")));
        if dtype.is_float() {
            worst = Some(worst.map_or(agreement, |worst| worst.worst(agreement)));
        }
    }
    (worst, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agreement_sees_direction_size_and_top() {
        let of = |a: &[f64], b: &[f64]| Agreement::of(a, b, 0.0);
        let same = of(&[1.0, 2.0], &[1.0, 2.0]);
        let perfect = Agreement { cosine: 1.0, l2: 0.0, element: 0.0, absolute: 0.0, terms: 0.0, same_top: true };
        assert_eq!(same, perfect);
        let scaled = of(&[1.0, 2.0], &[2.0, 4.0]);
        assert!(scaled.cosine > 0.999_999 && scaled.terms > 1.0 && scaled.same_top);
        assert_eq!((scaled.l2, scaled.absolute, scaled.element), (1.0, 2.0, 1.0));
        assert!(!of(&[1.0, 2.0], &[2.0, 1.0]).same_top);
        let nan = of(&[1.0], &[f64::NAN]);
        assert!(nan.terms.is_nan() && nan.element.is_nan());
        assert_eq!((same.worst(scaled).l2, same.worst(nan).l2.is_nan()), (1.0, true));
        // Equal infinities are no difference, others are.
        assert_eq!(of(&[f64::INFINITY, 1.0], &[f64::INFINITY, 1.0]).element, 0.0);
        assert!(of(&[f64::INFINITY, 1.0], &[0.0, 1.0]).absolute.is_infinite());
    }

    #[test]
    fn an_element_is_held_to_its_own_size_or_that_of_the_tensor() {
        let reference = [10.0, 1e-3, -0.1, 0.0];
        let rms = (reference.iter().map(|x| x * x).sum::<f64>() / 4.0).sqrt();
        let of = |result: &[f64], spared| Agreement::of(&reference, result, spared).element;
        assert_eq!(of(&[11.0, 1e-3, -0.1, 0.0], 0.0), 0.1);
        assert!((of(&[10.0, 1.0 + 1e-3, -0.1, 0.0], 0.0) - 1.0 / rms).abs() < 1e-12);
        assert_eq!(of(&[11.0, 1.0 + 1e-3, -0.1, 0.0], 0.25), 0.1);
    }
}
