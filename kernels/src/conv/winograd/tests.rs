//! The matrices against plain convolution, and the arithmetic of the three launches against sums in f64.

use super::transform::{TAPS, Transforms};
use super::{RELAXED_TOLERANCE, Weights};
use crate::codegen::Transform;
use crate::{DType, View};
use half::f16;

fn product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    a.iter().map(|row| (0..b[0].len()).map(|j| row.iter().zip(b).map(|(x, y)| x * y[j]).sum()).collect()).collect()
}

fn transposed(a: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..a[0].len()).map(|j| a.iter().map(|row| row[j]).collect()).collect()
}

/// Uniform in ±√3, so that the variance is 1.
fn random(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 11) as f64 / (1u64 << 52) as f64 - 1.0) * 3f64.sqrt()
}

#[test]
fn coefficients_are_exact_in_f32_and_keep_the_input_small() {
    for tile in [2, 4] {
        let transforms = Transforms::new(tile);
        for row in transforms.input.iter().chain(&transforms.output) {
            assert!(row.iter().all(|&x| f64::from(x as f32) == x), "{row:?}");
        }
        assert!(transforms.input.iter().all(|row| row.iter().map(|x| x.abs()).sum::<f64>() <= 1.0));
    }
}

#[test]
fn the_transforms_make_a_convolution() {
    for tile in [2, 4] {
        let transforms = Transforms::new(tile);
        let mut state = 1;
        let mut matrix = |size: usize| -> Vec<Vec<f64>> {
            (0..size).map(|_| (0..size).map(|_| random(&mut state)).collect()).collect()
        };
        let (d, g) = (matrix(transforms.size), matrix(TAPS));
        let v = product(&product(&transforms.input, &d), &transposed(&transforms.input));
        let u = product(&product(&transforms.weights, &g), &transposed(&transforms.weights));
        let p: Vec<Vec<f64>> = v.iter().zip(&u).map(|(v, u)| v.iter().zip(u).map(|(x, y)| x * y).collect()).collect();
        let y = product(&product(&transforms.output, &p), &transposed(&transforms.output));
        for (i, row) in y.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                let expected: f64 = (0..TAPS)
                    .flat_map(|a| (0..TAPS).map(move |b| (a, b)))
                    .map(|(a, b)| d[i + a][j + b] * g[a][b])
                    .sum();
                assert!((value - expected).abs() < 1e-12, "{value} instead of {expected}");
            }
        }
    }
}

/// The values of packed weights.
fn packed(weights: &Weights, source: &[u8], view: &View) -> Vec<f32> {
    let bytes = weights.apply(source, view).unwrap();
    assert_eq!(weights.result(view).map(|(_, bytes)| bytes), Some(bytes.len() as u64));
    match weights.dtype {
        DType::F16 => bytes.chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        _ => bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
    }
}

/// Relative L2 error, and the largest part of the bound of f32 outputs, of tiles computed as the kernels compute them:
/// transforms and sums in f32, rounded once to the element type in between.
fn errors(dtype: DType, tile: usize, channels: usize) -> (f64, f64) {
    const OUTPUTS: usize = 4;
    const TILES: usize = 4;
    let transforms = Transforms::new(tile);
    let size = transforms.size;
    let round = |x: f64| if dtype == DType::F16 { f16::from_f64(x).to_f64() } else { f64::from(x as f32) };
    let mut state = channels as u64;
    let g: Vec<f64> = (0..OUTPUTS * channels * 9).map(|_| round(random(&mut state))).collect();
    let view = View::contiguous(dtype, &[OUTPUTS as u32, channels as u32, 3, 3]).unwrap();
    let source: Vec<u8> = match dtype {
        DType::F16 => g.iter().flat_map(|&x| f16::from_f64(x).to_le_bytes()).collect(),
        _ => g.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
    };
    let u = packed(&Weights { tile: tile as u32, channels: channels as u32, dtype }, &source, &view);
    let apply = |matrix: &[Vec<f64>], x: &[f32]| -> Vec<f32> {
        let row = |row: &Vec<f64>| row.iter().zip(x).fold(0.0f32, |sum, (&f, &x)| (f as f32).mul_add(x, sum));
        matrix.iter().map(row).collect()
    };
    // Columns first, then rows, as both kernels do.
    let both = |matrix: &[Vec<f64>], x: &[Vec<f32>]| -> Vec<Vec<f32>> {
        let columns: Vec<Vec<f32>> =
            (0..size).map(|j| apply(matrix, &x.iter().map(|row| row[j]).collect::<Vec<_>>())).collect();
        (0..matrix.len()).map(|i| apply(matrix, &columns.iter().map(|column| column[i]).collect::<Vec<_>>())).collect()
    };
    let (mut difference, mut norm, mut pairs) = (0.0, 0.0, Vec::new());
    for _ in 0..TILES {
        let d: Vec<Vec<Vec<f32>>> = (0..channels)
            .map(|_| (0..size).map(|_| (0..size).map(|_| round(random(&mut state)) as f32).collect()).collect())
            .collect();
        let v: Vec<Vec<Vec<f32>>> = d.iter().map(|d| both(&transforms.input, d)).collect();
        for m in 0..OUTPUTS {
            let element = |i: usize, j: usize| {
                let of_channel = |c: usize| u[((i * size + j) * OUTPUTS + m) * channels + c];
                (0..channels).fold(0.0f32, |sum, c| (round(v[c][i][j].into()) as f32).mul_add(of_channel(c), sum))
            };
            let p: Vec<Vec<f32>> = (0..size).map(|i| (0..size).map(|j| element(i, j)).collect()).collect();
            for (i, row) in both(&transforms.output, &p).iter().enumerate() {
                for (j, &value) in row.iter().enumerate() {
                    let terms = (0..channels * 9).map(|k| {
                        let (c, a, b) = (k / 9, k / 3 % 3, k % 3);
                        f64::from(d[c][i + a][j + b]) * g[m * channels * 9 + k]
                    });
                    let expected = round(terms.sum());
                    difference += (round(value.into()) - expected).powi(2);
                    norm += expected * expected;
                    pairs.push((expected, f64::from(value)));
                }
            }
        }
    }
    let rms = (norm / pairs.len() as f64).sqrt();
    let part = |&(a, b): &(f64, f64)| (a - b).abs() / (1e-5 * rms.max(1.0) + 1e-4 * a.abs());
    ((difference / norm).sqrt(), pairs.iter().map(part).fold(0.0, f64::max))
}

#[test]
fn errors_stay_within_what_each_tile_promises() {
    for channels in [64, 256, 512] {
        let (small, _) = errors(DType::F16, 2, channels);
        assert!(small <= 1e-3, "F(2x2), {channels} channels: {small:.1e}");
        let (large, _) = errors(DType::F16, 4, channels);
        assert!(large > 1e-3, "F(4x4), {channels} channels: {large:.1e} needs no name of its own");
        assert!(large <= RELAXED_TOLERANCE, "F(4x4), {channels} channels: {large:.1e}");
        for tile in [2, 4] {
            let (_, part) = errors(DType::F32, tile, channels);
            assert!(part <= 1.0, "f32 F({tile}x{tile}), {channels} channels: {part:.1} times the bound");
        }
    }
}

#[test]
fn weights_that_overflow_are_refused() {
    let view = View::contiguous(DType::F16, &[1, 1, 3, 3]).unwrap();
    let source: Vec<u8> = [60000.0f32; 9].iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect();
    assert!(Weights { tile: 2, channels: 8, dtype: DType::F16 }.apply(&source, &view).is_err());
    assert!(Weights { tile: 2, channels: 8, dtype: DType::F32 }.apply(&source, &view).is_ok());
    assert!(Weights { tile: 2, channels: 8, dtype: DType::F16 }.apply(&source[..16], &view).is_err());
}

#[test]
fn transforms_have_names_of_their_own() {
    // Keys of timing tables are made of them.
    let weights = |tile| -> Box<dyn Transform> { Box::new(Weights { tile, channels: 16, dtype: DType::F16 }) };
    assert_eq!(weights(2).to_string(), "Winograd(Weights { tile: 2, channels: 16, dtype: F16 })");
    let spectrum: &dyn Transform = &crate::conv::fft::Spectrum { lengths: [4, 8] };
    assert_eq!(spectrum.to_string(), "Spectrum(Spectrum { lengths: [4, 8] })");
    assert!(*weights(2) == *weights(2) && *weights(2) != *weights(4) && *weights(2) != *spectrum);
}
