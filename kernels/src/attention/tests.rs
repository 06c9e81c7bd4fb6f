//! The reference kernel against the definition in f64.

use super::Attention;
use super::cases::cases;
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

/// One element of the output by the definition.
fn expected(attention: &Attention, operands: &[Operand], index: &[i64]) -> f64 {
    let &[batch, head, i, column] = index else { panic!("rank 4") };
    let shared = head / i64::from(attention.query.shape[1] / attention.key.shape[1]);
    let (keys, size) = (i64::from(attention.key.shape[2]), i64::from(attention.key.shape[3]));
    let scores: Vec<f64> = (0..keys)
        .map(|j| {
            let term = |d: i64| {
                element(&attention.query, &operands[0], &[batch, head, i, d])
                    * element(&attention.key, &operands[1], &[batch, shared, j, d])
            };
            let mut score = (0..size).map(term).sum::<f64>() * f64::from(attention.scale);
            if attention.softcap != 0.0 {
                let bound = f64::from(attention.softcap);
                score = bound * (score / bound).tanh();
            }
            let hidden = attention.causal.is_some_and(|causal| j > i + i64::from(causal));
            let masked = attention.mask.as_ref().map_or(0.0, |mask| {
                let value = element(mask, &operands[3], &[batch, head, i, j]);
                match mask.dtype {
                    DType::Bool if value == 0.0 => f64::NEG_INFINITY,
                    DType::Bool => 0.0,
                    _ => value,
                }
            });
            if hidden { f64::NEG_INFINITY } else { score + masked }
        })
        .collect();
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    let value = |j: usize| element(&attention.value, &operands[2], &[batch, shared, j as i64, column]);
    weights.iter().enumerate().map(|(j, weight)| weight / total * value(j)).sum()
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Attention(attention) = &kernel else { panic!("another family") };
        // Only as many queries as f64 arithmetic for each element can afford.
        let mut short = attention.clone();
        let most = if attention.causal.is_some() { 25 } else { 5 };
        for view in [&mut short.query, &mut short.output].into_iter().chain(&mut short.mask) {
            view.shape[2] = view.shape[2].min(most);
        }
        testing::compare(&Kernel::Attention(short.clone()), 3e-6, |operands, index| expected(&short, operands, index));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        query in any_view(), key in any_view(), value in any_view(), output in any_view(),
        mask in prop::option::of(any_view()), alike in any::<bool>(), causal in any::<Option<i32>>(),
        numbers in any::<[f32; 2]>(), plain in any::<bool>(),
    ) {
        let [scale, softcap] = if plain { [0.5, 0.0] } else { numbers };
        let (key, value, output) =
            if alike { (query.clone(), query.clone(), query.clone()) } else { (key, value, output) };
        never_panics(&Kernel::Attention(Attention { query, key, value, mask, output, scale, softcap, causal }));
    }
}
