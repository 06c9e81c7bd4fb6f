//! How far a GPU's output may be from the reference kernel's: the bounds of "what correct means" in ARCHITECTURE.md.

use crate::operands::{POISON, Places};
use floe::tensor::numbers;
use floe_kernels::{DType, View};

/// What widens the bounds of a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    /// Whether the family adds many products or terms: see [`bound_f32`].
    pub sums: bool,
    /// Relative L2 error of a half type where the candidate promises less than its family does: Winograd's `F(4×4)`
    /// rounds to f16 in a basis that magnifies the error, and is only chosen where the user forces it.
    pub relaxed: Option<f64>,
}

/// Compares one output with the reference kernel's.
///
/// # Errors
/// What is wrong, with the place and both numbers.
pub fn output(view: &View, expected: &[u8], found: &[u8], allowance: Allowance) -> Result<f64, String> {
    if expected.len() != found.len() {
        return Err(format!("{} bytes instead of {}", found.len(), expected.len()));
    }
    let size = view.dtype.size();
    let places = Places::of(view);
    let mut inside = vec![false; found.len() / size];
    for &place in places.elements.iter().chain(&places.padded_channels) {
        inside[place] = true;
    }
    let outside = |place: &usize| !inside[*place] && found[place * size..][..size].iter().any(|&byte| byte != POISON);
    if let Some(place) = (0..inside.len()).find(outside) {
        return Err(format!("element {place}, outside the view, was overwritten"));
    }
    if let Some(place) =
        places.padded_channels.iter().find(|&&place| found[place * size..][..size].iter().any(|&b| b != 0))
    {
        return Err(format!("padding lane at element {place} is not zero"));
    }
    let gather = |bytes: &[u8]| -> Vec<u8> {
        places.elements.iter().flat_map(|&place| &bytes[place * size..][..size]).copied().collect()
    };
    let (expected, found) = (gather(expected), gather(found));
    if !view.dtype.is_float() {
        return match expected.chunks(size).zip(found.chunks(size)).position(|(a, b)| a != b) {
            Some(index) => {
                let numbers = |bytes: &[u8]| numbers(view.dtype, &bytes[index * size..][..size])[0];
                Err(format!("element {index} is {} instead of {}", numbers(&found), numbers(&expected)))
            }
            None => Ok(0.0),
        };
    }
    floats(view.dtype, &numbers(view.dtype, &expected), &numbers(view.dtype, &found), allowance)
}

/// Compares floats; returns the relative L2 error (half types) or the worst error as a part of its bound (others).
fn floats(dtype: DType, expected: &[f64], found: &[f64], allowance: Allowance) -> Result<f64, String> {
    let special = |x: f64| x.is_nan() || x.is_infinite();
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let pairs = || expected.iter().copied().zip(found.iter().copied());
    if let Some(index) = pairs().position(|(a, b)| (special(a) || special(b)) && !same(a, b)) {
        return Err(format!("element {index} is {} instead of {}", found[index], expected[index]));
    }
    let finite = || pairs().filter(|(a, _)| !special(*a));
    let norm = finite().map(|(a, _)| a * a).sum::<f64>().sqrt();
    match dtype {
        DType::F16 | DType::Bf16 => {
            let error = finite().map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt();
            // A tensor of zeros has no relative error.
            let relative = if norm == 0.0 { error } else { error / norm };
            let bound = allowance.relaxed.unwrap_or(if dtype == DType::F16 { 1e-3 } else { 8e-3 });
            if relative > bound {
                return Err(format!("relative L2 error {relative:.2e} > {bound:.0e}; {}", worst(expected, found)));
            }
            // A single wrong element hides in the norm of a large tensor, so each is held to a loose bound as well.
            let largest = finite().map(|(a, _)| a.abs()).fold(0.0, f64::max);
            if let Some(index) = pairs().position(|(a, b)| !special(a) && (a - b).abs() > 16.0 * bound * largest) {
                return Err(format!("element {index} is {} instead of {}", found[index], expected[index]));
            }
            Ok(relative)
        }
        _ => {
            let rms = norm / (finite().count().max(1) as f64).sqrt();
            let part = |(a, b): (f64, f64)| (a - b).abs() / bound_f32(a, if allowance.sums { rms } else { 0.0 });
            let part = finite().map(part).fold(0.0, f64::max);
            if part > 1.0 { Err(format!("{part:.1} times its bound; {}", worst(expected, found))) } else { Ok(part) }
        }
    }
}

/// `1e-5 + 1e-4·|reference|`. Families that sum many terms may cancel: the error of a sum follows the size of its terms,
/// not of the result, so there the absolute part grows with the tensor's root mean square beyond 1.
fn bound_f32(reference: f64, rms: f64) -> f64 {
    1e-5 * rms.max(1.0) + 1e-4 * reference.abs()
}

/// The largest difference in words.
fn worst(expected: &[f64], found: &[f64]) -> String {
    let difference = |index: &usize| (expected[*index] - found[*index]).abs();
    let index = (0..expected.len()).filter(|i| !difference(i).is_nan());
    match index.max_by(|a, b| difference(a).total_cmp(&difference(b))) {
        Some(index) => format!("worst: element {index} is {} instead of {}", found[index], expected[index]),
        None => "no element".to_owned(),
    }
}

/// Agreement of two lists of numbers.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
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
        let top = |numbers: &[f64]| floe::tensor::largest(numbers, 1).first().copied();
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

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Allowance = Allowance { sums: false, relaxed: None };

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn bounds_gaps_and_padding_are_enforced() {
        let mut view = View::contiguous(DType::F32, &[2]).unwrap();
        let expected = bytes(&[1.0, -2.0]);
        assert!(output(&view, &expected, &bytes(&[1.000_05, -2.0]), NONE).is_ok());
        assert!(output(&view, &expected, &bytes(&[1.001, -2.0]), NONE).unwrap_err().contains("element 0"));
        assert!(output(&view, &expected, &bytes(&[1.0, f32::NAN]), NONE).unwrap_err().contains("NaN"));
        // A gap between the two elements.
        view.strides[0] = 2;
        let mut gap = [bytes(&[1.0]), vec![POISON; 4], bytes(&[-2.0])].concat();
        assert!(output(&view, &gap.clone(), &gap, NONE).is_ok());
        let sound = gap.clone();
        gap[5] = 0;
        assert!(output(&view, &sound, &gap, NONE).unwrap_err().contains("outside the view"));
        // Padded channels.
        let view = View::channels_last(DType::F32, &[1, 1, 1]).unwrap();
        let mut padded_channels = bytes(&[3.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(output(&view, &padded_channels.clone(), &padded_channels, NONE).is_ok());
        let sound = padded_channels.clone();
        padded_channels[9] = 1;
        assert!(output(&view, &sound, &padded_channels, NONE).unwrap_err().contains("padding lane"));
    }

    #[test]
    fn a_relaxed_candidate_is_held_to_its_own_promise() {
        let view = View::contiguous(DType::F16, &[1]).unwrap();
        let half = |x: f32| half::f16::from_f32(x).to_le_bytes();
        let relaxed = Allowance { relaxed: Some(5e-3), ..NONE };
        assert!(output(&view, &half(1.0), &half(1.004), NONE).unwrap_err().contains("1e-3"));
        assert!(output(&view, &half(1.0), &half(1.004), relaxed).is_ok());
        assert!(output(&view, &half(1.0), &half(1.008), relaxed).unwrap_err().contains("5e-3"));
    }

    #[test]
    fn integers_are_exact() {
        let view = View::contiguous(DType::I16, &[2]).unwrap();
        assert_eq!(output(&view, &[1, 0, 2, 0], &[1, 0, 2, 0], NONE), Ok(0.0));
        let message = output(&view, &[1, 0, 2, 0], &[1, 0, 0xfe, 0xff], NONE).unwrap_err();
        assert_eq!(message, "element 1 is -2 instead of 2");
    }

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
