//! Operators that write updates into a copy of a tensor, all as updates of whole slices of a matrix.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, unsupported},
};
use super::indexing::{flat_indices, flat_tuples, positions, wrapped};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    infer::show,
    op::{Binary, ScatterReduction},
};

fn reduction(node: &mut NodeView) -> Result<ScatterReduction, Problem> {
    Ok(match node.string("reduction", "none")?.as_str() {
        "none" => ScatterReduction::Replace,
        "add" => ScatterReduction::Add,
        "mul" => ScatterReduction::Multiply,
        "max" => ScatterReduction::Max,
        "min" => ScatterReduction::Min,
        other => return Err(unsupported("reduction", other, "none, add, mul, max, min")),
    })
}

/// Data as `rows` slices, into which slice `i` of the updates goes at row `indices[i]`. How many updates there are may
/// depend on data.
fn scatter(
    builder: &mut Builder,
    [data, indices, updates]: [TensorId; 3],
    rows: usize,
    reduction: ScatterReduction,
) -> Result<TensorId, Problem> {
    let (counted, bound) = (builder.counted(indices), builder.counted(data));
    if counted.is_none() && bound.is_none() && builder.counted(updates).is_none() {
        return scatter_all(builder, [data, indices, updates], rows, reduction);
    }
    if counted != builder.counted(updates) {
        let reason = "how many indices there are depends on data, but not how many updates".into();
        return Err(Problem::DataDependent { reason });
    }
    // Updates that are not there go to a row that is cut off.
    let shape = builder.shape(data).to_vec();
    let width = builder.fact(data).elements().checked_div(rows).unwrap_or(1);
    let indices = builder.filled(indices, rows as f64)?;
    let result = builder.with_all_room(&[data, updates], |builder| {
        let matrix = builder.reshape(data, &[rows, width])?;
        let mode = crate::op::PadMode::Constant(0.0);
        let matrix = builder.emit(Op::Pad { before: vec![0; 2], after: vec![1, 0], mode }, &[matrix])?;
        let result = scatter_all(builder, [matrix, indices, updates], rows + 1, reduction)?;
        let fact = Fact::new(builder.fact(data).dtype, &[rows, width]);
        let result = builder.emit_as(Op::Slice { starts: vec![0; 2], steps: vec![1; 2] }, &[result], fact)?;
        builder.reshape(result, &shape)
    })?;
    match bound {
        Some(bound) => builder.bounded(result, bound.axis, bound.count),
        None => Ok(result),
    }
}

/// As [`scatter`] where all is there.
fn scatter_all(
    builder: &mut Builder,
    [data, indices, updates]: [TensorId; 3],
    rows: usize,
    reduction: ScatterReduction,
) -> Result<TensorId, Problem> {
    let shape = builder.shape(data).to_vec();
    let width = builder.fact(data).elements().checked_div(rows).unwrap_or(1);
    let count = builder.fact(indices).elements();
    if builder.fact(updates).elements() != count.saturating_mul(width) {
        let (updates, indices) = (show(builder.shape(updates)), show(builder.shape(indices)));
        return Err(Problem::Invalid(format!("updates of shape {updates} for indices of shape {indices}")));
    }
    // Exporters leave assignments to empty slices.
    if count == 0 {
        return Ok(data);
    }
    let matrix = builder.reshape(data, &[rows, width])?;
    let indices = builder.reshape(indices, &[count])?;
    let updates = builder.reshape(updates, &[count, width])?;
    let result = builder.emit(Op::Scatter { reduction }, &[matrix, indices, updates])?;
    builder.reshape(result, &shape)
}

/// `output[i, indices[i, j], …] = updates[i, j, …]` with the index at `axis`.
pub(super) fn scatter_elements(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let shape = builder.shape(data).to_vec();
    let axis = axis(node.int("axis")?.unwrap_or(0), shape.len())?;
    let reduction = reduction(node)?;
    if let Some(rows) = whole_rows(builder, indices, axis, &shape) {
        let rows = builder.reshape(rows, &[builder.shape(rows)[0]])?;
        let rows = counted_from_end(builder, data, rows, 0)?;
        let rows = wrapped(builder, rows, &[shape[0]])?;
        return scatter(builder, [data, rows, updates], shape[0], reduction);
    }
    let indices = counted_from_end(builder, data, indices, axis)?;
    let flat = flat_indices(builder, &shape, indices, axis)?;
    scatter(builder, [data, flat, updates], shape.iter().product(), reduction)
}

/// One index for each whole row `[n, 1, …]`, where the indices are such an index repeated along all other dimensions.
fn whole_rows(builder: &Builder, indices: TensorId, axis: usize, shape: &[usize]) -> Option<TensorId> {
    let expanded = builder.graph.nodes.iter().rev().find(|node| node.outputs.contains(&indices))?;
    let &[single] = expanded.inputs.as_slice() else { return None };
    let one = builder.shape(single).get(1..)?.iter().all(|&extent| extent == 1);
    let whole = builder.shape(indices).get(1..)? == &shape[1..] && builder.shape(single).len() == shape.len();
    (matches!(expanded.op, Op::Expand) && axis == 0 && one && whole).then_some(single)
}

/// Indices with negative ones made positive, where the extent that they count from the end of depends on data.
pub(super) fn counted_from_end(
    builder: &mut Builder,
    data: TensorId,
    indices: TensorId,
    axis: usize,
) -> Result<TensorId, Problem> {
    let Some(bound) = builder.counted(data).filter(|bound| bound.axis == axis) else { return Ok(indices) };
    let indices = builder.cast(indices, DType::I64)?;
    let zero = builder.scalar(DType::I64, 0.0)?;
    let negative = builder.binary(Binary::Less, indices, zero)?;
    let from_end = builder.binary(Binary::Add, indices, bound.count)?;
    builder.emit(Op::Where, &[negative, from_end, indices])
}

/// `output[indices[i…], rest…] = updates[i…, rest…]`.
pub(super) fn scatter_nd(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (data, indices, updates) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let reduction = reduction(node)?;
    let shape = builder.shape(data).to_vec();
    if builder.counted(data).is_some() {
        let reason = "how much there is of what tuples of indices select from depends on data".into();
        return Err(Problem::DataDependent { reason });
    }
    let (flat, used) = flat_tuples(builder, &shape, indices, 0)?;
    scatter(builder, [data, flat, updates], shape[..used].iter().product(), reduction)
}

/// Writes a piece of a sequence into a cache: at `write_indices[batch]` along the axis, wrapping where the cache is
/// circular.
pub(super) fn tensor_scatter(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (cache, update) = (node.input(0)?, node.input(1)?);
    let (shape, piece) = (builder.shape(cache).to_vec(), builder.shape(update).to_vec());
    let axis = axis(node.int("axis")?.unwrap_or(-2), shape.len())?;
    let circular = match node.string("mode", "linear")?.as_str() {
        "linear" => false,
        "circular" => true,
        other => return Err(unsupported("mode", other, "linear, circular")),
    };
    let fits = axis > 0
        && piece.len() == shape.len()
        && (0..shape.len()).all(|d| d == axis || shape[d] == piece[d])
        && piece[axis] <= shape[axis];
    if !fits {
        return Err(Problem::Invalid(format!("an update {} of a cache {}", show(&piece), show(&shape))));
    }
    let outer = &piece[..=axis];
    let mut index = positions(builder, outer.len(), axis, piece[axis])?;
    if let Some(starts) = node.optional(2) {
        let mut column = vec![1; outer.len()];
        column[0] = shape[0];
        let starts = builder.cast(starts, DType::I64)?;
        let starts = builder.reshape(starts, &column)?;
        index = builder.binary(Binary::Add, starts, index)?;
        if circular {
            let extent = builder.scalar(DType::I64, shape[axis] as f64)?;
            index = builder.binary(Binary::Mod, index, extent)?;
        }
    }
    let index = builder.expand(index, outer)?;
    let flat = flat_indices(builder, &shape[..=axis], index, axis)?;
    scatter(builder, [cache, flat, update], shape[..=axis].iter().product(), ScatterReduction::Replace)
}

/// Puts the elements back where a pooling with indices took them from, zeros elsewhere.
pub(super) fn max_unpool(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (x, indices) = (node.input(0)?, node.input(1)?);
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let kernel = node.extents("kernel_shape")?.ok_or_else(|| Problem::Invalid("kernel_shape is missing".into()))?;
    let strides = node.extents("strides")?.unwrap_or_else(|| vec![1; kernel.len()]);
    let pads = node.extents("pads")?.unwrap_or_else(|| vec![0; 2 * kernel.len()]);
    let rank = kernel.len();
    if shape.len() != rank + 2 || strides.len() != rank || pads.len() != 2 * rank {
        return Err(Problem::Invalid(format!("a kernel {kernel:?} for an input {}", show(&shape))));
    }
    let mut full = shape[..2].to_vec();
    for d in 0..rank {
        let wide = (shape[d + 2] as i128 - 1) * strides[d] as i128 + kernel[d] as i128;
        let extent = usize::try_from(wide - pads[d] as i128 - pads[rank + d] as i128).ok().filter(|&e| e > 0);
        full.push(extent.ok_or_else(|| Problem::Invalid(format!("pads {pads:?} leave nothing")))?);
    }
    // Indices count in the tensor that was pooled. Where its extents are given, they are those of the output.
    let wanted = node.integers(builder, 2, "output_shape")?;
    let wanted = match wanted {
        Some(wanted) => {
            wanted.iter().map(|&e| super::super::node::extent("output_shape", e)).collect::<Result<Vec<_>, _>>()?
        }
        None => full.clone(),
    };
    if wanted.len() != full.len() || wanted.iter().zip(&full).any(|(wanted, full)| wanted < full) {
        return Err(Problem::Invalid(format!("output_shape {} is smaller than {}", show(&wanted), show(&full))));
    }
    let zero = builder.scalar(dtype, 0.0)?;
    let nothing = builder.expand(zero, &full)?;
    let elements = full.iter().product();
    let unpooled = scatter(builder, [nothing, indices, x], elements, ScatterReduction::Replace)?;
    if wanted == full {
        return Ok(unpooled);
    }
    let after = wanted.iter().zip(&full).map(|(&wanted, &full)| (wanted - full) as i64).collect();
    let mode = crate::op::PadMode::Constant(0.0);
    builder.emit(Op::Pad { before: vec![0; full.len()], after, mode }, &[unpooled])
}
