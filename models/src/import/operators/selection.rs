//! Operators whose output's extents depend on data. Extents of a plan are fixed, so their outputs have room for the most
//! elements there can be, with their number beside them.

use super::super::{
    builder::Builder,
    node::{NodeView, axis},
};
use crate::{Op, Problem, Tensor, TensorId, infer::show};

/// Imports the node where it is one of these operators.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    Ok(Some(match node.op_type.as_str() {
        "NonZero" => vec![non_zero(builder, node)?],
        "Compress" => vec![compress(builder, node)?],
        "Unique" => unique(builder, node)?,
        "NonMaxSuppression" => vec![non_max_suppression(builder, node)?],
        _ => return Ok(None),
    }))
}

/// A required constant input.
fn constant(builder: &Builder, node: &NodeView, index: usize, name: &'static str) -> Result<Tensor, Problem> {
    let tensor = node.constant(builder, index, name)?.cloned();
    tensor.ok_or_else(|| Problem::Invalid(format!("input {index} ({name}) is missing")))
}

/// Indices of the elements that are not zero, one row a dimension, in row-major order.
fn non_zero(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let x = constant(builder, node, 0, "X")?;
    let numbers: Vec<_> = x.to_f64().iter().enumerate().filter(|(_, x)| **x != 0.0).map(|(n, _)| n).collect();
    let mut rows = Vec::with_capacity(numbers.len() * x.shape.len());
    for (d, &extent) in x.shape.iter().enumerate() {
        let stride: usize = x.shape[d + 1..].iter().product();
        rows.extend(numbers.iter().map(|number| (number / stride % extent) as i64));
    }
    Ok(builder.constant(Tensor::i64(&[x.shape.len(), numbers.len()], &rows)))
}

/// The slices along an axis (without one, the elements) whose condition is true.
fn compress(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let input = node.input(0)?;
    let condition = constant(builder, node, 1, "condition")?;
    let shape = builder.shape(input).to_vec();
    let (x, dim) = match node.int("axis")? {
        Some(given) => (input, axis(given, shape.len())?),
        None => (builder.reshape(input, &[shape.iter().product()])?, 0),
    };
    let extent = builder.shape(x)[dim];
    let kept = condition.to_i64().unwrap_or_default();
    let kept: Vec<_> = (0..).zip(&kept).filter(|(_, kept)| **kept != 0).map(|(index, _)| index).collect();
    if kept.last().is_some_and(|&last: &i64| last >= extent as i64) {
        return Err(Problem::Invalid(format!("a condition beyond the extent {extent}")));
    }
    let indices = builder.constant(Tensor::i64(&[kept.len()], &kept));
    builder.emit(Op::Gather { axis: dim }, &[x, indices])
}

/// Different slices along an axis (without one, elements), with the first place and the number of each and which of
/// them every slice is.
fn unique(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let x = constant(builder, node, 0, "X")?;
    let sorted = node.flag("sorted", true)?;
    let (shape, dim) = match node.int("axis")? {
        Some(given) => (x.shape.clone(), axis(given, x.shape.len())?),
        None => (vec![x.elements()], 0),
    };
    let values = x.to_f64();
    let extent = shape[dim];
    let stride: usize = shape[dim + 1..].iter().product();
    let slice = |index: usize| -> Vec<f64> {
        let all = values.iter().enumerate();
        all.filter(|(number, _)| extent != 0 && number / stride % extent == index).map(|(_, value)| *value).collect()
    };
    let slices: Vec<Vec<f64>> = (0..extent).map(slice).collect();
    // Beyond 2⁵³ integers are not exact here.
    if values.iter().any(|value| value.abs() > (1_u64 << 53) as f64 && value.is_finite()) && !x.dtype.is_float() {
        return Err(Problem::Invalid("values beyond 2^53".into()));
    }
    let order = |a: &Vec<f64>, b: &Vec<f64>| {
        let pairs = a.iter().zip(b).map(|(a, b)| a.total_cmp(b));
        pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
    };
    let mut firsts: Vec<usize> = (0..extent).filter(|&i| !slices[..i].contains(&slices[i])).collect();
    if sorted {
        firsts.sort_by(|&a, &b| order(&slices[a], &slices[b]));
    }
    let inverse: Vec<i64> = slices
        .iter()
        .map(|slice| firsts.iter().position(|&first| slices[first] == *slice).unwrap_or(0) as i64)
        .collect();
    let counts: Vec<i64> =
        (0..firsts.len() as i64).map(|n| inverse.iter().filter(|&&which| which == n).count() as i64).collect();
    let firsts: Vec<i64> = firsts.iter().map(|&first| first as i64).collect();
    let whole = builder.constant(x.reshaped(shape));
    let indices = builder.constant(Tensor::i64(&[firsts.len()], &firsts));
    let picked = builder.emit(Op::Gather { axis: dim }, &[whole, indices])?;
    let inverse = builder.constant(Tensor::i64(&[extent], &inverse));
    let counts = builder.constant(Tensor::i64(&[counts.len()], &counts));
    Ok(vec![picked, indices, inverse, counts])
}

/// Triples (batch, class, box) of the boxes that no better box of their class overlaps too much. Boxes `[n, b, 4]`,
/// scores `[n, classes, b]`. There are n·classes·limit of them at most, where the limit has to be a constant.
fn non_max_suppression(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (boxes, scores) = (node.input(0)?, node.input(1)?);
    let limit = node.integers(builder, 2, "max_output_boxes_per_class")?;
    let limit = limit.and_then(|limit| limit.first().copied()).unwrap_or(0).max(0);
    let (&[_, count, _], &[_, _, _]) = (builder.shape(boxes), builder.shape(scores)) else {
        let (boxes, scores) = (show(builder.shape(boxes)), show(builder.shape(scores)));
        return Err(Problem::Invalid(format!("boxes {boxes} with scores {scores}")));
    };
    // What is not there has no score and so is never selected.
    let alike = match (builder.bound(boxes), builder.bound(scores)) {
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
