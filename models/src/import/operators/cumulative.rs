//! Operators that go along an axis in order: running sums and products, the largest elements.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, extent},
};
use crate::{Op, Problem, TensorId};

/// Imports the node where it is one of these operators.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    Ok(Some(match node.op_type.as_str() {
        "CumSum" => vec![cumulative(builder, node, false)?],
        "CumProd" => vec![cumulative(builder, node, true)?],
        "TopK" => top_k(builder, node)?,
        _ => return Ok(None),
    }))
}

fn cumulative(builder: &mut Builder, node: &mut NodeView, product: bool) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let given = node.integers(builder, 1, "axis")?.and_then(|axis| axis.first().copied());
    let given = given.ok_or_else(|| Problem::Invalid("input 1 (axis) is missing".into()))?;
    let axis = axis(given, builder.shape(x).len())?;
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    builder.emit(Op::Cumulative { axis, product, exclusive, reverse }, &[x])
}

/// The count is an attribute before opset 10, an input after.
fn top_k(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    // Sorted in any case.
    node.ignore(&["sorted"]);
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let axis = axis(node.int("axis")?.unwrap_or(-1), shape.len())?;
    let given = match node.opset {
        ..10 => node.int("k")?,
        _ => node.integers(builder, 1, "K")?.and_then(|k| k.first().copied()),
    };
    let k = extent("K", given.ok_or_else(|| Problem::Invalid("the count is missing".into()))?)?;
    let largest = node.flag("largest", true)?;
    builder.emit_all(Op::TopK { axis, k, largest }, &[x], &[])
}
