//! Operators whose output's extents depend on data. Extents of a plan are fixed, so their outputs have room for the most
//! elements there can be, with their number beside them.

use super::super::{
    builder::Builder,
    extents::Computed,
    node::{NodeView, axis},
};
use crate::{Fact, Op, Problem, Tensor, TensorId, infer::show};

/// Indices of the elements that are not zero, one row a dimension, in row-major order.
pub(super) fn non_zero(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    if !builder.shape(x).is_empty() {
        return indices(builder, x);
    }
    // A scalar has as many indices as a vector of one element, but no dimension to count them along.
    let vector = builder.reshape(x, &[1])?;
    let found = indices(builder, vector)?;
    let Fact { dtype, shape, .. } = builder.fact(found).clone();
    builder.emit_as(Op::Slice { starts: vec![0; 2], steps: vec![1; 2] }, &[found], Fact::new(dtype, &[0, shape[1]]))
}

/// Indices of the elements that are not zero. What two nodes ask of one value is found once, so that it is known to be
/// equally much.
fn indices(builder: &mut Builder, x: TensorId) -> Result<TensorId, Problem> {
    let how = Computed::NonZero(x);
    if let Some(&found) = builder.computed.get(&how) {
        return Ok(found);
    }
    let there = builder.filled(x, 0.0)?;
    let outputs = builder.emit_all(Op::NonZero, &[there], &[])?;
    let found = builder.bounded(outputs[0], 1, outputs[1])?;
    builder.computed.insert(how, found);
    Ok(found)
}

/// The slices along an axis (without one, the elements) whose condition is true.
pub(super) fn compress(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (input, condition) = (node.input(0)?, node.input(1)?);
    let shape = builder.shape(input).to_vec();
    let (x, dim) = match node.int("axis")? {
        Some(given) => (input, axis(given, shape.len())?),
        None => (builder.reshape(input, &[shape.iter().product()])?, 0),
    };
    let extent = builder.shape(x)[dim];
    let &[conditions] = builder.shape(condition) else {
        return Err(Problem::Invalid(format!("a condition of shape {}", show(builder.shape(condition)))));
    };
    if conditions > extent {
        return Err(Problem::Invalid(format!("{conditions} conditions beyond the extent {extent}")));
    }
    let kept = indices(builder, condition)?;
    let kept = builder.reshape(kept, &[builder.shape(kept)[1]])?;
    builder.emit(Op::Gather { axis: dim }, &[x, kept])
}

/// Different slices along an axis (without one, elements), with the first place and the number of each and which of
/// them every slice is.
pub(super) fn unique(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let input = node.input(0)?;
    let sorted = node.flag("sorted", true)?;
    let shape = builder.shape(input).to_vec();
    let (x, dim) = match node.int("axis")? {
        Some(given) => (input, axis(given, shape.len())?),
        None => (builder.reshape(input, &[shape.iter().product()])?, 0),
    };
    let shape = builder.shape(x).to_vec();
    let mut permutation: Vec<usize> = (0..shape.len()).collect();
    permutation[..=dim].rotate_right(1);
    let rows = if dim == 0 { x } else { builder.emit(Op::Transpose { permutation }, &[x])? };
    let width = shape.iter().enumerate().filter(|(d, _)| *d != dim).map(|(_, extent)| extent).product();
    let rows = builder.reshape(rows, &[shape[dim], width])?;
    let outputs = builder.emit_all(Op::Unique { sorted }, &[rows], &[])?;
    let [first, counts] = [outputs[0], outputs[2]].map(|column| builder.bounded(column, 0, outputs[3]));
    let (first, counts) = (first?, counts?);
    let values = builder.emit(Op::Gather { axis: dim }, &[x, first])?;
    Ok(vec![values, first, outputs[1], counts])
}

/// Triples (batch, class, box) of the boxes that no better box of their class overlaps too much. Boxes `[n, b, 4]`,
/// scores `[n, classes, b]`. There are n·classes·limit of them at most, where the limit has to be a constant or a number of
/// elements.
pub(super) fn non_max_suppression(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    // As many as there are is no limit.
    let limit = node.extents_of(builder, 2, "max_output_boxes_per_class")?;
    let limit = limit.and_then(|limit| limit.first().copied()).map_or(0, |limit| limit.room().max(0));
    let (&[_, count, _], &[_, _, _]) = (builder.shape(boxes), builder.shape(scores)) else {
        let (boxes, scores) = (show(builder.shape(boxes)), show(builder.shape(scores)));
        return Err(Problem::Invalid(format!("boxes {boxes} with scores {scores}")));
    };
    // What is not there has no score and so is never selected.
    let alike = match (builder.counted(boxes), builder.counted(scores)) {
        (None, None) => true,
        (Some(boxes), Some(scores)) => boxes.count == scores.count && (boxes.axis, scores.axis) == (1, 2),
        _ => false,
    };
    if !alike {
        let reason = "the number of boxes depends on data, in another way than that of scores".into();
        return Err(Problem::DataDependent { reason });
    }
    let (boxes, scores) = (builder.filled(boxes, 0.0)?, builder.filled(scores, f64::NAN)?);
    let mut thresholds = Vec::new();
    for index in [3, 4] {
        match node.optional(index) {
            Some(threshold) => thresholds.push(builder.reshape(threshold, &[1])?),
            None if index == 3 => thresholds.push(builder.constant(Tensor::f32(&[1], &[0.0]))),
            None => {}
        }
    }
    let thresholds = builder.emit(Op::Concat { axis: 0 }, &thresholds)?;
    let limit = usize::try_from(limit).map_or(count, |limit| limit.min(count));
    let center = node.flag("center_point_box", false)?;
    let outputs = builder.emit_all(Op::NonMaxSuppression { limit, center }, &[boxes, scores, thresholds], &[])?;
    builder.bounded(outputs[0], 0, outputs[1])
}
