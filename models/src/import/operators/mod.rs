//! One function for each ONNX operator: attributes resolved for the model's opset, then nodes emitted.

mod attention;
mod constants;
mod cumulative;
pub(super) mod custom;
mod einsum;
mod indexing;
mod losses;
mod microsoft;
mod movement;
mod normalization;
mod pointwise;
mod products;
mod quantization;
mod recurrent;
mod reduction;
mod resample;
mod resize;
mod sampling;
mod scatter;
mod selection;
mod sequences;
mod shapes;
mod signal;
mod table;
mod windows;

use super::{
    builder::Builder,
    extents::Computed,
    node::{NodeView, extent},
};
use crate::{Op, Problem, Tensor, TensorId, onnx::proto::NodeProto, op::Binary};
pub(super) use table::{Importer, ONNX};
pub use table::{Operator, operators};

/// The operator that a node names, in a version that the table has.
pub(super) fn of(node: &NodeProto, opset: i64) -> Result<&'static Operator, Problem> {
    let default = matches!(node.domain.as_str(), "" | ONNX);
    let Some(operator) = Operator::find(&node.domain, &node.op_type) else {
        let hint = match default || operators().iter().any(|operator| operator.domain == node.domain) {
            true => String::new(),
            false => {
                format!(
                    ", nor is any other of domain '{}'; export the model with operators of ai.onnx, or describe it for --operators \
                     (OPERATORS.md)",
                    node.domain
                )
            }
        };
        return Err(Problem::Operator { hint });
    };
    if default && operator.version(opset).is_none() {
        let first = operator.since.first().copied().unwrap_or(opset);
        let hint = format!(" in version {opset} of the operator set, but from version {first} on");
        return Err(Problem::Operator { hint });
    }
    Ok(operator)
}

/// Tensors joined along an axis. Where some have a number of elements along it that depends on data, what is there moves
/// together.
fn concat(builder: &mut Builder, tensors: &[TensorId], axis: usize) -> Result<TensorId, Problem> {
    // What has no elements along the axis adds nothing.
    if let Some(&kept) = tensors.iter().find(|&&id| builder.shape(id).get(axis) != Some(&0)) {
        let nothing = |&id: &TensorId| {
            let mut shape = builder.shape(id).to_vec();
            let empty = shape.get(axis) == Some(&0) && builder.counted(id) == builder.counted(kept);
            shape.iter_mut().zip(builder.shape(kept)).skip(axis).take(1).for_each(|(extent, &kept)| *extent = kept);
            empty && shape == builder.shape(kept)
        };
        let adding: Vec<_> = tensors.iter().copied().filter(|id| !nothing(id)).collect();
        if adding.len() < tensors.len() {
            return concat(builder, &adding, axis);
        }
    }
    if let [only] = tensors {
        return Ok(*only);
    }
    let counted = || tensors.iter().filter_map(|&id| builder.counted(id));
    // Other axes are for the general rule, alone or mixed with this one.
    if !counted().any(|counted| counted.axis == axis) || counted().any(|counted| counted.axis != axis) {
        return builder.emit(Op::Concat { axis }, tensors);
    }
    let joined = builder.with_all_room(tensors, |builder| builder.emit(Op::Concat { axis }, tensors))?;
    let positions = indexing::positions(builder, 1, 0, builder.shape(joined)[axis])?;
    let (mut source, mut end) = (positions, builder.constant(Tensor::i64(&[], &[0])));
    let zero = end;
    // Element i of all that is there lies as many places later as is missing before it.
    for (number, &id) in tensors.iter().enumerate() {
        let count = builder.count_along(id, axis);
        end = builder.binary(Binary::Add, end, count)?;
        if builder.counted(id).is_some() && number + 1 < tensors.len() {
            let room = builder.constant(Tensor::i64(&[], &[builder.shape(id)[axis] as i64]));
            let missing = builder.binary(Binary::Sub, room, count)?;
            let later = builder.binary(Binary::GreaterOrEqual, positions, end)?;
            let shift = builder.emit(Op::Where, &[later, missing, zero])?;
            source = builder.binary(Binary::Add, source, shift)?;
        }
    }
    let moved = match source == positions {
        true => joined,
        false => builder.emit(Op::Gather { axis }, &[joined, source])?,
    };
    let summand = |&id| (builder.counted(id).map(|counted| counted.count), builder.shape(id)[axis]);
    let summands = tensors.iter().map(summand).collect();
    let count = *builder.computed.entry(Computed::Sum(summands)).or_insert(end);
    builder.bounded(moved, axis, count)
}

/// An integer attribute that counts something; a default of 0 means that it is required.
pub(super) fn count(node: &mut NodeView, name: &str, default: usize) -> Result<usize, Problem> {
    let value = node.int(name)?.map_or(Ok(default), |value| extent(name, value))?;
    match value {
        0 => Err(Problem::Invalid(format!("attribute '{name}' is missing or 0"))),
        value => Ok(value),
    }
}
