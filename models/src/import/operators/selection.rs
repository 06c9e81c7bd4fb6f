//! Operators whose output's extents depend on data. Extents of a plan are fixed, so their inputs have to be constants.

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

/// A box by its corners, the lower ones first.
type Corners = [f64; 4];

fn overlap(a: &Corners, b: &Corners) -> f64 {
    let side = |low: usize| (a[low + 2].min(b[low + 2]) - a[low].max(b[low])).max(0.0);
    let area = |corners: &Corners| (corners[2] - corners[0]) * (corners[3] - corners[1]);
    let shared = side(0) * side(1);
    let union = area(a) + area(b) - shared;
    if union > 0.0 { shared / union } else { 0.0 }
}

/// Triples (batch, class, box) of the boxes that no better box of their class overlaps too much. Boxes `[n, b, 4]`,
/// scores `[n, classes, b]`.
fn non_max_suppression(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (boxes, scores) = (constant(builder, node, 0, "boxes")?, constant(builder, node, 1, "scores")?);
    let first = |index, name| -> Result<Option<f64>, Problem> {
        Ok(node.constant(builder, index, name)?.and_then(|tensor| tensor.to_f64().first().copied()))
    };
    let most = first(2, "max_output_boxes_per_class")?.unwrap_or(0.0) as usize;
    let limit = first(3, "iou_threshold")?.unwrap_or(0.0);
    let threshold = first(4, "score_threshold")?;
    let center = node.flag("center_point_box", false)?;
    let (&[n, count, 4], &[batches, classes, scored]) = (boxes.shape.as_slice(), scores.shape.as_slice()) else {
        let (boxes, scores) = (show(&boxes.shape), show(&scores.shape));
        return Err(Problem::Invalid(format!("boxes {boxes} with scores {scores}")));
    };
    if n != batches || count != scored {
        return Err(Problem::Invalid(format!("{scored} scores for {count} boxes")));
    }
    let corners: Vec<Corners> = boxes
        .to_f64()
        .chunks_exact(4)
        .map(|b| match center {
            true => [b[0] - b[2] / 2.0, b[1] - b[3] / 2.0, b[0] + b[2] / 2.0, b[1] + b[3] / 2.0],
            false => [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])],
        })
        .collect();
    let values = scores.to_f64();
    let mut selected: Vec<i64> = Vec::new();
    for (row, scores) in values.chunks_exact(count.max(1)).enumerate().take(n * classes) {
        let (batch, class) = (row / classes, row % classes);
        let mut order: Vec<usize> =
            (0..count).filter(|&b| threshold.is_none_or(|threshold| scores[b] > threshold)).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        let mut kept: Vec<usize> = Vec::new();
        for candidate in order {
            if kept.len() >= most {
                break;
            }
            let corners = |index: usize| &corners[batch * count + index];
            if kept.iter().all(|&better| overlap(corners(better), corners(candidate)) <= limit) {
                kept.push(candidate);
                selected.extend([batch as i64, class as i64, candidate as i64]);
            }
        }
    }
    Ok(builder.constant(Tensor::i64(&[selected.len() / 3, 3], &selected)))
}
