//! Normalisation and softmax.

use super::super::{
    builder::Builder,
    node::{NodeView, axes, axis, unsupported},
};
use crate::{
    Op, Problem, TensorId,
    infer::show,
    op::{Binary, Reduction, Unary},
};

pub(super) fn instance(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let epsilon = node.float("epsilon", 1e-5)?;
    builder.emit(Op::InstanceNormalization { epsilon }, &node.all_inputs()?)
}

pub(super) fn local_response(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let size = super::count(node, "size", 0)?;
    let (alpha, beta) = (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?);
    let bias = node.float("bias", 1.0)?;
    builder.emit(Op::Lrn { size, alpha, beta, bias }, &[node.input(0)?])
}

pub(super) fn batch(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let momentum = node.float("momentum", 0.9)?;
    node.ignore(&["consumed_inputs"]);
    if node.flag("training_mode", false)? {
        return batch_of_its_own(builder, node, momentum);
    }
    if node.opset < 9 && !node.flag("spatial", true)? {
        return Err(unsupported("spatial", 0, "1"));
    }
    if node.opset < 7 && !node.flag("is_test", false)? {
        return Err(unsupported("is_test", 0, "1"));
    }
    let epsilon = node.float("epsilon", 1e-5)?;
    builder.emit(Op::BatchNormalization { epsilon }, &node.all_inputs()?).map(|output| vec![output])
}

/// `training_mode`: normalised by the batch's own statistics, which move the running ones along.
fn batch_of_its_own(builder: &mut Builder, node: &mut NodeView, momentum: f32) -> Result<Vec<TensorId>, Problem> {
    let epsilon = node.float("epsilon", 1e-5)?;
    let inputs = node.all_inputs()?;
    let &[x, scale, bias, running_mean, running_variance] = inputs.as_slice() else {
        return Err(Problem::Invalid(format!("{} inputs instead of 5", inputs.len())));
    };
    let rank = builder.shape(x).len();
    let channels = builder.shape(x).get(1).copied().unwrap_or(0);
    let (mean, variance) = moments(builder, x, (0..rank).filter(|&d| d != 1).collect())?;
    let (mean, variance) = (builder.reshape(mean, &[channels])?, builder.reshape(variance, &[channels])?);
    let output = builder.emit(Op::BatchNormalization { epsilon }, &[x, scale, bias, mean, variance])?;
    let mut moved = |running: TensorId, current: TensorId| {
        let dtype = builder.fact(running).dtype;
        let (keep, take) = (builder.scalar(dtype, momentum.into())?, builder.scalar(dtype, (1.0 - momentum).into())?);
        let current = builder.cast(current, dtype)?;
        let (old, new) = (builder.binary(Binary::Mul, running, keep)?, builder.binary(Binary::Mul, current, take)?);
        builder.binary(Binary::Add, old, new)
    };
    Ok(vec![output, moved(running_mean, mean)?, moved(running_variance, variance)?])
}

/// Layer and RMS normalisation. Scale and bias are brought to the normalised shape.
///
/// Gives the first normalised dimension and epsilon too.
pub(super) fn layer(
    builder: &mut Builder,
    node: &mut NodeView,
    center: bool,
) -> Result<(TensorId, usize, f32), Problem> {
    // The type that statistics are computed in: f32 at least, always.
    node.ignore(&["stash_type"]);
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let axis = axis(node.int("axis")?.unwrap_or(-1), shape.len())?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let mut inputs = vec![x];
    for parameter in [Some(node.input(1)?), node.optional(2).filter(|_| center)].into_iter().flatten() {
        let given = builder.shape(parameter).to_vec();
        let ones = given.len().saturating_sub(shape.len() - axis);
        if given[..ones].iter().any(|&extent| extent != 1) {
            let (given, shape) = (show(&given), show(&shape[axis..]));
            return Err(Problem::Invalid(format!("a parameter of shape {given} does not fit the normalised {shape}")));
        }
        let parameter = builder.reshape(parameter, &given[ones..])?;
        inputs.push(builder.expand(parameter, &shape[axis..])?);
    }
    let output = builder.emit(Op::LayerNormalization { axis, epsilon, center }, &inputs)?;
    Ok((output, axis, epsilon))
}

/// Layer normalisation with its further outputs, mean and 1 / standard deviation, where the node lists them.
pub(super) fn layer_with_statistics(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let (output, axis, epsilon) = layer(builder, node, true)?;
    if node.outputs == 1 {
        return Ok(vec![output]);
    }
    let x = node.input(0)?;
    let (mean, variance) = moments(builder, x, (axis..builder.shape(x).len()).collect())?;
    let epsilon = builder.scalar(builder.fact(x).dtype, epsilon.into())?;
    let variance = builder.binary(Binary::Add, variance, epsilon)?;
    let deviation = builder.unary(Unary::Sqrt, variance)?;
    Ok(vec![output, mean, builder.unary(Unary::Reciprocal, deviation)?])
}

/// Mean and biased variance over dimensions, which stay with extent 1.
fn moments(builder: &mut Builder, x: TensorId, axes: Vec<usize>) -> Result<(TensorId, TensorId), Problem> {
    let average = Op::Reduce { kind: Reduction::Mean, axes, keep: true };
    let mean = builder.emit(average.clone(), &[x])?;
    let centered = builder.binary(Binary::Sub, x, mean)?;
    let square = builder.binary(Binary::Mul, centered, centered)?;
    Ok((mean, builder.emit(average, &[square])?))
}

/// Scale and bias hold one value a group before opset 21, one a channel after.
pub(super) fn group(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    node.ignore(&["stash_type"]);
    let groups = super::count(node, "num_groups", 0)?;
    let epsilon = node.float("epsilon", 1e-5)?;
    let mut inputs = node.all_inputs()?;
    let channels = builder.shape(inputs[0]).get(1).copied().unwrap_or(0);
    if node.opset < 21 && groups > 0 && channels.is_multiple_of(groups) {
        for parameter in &mut inputs[1..] {
            let column = builder.reshape(*parameter, &[groups, 1])?;
            let spread = builder.expand(column, &[groups, channels / groups])?;
            *parameter = builder.reshape(spread, &[channels])?;
        }
    }
    builder.emit(Op::GroupNormalization { groups, epsilon }, &inputs)
}

/// x / ‖x‖ along an axis.
pub(super) fn lp(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let axis = axis(node.int("axis")?.unwrap_or(-1), builder.shape(x).len())?;
    let kind = match node.int("p")?.unwrap_or(2) {
        1 => Reduction::L1,
        2 => Reduction::L2,
        other => return Err(unsupported("p", other, "1, 2")),
    };
    let norm = builder.emit(Op::Reduce { kind, axes: vec![axis], keep: true }, &[x])?;
    // Where the norm is 0, so is every element: any other divisor gives the 0 that the operator asks for.
    let dtype = builder.fact(x).dtype;
    let (zero, one) = (builder.scalar(dtype, 0.0)?, builder.scalar(dtype, 1.0)?);
    let vanishes = builder.binary(Binary::Equal, norm, zero)?;
    let divisor = builder.emit(Op::Where, &[vanishes, one, norm])?;
    builder.binary(Binary::Div, x, divisor)
}

/// (x − mean) / (standard deviation + 1e-9), as the operator's function body has it.
pub(super) fn mean_variance(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let mut axes = axes(&node.ints("axes")?.unwrap_or_else(|| vec![0, 2, 3]), builder.shape(x).len())?;
    axes.sort_unstable();
    let (mean, variance) = moments(builder, x, axes)?;
    let centered = builder.binary(Binary::Sub, x, mean)?;
    let deviation = builder.unary(Unary::Sqrt, variance)?;
    let epsilon = builder.scalar(builder.fact(x).dtype, 1e-9)?;
    let deviation = builder.binary(Binary::Add, deviation, epsilon)?;
    builder.binary(Binary::Div, centered, deviation)
}

/// Before opset 13 the dimensions from `axis` on are one.
pub(super) fn softmax(builder: &mut Builder, node: &mut NodeView, log: bool) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let default = if node.opset < 13 { 1 } else { -1 };
    let axis = axis(node.int("axis")?.unwrap_or(default), shape.len())?;
    if node.opset >= 13 || shape[axis + 1..].iter().all(|&extent| extent == 1) {
        return builder.emit(Op::Softmax { axis, log }, &[x]);
    }
    let mut merged = shape[..axis].to_vec();
    merged.push(shape[axis..].iter().product());
    let merged = builder.reshape(x, &merged)?;
    let result = builder.emit(Op::Softmax { axis, log }, &[merged])?;
    builder.reshape(result, &shape)
}
