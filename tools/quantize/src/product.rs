//! Products of rows and weights in f32, and the errors of approximate ones.

use crate::layers::{Layer, transposed};
use rayon::prelude::*;

/// Rows of `layer.patch()` values times the layer's weights (a row for each output channel): a row of results for each.
pub fn product(layer: &Layer, rows: &[f32], weights: &[f32]) -> Vec<f32> {
    let (patch, depth, outputs) = (layer.patch(), layer.depth, layer.outputs);
    let count = rows.len() / patch.max(1);
    let mut results = vec![0.0f32; count * outputs];
    if layer.groups == 1 {
        // Columns side by side, so that the compiler makes vectors of them.
        let columns = transposed(weights, outputs, depth);
        results.par_chunks_mut(4 * outputs).zip(rows.par_chunks(4 * patch)).for_each(|(results, rows)| {
            let lines = results.len() / outputs;
            const BLOCK: usize = 256;
            for first in (0..outputs).step_by(BLOCK) {
                let width = BLOCK.min(outputs - first);
                for k in 0..depth {
                    let of_weights = &columns[k * outputs + first..][..width];
                    for line in 0..lines {
                        let factor = rows[line * patch + k];
                        if factor != 0.0 {
                            let sums = &mut results[line * outputs + first..][..width];
                            sums.iter_mut().zip(of_weights).for_each(|(sum, weight)| *sum += factor * weight);
                        }
                    }
                }
            }
        });
        return results;
    }
    let each = layer.group_outputs();
    results.par_chunks_mut(outputs).zip(rows.par_chunks(patch)).for_each(|(results, row)| {
        for (output, result) in results.iter_mut().enumerate() {
            let factors = &row[output / each * depth..][..depth];
            let weights = &weights[output * depth..][..depth];
            *result = factors.iter().zip(weights).map(|(a, b)| a * b).sum();
        }
    });
    results
}

/// `Σ (a − b)²`.
pub fn squared_distance(a: &[f32], b: &[f32]) -> f64 {
    a.par_chunks(4096)
        .zip(b.par_chunks(4096))
        .map(|(a, b)| a.iter().zip(b).map(|(a, b)| f64::from(a - b) * f64::from(a - b)).sum::<f64>())
        // In order: the sum is the same every time.
        .collect::<Vec<_>>()
        .into_iter()
        .sum()
}

/// `Σ a²`.
pub fn squared_norm(a: &[f32]) -> f64 {
    a.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
}

/// Squared error relative to the squares of what is approximated.
pub fn relative(exact: &[f32], approximate: &[f32]) -> f64 {
    squared_distance(exact, approximate) / squared_norm(exact).max(f64::MIN_POSITIVE)
}
