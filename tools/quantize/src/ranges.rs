//! Chooses for each value between which ends it is quantised: the method whose rounding changes the results of the products that
//! read it the least, measured on rows of the samples.

use crate::{
    calibrate::Observations,
    layers::Layer,
    observe::{self, Histogram, Method},
    params::{Activations, Params},
    places::Groups,
    product::{product, relative},
};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Rows that the choice is measured on.
const ROWS: usize = 256;

/// What was chosen for values that share parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Scale and zero point.
    pub params: Params,
    /// How they were found.
    pub method: Method,
    /// Squared relative error of the products that read them, in the mean; of min-max, and of the method. `None` where no other
    /// method was tried.
    pub errors: Option<[f64; 2]>,
}

/// The weights and rows of the layers.
pub type Rows = HashMap<String, Vec<f32>>;

/// What all values of a group are like together.
pub fn joined<'a>(group: impl IntoIterator<Item = &'a String>, histograms: &HashMap<String, Histogram>) -> Histogram {
    let mut joined = Histogram::default();
    group.into_iter().filter_map(|name| histograms.get(name)).for_each(|histogram| joined.merge(histogram));
    joined
}

/// The first rows of a layer.
pub fn first_rows<'a>(layer: &Layer, seen: &'a Observations, most: usize) -> &'a [f32] {
    let rows = seen.rows.get(&layer.name).map_or(&[][..], Vec::as_slice);
    &rows[..rows.len().min(most * layer.patch())]
}

/// Parameters of every value in the groups. `methods` are tried in their order; the first is what the others are compared with.
pub fn choose(
    groups: &Groups,
    layers: &[&Layer],
    weights: &HashMap<String, Vec<f32>>,
    seen: &Observations,
    activations: Activations,
    methods: &[Method],
) -> BTreeMap<String, Choice> {
    let of_group = |group: &BTreeSet<String>| -> Option<Choice> {
        let histogram = joined(group, &seen.histograms);
        let readers: Vec<&&Layer> = layers.iter().filter(|layer| group.contains(&layer.input)).collect();
        let exact: Vec<(&Layer, &[f32], Vec<f32>)> = readers
            .iter()
            .map(|layer| {
                let rows = first_rows(layer, seen, ROWS);
                let results = if methods.len() > 1 { product(layer, rows, &weights[&layer.name]) } else { Vec::new() };
                (**layer, rows, results)
            })
            .collect();
        let effect = |params: &Params| -> f64 {
            let of = |(layer, rows, results): &(&Layer, &[f32], Vec<f32>)| {
                relative(results, &product(layer, &params.round(rows), &weights[&layer.name]))
            };
            exact.iter().map(of).sum::<f64>() / exact.len().max(1) as f64
        };
        let mut tried: Vec<(Params, Method, f64)> = Vec::new();
        for &method in methods {
            let range = histogram.range(method, activations);
            for params in forms(range, activations) {
                if tried.iter().all(|(other, ..)| *other != params) {
                    let error = if methods.len() > 1 { effect(&params) } else { 0.0 };
                    tried.push((params, method, error));
                }
            }
        }
        let first = tried.first().copied()?;
        let best = tried.iter().fold(first, |best, next| if next.2 < best.2 { *next } else { best });
        let errors = (methods.len() > 1).then_some([first.2, best.2]);
        Some(Choice { params: best.0, method: best.1, errors })
    };
    let choices: Vec<Option<Choice>> = groups.par_iter().map(of_group).collect();
    let named = groups.iter().zip(choices).filter_map(|(group, choice)| Some((group, choice?)));
    named.flat_map(|(group, choice)| group.iter().map(move |name| (name.clone(), choice.clone()))).collect()
}

/// The parameters of a range.
fn forms(range: (f32, f32), activations: Activations) -> Vec<Params> {
    vec![observe::params(range, activations)]
}
