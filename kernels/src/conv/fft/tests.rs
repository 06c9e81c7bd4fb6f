//! The transform against its definition, and what is offered for which convolutions.

use super::weights::{Complex, Spectrum, transform};
use crate::codegen::Generate;
use crate::codegen::Transform;
use crate::conv::Conv;
use crate::conv::cases::{Size, size};
use crate::gemm::tests::targets;
use crate::pointwise::Epilogue;
use crate::{DType, View};
use std::f64::consts::PI;

fn unit(angle: f64) -> Complex {
    (angle.cos(), angle.sin())
}

#[test]
fn points_are_the_discrete_fourier_transform_in_another_order() {
    for length in [4usize, 8, 16, 32, 128, 256] {
        // The transform of a one at place 1 tells the frequency of every point.
        let mut shifted = vec![(0.0, 0.0); length];
        shifted[1].0 = 1.0;
        transform(&mut shifted, length, 1);
        let frequency = |point: &Complex| {
            let turns = -point.1.atan2(point.0) / (2.0 * PI);
            (turns * length as f64).round().rem_euclid(length as f64) as usize
        };
        let order: Vec<usize> = shifted.iter().map(frequency).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..length).collect::<Vec<_>>(), "every frequency once");
        let signal: Vec<Complex> = (0..length).map(|i| ((i * i % 7) as f64, (i % 5) as f64 - 2.0)).collect();
        let mut result = signal.clone();
        transform(&mut result, length, 1);
        for (point, &f) in result.iter().zip(&order) {
            let terms = signal.iter().enumerate().map(|(i, &(re, im))| {
                let (c, s) = unit(-2.0 * PI * (i * f % length) as f64 / length as f64);
                (re * c - im * s, re * s + im * c)
            });
            let expected = terms.fold((0.0, 0.0), |sum: Complex, term| (sum.0 + term.0, sum.1 + term.1));
            assert!((point.0 - expected.0).abs() < 1e-9 && (point.1 - expected.1).abs() < 1e-9);
        }
    }
}

#[test]
fn packed_filters_correlate() {
    // A product with the packed filter, transformed back, is the correlation with the taps.
    let spectrum = Spectrum { lengths: [4, 8] };
    let view = View::contiguous(DType::F32, &[1, 1, 3, 5]).unwrap();
    let taps: Vec<f32> = (0..15).map(|i| (i % 4) as f32 - 1.5).collect();
    let source: Vec<u8> = taps.iter().flat_map(|tap| tap.to_le_bytes()).collect();
    let bytes = spectrum.apply(&source, &view).unwrap();
    assert_eq!(spectrum.result(&view).map(|(_, bytes)| bytes), Some(bytes.len() as u64));
    let packed: Vec<f64> = bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).into()).collect();
    assert_eq!(packed.len(), 2 * (6 + 32));
    let both = |data: &mut [Complex]| {
        data.chunks_mut(8).for_each(|line| transform(line, 8, 1));
        (0..8).for_each(|column| transform(&mut data[column..], 4, 8));
    };
    let image: Vec<Complex> = (0..32).map(|i| (f64::from(i * 5 % 11), f64::from(i * 3 % 7))).collect();
    let mut product = image.clone();
    both(&mut product);
    for (x, w) in product.iter_mut().zip(packed[12..].chunks(2)) {
        *x = (x.0 * w[0] - x.1 * w[1], x.0 * w[1] + x.1 * w[0]);
    }
    // The inverse at one place is the sum over all points; their frequencies come from transformed unit impulses.
    for (y, x) in [(0, 0), (1, 3), (0, 2)] {
        let mut impulse = vec![(0.0, 0.0); 32];
        impulse[y * 8 + x].0 = 1.0;
        both(&mut impulse);
        let value = product.iter().zip(&impulse).map(|(p, e)| (p.0 * e.0 + p.1 * e.1, p.1 * e.0 - p.0 * e.1));
        let value = value.fold((0.0, 0.0), |sum: Complex, term| (sum.0 + term.0, sum.1 + term.1));
        let mut expected = (0.0, 0.0);
        for (i, tap) in taps.iter().enumerate() {
            let at = image[(y + i / 5) * 8 + x + i % 5];
            expected = (expected.0 + at.0 * f64::from(*tap), expected.1 + at.1 * f64::from(*tap));
        }
        assert!((value.0 - expected.0).abs() < 1e-3 && (value.1 - expected.1).abs() < 1e-3, "{value:?} {expected:?}");
    }
    assert!(spectrum.apply(&source[..8], &view).is_err());
    assert!(Spectrum { lengths: [2, 8] }.apply(&source, &view).is_err());
}

fn audio(groups: u32, taps: u32, step: u32) -> Conv {
    let kernel = [taps];
    let size = Size { groups, pads: (0, 0), ..size(&[1, 32, 16000], 32, &kernel, step) };
    Conv { geometry: size.geometry([DType::F32; 3], true), epilogue: Epilogue::default() }
}

#[test]
fn long_filters_are_transformed_and_short_or_strided_ones_are_not() {
    for target in targets() {
        let algorithms = |conv: &Conv| -> Vec<&str> {
            conv.candidates(&target).unwrap().iter().map(|candidate| candidate.algorithm).collect()
        };
        assert_eq!(algorithms(&audio(32, 1024, 1))[0], "fft", "depthwise on {}", target.name);
        assert!(algorithms(&audio(1, 256, 1)).contains(&"fft"));
        assert!(!algorithms(&audio(32, 16, 1)).contains(&"fft"));
        assert!(!algorithms(&audio(32, 1024, 2)).contains(&"fft"));
    }
}
