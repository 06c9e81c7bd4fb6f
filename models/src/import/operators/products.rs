//! Matrix products and determinants.

use super::super::{builder::Builder, node::NodeView};
use crate::{Op, Problem, TensorId};

/// Of matrices `[…, n, n]`.
pub(super) fn determinant(builder: &mut Builder, x: TensorId) -> Result<TensorId, Problem> {
    let shape = builder.shape(x).to_vec();
    let Some((batch, matrix)) = shape.split_last_chunk::<2>() else {
        return Err(Problem::Invalid("the input is no matrix".into()));
    };
    let matrices = builder.reshape(x, &[batch.iter().product(), matrix[0], matrix[1]])?;
    let determinants = builder.emit(Op::Determinant, &[matrices])?;
    builder.reshape(determinants, batch)
}

pub(super) fn gemm(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    if node.opset < 7 {
        // C is broadcast by NumPy's rules anyway.
        node.ignore(&["broadcast"]);
    }
    let op = Op::Gemm {
        alpha: node.float("alpha", 1.0)?,
        beta: node.float("beta", 1.0)?,
        transpose_a: node.flag("transA", false)?,
        transpose_b: node.flag("transB", false)?,
    };
    let mut inputs = vec![node.input(0)?, node.input(1)?];
    inputs.extend(node.optional(2));
    builder.emit(op, &inputs)
}
