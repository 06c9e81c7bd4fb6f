//! Second moments of the rows that a product multiplies with, `XᵀX`: what an error of its weights costs.

use rayon::prelude::*;

/// `XᵀX / n` of rows of `depth` values that start at `offset` in rows of `patch`, row-major and symmetric.
pub fn second_moments(rows: &[f32], patch: usize, offset: usize, depth: usize) -> Vec<f32> {
    let count = rows.len() / patch.max(1);
    let mut moments = vec![0.0f32; depth * depth];
    moments.par_chunks_mut(depth * 8).enumerate().for_each(|(block, lines)| {
        let first = block * 8;
        for row in 0..count {
            let values = &rows[row * patch + offset..][..depth];
            for (line, sums) in lines.chunks_mut(depth).enumerate() {
                let factor = values[first + line];
                if factor != 0.0 {
                    // The lower half follows from the upper.
                    let from = first + line;
                    sums[from..].iter_mut().zip(&values[from..]).for_each(|(sum, value)| *sum += factor * value);
                }
            }
        }
    });
    let scale = 1.0 / count.max(1) as f32;
    moments.iter_mut().for_each(|value| *value *= scale);
    for i in 0..depth {
        for j in 0..i {
            moments[i * depth + j] = moments[j * depth + i];
        }
    }
    moments
}

/// Mean of the diagonal.
pub fn mean_diagonal(moments: &[f32], depth: usize) -> f32 {
    (0..depth).map(|i| f64::from(moments[i * depth + i])).sum::<f64>() as f32 / depth.max(1) as f32
}

/// Adds to the diagonal.
pub fn damp(moments: &mut [f32], depth: usize, by: f32) {
    (0..depth).for_each(|i| moments[i * depth + i] += by);
}
