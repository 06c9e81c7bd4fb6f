//! One function for each ONNX operator: attributes resolved for the model's opset, then nodes emitted.

mod attention;
mod constants;
mod cumulative;
mod einsum;
mod indexing;
mod losses;
mod microsoft;
mod movement;
mod normalization;
mod pointwise;
mod products;
mod quantization;
mod recurrent;
mod reduction;
mod resample;
mod resize;
mod sampling;
mod scatter;
mod selection;
mod sequences;
mod shapes;
mod signal;
mod windows;

use super::{
    builder::Builder,
    node::{NodeView, extent},
};
use crate::{Problem, TensorId};

/// A family of operators: imports the node where it is one of them. The outputs are in the node's order; trailing ones
/// that are not supported are left out.
type Family = fn(&mut Builder, &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem>;

const FAMILIES: [Family; 21] = [
    pointwise::import,
    windows::import,
    shapes::import,
    movement::import,
    products::import,
    normalization::import,
    reduction::import,
    recurrent::import,
    resize::import,
    constants::import,
    indexing::import,
    scatter::import,
    quantization::import,
    sampling::import,
    cumulative::import,
    selection::import,
    sequences::import,
    signal::import,
    losses::import,
    einsum::import,
    attention::import,
];

/// Imports one node.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    if node.domain == microsoft::DOMAIN
        && let Some(outputs) = microsoft::import(builder, node)?
    {
        return Ok(outputs);
    }
    if !node.domain.is_empty() {
        let hint =
            format!(", nor is any other of domain '{}'; export the model with operators of ai.onnx", node.domain);
        return Err(Problem::Operator { hint });
    }
    for family in FAMILIES {
        if let Some(outputs) = family(builder, node)? {
            return Ok(outputs);
        }
    }
    Err(Problem::Operator { hint: String::new() })
}

/// An integer attribute that counts something; a default of 0 means that it is required.
pub(super) fn count(node: &mut NodeView, name: &str, default: usize) -> Result<usize, Problem> {
    let value = node.int(name)?.map_or(Ok(default), |value| extent(name, value))?;
    match value {
        0 => Err(Problem::Invalid(format!("attribute '{name}' is missing or 0"))),
        value => Ok(value),
    }
}
