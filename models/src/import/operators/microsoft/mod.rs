//! Operators of ONNX Runtime's domain `com.microsoft` that its optimiser and exporters leave in models. Their
//! definitions: ONNX Runtime, `docs/ContribOperators.md`.

pub(super) mod attention;
pub(super) mod grouped;
pub(super) mod normalization;
pub(super) mod quantized;

pub(super) use normalization::simplified;

use super::{
    super::{
        builder::Builder,
        node::{NodeView, unsupported},
    },
    products, windows,
};
use crate::{
    Op, Problem, TensorId,
    op::{Binary, Composite, Unary},
};

pub(super) fn bias_gelu(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let sum = builder.binary(Binary::Add, node.input(0)?, node.input(1)?)?;
    builder.unary(Composite::Gelu { tanh: false }, sum)
}

pub(super) fn fast_gelu(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let mut x = node.input(0)?;
    if let Some(bias) = node.optional(1) {
        x = builder.binary(Binary::Add, x, bias)?;
    }
    builder.unary(Composite::Gelu { tanh: true }, x)
}

pub(super) fn quick_gelu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.702)?;
    builder.unary(Composite::Swish { alpha }, node.input(0)?)
}

pub(super) fn fused_gemm(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let parameters = ["activation_alpha", "activation_beta"].map(|name| node.optional_float(name));
    let [alpha, beta] = parameters;
    let parameters = [alpha?, beta?];
    node.ignore(&["activation_gamma"]);
    let activation = node.string("activation", "")?;
    let product = products::gemm(builder, node)?;
    activated(builder, product, &activation, &parameters)
}

/// alpha·op(a)·op(b). `transBatch…` moves the first dimension before the last: `[m, batch…, k]` is read as `[batch…, m, k]`.
pub(super) fn fused_product(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
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
pub(super) fn fused_convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let activation = node.string("activation", "")?;
    let parameters: Vec<_> = node.floats("activation_params")?.unwrap_or_default().into_iter().map(Some).collect();
    let residual = node.optional(3);
    node.inputs.truncate(3);
    let mut y = windows::convolution(builder, node)?;
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
    let op: Op = match activation {
        "" => return Ok(x),
        "Relu" => Unary::Relu.into(),
        "Tanh" => Unary::Tanh.into(),
        "Sigmoid" => Unary::Sigmoid.into(),
        "Softplus" => Unary::Softplus.into(),
        "LeakyRelu" => Composite::LeakyRelu { alpha: parameter(0, 0.01) }.into(),
        "Elu" => Composite::Elu { alpha: parameter(0, 1.0) }.into(),
        "HardSigmoid" => Composite::HardSigmoid { alpha: parameter(0, 0.2), beta: parameter(1, 0.5) }.into(),
        "HardSwish" => Composite::HardSwish.into(),
        "Clip" => {
            Composite::Clip { min: Some(parameter(0, f32::MIN).into()), max: Some(parameter(1, f32::MAX).into()) }
                .into()
        }
        other => {
            let known = "Relu, Tanh, Sigmoid, Softplus, LeakyRelu, Elu, HardSigmoid, HardSwish, Clip";
            return Err(unsupported("activation", other, known));
        }
    };
    builder.unary(op, x)
}
