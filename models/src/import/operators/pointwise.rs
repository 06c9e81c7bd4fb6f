//! Element-wise operators.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    onnx::tensor::{data_type, data_type_name},
    op::{Binary, Composite, Unary},
};
use floe_kernels::narrow::largest;

/// A function of one input.
pub(super) fn unary(builder: &mut Builder, node: &mut NodeView, op: impl Into<Op>) -> Result<TensorId, Problem> {
    builder.unary(op, node.input(0)?)
}

/// A function of two inputs.
pub(super) fn binary(builder: &mut Builder, node: &mut NodeView, op: Binary) -> Result<TensorId, Problem> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let b = legacy_broadcast(builder, node, a, b)?;
    builder.binary(op, a, b)
}

pub(super) fn is_infinite(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (positive, negative) = (node.flag("detect_positive", true)?, node.flag("detect_negative", true)?);
    if positive && negative {
        return unary(builder, node, Unary::IsInf);
    }
    let x = node.input(0)?;
    // Nothing equals NaN.
    let infinity = if positive {
        f64::INFINITY
    } else if negative {
        f64::NEG_INFINITY
    } else {
        f64::NAN
    };
    let infinity = builder.scalar(builder.fact(x).dtype, infinity)?;
    builder.binary(Binary::Equal, x, infinity)
}

pub(super) fn leaky_relu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 0.01)?;
    unary(builder, node, Composite::LeakyRelu { alpha })
}

pub(super) fn elu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    unary(builder, node, Composite::Elu { alpha })
}

pub(super) fn selu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (alpha, gamma) = (node.float("alpha", 1.673_263_2)?, node.float("gamma", 1.050_701)?);
    unary(builder, node, Composite::Selu { alpha, gamma })
}

pub(super) fn celu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    unary(builder, node, Composite::Celu { alpha })
}

pub(super) fn thresholded_relu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    unary(builder, node, Composite::ThresholdedRelu { alpha })
}

pub(super) fn hard_sigmoid(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (alpha, beta) = (node.float("alpha", 0.2)?, node.float("beta", 0.5)?);
    unary(builder, node, Composite::HardSigmoid { alpha, beta })
}

pub(super) fn swish(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    unary(builder, node, Composite::Swish { alpha })
}

pub(super) fn shrink(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (bias, lambda) = (node.float("bias", 0.0)?, node.float("lambd", 0.5)?);
    unary(builder, node, Composite::Shrink { bias, lambda })
}

pub(super) fn gelu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let tanh = match node.string("approximate", "none")?.as_str() {
        "none" => false,
        "tanh" => true,
        other => return Err(unsupported("approximate", other, "none, tanh")),
    };
    unary(builder, node, Composite::Gelu { tanh })
}

pub(super) fn modulo(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let op = if node.flag("fmod", false)? { Binary::Fmod } else { Binary::Mod };
    binary(builder, node, op)
}

pub(super) fn shift(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let op = match node.string("direction", "")?.as_str() {
        "LEFT" => Binary::ShiftLeft,
        "RIGHT" => Binary::ShiftRight,
        other => return Err(unsupported("direction", format!("'{other}'"), "LEFT, RIGHT")),
    };
    binary(builder, node, op)
}

/// Before opset 7 a vector of slopes holds one a channel.
pub(super) fn parametric_relu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    if node.opset < 7 && builder.shape(b).len() == 1 && builder.shape(a).len() > 1 {
        let mut shape = vec![1; builder.shape(a).len() - 1];
        shape[0] = builder.shape(b)[0];
        let b = builder.reshape(b, &shape)?;
        return builder.emit(Op::PRelu, &[a, b]);
    }
    builder.emit(Op::PRelu, &[a, b])
}

/// Before opset 7 the second operand was broadcast only on request, with its first dimension put at `axis`.
fn legacy_broadcast(builder: &mut Builder, node: &mut NodeView, a: TensorId, b: TensorId) -> Result<TensorId, Problem> {
    if node.opset >= 7 {
        return Ok(b);
    }
    let (broadcast, first) = (node.flag("broadcast", false)?, node.int("axis")?);
    let (rank, mut shape) = (builder.shape(a).len(), builder.shape(b).to_vec());
    let Some(first) = first.filter(|_| broadcast) else { return Ok(b) };
    let trailing = rank.saturating_sub(axis(first, rank)? + shape.len());
    shape.extend(std::iter::repeat_n(1, trailing));
    builder.reshape(b, &shape)
}

pub(super) fn chain(builder: &mut Builder, node: &NodeView, op: Binary) -> Result<TensorId, Problem> {
    let inputs = node.all_inputs()?;
    inputs[1..].iter().try_fold(inputs[0], |sum, &input| builder.binary(op, sum, input))
}

pub(super) fn mean(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let sum = chain(builder, node, Binary::Add)?;
    let count = builder.scalar(builder.fact(sum).dtype, node.inputs.len() as f64)?;
    builder.binary(Binary::Div, sum, count)
}

/// The exponent may be of another type; the result has the base's.
pub(super) fn power(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let (base, exponent) = (node.input(0)?, node.input(1)?);
    let (dtype, other) = (builder.fact(base).dtype, builder.fact(exponent).dtype);
    if !dtype.is_float() && other.is_float() {
        let base = builder.cast(base, other)?;
        let power = builder.binary(Binary::Pow, base, exponent)?;
        return builder.cast(power, dtype);
    }
    let exponent = builder.cast(exponent, dtype)?;
    builder.binary(Binary::Pow, base, exponent)
}

/// Bounds are attributes before opset 11, inputs after; inputs that are not constant become Max and Min.
pub(super) fn clip(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let (min, max) = (node.optional_float("min")?.map(f64::from), node.optional_float("max")?.map(f64::from));
    if node.opset < 11 {
        return builder.unary(Composite::Clip { min, max }, x);
    }
    let bound = |builder: &Builder, index: usize| -> Result<Option<f64>, ()> {
        let Some(id) = node.optional(index) else { return Ok(None) };
        let tensor = builder.graph.constant(id).filter(|tensor| tensor.elements() == 1).ok_or(())?;
        // Beyond 2⁵³ an integer is not exact in f64.
        let value = tensor.to_f64()[0];
        if !tensor.dtype.is_float() && value.abs() >= (1_u64 << 53) as f64 { Err(()) } else { Ok(Some(value)) }
    };
    if let (Ok(min), Ok(max)) = (bound(builder, 1), bound(builder, 2)) {
        return builder.unary(Composite::Clip { min, max }, x);
    }
    let mut value = x;
    if let Some(min) = node.optional(1) {
        value = builder.binary(Binary::Max, value, min)?;
    }
    if let Some(max) = node.optional(2) {
        value = builder.binary(Binary::Min, value, max)?;
    }
    Ok(value)
}

pub(super) fn cast(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let saturate = saturates(node)?;
    let to = node.int("to")?.ok_or_else(|| Problem::Invalid("attribute 'to' is missing".into()))?;
    let dtype = i32::try_from(to).ok().and_then(data_type);
    let dtype = dtype.ok_or_else(|| {
        let supported = "floats of 8 to 64 bits but FLOAT8E8M0, integers of 4 to 64 bits, BOOL";
        unsupported("to", data_type_name(to), supported)
    })?;
    converted(builder, node.input(0)?, dtype, saturate)
}

/// Attribute `saturate`. `round_mode` matters to FLOAT8E8M0 only.
pub(super) fn saturates(node: &mut NodeView) -> Result<bool, Problem> {
    node.ignore(&["round_mode"]);
    node.flag("saturate", true)
}

/// A cast as ONNX defines it. To floats of 8 bits it may saturate: numbers beyond their largest, infinities too, become the
/// largest.
pub(super) fn converted(
    builder: &mut Builder,
    mut x: TensorId,
    dtype: DType,
    saturate: bool,
) -> Result<TensorId, Problem> {
    let from = builder.fact(x).dtype;
    if let Some(largest) = largest(dtype).filter(|_| saturate && from != dtype) {
        // Only floats hold the bounds of all, and only those that are computed in are clamped.
        if !from.is_float() {
            x = builder.cast(x, DType::F32)?;
        }
        x = builder.unary(Composite::Clip { min: Some(-largest), max: Some(largest) }, x)?;
    }
    if matches!(dtype, DType::I4 | DType::U4) && (from.is_float() || from.is_float8()) {
        // They keep an integer's lowest bits, where a cast from floats saturates as quantising wants it.
        x = builder.cast(x, DType::I32)?;
    }
    builder.cast(x, dtype)
}

pub(super) fn cast_like(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let saturate = saturates(node)?;
    let dtype: DType = builder.fact(node.input(1)?).dtype;
    converted(builder, node.input(0)?, dtype, saturate)
}

/// The same bits as another type of the same size.
pub(super) fn bit_cast(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let to = node.int("to")?.ok_or_else(|| Problem::Invalid("attribute 'to' is missing".into()))?;
    let dtype = i32::try_from(to).ok().and_then(data_type);
    let dtype = dtype.ok_or_else(|| {
        unsupported("to", data_type_name(to), "floats of 16 to 64 bits, integers of 8 to 64 bits, BOOL")
    })?;
    let fact = Fact::new(dtype, builder.shape(x));
    if builder.fact(x).dtype == dtype {
        return Ok(x);
    }
    builder.emit_as(Op::BitCast, &[x], fact)
}
