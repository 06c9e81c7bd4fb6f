//! Attention on projected or unprojected rows, and rotary position embeddings.

use super::super::{
    super::{
        builder::Builder,
        node::{NodeView, extent, unsupported},
    },
    attention::{
        Attention, Rotation, Stage, additive, both, default_scale, four, join_heads, rotate, split_heads, with_past,
        within_lengths,
    },
};
use crate::{DType, Fact, Op, Problem, TensorId, infer::show, op::Binary};

/// What both operators have in common.
struct Common {
    heads: usize,
    scale: Option<f32>,
    filter: f32,
    causal: bool,
}

impl Common {
    fn read(node: &mut NodeView) -> Result<Self, Problem> {
        Ok(Self {
            heads: super::super::count(node, "num_heads", 0)?,
            scale: node.optional_float("scale")?.filter(|&scale| scale != 0.0),
            filter: node.float("mask_filter_value", -10_000.0)?,
            causal: node.flag("unidirectional", false)?,
        })
    }

    /// The attention of heads `[n, heads, rows, size]`; `past` keys come before those of this step.
    fn attention(
        &self,
        builder: &Builder,
        [query, key, value]: [TensorId; 3],
        past: usize,
        mask: Option<TensorId>,
    ) -> Result<Attention, Problem> {
        let [.., size] = four(builder.shape(query))?;
        let scale = self.scale.unwrap_or_else(|| default_scale(size));
        let causal = self.causal.then_some(past as i32);
        Ok(Attention { query, key, value, mask, scale, softcap: 0.0, causal, sink: None })
    }

    /// A mask of 0 (hidden) and 1 (kept), or the lengths of sequences, as floats to be added to scores.
    fn mask(
        &self,
        builder: &mut Builder,
        mask: TensorId,
        batch: usize,
        keys: usize,
        dtype: DType,
    ) -> Result<TensorId, Problem> {
        let shape = builder.shape(mask).to_vec();
        let kept = match *shape.as_slice() {
            [n] if n == batch => within_lengths(builder, mask, keys)?,
            [n, covered] if n == batch && covered == keys => self.kept(builder, mask, &[n, 1, 1, keys])?,
            [n, queries, covered] if n == batch && covered == keys => {
                self.kept(builder, mask, &[n, 1, queries, keys])?
            }
            _ => {
                let reason = format!("a mask of shape {} for {batch} sequences of {keys} keys", show(&shape));
                return Err(unsupported("mask", reason, "[batch], [batch, keys], [batch, queries, keys]"));
            }
        };
        let (zero, filter) = (builder.scalar(dtype, 0.0)?, builder.scalar(dtype, self.filter.into())?);
        builder.emit(Op::Where, &[kept, zero, filter])
    }

    fn kept(&self, builder: &mut Builder, mask: TensorId, shape: &[usize]) -> Result<TensorId, Problem> {
        let mask = builder.reshape(mask, shape)?;
        builder.cast(mask, DType::Bool)
    }
}

/// Part of the last dimension.
pub(super) fn columns(builder: &mut Builder, x: TensorId, start: usize, count: usize) -> Result<TensorId, Problem> {
    let Fact { dtype, mut shape, .. } = builder.fact(x).clone();
    let rank = shape.len();
    let mut starts = vec![0; rank];
    (starts[rank - 1], shape[rank - 1]) = (start, count);
    builder.emit_as(Op::Slice { starts, steps: vec![1; rank] }, &[x], Fact::new(dtype, &shape))
}

/// Index `number` of dimension `axis`, which is removed.
fn picked(builder: &mut Builder, x: TensorId, axis: usize, number: usize) -> Result<TensorId, Problem> {
    let Fact { dtype, mut shape, .. } = builder.fact(x).clone();
    let mut starts = vec![0; shape.len()];
    (starts[axis], shape[axis]) = (number, 1);
    let steps = vec![1; shape.len()];
    let slice = builder.emit_as(Op::Slice { starts, steps }, &[x], Fact::new(dtype, &shape))?;
    shape.remove(axis);
    builder.reshape(slice, &shape)
}

/// Projects rows `[n, rows, width]` to queries, keys and values and attends. Outputs the result and the state.
pub(in super::super) fn projecting(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let common = Common::read(node)?;
    for name in ["do_rotary", "past_present_share_buffer"] {
        if node.flag(name, false)? {
            return Err(unsupported(name, 1, "0"));
        }
    }
    node.ignore(&["rotary_embedding_dim"]);
    let (x, weights) = (node.input(0)?, node.input(1)?);
    let mut projected = builder.emit(Op::MatMul, &[x, weights])?;
    if let Some(bias) = node.optional(2) {
        projected = builder.binary(Binary::Add, projected, bias)?;
    }
    let Fact { dtype, shape, .. } = builder.fact(projected).clone();
    let &[batch, _, width] = shape.as_slice() else {
        return Err(Problem::Invalid(format!("the input {} is not a batch of rows", show(&shape))));
    };
    let sizes = match node.extents("qkv_hidden_sizes")? {
        Some(sizes) if !sizes.is_empty() => sizes,
        _ => vec![width / 3; 3],
    };
    if sizes.len() != 3 || sizes.iter().sum::<usize>() != width {
        return Err(Problem::Invalid(format!("queries, keys and values of {sizes:?} out of {width} columns")));
    }
    let mut parts = [x; 3];
    let mut start = 0;
    for (part, &size) in parts.iter_mut().zip(&sizes) {
        let piece = columns(builder, projected, start, size)?;
        *part = split_heads(builder, piece, common.heads)?;
        start += size;
    }
    let [query, mut key, mut value] = parts;
    let mut past_length = 0;
    if let Some(past) = node.optional(4) {
        past_length = builder.shape(past).get(3).copied().unwrap_or(0);
        let (past_key, past_value) = (picked(builder, past, 0, 0)?, picked(builder, past, 0, 1)?);
        key = with_past(builder, Some(past_key), key)?;
        value = with_past(builder, Some(past_value), value)?;
    }
    let [.., keys, _] = four(builder.shape(key))?;
    let mask = match node.optional(3) {
        Some(mask) => Some(common.mask(builder, mask, batch, keys, dtype)?),
        None => None,
    };
    let mask = both(builder, mask, node.optional(5), dtype)?;
    let output = common.attention(builder, [query, key, value], past_length, mask)?.emit(builder)?;
    let mut outputs = vec![join_heads(builder, output)?];
    if node.outputs > 1 {
        let mut states = Vec::new();
        for state in [key, value] {
            let shape = [&[1], builder.shape(state)].concat();
            states.push(builder.reshape(state, &shape)?);
        }
        outputs.push(builder.emit(Op::Concat { axis: 0 }, &states)?);
    }
    Ok(outputs)
}

/// Attends on projected rows, packed or not. Outputs the result, present keys and values, and the scaled products.
pub(in super::super) fn multi_head(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let common = Common::read(node)?;
    let heads_of = |builder: &mut Builder, node: &NodeView| -> Result<[TensorId; 3], Problem> {
        let query = node.input(0)?;
        let bias = node.optional(3);
        // Packed: `[n, rows, heads, parts, size]`.
        let unpacked = |builder: &mut Builder, x: TensorId, part: usize| {
            let part = picked(builder, x, 3, part)?;
            builder.emit(Op::Transpose { permutation: vec![0, 2, 1, 3] }, &[part])
        };
        let (key, value) = match (node.optional(1), node.optional(2)) {
            (None, _) if bias.is_none() => {
                return Ok([unpacked(builder, query, 0)?, unpacked(builder, query, 1)?, unpacked(builder, query, 2)?]);
            }
            (Some(key), None) if bias.is_none() => {
                let query = split_heads(builder, query, common.heads)?;
                return Ok([query, unpacked(builder, key, 0)?, unpacked(builder, key, 1)?]);
            }
            (Some(key), Some(value)) => (key, value),
            _ => return Err(unsupported("bias", "of packed queries, keys and values", "no bias there")),
        };
        let mut start = 0;
        let mut parts = [query; 3];
        for (part, x) in parts.iter_mut().zip([query, key, value]) {
            *part = x;
            // Keys and values of rank 4 are heads already, projected and biased.
            if builder.shape(x).len() == 4 {
                continue;
            }
            let width = builder.shape(x).last().copied().unwrap_or(0);
            if let Some(bias) = bias {
                let piece = columns(builder, bias, start, width)?;
                *part = builder.binary(Binary::Add, x, piece)?;
            }
            start += width;
            *part = split_heads(builder, *part, common.heads)?;
        }
        Ok(parts)
    };
    let [query, key, value] = heads_of(builder, node)?;
    for index in [8, 9] {
        if node.optional(index).is_some() {
            return Err(unsupported("inputs", "a shared buffer of past keys and values", "past_key and past_value"));
        }
    }
    let past = node.optional(6);
    let past_length = past.map_or(0, |past| builder.shape(past).get(2).copied().unwrap_or(0));
    let key = with_past(builder, past, key)?;
    let value = with_past(builder, node.optional(7), value)?;
    let dtype = builder.fact(query).dtype;
    let ([batch, ..], [.., keys, _]) = (four(builder.shape(query))?, four(builder.shape(key))?);
    let mask = match node.optional(4) {
        Some(mask) => Some(common.mask(builder, mask, batch, keys, dtype)?),
        None => None,
    };
    let bias = match node.optional(5) {
        Some(bias) => Some(additive(builder, bias, dtype)?),
        None => None,
    };
    let mask = both(builder, mask, bias, dtype)?;
    let attention = common.attention(builder, [query, key, value], past_length, mask)?;
    let (output, products) = if node.outputs > 3 {
        let (output, products) = attention.emit_parts(builder, Stage::Products)?;
        (output, Some(products))
    } else {
        (attention.emit(builder)?, None)
    };
    Ok([join_heads(builder, output)?, key, value].into_iter().chain(products).collect())
}

/// Inputs x, positions, cosines and sines. A single position is that of the first row.
pub(in super::super) fn rotary_embedding(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    if node.flag("is_packed_batching", false)? {
        return Err(unsupported("is_packed_batching", 1, "0"));
    }
    let scale = node.float("scale", 1.0)?;
    if scale != 1.0 {
        return Err(unsupported("scale", scale, "1"));
    }
    let x = node.input(0)?;
    let mut heads = extent("num_heads", node.int("num_heads")?.unwrap_or(0))?;
    let rotated = extent("rotary_embedding_dim", node.int("rotary_embedding_dim")?.unwrap_or(0))?;
    let interleaved = node.flag("interleaved", false)?;
    let mut positions = node.input(1)?;
    let mut angles = [node.input(2)?, node.input(3)?];
    let shape = builder.shape(x).to_vec();
    let rows = match *shape.as_slice() {
        [_, rows, width] => {
            if heads == 0 {
                // The tables tell the size of a head where the attributes do not.
                let pairs = builder.shape(angles[0]).last().copied().unwrap_or(0);
                heads = width.checked_div(2 * pairs).unwrap_or(0);
            }
            rows
        }
        [_, _, rows, _] => rows,
        _ => return Err(Problem::Invalid(format!("the input {} has no rows", show(&shape)))),
    };
    if builder.fact(positions).elements() == 1 && builder.shape(positions).len() < 2 {
        let numbers = builder.numbers(0, &[1, rows])?;
        let first = builder.reshape(positions, &[1, 1])?;
        let first = builder.cast(first, DType::I64)?;
        positions = builder.binary(Binary::Add, numbers, first)?;
    }
    for table in &mut angles {
        *table = builder.emit(Op::Gather { axis: 0 }, &[*table, positions])?;
    }
    rotate(builder, x, angles, heads, Rotation { rotated, interleaved })
}
