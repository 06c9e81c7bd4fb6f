//! Operators that look elements up or compare positions: flat indices into the data, comparisons with 0, 1, 2, …

use super::super::{
    builder::Builder,
    node::{NodeView, axis, extent, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    infer::show,
    op::{Binary, Reduction},
};

pub(super) fn gather_elements_of(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let axis = axis(node.int("axis")?.unwrap_or(0), builder.shape(data).len())?;
    gather_elements(builder, data, indices, axis)
}

/// 0, 1, … along dimension `axis` of rank `rank`; all other extents are 1.
pub(super) fn positions(builder: &mut Builder, rank: usize, axis: usize, extent: usize) -> Result<TensorId, Problem> {
    let mut shape = vec![1; rank];
    shape[axis] = extent;
    builder.numbers(0, &shape)
}

/// Indices as i64 from 0 on: negative ones count from the end of `extents`, one value for all or one for each element
/// of the last dimension. Constant ones are checked.
pub(super) fn wrapped(builder: &mut Builder, indices: TensorId, extents: &[usize]) -> Result<TensorId, Problem> {
    if let Some(known) = builder.graph.constant(indices).and_then(Tensor::to_i64) {
        for (&index, &extent) in known.iter().zip(extents.iter().cycle()) {
            if index < -(extent as i64) || index >= extent as i64 {
                return Err(Problem::Invalid(format!("index {index} is outside an extent of {extent}")));
            }
        }
    }
    let indices = builder.cast(indices, DType::I64)?;
    let values: Vec<_> = extents.iter().map(|&extent| extent as i64).collect();
    let extents = builder.constant(match values[..] {
        [only] => Tensor::i64(&[], &[only]),
        _ => Tensor::i64(&[values.len()], &values),
    });
    let zero = builder.scalar(DType::I64, 0.0)?;
    let negative = builder.binary(Binary::Less, indices, zero)?;
    let from_end = builder.binary(Binary::Add, indices, extents)?;
    builder.emit(Op::Where, &[negative, from_end, indices])
}

/// `value · factor` for indices.
fn scaled(builder: &mut Builder, value: TensorId, factor: usize) -> Result<TensorId, Problem> {
    if factor == 1 {
        return Ok(value);
    }
    let factor = builder.scalar(DType::I64, factor as f64)?;
    builder.binary(Binary::Mul, value, factor)
}

/// Numbers of the elements that `indices` select along `axis` of a tensor of extents `shape`, every other dimension
/// at its own position. Ranks agree; extents of the indices may be smaller.
pub(super) fn flat_indices(
    builder: &mut Builder,
    shape: &[usize],
    indices: TensorId,
    axis: usize,
) -> Result<TensorId, Problem> {
    let extents = builder.shape(indices).to_vec();
    let fits = extents.len() == shape.len() && (0..shape.len()).all(|d| d == axis || extents[d] <= shape[d]);
    if !fits {
        let (indices, data) = (show(&extents), show(shape));
        return Err(Problem::Invalid(format!("indices of shape {indices} for data of shape {data}")));
    }
    let stride = |d: usize| shape[d + 1..].iter().product::<usize>();
    let along = wrapped(builder, indices, &[shape[axis]])?;
    let mut flat = scaled(builder, along, stride(axis))?;
    // The constants are added to each other first, so that they fold.
    let mut others: Option<TensorId> = None;
    for d in (0..shape.len()).filter(|&d| d != axis && extents[d] > 1) {
        let along = positions(builder, shape.len(), d, extents[d])?;
        let along = scaled(builder, along, stride(d))?;
        others = Some(match others {
            Some(sum) => builder.binary(Binary::Add, sum, along)?,
            None => along,
        });
    }
    if let Some(others) = others {
        flat = builder.binary(Binary::Add, flat, others)?;
    }
    Ok(flat)
}

/// The elements of data at flat indices.
fn take(builder: &mut Builder, data: TensorId, flat: TensorId) -> Result<TensorId, Problem> {
    let elements = builder.fact(data).elements();
    let data = builder.reshape(data, &[elements])?;
    builder.emit(Op::Gather { axis: 0 }, &[data, flat])
}

/// `output[i, j, …] = data[i, indices[i, j, …], …]` with the index at `axis`.
pub(super) fn gather_elements(
    builder: &mut Builder,
    data: TensorId,
    indices: TensorId,
    axis: usize,
) -> Result<TensorId, Problem> {
    let shape = builder.shape(data).to_vec();
    let flat = flat_indices(builder, &shape, indices, axis)?;
    take(builder, data, flat)
}

/// Numbers of the slices that the last dimension of `indices` selects: tuples of indices of the first dimensions of a
/// tensor of extents `shape`, after `batch` dimensions in which both go along. Gives the number of dimensions used too.
pub(super) fn flat_tuples(
    builder: &mut Builder,
    shape: &[usize],
    indices: TensorId,
    batch: usize,
) -> Result<(TensorId, usize), Problem> {
    let extents = builder.shape(indices).to_vec();
    let misfit = || {
        let (indices, data) = (show(&extents), show(shape));
        Problem::Invalid(format!("tuples of indices of shape {indices} for data of shape {data}"))
    };
    let (&length, outer) = extents.split_last().ok_or_else(misfit)?;
    let used = batch + length;
    if length == 0 || used > shape.len() || outer.len() < batch || outer[..batch] != shape[..batch] {
        return Err(misfit());
    }
    let stride = |d: usize| shape[d + 1..used].iter().product::<usize>();
    let along = wrapped(builder, indices, &shape[batch..used])?;
    let strides: Vec<_> = (batch..used).map(|d| stride(d) as i64).collect();
    let strides = builder.constant(Tensor::i64(&[length], &strides));
    let products = builder.binary(Binary::Mul, along, strides)?;
    let axes = vec![outer.len()];
    let mut flat = builder.emit(Op::Reduce { kind: Reduction::Sum, axes, keep: false }, &[products])?;
    let bound = builder.counted(indices);
    for d in 0..batch {
        let mut along = positions(builder, outer.len(), d, outer[d])?;
        if let Some(bound) = bound.filter(|bound| bound.axis == d) {
            along = builder.bounded(along, d, bound.count)?;
        }
        let along = scaled(builder, along, stride(d))?;
        flat = builder.binary(Binary::Add, flat, along)?;
    }
    Ok((flat, used))
}

/// `output[b…, i…, rest…] = data[b…, indices[b…, i…], rest…]`.
pub(super) fn gather_nd(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (data, indices) = (node.input(0)?, node.input(1)?);
    let batch = node.int("batch_dims")?.map_or(Ok(0), |value| extent("batch_dims", value))?;
    let shape = builder.shape(data).to_vec();
    let (flat, used) = flat_tuples(builder, &shape, indices, batch)?;
    let slices = [&[shape[..used].iter().product()], &shape[used..]].concat();
    let data = builder.reshape(data, &slices)?;
    builder.emit(Op::Gather { axis: 0 }, &[data, flat])
}

/// The first `sequence_lens[b]` elements along time in reverse, the rest as they are.
pub(super) fn reverse_sequence(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (x, lengths) = (node.input(0)?, node.input(1)?);
    let shape = builder.shape(x).to_vec();
    let (time, batch) = (node.int("time_axis")?.unwrap_or(0), node.int("batch_axis")?.unwrap_or(1));
    let (time, batch) = match (time, batch) {
        (0, 1) => (0, 1),
        (1, 0) => (1, 0),
        (time, batch) => return Err(unsupported("time_axis", format!("{time} with batch_axis {batch}"), "0, 1")),
    };
    if shape.len() < 2 || builder.shape(lengths) != [shape[batch]] {
        let lengths = show(builder.shape(lengths));
        return Err(Problem::Invalid(format!("lengths of shape {lengths} for an input {}", show(&shape))));
    }
    let mut column = [1, 1];
    column[batch] = shape[batch];
    let lengths = builder.cast(lengths, DType::I64)?;
    let lengths = builder.reshape(lengths, &column)?;
    let now = positions(builder, 2, time, shape[time])?;
    let one = builder.scalar(DType::I64, 1.0)?;
    let last = builder.binary(Binary::Sub, lengths, one)?;
    let mirrored = builder.binary(Binary::Sub, last, now)?;
    let inside = builder.binary(Binary::Less, now, lengths)?;
    let source = builder.emit(Op::Where, &[inside, mirrored, now])?;
    let flat = flat_indices(builder, &shape[..2], source, time)?;
    let rows = [&[shape[0] * shape[1]], &shape[2..]].concat();
    let rows = builder.reshape(x, &rows)?;
    builder.emit(Op::Gather { axis: 0 }, &[rows, flat])
}

/// `on` where the position along a new axis equals the index, else `off`; also where the index is out of range.
pub(super) fn one_hot(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (indices, values) = (node.input(0)?, node.input(2)?);
    let depth = node.constant(builder, 1, "depth")?.and_then(|depth| depth.to_f64().first().copied());
    let depth = depth.ok_or_else(|| Problem::Invalid("input 1 (depth) is missing or empty".into()))?;
    let depth = extent("depth", depth as i64)?;
    if builder.shape(values) != [2] {
        return Err(Problem::Invalid(format!("values of shape {} instead of 2", show(builder.shape(values)))));
    }
    let mut shape = builder.shape(indices).to_vec();
    let rank = shape.len() + 1;
    let axis = axis(node.int("axis")?.unwrap_or(-1), rank)?;
    shape.insert(axis, 1);
    let indices = builder.cast(indices, DType::I64)?;
    let indices = builder.reshape(indices, &shape)?;
    let zero = builder.scalar(DType::I64, 0.0)?;
    let negative = builder.binary(Binary::Less, indices, zero)?;
    let depths = builder.scalar(DType::I64, depth as f64)?;
    let from_end = builder.binary(Binary::Add, indices, depths)?;
    let indices = builder.emit(Op::Where, &[negative, from_end, indices])?;
    let here = positions(builder, rank, axis, depth)?;
    let hot = builder.binary(Binary::Equal, indices, here)?;
    let dtype = builder.fact(values).dtype;
    let value = |builder: &mut Builder, index: usize| {
        let slice = Op::Slice { starts: vec![index], steps: vec![1] };
        let slice = builder.emit_as(slice, &[values], Fact::new(dtype, &[1]))?;
        builder.reshape(slice, &[])
    };
    let (off, on) = (value(builder, 0)?, value(builder, 1)?);
    builder.emit(Op::Where, &[hot, on, off])
}

/// 1 at the first maximum along an axis, 0 elsewhere. Before opset 13 the dimensions from `axis` on are one.
pub(super) fn hardmax(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let default = if node.opset < 13 { 1 } else { -1 };
    let axis = axis(node.int("axis")?.unwrap_or(default), shape.len())?;
    let rows = match node.opset {
        ..13 => [&shape[..axis], &[shape[axis..].iter().product()]].concat(),
        _ => shape.clone(),
    };
    let x = builder.reshape(x, &rows)?;
    let kind = Reduction::ArgMax;
    let largest = builder.emit(Op::Reduce { kind, axes: vec![axis], keep: true }, &[x])?;
    let here = positions(builder, rows.len(), axis, rows[axis])?;
    let hot = builder.binary(Binary::Equal, largest, here)?;
    let dtype = builder.fact(x).dtype;
    let hot = builder.cast(hot, dtype)?;
    builder.reshape(hot, &shape)
}

/// The upper or lower triangle of matrices: zero where column − row is below (above) k.
pub(super) fn triangle(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let upper = node.flag("upper", true)?;
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let &[.., rows, columns] = shape.as_slice() else {
        return Err(Problem::Invalid(format!("an input {} is no matrix", show(&shape))));
    };
    let k = match node.optional(1) {
        Some(k) => builder.reshape(k, &[])?,
        None => builder.scalar(DType::I64, 0.0)?,
    };
    let (row, column) = (positions(builder, 2, 0, rows)?, positions(builder, 2, 1, columns)?);
    let diagonal = builder.binary(Binary::Sub, column, row)?;
    let compare = if upper { Binary::GreaterOrEqual } else { Binary::LessOrEqual };
    let kept = builder.binary(compare, diagonal, k)?;
    let zero = builder.scalar(dtype, 0.0)?;
    builder.emit(Op::Where, &[kept, x, zero])
}
