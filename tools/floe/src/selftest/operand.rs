//! How far a GPU's output may be from the reference kernel's: the bounds of "what correct means" in ARCHITECTURE.md.

use crate::tensor::numbers;
use floe_kernels::{DType, View, quantized_conv::is_float_factor};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes that fill what nobody may read or write: NaN in every float type.
pub const POISON: u8 = 0xff;

/// What fills the workspace at the second run: a kernel that reads what it did not write gives another result.
pub const OTHER_POISON: u8 = 0x3c;

/// Where the elements of a view lie, in elements from the operand's start.
#[derive(Debug)]
pub struct Places {
    /// Logical elements in row-major order.
    pub elements: Vec<usize>,
    /// Padded channels of channels-last views, which hold zeros.
    pub padded_channels: Vec<usize>,
}

impl Places {
    /// Of a valid view.
    pub fn of(view: &View) -> Self {
        let (mut elements, mut padded_channels) = (Vec::new(), Vec::new());
        let mut extents: Vec<u32> = view.shape.to_vec();
        if view.padded_channels != 0 {
            extents[1] = view.padded_channels;
        }
        if extents.contains(&0) {
            return Self { elements, padded_channels };
        }
        let mut index = vec![0u32; extents.len()];
        loop {
            let place = index
                .iter()
                .zip(&view.strides)
                .fold(i64::from(view.offset), |place, (&i, &stride)| place + i64::from(i) * i64::from(stride));
            let logical = index.iter().zip(&view.shape).all(|(i, extent)| i < extent);
            if logical { &mut elements } else { &mut padded_channels }.push(place as usize);
            // The next index in row-major order; after the last one, done.
            let Some(d) = (0..index.len()).rev().find(|&d| index[d] + 1 < extents[d]) else { break };
            index[d] += 1;
            index[d + 1..].fill(0);
        }
        Self { elements, padded_channels }
    }
}

/// First byte outside `except` (disjoint, ascending) in which two blocks of one length differ.
pub fn difference(a: &[u8], b: &[u8], except: &[Range<usize>]) -> Option<usize> {
    let mut start = 0;
    for range in except.iter().chain([&(a.len()..a.len())]) {
        // Comparing slices is fast; searching is for those that differ.
        if a[start..range.start] != b[start..range.start] {
            return (start..range.start).find(|&place| a[place] != b[place]);
        }
        start = range.end;
    }
    None
}

/// What widens the bounds of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    if !(view.dtype.is_float() || allowance.sums && is_float_factor(view.dtype)) {
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

/// Compares floats; returns the relative L2 error (half types), the share of elements that differ (8 bits) or the worst error as a part
/// of its bound (others).
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
        DType::F8E4M3 | DType::F8E5M2 => {
            let rms = norm / (finite().count().max(1) as f64).sqrt();
            let beyond = |(a, b): (f64, f64)| (a - b).abs() > step(dtype, a.abs().max(b.abs())) + bound_f32(a, rms);
            if let Some(index) = pairs().position(|pair| !special(pair.0) && beyond(pair)) {
                return Err(format!("element {index} is {} instead of {}", found[index], expected[index]));
            }
            let different = finite().filter(|(a, b)| a != b).count();
            let share = different as f64 / expected.len().max(1) as f64;
            if different > 1 + expected.len() / 100 {
                return Err(format!("{different} of {} elements differ; {}", expected.len(), worst(expected, found)));
            }
            Ok(share)
        }
        _ => {
            let rms = norm / (finite().count().max(1) as f64).sqrt();
            let part = |(a, b): (f64, f64)| (a - b).abs() / bound_f32(a, if allowance.sums { rms } else { 0.0 });
            let part = finite().map(part).fold(0.0, f64::max);
            if part > 1.0 { Err(format!("{part:.1} times its bound; {}", worst(expected, found))) } else { Ok(part) }
        }
    }
}

/// The distance between neighbouring floats of 8 bits, at a number of this size: where a sum is halfway between them, its last bits
/// decide.
fn step(dtype: DType, size: f64) -> f64 {
    let (of_one, least) = if dtype == DType::F8E4M3 { (-3, -9) } else { (-2, -16) };
    (size * f64::from(of_one).exp2()).max(f64::from(least).exp2())
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
    fn sums_may_round_to_the_other_neighbour_in_8_bits_but_few_do() {
        let view = View::contiguous(DType::F8E4M3, &[200]).unwrap();
        let sums = Allowance { sums: true, ..NONE };
        let expected = [0x38; 200];
        let with = |codes: &[u8]| [codes, &expected[codes.len()..]].concat();
        for (codes, wrong) in [
            (&[0x39, 0x37, 0x39][..], None),
            (&[0x39; 4], Some("4 of 200 elements differ")),
            (&[0x3a], Some("element 0 is 1.25 instead of 1")),
            (&[0x7f], Some("NaN")),
        ] {
            match (output(&view, &expected, &with(codes), sums), wrong) {
                (Ok(_), None) => (),
                (Err(error), Some(wrong)) => assert!(error.contains(wrong), "{error}"),
                (found, _) => panic!("{codes:?}: {found:?}"),
            }
        }
        // What is only converted is exact.
        assert!(output(&view, &expected, &with(&[0x39]), NONE).is_err());
    }

    #[test]
    fn integers_are_exact() {
        let view = View::contiguous(DType::I16, &[2]).unwrap();
        assert_eq!(output(&view, &[1, 0, 2, 0], &[1, 0, 2, 0], NONE), Ok(0.0));
        let message = output(&view, &[1, 0, 2, 0], &[1, 0, 0xfe, 0xff], NONE).unwrap_err();
        assert_eq!(message, "element 1 is -2 instead of 2");
    }

    #[test]
    fn places_follow_strides_and_tell_padding() {
        let view = View::channels_last(DType::F16, &[1, 3, 1, 2]).unwrap();
        let places = Places::of(&view);
        assert_eq!(places.elements, [0, 8, 1, 9, 2, 10]);
        assert_eq!(places.padded_channels, [3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
        assert_eq!(Places::of(&View::contiguous(DType::F32, &[]).unwrap()).elements, [0]);
        assert!(Places::of(&View::contiguous(DType::F32, &[2, 0]).unwrap()).elements.is_empty());
    }

    #[test]
    fn differences_are_found_outside_the_exceptions_only() {
        let (a, mut b) = ([0u8; 16], [0u8; 16]);
        b[5] = 1;
        assert_eq!(difference(&a, &b, &[]), Some(5));
        assert_eq!(difference(&a, &b, &[4..6, 9..9]), None);
        b[15] = 1;
        assert_eq!(difference(&a, &b, &[2..3, 4..6]), Some(15));
        assert_eq!(difference(&a, &b, &[4..6, 15..16]), None);
    }
}
