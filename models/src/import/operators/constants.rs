//! Operators that are known when compiling, because all shapes are: they become constants here.

use super::super::{builder::Builder, extents::Extent, node::NodeView};
use super::shapes::counted_once;
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    infer::{MAX_EXTENT, show},
    onnx::tensor::{data_type, data_type_name},
};

pub(super) fn constant(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let value = value(builder, node)?;
    Ok(builder.constant(value))
}

pub(super) fn identity_like(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let identity = identity(builder, node)?;
    Ok(builder.constant(identity))
}

pub(super) fn range(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    if let Some(counted) = counted_range(builder, node)? {
        return Ok(counted);
    }
    let range = known_range(builder, node)?;
    Ok(builder.constant(range))
}

/// One of many attributes holds the value; which are known by the opset makes no difference.
fn value(builder: &mut Builder, node: &mut NodeView) -> Result<Tensor, Problem> {
    if let Some(tensor) = node.tensor("value", builder.folder)? {
        // In a loop's body it comes again and again.
        builder.budget.reserve_weights(&Fact::new(tensor.dtype, &tensor.shape))?;
        return Ok(tensor);
    }
    if let Some(value) = node.optional_float("value_float")? {
        return Ok(Tensor::f32(&[], &[value]));
    }
    if let Some(value) = node.int("value_int")? {
        return Ok(Tensor::i64(&[], &[value]));
    }
    if let Some(values) = node.floats("value_floats")? {
        return Ok(Tensor::f32(&[values.len()], &values));
    }
    if let Some(values) = node.ints("value_ints")? {
        return Ok(Tensor::i64(&[values.len()], &values));
    }
    node.finish()?;
    Err(Problem::Invalid("attribute 'value' is missing".into()))
}

pub(super) fn constant_of_shape(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let value = node.tensor("value", builder.folder)?.unwrap_or_else(|| Tensor::f32(&[1], &[0.0]));
    if value.elements() != 1 {
        return Err(Problem::Invalid(format!("attribute 'value' has {} elements instead of one", value.elements())));
    }
    let extents = node.extents_of(builder, 0, "input")?.unwrap_or_default();
    if !counted_once(&extents) {
        let reason = "more than one extent of the constant depends on data".into();
        return Err(Problem::DataDependent { reason });
    }
    let shape = extents.iter().map(|extent| super::super::node::extent("the shape", extent.room()));
    let shape = shape.collect::<Result<Vec<_>, _>>()?;
    let fact = Fact::new(value.dtype, &shape);
    builder.budget.reserve(&fact)?;
    let bytes = value.bytes().repeat(fact.elements());
    let made = builder.constant(Tensor::new(fact.dtype, fact.shape, bytes));
    match extents.iter().position(|extent| extent.count().is_some()) {
        Some(axis) => builder.counted_along(made, axis, extents[axis]),
        None => Ok(made),
    }
}

/// Extents `start..end`, clamped, negative ones counted from the end (opset 15).
/// A constant, but for an extent that depends on data.
pub(super) fn shape(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let rank = shape.len() as i64;
    let clamp = |value: i64| (if value < 0 { value.saturating_add(rank) } else { value }).clamp(0, rank) as usize;
    let start = clamp(node.int("start")?.unwrap_or(0));
    let end = clamp(node.int("end")?.unwrap_or(rank)).max(start);
    let extents = |builder: &mut Builder, range: std::ops::Range<usize>| {
        let extents: Vec<_> = shape[range].iter().map(|&extent| extent as i64).collect();
        builder.constant(Tensor::i64(&[extents.len()], &extents))
    };
    match builder.counted(x).filter(|bound| (start..end).contains(&bound.axis)) {
        None => Ok(extents(builder, start..end)),
        Some(bound) => {
            let (before, after) = (extents(builder, start..bound.axis), extents(builder, bound.axis + 1..end));
            let count = builder.reshape(bound.count, &[1])?;
            builder.emit(Op::Concat { axis: 0 }, &[before, count, after])
        }
    }
}

pub(super) fn size(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let Some(bound) = builder.counted(x) else {
        let elements = builder.fact(x).elements() as i64;
        return Ok(builder.constant(Tensor::i64(&[], &[elements])));
    };
    let others = builder.shape(x).iter().enumerate().filter(|(d, _)| *d != bound.axis).map(|(_, n)| n).product();
    match others {
        0 => Ok(builder.constant(Tensor::i64(&[], &[0]))),
        others => builder.scaled_count(bound.count, others),
    }
}

/// Ones on diagonal k of a matrix of the input's extents.
fn identity(builder: &mut Builder, node: &mut NodeView) -> Result<Tensor, Problem> {
    let Fact { dtype, shape, .. } = builder.fact(node.input(0)?).clone();
    let dtype = match node.int("dtype")? {
        Some(given) => i32::try_from(given).ok().and_then(data_type).ok_or_else(|| Problem::ElementType {
            found: data_type_name(given),
            supported: "floats of 16 to 64 bits, integers of 8 to 64 bits, BOOL".into(),
        })?,
        None => dtype,
    };
    let k = node.int("k")?.unwrap_or(0);
    let &[rows, columns] = shape.as_slice() else {
        return Err(Problem::Invalid(format!("an input {} is no matrix", show(&shape))));
    };
    builder.budget.reserve(&Fact::new(dtype, &shape))?;
    let (zero, one) = (super::super::builder::scalar(dtype, 0.0), super::super::builder::scalar(dtype, 1.0));
    let (Some(zero), Some(one)) = (zero, one) else { return Err(Problem::Invalid("no one".into())) };
    let mut bytes = zero.bytes().repeat(rows * columns);
    for row in 0..rows {
        let column = usize::try_from((row as i64).saturating_add(k)).ok().filter(|&column| column < columns);
        if let Some(column) = column {
            let start = (row * columns + column) * dtype.size();
            bytes[start..start + dtype.size()].copy_from_slice(one.bytes());
        }
    }
    Ok(Tensor::new(dtype, shape, bytes))
}

/// 0, 1, … below a number of elements that depends on data.
fn counted_range(builder: &mut Builder, node: &NodeView) -> Result<Option<TensorId>, Problem> {
    let [start, limit, delta] = [node.input(0)?, node.input(1)?, node.input(2)?];
    let one = |builder: &Builder, id| match builder.extents(id).as_deref() {
        Some(&[extent]) => Some(extent),
        _ => None,
    };
    let (Some(Extent::Known(0)), Some(Extent::Counted { count, room }), Some(Extent::Known(1))) =
        (one(builder, start), one(builder, limit), one(builder, delta))
    else {
        return Ok(None);
    };
    let numbers = builder.numbers(0, &[super::super::node::extent("limit", room)?])?;
    let numbers = builder.cast(numbers, builder.fact(limit).dtype)?;
    builder.bounded(numbers, 0, count).map(Some)
}

/// start, start + delta, … below limit: max(⌈(limit − start) / delta⌉, 0) elements.
fn known_range(builder: &mut Builder, node: &NodeView) -> Result<Tensor, Problem> {
    let operand = |builder: &Builder, index: usize, name: &'static str| -> Result<Tensor, Problem> {
        let tensor = node.constant(builder, index, name)?.filter(|tensor| tensor.elements() == 1).cloned();
        tensor.ok_or_else(|| Problem::Invalid(format!("input {index} ({name}) is no scalar")))
    };
    let (start, limit, delta) =
        (operand(builder, 0, "start")?, operand(builder, 1, "limit")?, operand(builder, 2, "delta")?);
    let dtype = start.dtype;
    if limit.dtype != dtype || delta.dtype != dtype {
        return Err(Problem::Invalid(format!("a range from {dtype:?} to {:?} by {:?}", limit.dtype, delta.dtype)));
    }
    let mut count = |count: f64| {
        // NaN and infinity fail here too.
        let known = (count <= MAX_EXTENT as f64).then_some(count.max(0.0) as usize);
        let known = known.ok_or_else(|| Problem::Invalid(format!("a range of {count} elements")))?;
        builder.budget.reserve(&Fact::new(dtype, &[known])).map(|()| known)
    };
    let (from, to, step) = (start.to_f64()[0], limit.to_f64()[0], delta.to_f64()[0]);
    match (dtype, start.to_i64(), limit.to_i64(), delta.to_i64()) {
        (DType::F32, ..) => {
            let values: Vec<_> =
                (0..count(((to - from) / step).ceil())?).map(|i| from as f32 + i as f32 * step as f32).collect();
            Ok(Tensor::f32(&[values.len()], &values))
        }
        (DType::F64, ..) => {
            let values: Vec<_> = (0..count(((to - from) / step).ceil())?).map(|i| from + i as f64 * step).collect();
            Ok(Tensor::from_slice(dtype, &[values.len()], &values))
        }
        // Counted and computed in f32, rounded once.
        (DType::F16, ..) => {
            let steps = 0..count(((to - from) / step).ceil())?;
            let values: Vec<_> = steps.map(|i| half::f16::from_f64(from + i as f64 * step)).collect();
            Ok(Tensor::from_slice(dtype, &[values.len()], &values))
        }
        (DType::Bf16, ..) => {
            let steps = 0..count(((to - from) / step).ceil())?;
            let values: Vec<_> = steps.map(|i| half::bf16::from_f64(from + i as f64 * step)).collect();
            Ok(Tensor::from_slice(dtype, &[values.len()], &values))
        }
        (DType::I64 | DType::I32 | DType::I16, Some(start), Some(limit), Some(delta)) => {
            let (start, delta) = (start[0], delta[0]);
            let distance = i128::from(limit[0]) - i128::from(start);
            let step = i128::from(delta);
            if step == 0 {
                return Err(Problem::Invalid("a range by steps of 0".into()));
            }
            let steps = distance / step + i128::from(distance % step != 0 && (distance < 0) == (step < 0));
            let values = (0..count(steps as f64)?).map(|i| start.wrapping_add((i as i64).wrapping_mul(delta)));
            Ok(match dtype {
                DType::I64 => from_integers(dtype, values),
                DType::I32 => from_integers(dtype, values.map(|v| v as i32)),
                _ => from_integers(dtype, values.map(|v| v as i16)),
            })
        }
        _ => Err(Problem::ElementType {
            found: format!("{dtype:?}"),
            supported: "F16, Bf16, F32, F64, I16, I32, I64".into(),
        }),
    }
}

fn from_integers<T: bytemuck::NoUninit>(dtype: DType, values: impl Iterator<Item = T>) -> Tensor {
    let values: Vec<_> = values.collect();
    Tensor::from_slice(dtype, &[values.len()], &values)
}
