//! `GroupQueryAttention`: attention over a buffer of keys and values that the sequences fill from its start.
//!
//! How far a buffer is filled is usually data (`seqlens_k`), so the new rows are put where they belong by comparing row
//! numbers, and keys behind them are hidden by a mask. Extents stay static: present buffers have
//! max(rows of the past buffer, `total_sequence_length`) rows, and rows that no sequence has filled are zero.

use super::{
    super::{
        super::{
            builder::Builder,
            node::{NodeView, unsupported},
        },
        attention::{
            Attention, Rotation, both, default_scale, four, join_heads, padded_mask, rotate, split_heads, with_past,
        },
        count,
        indexing::gather_elements,
    },
    attention::columns,
};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    infer::show,
    op::{Binary, Composite, PadMode},
};

/// How many rows of the past buffer hold keys and values of earlier steps.
#[derive(Clone, Copy)]
enum Filled {
    /// As many for every sequence.
    Known(usize),
    /// I64 `[n, 1, 1, 1]`.
    Given(TensorId),
}

/// Outputs the result `[n, rows, heads·size]` and the present buffers `[n, shared heads, rows of the buffer, size]`.
/// Inputs query, `[key, value]` (or all in the query), `[past key, past value]`, the last key's number of each sequence,
/// the largest number of keys, `[cosines, sines]`, `[positions]`, `[bias]`, `[sinks]`.
pub(in super::super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let (heads, shared) = (count(node, "num_heads", 0)?, count(node, "kv_num_heads", 0)?);
    for name in ["k_quant_type", "v_quant_type"] {
        let kind = node.string(name, "NONE")?;
        if kind != "NONE" {
            return Err(unsupported(name, kind, "NONE"));
        }
    }
    if let other @ 1.. = node.int("qk_output")?.unwrap_or(0) {
        return Err(unsupported("qk_output", other, "0"));
    }
    node.ignore(&["kv_cache_bit_width"]);
    let [mut query, mut key, value] = parts(builder, node, heads, shared)?;
    let &[n, rows, _] = builder.shape(query) else {
        return Err(Problem::Invalid(format!("the query {} is not a batch of rows", show(builder.shape(query)))));
    };
    let total = node.integers(builder, 6, "total_sequence_length")?.and_then(|total| total.first().copied());
    let total = total.and_then(|total| usize::try_from(total).ok()).filter(|&total| total >= rows);
    let total = total.ok_or_else(|| {
        Problem::Invalid(format!("input 6 (total_sequence_length) is not a number of at least {rows} keys"))
    })?;
    let filled = filled(builder, node, [n, rows, total])?;

    let (rotary, interleaved) = (node.flag("do_rotary", false)?, node.flag("rotary_interleaved", false)?);
    if rotary {
        let positions = positions(builder, node, filled, [n, rows])?;
        let mut angles = [node.input(7)?, node.input(8)?];
        let rotated = 2 * builder.shape(angles[0]).last().copied().unwrap_or(0);
        for table in &mut angles {
            *table = builder.emit(Op::Gather { axis: 0 }, &[*table, positions])?;
        }
        query = rotate(builder, query, angles, heads, Rotation { rotated, interleaved })?;
        key = rotate(builder, key, angles, shared, Rotation { rotated, interleaved })?;
    }
    let query = split_heads(builder, query, heads)?;
    let [.., size] = four(builder.shape(query))?;
    let past = node.optional(3);
    let buffer = past.map_or(0, |past| builder.shape(past).get(2).copied().unwrap_or(0)).max(total);
    let mut keys = [key, value];
    let mut present = [key, value];
    for (index, (keys, present)) in keys.iter_mut().zip(&mut present).enumerate() {
        let new = split_heads(builder, *keys, shared)?;
        (*keys, *present) = appended(builder, node.optional(3 + index), new, filled, buffer)?;
    }
    let [key, value] = keys;
    let [.., covered, _] = four(builder.shape(key))?;
    let dtype = builder.fact(query).dtype;

    let window = node.int("local_window_size")?.filter(|&window| window >= 0);
    let (mut mask, causal) = match filled {
        Filled::Known(filled) => (None, Some(filled as i32)),
        Filled::Given(_) => (Some(compared(builder, filled, rows, covered, Binary::LessOrEqual, 0)?), None),
    };
    if let Some(window) = window {
        let near = compared(builder, filled, rows, covered, Binary::Greater, -window)?;
        mask = both(builder, mask, Some(near), dtype)?;
    }
    if let Some(bias) = node.optional(10) {
        let bias = padded_mask(builder, bias, covered, dtype)?;
        mask = both(builder, mask, Some(bias), dtype)?;
    }
    let smooth = node.int("smooth_softmax")?.is_some_and(|smooth| smooth > 0);
    let sink = match node.optional(11) {
        None if smooth => {
            let zero = builder.scalar(dtype, 0.0)?;
            Some(builder.expand(zero, &[heads])?)
        }
        sink => sink,
    };
    let scale = node.optional_float("scale")?.filter(|&scale| scale != 0.0).unwrap_or_else(|| default_scale(size));
    let softcap = node.float("softcap", 0.0)?.max(0.0);
    let attention = Attention { query, key, value, mask, scale, softcap, causal, sink };
    let output = attention.emit(builder)?;
    let [key, value] = present;
    Ok(vec![join_heads(builder, output)?, key, value])
}

/// Rows of queries, keys and values, which may be one tensor.
fn parts(builder: &mut Builder, node: &NodeView, heads: usize, shared: usize) -> Result<[TensorId; 3], Problem> {
    let query = node.input(0)?;
    if let (Some(key), Some(value)) = (node.optional(1), node.optional(2)) {
        return Ok([query, key, value]);
    }
    let width = builder.shape(query).last().copied().unwrap_or(0);
    let all = heads + 2 * shared;
    if builder.shape(query).len() != 3 || !width.is_multiple_of(all) {
        let shape = show(builder.shape(query));
        return Err(Problem::Invalid(format!("a query of shape {shape} cannot be split into {all} heads")));
    }
    let size = width / all;
    Ok([
        columns(builder, query, 0, heads * size)?,
        columns(builder, query, heads * size, shared * size)?,
        columns(builder, query, (heads + shared) * size, shared * size)?,
    ])
}

/// A first step starts with empty buffers; later ones find the length with this step in input 5.
fn filled(builder: &mut Builder, node: &NodeView, [n, rows, total]: [usize; 3]) -> Result<Filled, Problem> {
    if rows == total {
        return Ok(Filled::Known(0));
    }
    let last = node.input(5)?;
    if builder.fact(last).elements() != n {
        let shape = show(builder.shape(last));
        return Err(Problem::Invalid(format!("lengths of shape {shape} for {n} sequences")));
    }
    let before = |last: i64| usize::try_from(last + 1 - rows as i64).ok();
    let constant = builder.graph.value(last).constant.as_ref().and_then(Tensor::to_i64);
    if let Some([first, others @ ..]) = constant.as_deref()
        && others.iter().all(|other| other == first)
        && let Some(filled) = before(*first)
    {
        return Ok(Filled::Known(filled));
    }
    let last = builder.cast(last, DType::I64)?;
    let last = builder.reshape(last, &[n, 1, 1, 1])?;
    let offset = builder.scalar(DType::I64, 1.0 - rows as f64)?;
    builder.binary(Binary::Add, last, offset).map(Filled::Given)
}

/// `[n or 1, rows]`: given positions, or those behind what is filled.
fn positions(
    builder: &mut Builder,
    node: &NodeView,
    filled: Filled,
    [n, rows]: [usize; 2],
) -> Result<TensorId, Problem> {
    if let Some(positions) = node.optional(9) {
        return Ok(positions);
    }
    let first = if let Filled::Known(filled) = filled { filled } else { 0 };
    let numbers = builder.numbers(first, &[1, rows])?;
    match filled {
        Filled::Known(_) => Ok(numbers),
        Filled::Given(filled) => {
            let filled = builder.reshape(filled, &[n, 1])?;
            builder.binary(Binary::Add, filled, numbers)
        }
    }
}

/// Bool `[n or 1, 1, rows, keys]`: how a key's number compares with the number of the query's own key + `offset`.
fn compared(
    builder: &mut Builder,
    filled: Filled,
    rows: usize,
    keys: usize,
    comparison: Binary,
    offset: i64,
) -> Result<TensorId, Problem> {
    let offset = builder.scalar(DType::I64, offset as f64)?;
    let mut bound = match filled {
        Filled::Known(filled) => builder.numbers(filled, &[1, 1, rows, 1])?,
        Filled::Given(filled) => {
            let numbers = builder.numbers(0, &[rows, 1])?;
            builder.binary(Binary::Add, filled, numbers)?
        }
    };
    bound = builder.binary(Binary::Add, bound, offset)?;
    let numbers = builder.numbers(0, &[keys])?;
    builder.binary(comparison, numbers, bound)
}

/// `x` with rows of zeros behind it.
fn extended(builder: &mut Builder, x: TensorId, rows: usize) -> Result<TensorId, Problem> {
    let [_, _, given, _] = four(builder.shape(x))?;
    if given == rows {
        return Ok(x);
    }
    let after = vec![0, 0, (rows - given) as i64, 0];
    builder.emit(Op::Pad { before: vec![0; 4], after, mode: PadMode::Constant(0.0) }, &[x])
}

/// What is attended to, and the present buffer of `buffer` rows: filled rows of the past, `new` ones behind them, zeros.
fn appended(
    builder: &mut Builder,
    past: Option<TensorId>,
    new: TensorId,
    filled: Filled,
    buffer: usize,
) -> Result<(TensorId, TensorId), Problem> {
    let [n, heads, rows, size] = four(builder.shape(new))?;
    let dtype = builder.fact(new).dtype;
    let past_rows = past.map_or(0, |past| builder.shape(past).get(2).copied().unwrap_or(0));
    let filled = match filled {
        Filled::Known(filled) => {
            if filled > past_rows || filled + rows > buffer {
                return Err(Problem::Invalid(format!("{filled} earlier rows in a buffer of {past_rows}")));
            }
            let keys = match past {
                Some(past) if filled > 0 => {
                    let op = Op::Slice { starts: vec![0; 4], steps: vec![1; 4] };
                    let past = builder.emit_as(op, &[past], Fact::new(dtype, &[n, heads, filled, size]))?;
                    with_past(builder, Some(past), new)?
                }
                _ => new,
            };
            return Ok((keys, extended(builder, keys, buffer)?));
        }
        Filled::Given(filled) => filled,
    };
    let zero = builder.scalar(dtype, 0.0)?;
    let numbers = builder.numbers(0, &[buffer, 1])?;
    let mut present = zero;
    if let Some(past) = past.filter(|_| past_rows > 0) {
        let past = extended(builder, past, buffer)?;
        let earlier = builder.binary(Binary::Less, numbers, filled)?;
        present = builder.emit(Op::Where, &[earlier, past, zero])?;
    }
    let (here, moved) = if rows == 1 {
        (builder.binary(Binary::Equal, numbers, filled)?, new)
    } else {
        let row = builder.binary(Binary::Sub, numbers, filled)?;
        let clip = Composite::Clip { min: Some(0.0), max: Some((rows - 1) as f64) };
        let clipped = builder.unary(clip, row)?;
        let here = builder.binary(Binary::Equal, row, clipped)?;
        let indices = builder.expand(clipped, &[n, heads, buffer, size])?;
        (here, gather_elements(builder, new, indices, 2)?)
    };
    let present = builder.emit(Op::Where, &[here, moved, present])?;
    let present = builder.expand(present, &[n, heads, buffer, size])?;
    Ok((present, present))
}
