//! Adaptive rounding: each weight is rounded up or down so that the products of the layer change least together, in place of each
//! weight by itself. (Nagel et al., "Up or down? Adaptive rounding for post-training quantization", 2020.) The quadratic problem
//! of their section 3 is solved by coordinate descent, one flip at a time, as in Nair and Suggala, "CDQuant", 2024: a flip of
//! weight j by d changes the error `eᵀHe` by `2·d·(He)ⱼ + d²·Hⱼⱼ`.

use crate::{
    gram,
    layers::Layer,
    weights::{MOST, Weights},
};
use floe_models::DType;
use rayon::prelude::*;

/// Most passes over a row's weights.
const PASSES: usize = 12;
/// Added to the diagonal of the second moments, as a share of its mean: rows that were not seen.
const DAMPING: f32 = 0.02;

/// Rounds a layer's weights for rows of what it multiplies with, quantised already.
pub fn adapt(layer: &Layer, exact: &[f32], scales: &[f32], rows: &[f32]) -> Weights {
    let (depth, each) = (layer.depth, layer.group_outputs());
    let mut weights = crate::weights::rounded(exact, scales, DType::I8);
    let moments = |group: usize| {
        let mut moments = gram::second_moments(rows, layer.patch(), group * depth, depth);
        let mean = gram::mean_diagonal(&moments, depth);
        gram::damp(&mut moments, depth, mean * DAMPING + f32::MIN_POSITIVE);
        moments
    };
    let of_group = |(group, integers): (usize, &mut [i8])| {
        let moments = moments(group);
        let outputs = integers.par_chunks_mut(depth).enumerate();
        outputs.for_each(|(within, integers)| {
            let output = group * each + within;
            descend(integers, &exact[output * depth..][..depth], scales[output], &moments);
        });
    };
    if layer.groups == 1 {
        of_group((0, &mut weights.elements));
    } else {
        weights.elements.par_chunks_mut(each * depth).enumerate().for_each(of_group);
    }
    weights
}

/// Flips the weights of one output channel between their two neighbours until no flip helps.
fn descend(integers: &mut [i8], exact: &[f32], scale: f32, moments: &[f32]) {
    let depth = integers.len();
    let mut errors: Vec<f32> =
        integers.iter().zip(exact).map(|(&integer, exact)| f32::from(integer) * scale - exact).collect();
    let mut slopes = vec![0.0f32; depth];
    for (j, &error) in errors.iter().enumerate().filter(|(_, error)| **error != 0.0) {
        slopes.iter_mut().zip(&moments[j * depth..][..depth]).for_each(|(slope, moment)| *slope += error * moment);
    }
    for _ in 0..PASSES {
        let mut flipped = false;
        for j in 0..depth {
            // Towards the other neighbour of the exact weight.
            let step = if errors[j] > 0.0 { -1i8 } else { 1 };
            let d = f32::from(step) * scale;
            let fits = (-MOST..=MOST).contains(&(f32::from(integers[j]) + f32::from(step)));
            if !fits || (errors[j] + d).abs() >= scale || errors[j] == 0.0 {
                continue;
            }
            if 2.0 * d * slopes[j] + d * d * moments[j * depth + j] < 0.0 {
                integers[j] += step;
                errors[j] += d;
                slopes.iter_mut().zip(&moments[j * depth..][..depth]).for_each(|(slope, moment)| *slope += d * moment);
                flipped = true;
            }
        }
        if !flipped {
            break;
        }
    }
}
