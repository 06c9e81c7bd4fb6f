//! Element-wise operators.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, unsupported},
};
use crate::{
    DType, Fact, Op, Problem, TensorId,
    onnx::tensor::{data_type, data_type_name},
    op::{Binary, Unary},
};

/// Imports the node where it is an element-wise operator.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    let output = if let Some(op) = unary(node)? {
        builder.unary(op, node.input(0)?)?
    } else if let Some(op) = binary(node)? {
        let (a, b) = (node.input(0)?, node.input(1)?);
        let b = legacy_broadcast(builder, node, a, b)?;
        builder.binary(op, a, b)?
    } else {
        match node.op_type.as_str() {
            "Sum" => chain(builder, node, Binary::Add)?,
            "Min" => chain(builder, node, Binary::Min)?,
            "Max" => chain(builder, node, Binary::Max)?,
            "Mean" => mean(builder, node)?,
            "Pow" => power(builder, node)?,
            "Clip" => clip(builder, node)?,
            "Where" => builder.emit(Op::Where, &node.all_inputs()?)?,
            "Cast" => cast(builder, node)?,
            "CastLike" => cast_like(builder, node)?,
            "BitCast" => bit_cast(builder, node)?,
            _ => return Ok(None),
        }
    };
    Ok(Some(vec![output]))
}

fn unary(node: &mut NodeView) -> Result<Option<Unary>, Problem> {
    Ok(Some(match node.op_type.as_str() {
        "Abs" => Unary::Abs,
        "Neg" => Unary::Neg,
        "Sign" => Unary::Sign,
        "Floor" => Unary::Floor,
        "Ceil" => Unary::Ceil,
        "Round" => Unary::Round,
        "Sqrt" => Unary::Sqrt,
        "Reciprocal" => Unary::Reciprocal,
        "Exp" => Unary::Exp,
        "Log" => Unary::Log,
        "Erf" => Unary::Erf,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "Relu" => Unary::Relu,
        "Softplus" => Unary::Softplus,
        "Softsign" => Unary::Softsign,
        "Sin" => Unary::Sin,
        "Cos" => Unary::Cos,
        "Tan" => Unary::Tan,
        "Asin" => Unary::Asin,
        "Acos" => Unary::Acos,
        "Atan" => Unary::Atan,
        "Sinh" => Unary::Sinh,
        "Cosh" => Unary::Cosh,
        "Asinh" => Unary::Asinh,
        "Acosh" => Unary::Acosh,
        "Atanh" => Unary::Atanh,
        "Not" => Unary::Not,
        "BitwiseNot" => Unary::BitNot,
        "IsNaN" => Unary::IsNan,
        "IsInf" => Unary::IsInf {
            positive: node.flag("detect_positive", true)?,
            negative: node.flag("detect_negative", true)?,
        },
        "LeakyRelu" => Unary::LeakyRelu { alpha: node.float("alpha", 0.01)? },
        "Elu" => Unary::Elu { alpha: node.float("alpha", 1.0)? },
        "Selu" => Unary::Selu { alpha: node.float("alpha", 1.673_263_2)?, gamma: node.float("gamma", 1.050_701)? },
        "Celu" => Unary::Celu { alpha: node.float("alpha", 1.0)? },
        "ThresholdedRelu" => Unary::ThresholdedRelu { alpha: node.float("alpha", 1.0)? },
        "HardSigmoid" => Unary::HardSigmoid { alpha: node.float("alpha", 0.2)?, beta: node.float("beta", 0.5)? },
        "HardSwish" => Unary::HardSwish,
        "Mish" => Unary::Mish,
        "Swish" => Unary::Swish { alpha: node.float("alpha", 1.0)? },
        "Shrink" => Unary::Shrink { bias: node.float("bias", 0.0)?, lambda: node.float("lambd", 0.5)? },
        "Gelu" => match node.string("approximate", "none")?.as_str() {
            "none" => Unary::Gelu { tanh: false },
            "tanh" => Unary::Gelu { tanh: true },
            other => return Err(unsupported("approximate", other, "none, tanh")),
        },
        _ => return Ok(None),
    }))
}

fn binary(node: &mut NodeView) -> Result<Option<Binary>, Problem> {
    Ok(Some(match node.op_type.as_str() {
        "Add" => Binary::Add,
        "Sub" => Binary::Sub,
        "Mul" => Binary::Mul,
        "Div" => Binary::Div,
        "Mod" => match node.flag("fmod", false)? {
            true => Binary::Fmod,
            false => Binary::Mod,
        },
        "Equal" => Binary::Equal,
        "Less" => Binary::Less,
        "LessOrEqual" => Binary::LessOrEqual,
        "Greater" => Binary::Greater,
        "GreaterOrEqual" => Binary::GreaterOrEqual,
        "And" => Binary::And,
        "Or" => Binary::Or,
        "Xor" => Binary::Xor,
        "BitwiseAnd" => Binary::BitAnd,
        "BitwiseOr" => Binary::BitOr,
        "BitwiseXor" => Binary::BitXor,
        "BitShift" => match node.string("direction", "")?.as_str() {
            "LEFT" => Binary::ShiftLeft,
            "RIGHT" => Binary::ShiftRight,
            other => return Err(unsupported("direction", format!("'{other}'"), "LEFT, RIGHT")),
        },
        "PRelu" => Binary::PRelu,
        _ => return Ok(None),
    }))
}

/// Before opset 7 the second operand was broadcast only on request, with its first dimension put at `axis`.
fn legacy_broadcast(builder: &mut Builder, node: &mut NodeView, a: TensorId, b: TensorId) -> Result<TensorId, Problem> {
    if node.opset >= 7 {
        return Ok(b);
    }
    if node.op_type == "PRelu" && builder.shape(b).len() == 1 && builder.shape(a).len() > 1 {
        // One slope a channel.
        let mut shape = vec![1; builder.shape(a).len() - 1];
        shape[0] = builder.shape(b)[0];
        return builder.reshape(b, &shape);
    }
    let (broadcast, first) = (node.flag("broadcast", false)?, node.int("axis")?);
    let (rank, mut shape) = (builder.shape(a).len(), builder.shape(b).to_vec());
    let Some(first) = first.filter(|_| broadcast) else { return Ok(b) };
    let trailing = rank.saturating_sub(axis(first, rank)? + shape.len());
    shape.extend(std::iter::repeat_n(1, trailing));
    builder.reshape(b, &shape)
}

fn chain(builder: &mut Builder, node: &NodeView, op: Binary) -> Result<TensorId, Problem> {
    let inputs = node.all_inputs()?;
    inputs[1..].iter().try_fold(inputs[0], |sum, &input| builder.binary(op, sum, input))
}

fn mean(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let sum = chain(builder, node, Binary::Add)?;
    let count = builder.scalar(builder.fact(sum).dtype, node.inputs.len() as f64)?;
    builder.binary(Binary::Div, sum, count)
}

/// The exponent may be of another type; the result has the base's.
fn power(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
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
fn clip(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let (min, max) = (node.optional_float("min")?.map(f64::from), node.optional_float("max")?.map(f64::from));
    if node.opset < 11 {
        return builder.unary(Unary::Clip { min, max }, x);
    }
    let bound = |builder: &Builder, index: usize| -> Result<Option<f64>, ()> {
        let Some(id) = node.optional(index) else { return Ok(None) };
        let tensor = builder.graph.constant(id).filter(|tensor| tensor.elements() == 1).ok_or(())?;
        // Beyond 2⁵³ an integer is not exact in f64.
        let value = tensor.to_f64()[0];
        if !tensor.dtype.is_float() && value.abs() >= (1_u64 << 53) as f64 { Err(()) } else { Ok(Some(value)) }
    };
    if let (Ok(min), Ok(max)) = (bound(builder, 1), bound(builder, 2)) {
        return builder.unary(Unary::Clip { min, max }, x);
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

fn cast(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    // Both attributes matter to 8-bit floats only.
    node.ignore(&["saturate", "round_mode"]);
    let to = node.int("to")?.ok_or_else(|| Problem::Invalid("attribute 'to' is missing".into()))?;
    let dtype = i32::try_from(to).ok().and_then(data_type);
    let dtype = dtype.ok_or_else(|| {
        unsupported("to", data_type_name(to), "floats of 16 to 64 bits, integers of 8 to 64 bits, BOOL")
    })?;
    builder.cast(node.input(0)?, dtype)
}

fn cast_like(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    node.ignore(&["saturate", "round_mode"]);
    let dtype: DType = builder.fact(node.input(1)?).dtype;
    builder.cast(node.input(0)?, dtype)
}

/// The same bits as another type of the same size.
fn bit_cast(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let to = node.int("to")?.ok_or_else(|| Problem::Invalid("attribute 'to' is missing".into()))?;
    let dtype = i32::try_from(to).ok().and_then(data_type);
    let dtype = dtype.ok_or_else(|| {
        unsupported("to", data_type_name(to), "floats of 16 to 64 bits, integers of 8 to 64 bits, BOOL")
    })?;
    let fact = Fact { dtype, shape: builder.shape(x).to_vec() };
    if builder.fact(x).dtype == dtype {
        return Ok(x);
    }
    builder.emit_as(Op::BitCast, &[x], fact)
}
