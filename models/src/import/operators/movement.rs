//! Operators that move elements: joining, cutting, padding, repeating, gathering.

use super::super::{
    builder::Builder,
    extents::{Computed, Extent},
    node::{NodeView, axes, axis, extent, unsupported},
};
use crate::{
    Counted, Fact, Op, Problem, Tensor, TensorId,
    infer::show,
    op::{Binary, PadMode},
};

pub(super) fn concat(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let inputs = node.all_inputs()?;
    let given = node.int("axis")?.ok_or_else(|| Problem::Invalid("attribute 'axis' is missing".into()))?;
    let axis = axis(given, builder.shape(inputs[0]).len())?;
    super::concat(builder, &inputs, axis)
}

/// Extents of the pieces are an attribute before opset 13, an input after; without them the pieces are equal, and
/// since opset 18 the last one may be smaller.
pub(super) fn split(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let x = node.input(0)?;
    let fact = builder.fact(x).clone();
    let axis = axis(node.int("axis")?.unwrap_or(0), fact.shape.len())?;
    let whole = fact.shape[axis];
    let given = if node.opset < 13 { node.ints("split")? } else { node.integers(builder, 1, "split")? };
    let pieces = match (given, node.int("num_outputs")?) {
        (Some(given), _) => given.iter().map(|&piece| extent("split", piece)).collect::<Result<Vec<_>, _>>()?,
        (None, count) => {
            let count = count.map_or(Ok(node.outputs), |count| extent("num_outputs", count))?;
            let piece = whole.div_ceil(count.max(1));
            // Before there is one extent for each of them.
            if count != node.outputs {
                return Err(Problem::Invalid(format!("{count} pieces for {} outputs", node.outputs)));
            }
            if count == 0 || (node.opset < 18 && piece * count != whole) || piece * (count - 1) > whole {
                return Err(Problem::Invalid(format!("an extent of {whole} cannot be split into {count} pieces")));
            }
            let mut pieces = vec![piece; count];
            pieces[count - 1] = whole - piece * (count - 1);
            pieces
        }
    };
    if pieces.len() != node.outputs {
        return Err(Problem::Invalid(format!("{} pieces for {} outputs", pieces.len(), node.outputs)));
    }
    if pieces.len() == 1 && pieces[0] == whole {
        return Ok(vec![x]);
    }
    let declared: Vec<_> = pieces
        .into_iter()
        .map(|piece| {
            let mut declared = fact.clone();
            declared.shape[axis] = piece;
            declared
        })
        .collect();
    builder.emit_all(Op::Split { axis }, &[x], &declared)
}

/// Bounds are attributes before opset 10, inputs after. They are clamped to the extent, as NumPy does.
pub(super) fn slice(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let mut x = node.input(0)?;
    let known = |integers: Vec<i64>| integers.into_iter().map(Extent::Known).collect::<Vec<_>>();
    let (starts, ends, given, steps) = if node.opset < 10 {
        (node.ints("starts")?, node.ints("ends")?.map(known), node.ints("axes")?, None)
    } else {
        let input = |index, name| node.integers(builder, index, name);
        let ends = node.extents_of(builder, 2, "ends")?;
        (input(1, "starts")?, ends, input(3, "axes")?, input(4, "steps")?)
    };
    let (Some(starts), Some(ends)) = (starts, ends) else {
        return Err(Problem::Invalid("starts or ends are missing".into()));
    };
    let mut fact = builder.fact(x).clone();
    let rank = fact.shape.len();
    let sliced = match given {
        Some(given) => axes(&given, rank)?,
        None => (0..starts.len()).collect(),
    };
    let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || steps.len() != starts.len() || sliced.len() != starts.len() || sliced.len() > rank
    {
        return Err(Problem::Invalid(format!(
            "starts {starts:?}, ends {ends:?}, steps {steps:?} along axes {sliced:?} of {}",
            show(&fact.shape)
        )));
    }
    // An end that depends on data leaves the first elements, as many as it says.
    let counted: Vec<_> = ends.iter().map(|end| end.count()).collect();
    let ends: Vec<_> = ends.iter().map(|end| end.room()).collect();
    for (n, &d) in sliced.iter().enumerate() {
        let Some(count) = counted[n] else { continue };
        match builder.counted(x) {
            _ if (starts[n], steps[n]) != (0, 1) => {}
            Some(bound) if bound == (Counted { axis: d, count }) => continue,
            None => {
                let most = extent("the end", ends[n])?.min(fact.shape[d]);
                fact.shape[d] = most;
                let op = Op::Slice { starts: vec![0; rank], steps: vec![1; rank] };
                let cut = builder.emit_as(op, &[x], fact.clone())?;
                let most = builder.constant(Tensor::i64(&[], &[most as i64]));
                let count = builder.binary(Binary::Min, count, most)?;
                x = builder.bounded(cut, d, count)?;
                continue;
            }
            Some(_) => {}
        }
        let reason = format!("the end of a slice of {} depends on data", show(&fact.shape));
        return Err(Problem::DataDependent { reason });
    }
    let mut op = (vec![0; rank], vec![1; rank]);
    let mut shape = fact.shape.clone();
    for (n, &d) in sliced.iter().enumerate() {
        let (first, count) = slice_bounds(starts[n], ends[n], steps[n], fact.shape[d])?;
        let bounded = builder.counted(x).is_some_and(|bound| bound.axis == d);
        if bounded && (starts[n], steps[n]) == (0, 1) && ends[n] >= 0 && count < fact.shape[d] {
            x = builder.first_elements(x, count)?;
            fact = builder.fact(x).clone();
        }
        (op.0[d], op.1[d], shape[d]) = (first, steps[n], count);
    }
    if shape == fact.shape && op.1.iter().zip(&shape).all(|(&step, &extent)| step == 1 || extent <= 1) {
        return Ok(x);
    }
    builder.emit_as(Op::Slice { starts: op.0, steps: op.1 }, &[x], Fact::new(fact.dtype, &shape))
}

/// First index and number of elements.
fn slice_bounds(start: i64, end: i64, step: i64, extent: usize) -> Result<(usize, usize), Problem> {
    let extent = extent as i128;
    let from_end = |value: i64| if value < 0 { i128::from(value) + extent } else { i128::from(value) };
    let count = match step {
        0 => return Err(Problem::Invalid("a slice by steps of 0".into())),
        1.. => {
            let (start, end) = (from_end(start).clamp(0, extent), from_end(end).clamp(0, extent));
            (start, (end - start + i128::from(step) - 1).div_euclid(i128::from(step)))
        }
        _ => {
            let (start, end) = (from_end(start).clamp(-1, extent - 1), from_end(end).clamp(-1, extent - 1));
            (start, (start - end - i128::from(step) - 1).div_euclid(-i128::from(step)))
        }
    };
    Ok(match count {
        (first, count) if count > 0 && first >= 0 => (first as usize, count as usize),
        _ => (0, 0),
    })
}

/// Pads and value are attributes before opset 11, inputs after; opset 18 adds axes.
pub(super) fn pad(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let rank = builder.shape(x).len();
    let known = |pads: Vec<i64>| pads.into_iter().map(Extent::Known).collect::<Vec<_>>();
    let (pads, value, given) = if node.opset < 11 {
        (node.ints("pads")?.map(known), f64::from(node.float("value", 0.0)?), None)
    } else {
        let value = match node.constant(builder, 2, "constant_value")? {
            Some(tensor) => tensor.to_f64().first().copied().unwrap_or(0.0),
            None => 0.0,
        };
        let pads = match node.optional(1).and_then(|pads| builder.extents(pads)) {
            Some(pads) => Some(pads),
            None => node.integers(builder, 1, "pads")?.map(known),
        };
        (pads, value, node.integers(builder, 3, "axes")?)
    };
    let pads = pads.ok_or_else(|| Problem::Invalid("the pads are missing".into()))?;
    let padded = match given {
        Some(given) => axes(&given, rank)?,
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * padded.len() {
        return Err(Problem::Invalid(format!("{} pads for {} dimensions", pads.len(), padded.len())));
    }
    let mode = match node.string("mode", "constant")?.as_str() {
        "constant" => PadMode::Constant(value),
        "reflect" => PadMode::Reflect,
        "edge" => PadMode::Edge,
        "wrap" => PadMode::Wrap,
        other => return Err(unsupported("mode", other, "constant, reflect, edge, wrap")),
    };
    let (mut x, mut before, mut after) = (x, vec![0; rank], vec![0; rank]);
    for (n, &d) in padded.iter().enumerate() {
        (before[d], after[d]) = match (pads[n], pads[padded.len() + n]) {
            (Extent::Known(before), Extent::Known(after))
                if before >= 0
                    && after >= 0
                    && (before, after) != (0, 0)
                    && builder.counted(x).is_some_and(|bound| bound.axis == d)
                    && matches!(mode, PadMode::Constant(_)) =>
            {
                x = pad_around(builder, x, [extent("pads", before)?, extent("pads", after)?], value)?;
                (0, 0)
            }
            (Extent::Known(before), Extent::Known(after)) => (before, after),
            (Extent::Known(0), Extent::Rest { of, count })
                if builder.counted(x) == Some(Counted { axis: d, count }) && matches!(mode, PadMode::Constant(_)) =>
            {
                x = pad_to(builder, x, d, extent("pads", of)?, value)?;
                (0, 0)
            }
            _ => {
                let reason = format!("how far {} is padded depends on data", show(builder.shape(x)));
                return Err(Problem::DataDependent { reason });
            }
        };
    }
    if before.iter().chain(&after).all(|&pad| pad == 0) {
        return Ok(x);
    }
    builder.emit(Op::Pad { before, after, mode }, &[x])
}

/// A number so many times before and after the elements that are there.
fn pad_around(builder: &mut Builder, x: TensorId, pads: [usize; 2], value: f64) -> Result<TensorId, Problem> {
    let Some(Counted { axis, count }) = builder.counted(x) else { return Ok(x) };
    let (rank, room) = (builder.shape(x).len(), builder.shape(x)[axis]);
    let filled = builder.filled(x, value)?;
    let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
    (before[axis], after[axis]) = (pads[0] as i64, pads[1] as i64);
    let padded = builder.emit(Op::Pad { before, after, mode: PadMode::Constant(value) }, &[filled])?;
    let times = pads[0] + pads[1];
    let more = builder.constant(Tensor::i64(&[], &[times as i64]));
    let sum = builder.binary(Binary::Add, count, more)?;
    let sum = *builder.computed.entry(Computed::Sum(vec![(Some(count), room), (None, times)])).or_insert(sum);
    builder.bounded(padded, axis, sum)
}

/// A number after the elements that are there, up to a known extent, which is never smaller than their count.
fn pad_to(builder: &mut Builder, x: TensorId, axis: usize, wanted: usize, value: f64) -> Result<TensorId, Problem> {
    let filled = builder.filled(x, value)?;
    let mut fact = builder.fact(filled).clone();
    let (rank, room) = (fact.shape.len(), fact.shape[axis]);
    if room >= wanted {
        fact.shape[axis] = wanted;
        return builder.emit_as(Op::Slice { starts: vec![0; rank], steps: vec![1; rank] }, &[filled], fact);
    }
    let mut after = vec![0; rank];
    after[axis] = (wanted - room) as i64;
    builder.emit(Op::Pad { before: vec![0; rank], after, mode: PadMode::Constant(value) }, &[filled])
}

pub(super) fn tile(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let repeats = node.integers(builder, 1, "repeats")?.unwrap_or_default();
    let repeats = repeats.iter().map(|&repeat| extent("repeats", repeat)).collect::<Result<Vec<_>, _>>()?;
    if repeats.len() == builder.shape(x).len() && repeats.iter().all(|&repeat| repeat == 1) {
        return Ok(x);
    }
    builder.emit(Op::Tile { repeats }, &[x])
}

pub(super) fn gather(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let shape = builder.shape(data);
    let axis = axis(node.int("axis")?.unwrap_or(0), shape.len())?;
    let extent = shape[axis] as i64;
    // Constant indices are checked here; computed ones are clamped when they are used.
    let known = builder.graph.constant(indices).and_then(Tensor::to_i64).unwrap_or_default();
    if let Some(index) = known.iter().find(|&&index| index < -extent || index >= extent) {
        return Err(Problem::Invalid(format!("index {index} is outside an extent of {extent}")));
    }
    // Of what only data says how much there is, computed indices select what the model knows to be there.
    let counted = builder.counted(data).is_some_and(|bound| bound.axis == axis) && builder.counted(indices).is_none();
    if counted && builder.graph.constant(indices).is_none() {
        let indices = super::scatter::counted_from_end(builder, data, indices, axis)?;
        return builder.with_all_room(&[data], |builder| builder.emit(Op::Gather { axis }, &[data, indices]));
    }
    builder.emit(Op::Gather { axis }, &[data, indices])
}

/// Crops or pads with zeros to wanted extents, the middle in the middle; an odd element goes to the end.
pub(super) fn center_crop_pad(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let rank = shape.len();
    let wanted = node.integers(builder, 1, "shape")?.unwrap_or_default();
    let given = node.ints("axes")?.unwrap_or_else(|| (0..rank as i64).collect());
    let changed = axes(&given, rank)?;
    if changed.len() != wanted.len() {
        return Err(Problem::Invalid(format!("{} extents for {} axes", wanted.len(), changed.len())));
    }
    let (mut starts, mut cropped) = (vec![0; rank], shape.clone());
    let (mut before, mut after) = (vec![0; rank], vec![0; rank]);
    for (&d, &wanted) in changed.iter().zip(&wanted) {
        let wanted = extent("shape", wanted)?;
        if wanted < shape[d] {
            (starts[d], cropped[d]) = ((shape[d] - wanted) / 2, wanted);
        } else {
            let missing = (wanted - shape[d]) as i64;
            (before[d], after[d]) = (missing / 2, missing - missing / 2);
        }
    }
    let mut value = x;
    if cropped != shape {
        value = builder.emit_as(Op::Slice { starts, steps: vec![1; rank] }, &[x], Fact::new(dtype, &cropped))?;
    }
    if before.iter().chain(&after).any(|&pad| pad != 0) {
        value = builder.emit(Op::Pad { before, after, mode: PadMode::Constant(0.0) }, &[value])?;
    }
    Ok(value)
}
