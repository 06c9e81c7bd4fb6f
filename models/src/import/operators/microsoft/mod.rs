//! Operators of ONNX Runtime's domain `com.microsoft` that its optimiser and exporters leave in models. Their
//! definitions: ONNX Runtime, `docs/ContribOperators.md`.

mod attention;
mod grouped;
mod normalization;
mod quantized;

pub(super) use normalization::simplified;

use super::super::{
    builder::Builder,
    node::{NodeView, unsupported},
};
use crate::{
    Op, Problem, TensorId,
    op::{Binary, Unary},
};

/// The domain.
pub(super) const DOMAIN: &str = "com.microsoft";

/// Imports the node where it is one of these operators.
pub(super) fn import(builder: &mut Builder, node: &mut NodeView) -> Result<Option<Vec<TensorId>>, Problem> {
    if let Some(outputs) = attention::import(builder, node)? {
        return Ok(Some(outputs));
    }
    if node.op_type == "GroupQueryAttention" {
        return grouped::import(builder, node).map(Some);
    }
    if let Some(outputs) = normalization::import(builder, node)? {
        return Ok(Some(outputs));
    }
    if let Some(outputs) = quantized::import(builder, node)? {
        return Ok(Some(outputs));
    }
    let output = match node.op_type.as_str() {
        "Gelu" => builder.unary(Unary::Gelu { tanh: false }, node.input(0)?)?,
        "BiasGelu" => {
            let sum = builder.binary(Binary::Add, node.input(0)?, node.input(1)?)?;
            builder.unary(Unary::Gelu { tanh: false }, sum)?
        }
        "FastGelu" => {
            let mut x = node.input(0)?;
            if let Some(bias) = node.optional(1) {
                x = builder.binary(Binary::Add, x, bias)?;
            }
            builder.unary(Unary::Gelu { tanh: true }, x)?
        }
        "QuickGelu" => {
            let alpha = node.float("alpha", 1.702)?;
            builder.unary(Unary::Swish { alpha }, node.input(0)?)?
        }
        "FusedMatMul" | "TransposeMatMul" => fused_product(builder, node)?,
        "FusedGemm" => {
            let parameters = ["activation_alpha", "activation_beta"].map(|name| node.optional_float(name));
            let [alpha, beta] = parameters;
            let parameters = [alpha?, beta?];
            node.ignore(&["activation_gamma"]);
            let activation = node.string("activation", "")?;
            let product = delegated(builder, node, "Gemm")?;
            activated(builder, product, &activation, &parameters)?
        }
        "FusedConv" => fused_convolution(builder, node)?,
        // As in ai.onnx.
        "GatherND" | "GridSample" | "Pad" | "Range" | "Trilu" => {
            let operator = node.op_type.clone();
            delegated(builder, node, &operator)?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![output]))
}

/// Imports the node as an operator of the default domain; gives its first output.
fn delegated(builder: &mut Builder, node: &mut NodeView, op_type: &str) -> Result<TensorId, Problem> {
    let domain = std::mem::take(&mut node.domain);
    let own = std::mem::replace(&mut node.op_type, op_type.into());
    let result = super::import(builder, node);
    (node.domain, node.op_type) = (domain, own);
    result.map(|outputs| outputs[0])
}

/// alpha·op(a)·op(b). `transBatch…` moves the first dimension before the last: `[m, batch…, k]` is read as `[batch…, m, k]`.
fn fused_product(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    let mut operands = Vec::new();
    for (index, transpose, batch) in [(0, "transA", "transBatchA"), (1, "transB", "transBatchB")] {
        let mut x = node.input(index)?;
        let rank = builder.shape(x).len();
        let (transpose, batch) = (node.flag(transpose, false)?, node.flag(batch, false)?);
        if rank >= 2 && (transpose || batch) {
            let mut permutation: Vec<usize> = (0..rank).collect();
            if batch {
                permutation[..rank - 1].rotate_left(1);
            }
            if transpose {
                permutation.swap(rank - 2, rank - 1);
            }
            x = builder.emit(Op::Transpose { permutation }, &[x])?;
        }
        operands.push(x);
    }
    let product = builder.emit(Op::MatMul, &operands)?;
    if alpha == 1.0 {
        return Ok(product);
    }
    let factor = builder.scalar(builder.fact(product).dtype, alpha.into())?;
    builder.binary(Binary::Mul, product, factor)
}

/// activation(conv(x, w) + bias + z).
fn fused_convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let activation = node.string("activation", "")?;
    let parameters: Vec<_> = node.floats("activation_params")?.unwrap_or_default().into_iter().map(Some).collect();
    let residual = node.optional(3);
    node.inputs.truncate(3);
    let mut y = delegated(builder, node, "Conv")?;
    if let Some(residual) = residual {
        y = builder.binary(Binary::Add, y, residual)?;
    }
    activated(builder, y, &activation, &parameters)
}

fn activated(
    builder: &mut Builder,
    x: TensorId,
    activation: &str,
    parameters: &[Option<f32>],
) -> Result<TensorId, Problem> {
    let parameter = |index: usize, default: f32| parameters.get(index).copied().flatten().unwrap_or(default);
    let op = match activation {
        "" => return Ok(x),
        "Relu" => Unary::Relu,
        "Tanh" => Unary::Tanh,
        "Sigmoid" => Unary::Sigmoid,
        "Softplus" => Unary::Softplus,
        "LeakyRelu" => Unary::LeakyRelu { alpha: parameter(0, 0.01) },
        "Elu" => Unary::Elu { alpha: parameter(0, 1.0) },
        "HardSigmoid" => Unary::HardSigmoid { alpha: parameter(0, 0.2), beta: parameter(1, 0.5) },
        "HardSwish" => Unary::HardSwish,
        "Clip" => Unary::Clip { min: Some(parameter(0, f32::MIN).into()), max: Some(parameter(1, f32::MAX).into()) },
        other => {
            let known = "Relu, Tanh, Sigmoid, Softplus, LeakyRelu, Elu, HardSigmoid, HardSwish, Clip";
            return Err(unsupported("activation", other, known));
        }
    };
    builder.unary(op, x)
}
