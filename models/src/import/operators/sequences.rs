//! Sequences of tensors, which exist while importing only: a plan knows each tensor by itself.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, extent},
};
use crate::{Fact, Op, Problem, Tensor, TensorId, infer::show};

pub(super) fn empty(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    node.ignore(&["dtype"]);
    Ok(builder.sequence(Vec::new()))
}

pub(super) fn construct(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let tensors = node.all_inputs()?;
    Ok(builder.sequence(tensors))
}

pub(super) fn length(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let count = members(builder, node)?.len() as i64;
    Ok(builder.constant(Tensor::i64(&[], &[count])))
}

pub(super) fn at(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let tensors = members(builder, node)?;
    let at = position(builder, node, 1, tensors.len())?.unwrap_or(0);
    tensors.get(at).copied().ok_or_else(|| Problem::Invalid("the sequence is empty".into()))
}

pub(super) fn insert(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let mut tensors = members(builder, node)?;
    // One past the last is a place for a new tensor, but −1 is before the last.
    let at = match node.integers(builder, 2, "position")?.and_then(|at| at.first().copied()) {
        Some(at) if at == tensors.len() as i64 => tensors.len(),
        Some(at) => axis(at, tensors.len())?,
        None => tensors.len(),
    };
    tensors.insert(at, node.input(1)?);
    Ok(builder.sequence(tensors))
}

pub(super) fn erase(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let mut tensors = members(builder, node)?;
    let at = position(builder, node, 1, tensors.len())?.unwrap_or(tensors.len().saturating_sub(1));
    if at < tensors.len() {
        tensors.remove(at);
    }
    Ok(builder.sequence(tensors))
}

/// The tensors of the first input.
fn members(builder: &Builder, node: &NodeView) -> Result<Vec<TensorId>, Problem> {
    let tensors = builder.members(node.input(0)?).map(<[TensorId]>::to_vec);
    tensors.ok_or_else(|| Problem::Invalid("input 0 is no sequence".into()))
}

/// A constant position among `count` tensors, negative ones from the end.
fn position(builder: &Builder, node: &NodeView, index: usize, count: usize) -> Result<Option<usize>, Problem> {
    match node.integers(builder, index, "position")?.and_then(|at| at.first().copied()) {
        Some(at) => axis(at, count).map(Some),
        None => Ok(None),
    }
}

/// Each piece becomes a node of its own: a hostile extent would fill the memory.
const MOST_PIECES: usize = 1 << 16;

/// Pieces along an axis: of given extents, of one extent, or single slices, which may lose the axis.
pub(super) fn split(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let Fact { dtype, shape, .. } = builder.fact(x).clone();
    let axis = axis(node.int("axis")?.unwrap_or(0), shape.len())?;
    let keep = node.flag("keepdims", true)?;
    let whole = shape[axis];
    let scalar = node.optional(1).is_some_and(|split| builder.shape(split).is_empty());
    let given = node.integers(builder, 1, "split")?;
    let single = given.is_none();
    let few_enough = |count: usize| {
        let reason = || Problem::Invalid(format!("{count} pieces; a sequence holds at most {MOST_PIECES}"));
        (count <= MOST_PIECES).then_some(()).ok_or_else(reason)
    };
    let pieces = match given {
        Some(given) if scalar => {
            let piece = extent("split", given.first().copied().unwrap_or(0))?.max(1);
            few_enough(whole.div_ceil(piece))?;
            (0..whole).step_by(piece).map(|start| piece.min(whole - start)).collect()
        }
        Some(given) => given.iter().map(|&piece| extent("split", piece)).collect::<Result<Vec<_>, _>>()?,
        None => {
            few_enough(whole)?;
            vec![1; whole]
        }
    };
    if pieces.iter().sum::<usize>() != whole {
        return Err(Problem::Invalid(format!("pieces {pieces:?} of {} along axis {axis}", show(&shape))));
    }
    let mut tensors = Vec::with_capacity(pieces.len());
    let mut starts = vec![0; shape.len()];
    for piece in pieces {
        let mut part = shape.clone();
        part[axis] = piece;
        let op = Op::Slice { starts: starts.clone(), steps: vec![1; shape.len()] };
        let mut tensor = builder.emit_as(op, &[x], Fact::new(dtype, &part))?;
        if single && !keep {
            part.remove(axis);
            tensor = builder.reshape(tensor, &part)?;
        }
        tensors.push(tensor);
        starts[axis] += piece;
    }
    Ok(builder.sequence(tensors))
}

/// All tensors joined along an axis, which may be a new one.
pub(super) fn join(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let mut tensors = members(builder, node)?;
    let given = node.int("axis")?.ok_or_else(|| Problem::Invalid("attribute 'axis' is missing".into()))?;
    let new = node.flag("new_axis", false)?;
    let Some(&first) = tensors.first() else { return Err(Problem::Invalid("the sequence is empty".into())) };
    let axis = axis(given, builder.shape(first).len() + usize::from(new))?;
    if new {
        for tensor in &mut tensors {
            let mut shape = builder.shape(*tensor).to_vec();
            if axis > shape.len() {
                return Err(Problem::Invalid(format!("axis {axis} of a tensor {}", show(&shape))));
            }
            shape.insert(axis, 1);
            *tensor = builder.reshape(*tensor, &shape)?;
        }
    }
    super::concat(builder, &tensors, axis)
}
