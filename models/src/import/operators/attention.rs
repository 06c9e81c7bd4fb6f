//! Attention and rotary position embeddings of the default operator set, and what other attention operators share.

use super::super::{
    builder::Builder,
    node::{NodeView, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    infer::{broadcast, show},
    op::{Binary, PadMode, Unary},
};
use floe_kernels::attention::MAX_HEAD_SIZE;

/// What every attention operator comes down to.
pub(super) struct Attention {
    /// `[n, heads, queries, size]`.
    pub query: TensorId,
    /// `[n, shared heads, keys, size]`.
    pub key: TensorId,
    /// `[n, shared heads, keys, value size]`.
    pub value: TensorId,
    /// Broadcast to `[n, heads, queries, keys]`; floats are added, Bool hides keys where it is false.
    pub mask: Option<TensorId>,
    /// Factor of the products.
    pub scale: f32,
    /// Counted of the scores, 0 for none.
    pub softcap: f32,
    /// Query i sees keys 0..=i + causal only.
    pub causal: Option<i32>,
    /// `[heads]`: a score of each head that takes part in the softmax but belongs to no key.
    pub sink: Option<TensorId>,
}

/// A stage of the scores that an operator can return.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Products,
    Bounded,
    Masked,
    Weights,
}

impl Attention {
    /// Emits the operator; the output is `[n, heads, queries, value size]`.
    pub fn emit(self, builder: &mut Builder) -> Result<TensorId, Problem> {
        let query = builder.fact(self.query).clone();
        let value = builder.shape(self.value);
        let sizes = [query.shape.last(), value.last()].map(|extent| extent.copied().unwrap_or(0));
        let fused = self.sink.is_none()
            && matches!(query.dtype, DType::F32 | DType::F16 | DType::Bf16)
            // Larger heads are computed by products and a softmax.
            && sizes.iter().all(|&size| size <= MAX_HEAD_SIZE as usize)
            && sizes[0] > 0
            && value.iter().all(|&extent| extent > 0);
        if !fused {
            return self.emit_parts(builder, Stage::Weights).map(|(output, _)| output);
        }
        let mut inputs = vec![self.query, self.key, self.value];
        inputs.extend(self.mask);
        let op = Op::Attention { scale: self.scale, softcap: self.softcap, causal: self.causal };
        builder.emit(op, &inputs)
    }

    /// Emits products and a softmax; gives the output and the scores at a stage.
    pub fn emit_parts(self, builder: &mut Builder, stage: Stage) -> Result<(TensorId, TensorId), Problem> {
        let Fact { dtype, shape, .. } = builder.fact(self.query).clone();
        let keys = builder.shape(self.key).get(2).copied().unwrap_or(0);
        let (key, value) = (repeated(builder, self.key, shape[1])?, repeated(builder, self.value, shape[1])?);
        let transposed = builder.emit(Op::Transpose { permutation: vec![0, 1, 3, 2] }, &[key])?;
        let products = builder.emit(Op::MatMul, &[self.query, transposed])?;
        let scale = builder.scalar(dtype, self.scale.into())?;
        let products = builder.binary(Binary::Mul, products, scale)?;
        let mut bounded = products;
        if self.softcap != 0.0 {
            let bound = builder.scalar(dtype, self.softcap.into())?;
            let ratio = builder.binary(Binary::Div, products, bound)?;
            let ratio = builder.unary(Unary::Tanh, ratio)?;
            bounded = builder.binary(Binary::Mul, ratio, bound)?;
        }
        let mut masked = bounded;
        let causal = self.causal.map(|causal| causal_mask(builder, shape[2], keys, causal)).transpose()?;
        for mask in self.mask.into_iter().chain(causal) {
            let mask = additive(builder, mask, dtype)?;
            masked = builder.binary(Binary::Add, masked, mask)?;
        }
        let weights = match self.sink {
            None => builder.emit(Op::Softmax { axis: 3, log: false }, &[masked])?,
            Some(sink) => softmax_with_sink(builder, masked, sink)?,
        };
        let output = builder.emit(Op::MatMul, &[weights, value])?;
        let scores = match stage {
            Stage::Products => products,
            Stage::Bounded => bounded,
            Stage::Masked => masked,
            Stage::Weights => weights,
        };
        Ok((output, scores))
    }
}

/// Softmax over the keys and a sink, of which the keys' weights remain.
fn softmax_with_sink(builder: &mut Builder, scores: TensorId, sink: TensorId) -> Result<TensorId, Problem> {
    let Fact { dtype, shape, .. } = builder.fact(scores).clone();
    let [n, heads, queries, _] = four(&shape)?;
    let sink = builder.cast(sink, dtype)?;
    let sink = builder.reshape(sink, &[1, heads, 1, 1])?;
    let sink = builder.expand(sink, &[n, heads, queries, 1])?;
    let scores = builder.emit(Op::Concat { axis: 3 }, &[scores, sink])?;
    let weights = builder.emit(Op::Softmax { axis: 3, log: false }, &[scores])?;
    let slice = Op::Slice { starts: vec![0; 4], steps: vec![1; 4] };
    builder.emit_as(slice, &[weights], Fact::new(dtype, &shape))
}

/// Each head repeated so that there are `heads` of them.
fn repeated(builder: &mut Builder, x: TensorId, heads: usize) -> Result<TensorId, Problem> {
    let shape = builder.shape(x).to_vec();
    let [n, shared, rows, size] = four(&shape)?;
    if shared == heads || shared == 0 || !heads.is_multiple_of(shared) {
        return Ok(x);
    }
    let split = builder.reshape(x, &[n, shared, 1, rows, size])?;
    let spread = builder.expand(split, &[n, shared, heads / shared, rows, size])?;
    builder.reshape(spread, &[n, heads, rows, size])
}

pub(super) fn four(shape: &[usize]) -> Result<[usize; 4], Problem> {
    shape.try_into().map_err(|_| Problem::Invalid(format!("a tensor of heads of shape {}", show(shape))))
}

/// Bool `[queries, keys]`: whether key j ≤ query i + causal.
fn causal_mask(builder: &mut Builder, queries: usize, keys: usize, causal: i32) -> Result<TensorId, Problem> {
    let sees = |i: usize, j: usize| j as i64 <= i as i64 + i64::from(causal);
    builder.generated(DType::Bool, &[queries, keys], || {
        (0..queries).flat_map(|i| (0..keys).map(move |j| u8::from(sees(i, j)))).collect()
    })
}

/// A mask as floats to be added: 0 or −∞ for Bool.
pub(super) fn additive(builder: &mut Builder, mask: TensorId, dtype: DType) -> Result<TensorId, Problem> {
    if builder.fact(mask).dtype != DType::Bool {
        return builder.cast(mask, dtype);
    }
    let (zero, hidden) = (builder.scalar(dtype, 0.0)?, builder.scalar(dtype, f64::NEG_INFINITY)?);
    builder.emit(Op::Where, &[mask, zero, hidden])
}

/// Both masks in one.
pub(super) fn both(
    builder: &mut Builder,
    a: Option<TensorId>,
    b: Option<TensorId>,
    dtype: DType,
) -> Result<Option<TensorId>, Problem> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(a.or(b)) };
    if [a, b].iter().all(|&mask| builder.fact(mask).dtype == DType::Bool) {
        return builder.binary(Binary::And, a, b).map(Some);
    }
    let (a, b) = (additive(builder, a, dtype)?, additive(builder, b, dtype)?);
    builder.binary(Binary::Add, a, b).map(Some)
}

/// Bool `[n, 1, 1, keys]`: whether a key's number is below its sequence's length; `lengths` is `[n]`.
pub(super) fn within_lengths(builder: &mut Builder, lengths: TensorId, keys: usize) -> Result<TensorId, Problem> {
    let n = builder.fact(lengths).elements();
    let lengths = builder.cast(lengths, DType::I64)?;
    let lengths = builder.reshape(lengths, &[n, 1, 1, 1])?;
    let numbers = builder.numbers(0, &[keys])?;
    builder.binary(Binary::Less, numbers, lengths)
}

/// `[n, rows, heads·size]` as `[n, heads, rows, size]`.
pub(super) fn split_heads(builder: &mut Builder, x: TensorId, heads: usize) -> Result<TensorId, Problem> {
    let shape = builder.shape(x).to_vec();
    let &[n, rows, width] = shape.as_slice() else {
        return Err(Problem::Invalid(format!("{} is not a batch of rows", show(&shape))));
    };
    if heads == 0 || !width.is_multiple_of(heads) {
        return Err(Problem::Invalid(format!("rows of {width} elements cannot be split into {heads} heads")));
    }
    let split = builder.reshape(x, &[n, rows, heads, width / heads])?;
    builder.emit(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[split])
}

/// `[n, heads, rows, size]` as `[n, rows, heads·size]`.
pub(super) fn join_heads(builder: &mut Builder, x: TensorId) -> Result<TensorId, Problem> {
    let [n, heads, rows, size] = four(builder.shape(x))?;
    let rows_first = builder.emit(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[x])?;
    builder.reshape(rows_first, &[n, rows, heads * size])
}

/// The state of earlier steps and what this step adds, along the rows of `[n, heads, rows, size]`.
pub(super) fn with_past(builder: &mut Builder, past: Option<TensorId>, x: TensorId) -> Result<TensorId, Problem> {
    match past {
        Some(past) => builder.emit(Op::Concat { axis: 2 }, &[past, x]),
        None => Ok(x),
    }
}

/// 1 / √size, where an operator names no scale.
pub(super) fn default_scale(size: usize) -> f32 {
    (1.0 / (size.max(1) as f64).sqrt()) as f32
}

/// Outputs Y, present key, present value, and a stage of the scores.
pub(super) fn attention(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let (mut query, mut key, mut value) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let (heads, shared) = (node.int("q_num_heads")?, node.int("kv_num_heads")?);
    let rows = builder.shape(query).len() == 3;
    if rows {
        let count = |given: Option<i64>, name: &str| {
            let given = given.ok_or_else(|| Problem::Invalid(format!("attribute '{name}' is missing")))?;
            super::super::node::extent(name, given)
        };
        let (heads, shared) = (count(heads, "q_num_heads")?, count(shared, "kv_num_heads")?);
        query = split_heads(builder, query, heads)?;
        key = split_heads(builder, key, shared)?;
        value = split_heads(builder, value, shared)?;
    }
    let past = node.optional(4);
    let past_length = past.map_or(0, |past| builder.shape(past).get(2).copied().unwrap_or(0));
    let key = with_past(builder, past, key)?;
    let value = with_past(builder, node.optional(5), value)?;
    let dtype = builder.fact(query).dtype;
    let ([.., size], [.., keys, _]) = (four(builder.shape(query))?, four(builder.shape(key))?);
    // Softmax is computed in f32 at least.
    let double = node.int("softmax_precision")? == Some(11);
    if double && dtype != DType::F64 {
        return Err(unsupported("softmax_precision", "DOUBLE", "FLOAT, FLOAT16, BFLOAT16"));
    }
    let mut mask = match node.optional(3) {
        Some(mask) => Some(padded_mask(builder, mask, keys, dtype)?),
        None => None,
    };
    if let Some(lengths) = node.optional(6) {
        let within = within_lengths(builder, lengths, keys)?;
        mask = both(builder, mask, Some(within), dtype)?;
    }
    let causal = node.flag("is_causal", false)?.then_some(past_length as i32);
    let scale = node.optional_float("scale")?.unwrap_or_else(|| default_scale(size));
    let softcap = node.float("softcap", 0.0)?.max(0.0);
    let stage = match node.int("qk_matmul_output_mode")?.unwrap_or(0) {
        0 => Stage::Products,
        1 => Stage::Bounded,
        2 => Stage::Masked,
        3 => Stage::Weights,
        other => return Err(unsupported("qk_matmul_output_mode", other, "0, 1, 2, 3")),
    };
    let attention = Attention { query, key, value, mask, scale, softcap, causal, sink: None };
    let (output, scores) = if node.outputs > 3 {
        let (output, scores) = attention.emit_parts(builder, stage)?;
        (output, Some(scores))
    } else {
        (attention.emit(builder)?, None)
    };
    let output = if rows { join_heads(builder, output)? } else { output };
    Ok([output, key, value].into_iter().chain(scores).collect())
}

/// A mask that covers all keys: those that it leaves out are hidden.
pub(super) fn padded_mask(
    builder: &mut Builder,
    mask: TensorId,
    keys: usize,
    dtype: DType,
) -> Result<TensorId, Problem> {
    let shape = builder.shape(mask).to_vec();
    let Some(&covered) = shape.last() else { return Ok(mask) };
    if covered == 1 || covered >= keys {
        return Ok(mask);
    }
    let mask = additive(builder, mask, dtype)?;
    let mut after = vec![0; shape.len()];
    after[shape.len() - 1] = (keys - covered) as i64;
    let mode = PadMode::Constant(f64::NEG_INFINITY);
    builder.emit(Op::Pad { before: vec![0; shape.len()], after, mode }, &[mask])
}

/// Inputs x, cosines, sines, `[positions]`; x is `[n, heads, rows, size]` or `[n, rows, heads·size]`.
pub(super) fn rotary_embedding(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let heads = super::super::node::extent("num_heads", node.int("num_heads")?.unwrap_or(0))?;
    let rotated = super::super::node::extent("rotary_embedding_dim", node.int("rotary_embedding_dim")?.unwrap_or(0))?;
    let interleaved = node.flag("interleaved", false)?;
    let positions = node.optional(3);
    let mut angles = [node.input(1)?, node.input(2)?];
    if let Some(positions) = positions {
        for table in &mut angles {
            *table = builder.emit(Op::Gather { axis: 0 }, &[*table, positions])?;
        }
    }
    rotate(builder, x, angles, heads, Rotation { rotated, interleaved })
}

/// How pairs of elements are rotated.
#[derive(Clone, Copy)]
pub(super) struct Rotation {
    /// Leading elements of a head that are rotated, 0 for all.
    pub rotated: usize,
    /// Whether pairs are neighbours; otherwise element i goes with element i + rotated / 2.
    pub interleaved: bool,
}

/// Rotates each pair (a, b) to (a·cos − b·sin, a·sin + b·cos). Cosines and sines are `[n, rows, pairs]`; `heads` may be
/// 0 where x is of rank 4.
pub(super) fn rotate(
    builder: &mut Builder,
    x: TensorId,
    angles: [TensorId; 2],
    heads: usize,
    Rotation { rotated, interleaved }: Rotation,
) -> Result<TensorId, Problem> {
    let rows_first = builder.shape(x).len() == 3;
    let whole = if rows_first { split_heads(builder, x, heads)? } else { x };
    let [n, heads, rows, size] = four(builder.shape(whole))?;
    let rotated = if rotated == 0 { size } else { rotated };
    if rotated > size || !rotated.is_multiple_of(2) {
        return Err(Problem::Invalid(format!("{rotated} elements of heads of {size} cannot be rotated in pairs")));
    }
    let pairs = rotated / 2;
    let dtype = builder.fact(x).dtype;
    // Pairs get a dimension of their own; a slice that runs backwards along it exchanges their elements.
    let extents = if interleaved { [pairs, 2] } else { [2, pairs] };
    let pair = if interleaved { 4 } else { 3 };
    let mut columns = Vec::new();
    for table in angles {
        let shape = builder.shape(table).to_vec();
        let fits = shape.len() == 3 && shape[2] == pairs && broadcast(&shape[..2], &[n, rows])? == [n, rows];
        if !fits {
            return Err(Problem::Invalid(format!(
                "{} does not fit {n}x{rows} positions of {pairs} pairs",
                show(&shape)
            )));
        }
        let mut column = vec![shape[0], 1, shape[1], pairs];
        column.insert(pair, 1);
        let table = builder.reshape(table, &column)?;
        columns.push(builder.cast(table, dtype)?);
    }
    let part = |builder: &mut Builder, start: usize, count: usize| {
        let op = Op::Slice { starts: vec![0, 0, 0, start], steps: vec![1; 4] };
        builder.emit_as(op, &[whole], Fact::new(dtype, &[n, heads, rows, count]))
    };
    let (cosine, sine) = (columns[0], columns[1]);
    let mut shape = vec![1; 5];
    shape[pair] = 2;
    let signs = builder.constant(Tensor::f32(&shape, &[-1.0, 1.0]));
    let signs = builder.cast(signs, dtype)?;
    let sine = builder.binary(Binary::Mul, sine, signs)?;
    let straight = if rotated < size { part(builder, 0, rotated)? } else { whole };
    let straight = builder.reshape(straight, &[n, heads, rows, extents[0], extents[1]])?;
    let (mut starts, mut steps) = (vec![0; 5], vec![1; 5]);
    (starts[pair], steps[pair]) = (1, -1);
    let shape = builder.fact(straight).clone();
    let crossed = builder.emit_as(Op::Slice { starts, steps }, &[straight], shape)?;
    let (a, b) = (builder.binary(Binary::Mul, straight, cosine)?, builder.binary(Binary::Mul, crossed, sine)?);
    let turned = builder.binary(Binary::Add, a, b)?;
    let mut turned = builder.reshape(turned, &[n, heads, rows, rotated])?;
    if rotated < size {
        let rest = part(builder, rotated, size - rotated)?;
        turned = builder.emit(Op::Concat { axis: 3 }, &[turned, rest])?;
    }
    if rows_first { join_heads(builder, turned) } else { Ok(turned) }
}
