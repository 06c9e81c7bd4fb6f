//! Layer and RMS normalisation with what stands before them.

use super::super::super::{
    builder::Builder,
    node::{NodeView, axis},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    op::{Binary, Reduction, Unary},
};

/// Outputs the normalised sum of x, skip and bias, two statistics, and the sum.
pub(in super::super) fn skip(
    builder: &mut Builder,
    node: &mut NodeView,
    center: bool,
) -> Result<Vec<TensorId>, Problem> {
    let epsilon = node.float("epsilon", 1e-12)?;
    let mut sum = builder.binary(Binary::Add, node.input(0)?, node.input(1)?)?;
    let (shift, bias) = if center { (node.optional(3), node.optional(4)) } else { (None, node.optional(3)) };
    if let Some(bias) = bias {
        sum = builder.binary(Binary::Add, sum, bias)?;
    }
    let axis = builder.shape(sum).len().saturating_sub(1);
    let inputs: Vec<_> = [sum, node.input(2)?].into_iter().chain(shift).collect();
    let mut outputs = vec![builder.emit(Op::LayerNormalization { axis, epsilon, center }, &inputs)?];
    if node.outputs > 1 {
        let [mean, inverse] = statistics(builder, sum, axis, epsilon, center)?;
        outputs.extend([mean, inverse, sum]);
    }
    Ok(outputs)
}

/// Mean (0 without centring) and 1 / √(mean of squares + ε) over the dimensions from `axis` on.
fn statistics(
    builder: &mut Builder,
    x: TensorId,
    axis: usize,
    epsilon: f32,
    center: bool,
) -> Result<[TensorId; 2], Problem> {
    let average = Op::Reduce { kind: Reduction::Mean, axes: (axis..builder.shape(x).len()).collect(), keep: true };
    let mean = builder.emit(average.clone(), &[x])?;
    let centred = if center { builder.binary(Binary::Sub, x, mean)? } else { x };
    let square = builder.binary(Binary::Mul, centred, centred)?;
    let variance = builder.emit(average, &[square])?;
    let epsilon = builder.scalar(builder.fact(x).dtype, epsilon.into())?;
    let sum = builder.binary(Binary::Add, variance, epsilon)?;
    let root = builder.unary(Unary::Sqrt, sum)?;
    Ok([mean, builder.unary(Unary::Reciprocal, root)?])
}

/// RMS normalisation; outputs the result and 1 / root mean square.
pub(in super::super) fn simplified(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    // Statistics are computed in f32 at least, always.
    node.ignore(&["stash_type"]);
    let x = node.input(0)?;
    let axis = axis(node.int("axis")?.unwrap_or(-1), builder.shape(x).len())?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let op = Op::LayerNormalization { axis, epsilon, center: false };
    let mut outputs = vec![builder.emit(op, &[x, node.input(1)?])?];
    if node.outputs > 1 {
        outputs.push(statistics(builder, x, axis, epsilon, false)?[1]);
    }
    Ok(outputs)
}

/// Sums word, position and segment embeddings and normalises them. Outputs the result, the number of tokens that the
/// mask keeps in each sequence, and the sum.
pub(in super::super) fn embedding(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    // The number of tokens is the only kind of mask index that the operator defines.
    node.ignore(&["mask_index_type"]);
    let epsilon = node.float("epsilon", 1e-12)?;
    let ids = node.input(0)?;
    let shape = builder.shape(ids).to_vec();
    let &[batch, tokens] = shape.as_slice() else {
        return Err(Problem::Invalid("the token numbers are not a batch of sequences".into()));
    };
    let rows = |builder: &mut Builder, table, ids| builder.emit(Op::Gather { axis: 0 }, &[table, ids]);
    let mut sum = rows(builder, node.input(2)?, ids)?;
    let table = node.input(3)?;
    let positions = match node.optional(8) {
        Some(positions) => rows(builder, table, positions)?,
        None => {
            let Fact { dtype, shape, .. } = builder.fact(table).clone();
            let &[_, width] = shape.as_slice() else {
                return Err(Problem::Invalid("the position embedding is no matrix".into()));
            };
            let op = Op::Slice { starts: vec![0, 0], steps: vec![1, 1] };
            builder.emit_as(op, &[table], Fact::new(dtype, &[tokens, width]))?
        }
    };
    sum = builder.binary(Binary::Add, sum, positions)?;
    if let (Some(segments), Some(table)) = (node.optional(1), node.optional(4)) {
        let segments = rows(builder, table, segments)?;
        sum = builder.binary(Binary::Add, sum, segments)?;
    }
    let op = Op::LayerNormalization { axis: 2, epsilon, center: true };
    let output = builder.emit(op, &[sum, node.input(5)?, node.input(6)?])?;
    let kept = match node.optional(7) {
        Some(mask) => {
            let mask = builder.cast(mask, DType::I32)?;
            builder.emit(Op::Reduce { kind: Reduction::Sum, axes: vec![1], keep: false }, &[mask])?
        }
        None => {
            let zero = builder.scalar(DType::I32, 0.0)?;
            builder.expand(zero, &[batch])?
        }
    };
    Ok(vec![output, kept, sum])
}
