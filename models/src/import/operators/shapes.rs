//! Operators that change only the shape or the order of dimensions, and those that change nothing.

use super::super::{
    builder::Builder,
    extents::Extent,
    node::{NodeView, axes, axis, unsupported},
};
use crate::{
    Counted, DType, Op, Problem, TensorId,
    infer::{broadcast, show},
};

pub(super) fn depth_to_space(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let column_row_depth = match node.string("mode", "DCR")?.as_str() {
        "DCR" => false,
        "CRD" => true,
        other => return Err(unsupported("mode", other, "DCR, CRD")),
    };
    let block = super::count(node, "blocksize", 0)?;
    builder.emit(Op::DepthToSpace { block, column_row_depth }, &[node.input(0)?])
}

pub(super) fn space_to_depth(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let block = super::count(node, "blocksize", 0)?;
    builder.emit(Op::SpaceToDepth { block }, &[node.input(0)?])
}

/// The identity in inference; the mask is all true.
pub(super) fn dropout(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    node.ignore(&["ratio", "seed", "is_test"]);
    let training = node.integers(builder, 2, "training_mode")?;
    if training.is_some_and(|training| training.iter().any(|&value| value != 0)) {
        return Err(unsupported("training_mode", true, "false"));
    }
    let x = node.input(0)?;
    let mut outputs = vec![x];
    if node.outputs > 1 && node.opset >= 10 {
        let shape = builder.shape(x).to_vec();
        let kept = builder.scalar(DType::Bool, 1.0)?;
        outputs.push(builder.expand(kept, &shape)?);
    }
    Ok(outputs)
}

/// 0 copies the input's extent unless `allowzero`; one −1 takes what is left.
pub(super) fn reshape(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let wanted = node.extents_of(builder, 1, "shape")?;
    let wanted = wanted.ok_or_else(|| Problem::Invalid("input 1 (shape) is missing".into()))?;
    let counted: Vec<_> = wanted.iter().map(|extent| extent.count()).collect();
    let wanted: Vec<_> = wanted.iter().map(|extent| extent.room()).collect();
    let allow_zero = node.flag("allowzero", false)?;
    let input = builder.shape(x).to_vec();
    let misfit = || Problem::Invalid(format!("{} cannot be reshaped to {wanted:?}", show(&input)));
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (d, &extent) in wanted.iter().enumerate() {
        shape.push(match extent {
            -1 if open.is_none() => {
                open = Some(d);
                1
            }
            0 if !allow_zero => *input.get(d).ok_or_else(misfit)?,
            extent => super::super::node::extent("the shape", extent)?,
        });
    }
    if let Some(open) = open {
        let elements: usize = input.iter().product();
        let rest = shape.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
        let rest = rest.filter(|&rest| rest > 0 && elements.is_multiple_of(rest)).ok_or_else(misfit)?;
        shape[open] = elements / rest;
    }
    let reshaped = builder.reshape(x, &shape)?;
    // The room is right by chance where the shape counts something else.
    for (d, count) in counted.into_iter().enumerate().filter_map(|(d, count)| Some((d, count?))) {
        if builder.counted(reshaped) != Some(Counted { axis: d, count }) {
            let input = show(&input);
            let reason = format!("{input} is reshaped to {wanted:?}, where extent {d} depends on data in another way");
            return Err(Problem::DataDependent { reason });
        }
    }
    Ok(reshaped)
}

pub(super) fn flatten(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let at = match node.int("axis")?.unwrap_or(1) {
        _ if shape.is_empty() => 0,
        // An axis equal to the rank is allowed.
        at if at == shape.len() as i64 => shape.len(),
        at => axis(at, shape.len())?,
    };
    builder.reshape(x, &[shape[..at].iter().product(), shape[at..].iter().product()])
}

/// Axes are an attribute before opset 13, an input after.
fn given_axes(builder: &Builder, node: &mut NodeView) -> Result<Option<Vec<i64>>, Problem> {
    if node.opset < 13 { node.ints("axes") } else { node.integers(builder, 1, "axes") }
}

pub(super) fn squeeze(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let given = given_axes(builder, node)?;
    let shape = builder.shape(x).to_vec();
    let removed = match given {
        Some(given) => axes(&given, shape.len())?,
        None => (0..shape.len()).filter(|&d| shape[d] == 1).collect(),
    };
    if let Some(&d) = removed.iter().find(|&&d| shape[d] != 1) {
        return Err(Problem::Invalid(format!("dimension {d} of {} has an extent other than 1", show(&shape))));
    }
    let kept: Vec<_> = (0..shape.len()).filter(|d| !removed.contains(d)).map(|d| shape[d]).collect();
    builder.reshape(x, &kept)
}

pub(super) fn unsqueeze(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let given = given_axes(builder, node)?.ok_or_else(|| Problem::Invalid("the axes are missing".into()))?;
    let mut rest = builder.shape(x).iter();
    let rank = rest.len() + given.len();
    let added = axes(&given, rank)?;
    let shape: Vec<_> =
        (0..rank).map(|d| if added.contains(&d) { 1 } else { rest.next().copied().unwrap_or(1) }).collect();
    builder.reshape(x, &shape)
}

pub(super) fn transpose(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let rank = builder.shape(x).len();
    let permutation = node.extents("perm")?.unwrap_or_else(|| (0..rank).rev().collect());
    if permutation.iter().copied().eq(0..rank) {
        return Ok(x);
    }
    builder.emit(Op::Transpose { permutation }, &[x])
}

/// The shape is broadcast with the input's, so an extent of 1 keeps the input's.
pub(super) fn expand(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let given = node.extents_of(builder, 1, "shape")?.unwrap_or_default();
    let wanted: Vec<_> =
        given.iter().map(|extent| super::super::node::extent("the shape", extent.room())).collect::<Result<_, _>>()?;
    let input = builder.shape(x).to_vec();
    let shape = broadcast(&input, &wanted)?;
    let before = shape.len() - input.len();
    let bound = builder.counted(x).map(|bound| (bound.axis + before, bound.count));
    if let Some((axis, count)) = bound {
        // An only element would be repeated, more would stay as many as they are.
        let given = (axis + given.len()).checked_sub(shape.len()).map_or(Extent::Known(1), |d| given[d]);
        if given != Extent::Known(1) && given.count() != Some(count) {
            let reason = format!("an extent that depends on data cannot be expanded to {}", given.room());
            return Err(Problem::DataDependent { reason });
        }
    }
    let counted = given.iter().enumerate().filter(|(_, extent)| extent.count().is_some());
    let counted: Vec<_> = counted.map(|(d, &extent)| (d + shape.len() - given.len(), extent)).collect();
    let mut expanded = builder.expand(x, &shape)?;
    for (axis, extent) in counted {
        let single = axis < before || input[axis - before] == 1;
        match bound {
            Some((other, count)) if other == axis && extent.count() == Some(count) => {}
            None if single && counted_once(&given) => expanded = builder.counted_along(expanded, axis, extent)?,
            _ => {
                let reason = format!("{} cannot be expanded to {}, which depends on data", show(&input), show(&wanted));
                return Err(Problem::DataDependent { reason });
            }
        }
    }
    Ok(expanded)
}

/// Whether no more than one extent depends on data, as much as a value can have.
pub(super) fn counted_once(extents: &[Extent]) -> bool {
    extents.iter().filter(|extent| extent.count().is_some()).count() <= 1
}
