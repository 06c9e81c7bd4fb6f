//! Reductions.

use super::super::{
    builder::Builder,
    node::{NodeView, axes, axis},
};
use crate::{Op, Problem, TensorId, op::Reduction};

/// Imports the node where it is a reduction.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    let output = match node.op_type.as_str() {
        "ReduceSum" => reduce(builder, node, Reduction::Sum, 13)?,
        "ReduceMean" => reduce(builder, node, Reduction::Mean, 18)?,
        "ReduceMax" => reduce(builder, node, Reduction::Max, 18)?,
        "ReduceMin" => reduce(builder, node, Reduction::Min, 18)?,
        "ReduceProd" => reduce(builder, node, Reduction::Product, 18)?,
        "ReduceL1" => reduce(builder, node, Reduction::L1, 18)?,
        "ReduceL2" => reduce(builder, node, Reduction::L2, 18)?,
        "ReduceSumSquare" => reduce(builder, node, Reduction::SumSquare, 18)?,
        "ReduceLogSum" => reduce(builder, node, Reduction::LogSum, 18)?,
        "ReduceLogSumExp" => reduce(builder, node, Reduction::LogSumExp, 18)?,
        "ArgMax" => {
            let last = node.flag("select_last_index", false)?;
            index(builder, node, Reduction::ArgMax { last })?
        }
        "ArgMin" => {
            let last = node.flag("select_last_index", false)?;
            index(builder, node, Reduction::ArgMin { last })?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![output]))
}

/// Axes are an attribute before the opset `since`, an input after. None at all means every dimension, or with
/// `noop_with_empty_axes` the input as it is.
fn reduce(builder: &mut Builder, node: &mut NodeView, kind: Reduction, since: i64) -> Result<TensorId, Problem> {
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

fn index(builder: &mut Builder, node: &mut NodeView, kind: Reduction) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let axes = vec![axis(node.int("axis")?.unwrap_or(0), builder.shape(x).len())?];
    let keep = node.flag("keepdims", true)?;
    builder.emit(Op::Reduce { kind, axes, keep }, &[x])
}
