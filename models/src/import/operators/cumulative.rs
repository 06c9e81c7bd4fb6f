//! Operators that go along an axis in order: running sums and products, the largest elements.

use super::super::{
    builder::Builder,
    extents::Extent,
    node::{NodeView, axis, extent},
};
use crate::{Op, Problem, Tensor, TensorId, op::Binary};

pub(super) fn cumulative(builder: &mut Builder, node: &mut NodeView, product: bool) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let given = node.integers(builder, 1, "axis")?.and_then(|axis| axis.first().copied());
    let given = given.ok_or_else(|| Problem::Invalid("input 1 (axis) is missing".into()))?;
    let axis = axis(given, builder.shape(x).len())?;
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    builder.emit(Op::Cumulative { axis, product, exclusive, reverse }, &[x])
}

/// The count is an attribute before opset 10, an input after.
pub(super) fn top_k(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    // Sorted in any case.
    node.ignore(&["sorted"]);
    let x = node.input(0)?;
    let shape = builder.shape(x);
    let axis = axis(node.int("axis")?.unwrap_or(-1), shape.len())?;
    let given = match node.opset {
        ..10 => node.int("k")?.map(Extent::Known),
        _ => node.extents_of(builder, 1, "K")?.and_then(|k| k.first().copied()),
    };
    let given = given.ok_or_else(|| Problem::Invalid("the count is missing".into()))?;
    let k = extent("K", given.room())?;
    let largest = node.flag("largest", true)?;
    let Some(bound) = builder.counted(x).filter(|bound| bound.axis == axis) else {
        let outputs = builder.emit_all(Op::TopK { axis, k, largest }, &[x], &[])?;
        return match (given, builder.counted(x)) {
            (Extent::Counted { .. }, Some(_)) => Err(Problem::DataDependent {
                reason: "the number of the largest elements depends on data, and how many of them there are too".into(),
            }),
            _ => outputs.into_iter().map(|output| builder.counted_along(output, axis, given)).collect(),
        };
    };
    if !builder.fact(x).dtype.is_float() {
        let reason = "how many integers there are to choose from depends on data".into();
        return Err(Problem::DataDependent { reason });
    }
    // What is not there comes last.
    let x = builder.filled(x, if largest { f64::NEG_INFINITY } else { f64::INFINITY })?;
    let k = k.min(builder.shape(x)[axis]);
    let outputs = builder.emit_all(Op::TopK { axis, k, largest }, &[x], &[])?;
    let count = match given.count() {
        Some(count) => count,
        None => {
            let most = builder.constant(Tensor::i64(&[], &[k as i64]));
            builder.binary(Binary::Min, bound.count, most)?
        }
    };
    outputs.into_iter().map(|output| builder.bounded(output, axis, count)).collect()
}
