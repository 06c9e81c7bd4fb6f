//! Weights of few bits with error compensation: columns are rounded one after the other, and what rounding one of them breaks is
//! mended by those that follow. (Frantar et al., "GPTQ: accurate post-training quantization for generative pre-trained
//! transformers", 2023, after Hassibi and Stork, "Optimal brain surgeon", 1993.)

use crate::gram;
use rayon::prelude::*;

/// Added to the diagonal of the second moments, as a share of its mean; 0.01 in the paper's code.
const DAMPING: f32 = 0.01;

/// Weights as unsigned integers in groups along the depth, each with a scale and a zero point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grouped {
    /// Bits of an integer.
    pub bits: u32,
    /// Weights of a group.
    pub group: usize,
    /// Factors of each output.
    pub depth: usize,
    /// Integers, a row for each output channel.
    pub integers: Vec<u8>,
    /// Scales, by output channel and group.
    pub scales: Vec<f32>,
    /// Zero points likewise.
    pub zeros: Vec<u8>,
}

impl Grouped {
    /// Groups of an output channel.
    pub fn groups(&self) -> usize {
        self.depth.div_ceil(self.group)
    }

    /// The floats that the integers stand for.
    pub fn floats(&self) -> Vec<f32> {
        let value = |(index, &integer): (usize, &u8)| {
            let place = index / self.depth * self.groups() + index % self.depth / self.group;
            (f32::from(integer) - f32::from(self.zeros[place])) * self.scales[place]
        };
        self.integers.iter().enumerate().map(value).collect()
    }
}

/// Scale and zero point of some weights.
fn step(weights: &[f32], bits: u32) -> (f32, u8) {
    let most = ((1u32 << bits) - 1) as f32;
    let ends = weights.iter().fold((0.0f32, 0.0f32), |(low, high), &value| (low.min(value), high.max(value)));
    let scale = (ends.1 - ends.0) / most;
    if scale.is_nan() || scale <= 1e-30 {
        return (1.0, 1u8 << (bits - 1));
    }
    (scale, (-ends.0 / scale).round().clamp(0.0, most) as u8)
}

fn rounded(value: f32, (scale, zero): (f32, u8), bits: u32) -> u8 {
    let most = ((1u32 << bits) - 1) as f32;
    ((value / scale).round_ties_even() + f32::from(zero)).clamp(0.0, most) as u8
}

/// Rounds each weight by itself.
pub fn nearest(rows: &[f32], depth: usize, bits: u32, group: usize) -> Grouped {
    quantise(rows, depth, bits, group, None)
}

/// Rounds with compensation for rows of what the weights are multiplied with.
pub fn compensated(rows: &[f32], depth: usize, bits: u32, group: usize, inputs: &[f32]) -> Grouped {
    let mut moments = gram::second_moments(inputs, depth, 0, depth);
    let mean = gram::mean_diagonal(&moments, depth);
    if mean.is_nan() || mean <= 0.0 {
        return nearest(rows, depth, bits, group);
    }
    gram::damp(&mut moments, depth, mean * DAMPING);
    match inverse_factor(&moments, depth) {
        Some(factor) => quantise(rows, depth, bits, group, Some(&factor)),
        None => nearest(rows, depth, bits, group),
    }
}

fn quantise(rows: &[f32], depth: usize, bits: u32, group: usize, factor: Option<&[f32]>) -> Grouped {
    type Row = (Vec<u8>, Vec<f32>, Vec<u8>);
    let one = |row: &[f32]| -> Row {
        let mut weights = row.to_vec();
        let (mut integers, mut scales, mut zeros) = (vec![0; depth], Vec::new(), Vec::new());
        let mut current = (1.0, 0);
        for j in 0..depth {
            if j % group == 0 {
                current = step(&weights[j..(j + group).min(depth)], bits);
                scales.push(current.0);
                zeros.push(current.1);
            }
            integers[j] = rounded(weights[j], current, bits);
            if let Some(factor) = factor {
                let value = (f32::from(integers[j]) - f32::from(current.1)) * current.0;
                let line = &factor[j * depth..][..depth];
                let error = (weights[j] - value) / line[j];
                weights[j + 1..].iter_mut().zip(&line[j + 1..]).for_each(|(weight, u)| *weight -= error * u);
            }
        }
        (integers, scales, zeros)
    };
    let parts: Vec<Row> = rows.par_chunks(depth).map(one).collect();
    let mut grouped = Grouped { bits, group, depth, ..Grouped::default() };
    for (integers, scales, zeros) in parts {
        grouped.integers.extend(integers);
        grouped.scales.extend(scales);
        grouped.zeros.extend(zeros);
    }
    grouped
}

/// The upper triangle U with `UᵀU` the inverse of a symmetric matrix; `None` where that is not positive.
///
/// With `H = R·Rᵀ` for an upper triangle R, the inverse is `(R⁻¹)ᵀ·R⁻¹`.
fn inverse_factor(matrix: &[f32], n: usize) -> Option<Vec<f32>> {
    let mut r = vec![0.0f64; n * n];
    for j in (0..n).rev() {
        let (above, rest) = r.split_at_mut(j * n);
        let line = &mut rest[..n];
        let own: f64 = line[j + 1..].iter().map(|value| value * value).sum();
        let square = f64::from(matrix[j * n + j]) - own;
        if square.is_nan() || square <= 0.0 {
            return None;
        }
        line[j] = square.sqrt();
        let line = &*line;
        above.par_chunks_mut(n).enumerate().with_min_len(16).for_each(|(i, other)| {
            let sum: f64 = other[j + 1..].iter().zip(&line[j + 1..]).map(|(a, b)| a * b).sum();
            other[j] = (f64::from(matrix[i * n + j]) - sum) / line[j];
        });
    }
    let mut u = vec![0.0f64; n * n];
    for i in (0..n).rev() {
        let (above, below) = u.split_at_mut((i + 1) * n);
        let line = &mut above[i * n..];
        line[i] = 1.0;
        for k in i + 1..n {
            let factor = r[i * n + k];
            if factor != 0.0 {
                let other = &below[(k - i - 1) * n..][..n];
                line[k..].iter_mut().zip(&other[k..]).for_each(|(value, other)| *value -= factor * other);
            }
        }
        let diagonal = r[i * n + i];
        line[i..].iter_mut().for_each(|value| *value /= diagonal);
    }
    Some(u.into_iter().map(|value| value as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::normal;

    /// Rows whose columns depend on one another.
    fn correlated(count: usize, depth: usize) -> Vec<f32> {
        let (noise, common) = (normal(3, count * depth), normal(4, count * 2));
        (0..count * depth)
            .map(|i| noise[i] * 0.3 + common[i / depth * 2] + common[i / depth * 2 + 1] * (i % depth % 3) as f32)
            .collect()
    }

    #[test]
    fn the_factor_is_that_of_the_inverse() {
        let n = 24;
        let mut matrix = gram::second_moments(&correlated(100, n), n, 0, n);
        gram::damp(&mut matrix, n, 0.1);
        let u = inverse_factor(&matrix, n).unwrap();
        for i in 0..n {
            for j in 0..n {
                // UᵀU · H is the identity.
                let inverse = |a: usize, b: usize| (0..n).map(|k| f64::from(u[k * n + a] * u[k * n + b])).sum::<f64>();
                let sum: f64 = (0..n).map(|k| inverse(i, k) * f64::from(matrix[k * n + j])).sum();
                assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-3, "{i} {j} {sum}");
            }
        }
        assert!(inverse_factor(&[1.0, 2.0, 2.0, 1.0], 2).is_none());
    }

    #[test]
    fn compensation_halves_the_error_of_the_product() {
        let (depth, outputs, count) = (64, 16, 256);
        let (rows, inputs) = (normal(5, outputs * depth), correlated(count, depth));
        let error = |weights: &[f32]| -> f64 {
            (0..count * outputs)
                .map(|i| {
                    let (x, n) = (&inputs[i / outputs * depth..][..depth], i % outputs);
                    let difference =
                        (0..depth).map(|k| f64::from(x[k] * (weights[n * depth + k] - rows[n * depth + k])));
                    difference.sum::<f64>().powi(2)
                })
                .sum()
        };
        let (near, better) = (nearest(&rows, depth, 4, 32), compensated(&rows, depth, 4, 32, &inputs));
        assert_eq!((near.scales.len(), near.integers.iter().max()), (32, Some(&15)));
        let (near, better) = (error(&near.floats()), error(&better.floats()));
        assert!(better < near / 2.0, "{near} {better}");
        // With 8 bits hardly anything is lost.
        assert!(error(&nearest(&rows, depth, 8, 32).floats()) < near / 100.0);
    }
}
