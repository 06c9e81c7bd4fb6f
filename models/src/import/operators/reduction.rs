//! Reductions.

use super::super::{
    builder::Builder,
    node::{NodeView, axes, axis},
};
use crate::{Op, Problem, TensorId, op::Reduction};

/// Axes are an attribute before the opset `since`, an input after. None at all means every dimension, or with
/// `noop_with_empty_axes` the input as it is.
pub(super) fn reduce(
    builder: &mut Builder,
    node: &mut NodeView,
    kind: Reduction,
    since: i64,
) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let rank = builder.shape(x).len();
    let given = if node.opset < since { node.ints("axes")? } else { node.integers(builder, 1, "axes")? };
    let keep = node.flag("keepdims", true)?;
    let nothing = node.flag("noop_with_empty_axes", false)?;
    let mut axes = axes(&given.unwrap_or_default(), rank)?;
    if axes.is_empty() {
        if nothing {
            return Ok(x);
        }
        axes = (0..rank).collect();
    }
    axes.sort_unstable();
    builder.emit(Op::Reduce { kind, axes, keep }, &[x])
}

/// Where an extreme lies; `kind` of whether the last of equal ones counts.
pub(super) fn index(
    builder: &mut Builder,
    node: &mut NodeView,
    kind: fn(bool) -> Reduction,
) -> Result<TensorId, Problem> {
    let kind = kind(node.flag("select_last_index", false)?);
    let x = node.input(0)?;
    let axes = vec![axis(node.int("axis")?.unwrap_or(0), builder.shape(x).len())?];
    let keep = node.flag("keepdims", true)?;
    builder.emit(Op::Reduce { kind, axes, keep }, &[x])
}
