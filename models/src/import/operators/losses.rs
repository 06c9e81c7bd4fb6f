//! Losses, as the bodies of their ONNX functions have them.

use super::super::{
    builder::Builder,
    node::{NodeView, unsupported},
};
use crate::{
    DType, Op, Problem, TensorId,
    infer::show,
    op::{Binary, Reduction, Unary},
};

pub(super) fn log_likelihood(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let probabilities = node.input(0)?;
    negative_log_likelihood(builder, node, probabilities)
}

pub(super) fn cross_entropy(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let scores = node.input(0)?;
    let probabilities = builder.emit(Op::Softmax { axis: 1, log: true }, &[scores])?;
    Ok(vec![negative_log_likelihood(builder, node, probabilities)?, probabilities])
}

/// −weight[target]·input[n, target, …], 0 where the target is to be ignored. Input `[n, c, …]`, target `[n, …]`.
fn negative_log_likelihood(builder: &mut Builder, node: &mut NodeView, input: TensorId) -> Result<TensorId, Problem> {
    let (target, weight) = (node.input(1)?, node.optional(2));
    let shape = builder.shape(target).to_vec();
    let dtype = builder.fact(input).dtype;
    let classes = builder.shape(input).get(1).copied().unwrap_or(0);
    if weight.is_some_and(|weight| builder.shape(weight) != [classes]) || shape.is_empty() {
        return Err(Problem::Invalid(format!("weights or targets {} for {classes} classes", show(&shape))));
    }
    let zero = builder.scalar(dtype, 0.0)?;
    let (ignored, target) = match node.int("ignore_index")? {
        Some(index) => {
            let kind = builder.fact(target).dtype;
            let index = builder.scalar(kind, index as f64)?;
            let ignored = builder.binary(Binary::Equal, target, index)?;
            let first = builder.scalar(kind, 0.0)?;
            (Some(ignored), builder.emit(Op::Where, &[ignored, first, target])?)
        }
        None => (None, target),
    };
    let keep = |builder: &mut Builder, value: TensorId| match ignored {
        Some(ignored) => builder.emit(Op::Where, &[ignored, zero, value]),
        None => Ok(value),
    };
    let column = [&shape[..1], &[1], &shape[1..]].concat();
    let indices = builder.reshape(target, &column)?;
    let picked = super::indexing::gather_elements(builder, input, indices, 1)?;
    let picked = builder.reshape(picked, &shape)?;
    let mut loss = builder.unary(Unary::Neg, picked)?;
    let weights = match weight {
        Some(weight) => {
            let target = builder.cast(target, DType::I64)?;
            let weights = builder.emit(Op::Gather { axis: 0 }, &[weight, target])?;
            loss = builder.binary(Binary::Mul, loss, weights)?;
            Some(keep(builder, weights)?)
        }
        None if ignored.is_some() => {
            let one = builder.scalar(dtype, 1.0)?;
            let ones = builder.expand(one, &shape)?;
            Some(keep(builder, ones)?)
        }
        None => None,
    };
    let loss = keep(builder, loss)?;
    let all = |kind: Reduction| Op::Reduce { kind, axes: (0..shape.len()).collect(), keep: false };
    match (node.string("reduction", "mean")?.as_str(), weights) {
        ("none", _) => Ok(loss),
        ("sum", _) => builder.emit(all(Reduction::Sum), &[loss]),
        ("mean", None) => builder.emit(all(Reduction::Mean), &[loss]),
        ("mean", Some(weights)) => {
            let loss = builder.emit(all(Reduction::Sum), &[loss])?;
            let weights = builder.emit(all(Reduction::Sum), &[weights])?;
            builder.binary(Binary::Div, loss, weights)
        }
        (other, _) => Err(unsupported("reduction", other, "none, sum, mean")),
    }
}
