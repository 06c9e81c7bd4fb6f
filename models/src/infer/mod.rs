//! Shape inference: the output facts of every [`Op`], and the rules that its operands must keep.

mod recurrent;
mod rules;
mod shape;
mod window;

pub use shape::{MAX_ELEMENTS, MAX_EXTENT, ShapeError, broadcast, check_fact, show};
pub use window::{Rounding, SamePadding, pooled_extent, same_pads, transposed_extent};

use crate::{DType, Fact, Op, op::Unary};
use recurrent::recurrent;
use rules::{
    attention, binary, check_operands, concatenated, convolution, detected, float_parameters, framed, gemm,
    grid_sampled, largest, matrix_product, padded, parametric_relu, pooled, reduced, region_pooled, same_type,
    scattered, sliced, split, suppressed, transposed,
};
use shape::{Result, elements, ensure};

/// The output facts of `op` on `inputs`.
///
/// Some operators leave outputs open: `Cast` and `BitCast` the element type; `Reshape`, `Expand`, `Slice`, `Split`, `Resize`, `Pool`,
/// `PoolIndices` and `ConvTranspose` the extents (or their number); `Frame` both. Those are taken from `declared` and checked. For all others
/// `declared` is not read, so `infer(op, inputs, outputs) == outputs` is the legality check of a node.
///
/// # Errors
/// Where operands break a rule of the operator; the message gives the shapes.
pub fn infer(op: &Op, inputs: &[&Fact], declared: &[Fact]) -> Result<Vec<Fact>> {
    check_operands(op, inputs)?;
    let x = inputs[0];
    let like = |shape: &[usize]| Fact::new(x.dtype, shape);
    let output = match op {
        Op::Conv { window, groups } => convolution(window, *groups, inputs)?,
        Op::ConvTranspose { window, groups } => transposed(window, *groups, inputs, first(declared)?)?,
        Op::BatchNormalization { .. } => {
            ensure!(x.shape.len() >= 2, "the input {} has no channel dimension", show(&x.shape));
            float_parameters(&inputs[1..], x.shape[1])?;
            x.clone()
        }
        Op::InstanceNormalization { .. } => {
            ensure!(x.shape.len() >= 3, "the input {} has no spatial dimension", show(&x.shape));
            float_parameters(&inputs[1..], x.shape[1])?;
            x.clone()
        }
        Op::GroupNormalization { groups, .. } => {
            ensure!(x.shape.len() >= 2, "the input {} has no channel dimension", show(&x.shape));
            ensure!(
                *groups > 0 && x.shape[1].is_multiple_of(*groups),
                "{} channels cannot be split into {groups} groups",
                x.shape[1]
            );
            float_parameters(&inputs[1..], x.shape[1])?;
            x.clone()
        }
        Op::LayerNormalization { axis, .. } => {
            ensure!(*axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
            let normalized: usize = x.shape[*axis..].iter().product();
            for parameter in &inputs[1..] {
                ensure!(
                    parameter.elements() == normalized,
                    "a parameter of shape {} does not fit the normalised extents {}",
                    show(&parameter.shape),
                    show(&x.shape[*axis..])
                );
            }
            x.clone()
        }
        Op::Lrn { size, .. } => {
            ensure!(x.shape.len() >= 2, "the input {} has no channel dimension", show(&x.shape));
            ensure!(*size >= 1, "size is 0");
            x.clone()
        }
        Op::Unary(Unary::IsNan | Unary::IsInf) => Fact::new(DType::Bool, &x.shape),
        Op::Unary(Unary::Not) => {
            ensure!(x.dtype == DType::Bool, "Not needs Bool, not {:?}", x.dtype);
            x.clone()
        }
        Op::Unary(_) | Op::Composite(_) | Op::Identity => x.clone(),
        Op::Binary(kind) => binary(*kind, x, inputs[1])?,
        Op::PRelu => parametric_relu(x, inputs[1])?,
        Op::Where => {
            ensure!(x.dtype == DType::Bool, "the condition is {:?}, not Bool", x.dtype);
            same_type(&inputs[1..])?;
            let shape = broadcast(&broadcast(&x.shape, &inputs[1].shape)?, &inputs[2].shape)?;
            Fact::new(inputs[1].dtype, &shape)
        }
        Op::Cast => Fact::new(first(declared)?.dtype, &x.shape),
        Op::Pool { kernel, window, .. } => pooled(kernel, window, x, first(declared)?)?,
        Op::GlobalPool { .. } => {
            ensure!(x.shape.len() >= 3, "the input {} has no spatial dimension", show(&x.shape));
            let mut shape = x.shape.clone();
            shape[2..].fill(1);
            like(&shape)
        }
        Op::Concat { axis } => concatenated(*axis, inputs)?,
        Op::Split { axis } => return split(*axis, x, declared),
        Op::Recurrent(layer) => return recurrent(layer, inputs),
        Op::Slice { starts, steps } => sliced(starts, steps, x, first(declared)?)?,
        Op::Pad { before, after, mode } => padded(before, after, *mode, x)?,
        Op::Reshape => {
            let shape = &first(declared)?.shape;
            ensure!(
                elements(shape)? == x.elements(),
                "{} elements of shape {} cannot be reshaped to {}",
                x.elements(),
                show(&x.shape),
                show(shape)
            );
            like(shape)
        }
        Op::Transpose { permutation } => {
            let mut seen = vec![false; x.shape.len()];
            let valid = permutation.iter().all(|&d| seen.get_mut(d).is_some_and(|seen| !std::mem::replace(seen, true)));
            ensure!(
                valid && permutation.len() == seen.len(),
                "{permutation:?} is no permutation of the {} dimensions of {}",
                x.shape.len(),
                show(&x.shape)
            );
            like(&permutation.iter().map(|&d| x.shape[d]).collect::<Vec<_>>())
        }
        Op::Expand => {
            let shape = &first(declared)?.shape;
            ensure!(broadcast(&x.shape, shape)? == *shape, "{} cannot be broadcast to {}", show(&x.shape), show(shape));
            like(shape)
        }
        Op::Tile { repeats } => {
            ensure!(repeats.len() == x.shape.len(), "{} repeats for rank {}", repeats.len(), x.shape.len());
            let shape = x.shape.iter().zip(repeats).map(|(&extent, &repeat)| extent.saturating_mul(repeat));
            like(&shape.collect::<Vec<_>>())
        }
        Op::Gather { axis } => {
            let indices = inputs[1];
            ensure!(*axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
            ensure!(
                matches!(indices.dtype, DType::I32 | DType::I64),
                "the indices are {:?}, not I32 or I64",
                indices.dtype
            );
            like(&[&x.shape[..*axis], &indices.shape, &x.shape[axis + 1..]].concat())
        }
        Op::MatMul => matrix_product(x, inputs[1], inputs.get(2).copied())?,
        Op::Gemm { transpose_a, transpose_b, .. } => gemm(*transpose_a, *transpose_b, inputs)?,
        Op::Softmax { axis, .. } => {
            ensure!(*axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
            x.clone()
        }
        Op::Attention { .. } => attention(inputs)?,
        Op::Reduce { kind, axes, keep } => reduced(*kind, axes, *keep, x)?,
        Op::Resize { scales, .. } => {
            let shape = &first(declared)?.shape;
            ensure!(
                scales.len() == x.shape.len() && shape.len() == x.shape.len(),
                "{} scales for rank {}",
                scales.len(),
                x.shape.len()
            );
            ensure!(scales.iter().all(|&scale| scale.is_finite() && scale > 0.0), "scales {scales:?} are not positive");
            like(shape)
        }
        Op::DepthToSpace { block, .. } => {
            ensure!(x.shape.len() == 4, "the input {} is not of rank 4", show(&x.shape));
            let (b, square) = (*block, block.saturating_mul(*block));
            ensure!(square > 0 && x.shape[1].is_multiple_of(square), "{} channels do not divide by {b}²", x.shape[1]);
            like(&[x.shape[0], x.shape[1] / square, x.shape[2].saturating_mul(b), x.shape[3].saturating_mul(b)])
        }
        Op::SpaceToDepth { block } => {
            ensure!(x.shape.len() == 4, "the input {} is not of rank 4", show(&x.shape));
            let b = *block;
            ensure!(
                b > 0 && x.shape[2].is_multiple_of(b) && x.shape[3].is_multiple_of(b),
                "the extents {} do not divide by {b}",
                show(&x.shape[2..])
            );
            like(&[x.shape[0], x.shape[1].saturating_mul(b).saturating_mul(b), x.shape[2] / b, x.shape[3] / b])
        }
        Op::BitCast => {
            let dtype = first(declared)?.dtype;
            ensure!(
                dtype.size() == x.dtype.size() && !dtype.is_narrow(),
                "the bits of {:?} do not make {dtype:?}",
                x.dtype
            );
            Fact::new(dtype, &x.shape)
        }
        Op::Scatter { .. } => scattered(inputs)?,
        Op::Cumulative { axis, .. } => {
            ensure!(*axis < x.shape.len(), "axis {axis} is outside rank {}", x.shape.len());
            x.clone()
        }
        Op::TopK { axis, k, .. } => return largest(*axis, *k, x),
        Op::NonMaxSuppression { limit, .. } => return suppressed(*limit, inputs),
        Op::Determinant => {
            let &[matrices, rows, columns] = x.shape.as_slice() else {
                return Err(ShapeError(format!("an input {} is no batch of matrices", show(&x.shape))));
            };
            ensure!(rows == columns && x.dtype.is_float(), "matrices of {rows}x{columns} {:?}", x.dtype);
            like(&[matrices])
        }
        Op::NonZero => {
            ensure!(!x.shape.is_empty(), "a scalar has no index");
            let indices = Fact::new(DType::I64, &[x.shape.len(), elements(&x.shape)?]);
            check_fact(&indices)?;
            return Ok(vec![indices, Fact::new(DType::I64, &[])]);
        }
        Op::Unique { .. } => {
            let &[n, _] = x.shape.as_slice() else {
                return Err(ShapeError(format!("an input {} is no matrix", show(&x.shape))));
            };
            let column = Fact::new(DType::I64, &[n]);
            return Ok(vec![column.clone(), column.clone(), column, Fact::new(DType::I64, &[])]);
        }
        Op::ConvInteger { window, groups } => {
            ensure!(!x.dtype.is_float() && x.dtype != DType::Bool, "the operands are {:?}, not integers", x.dtype);
            Fact { dtype: DType::I32, ..convolution(window, *groups, inputs)? }
        }
        Op::QuantizedConv { window, groups, .. } => {
            Fact { dtype: rules::sums(x), ..convolution(window, *groups, inputs)? }
        }
        Op::QuantizedMatMul => {
            let (sums, ranks) = (rules::sums(x), [x.shape.len(), inputs[1].shape.len()]);
            let batched = sums == DType::F32 || ranks[1] == 2;
            ensure!(ranks.iter().all(|&rank| rank >= 2) && batched, "ranks {ranks:?} of a quantised product");
            Fact { dtype: sums, ..matrix_product(x, inputs[1], inputs.get(2).copied())? }
        }
        Op::PackedMatMul { bits } => rules::packed(*bits, inputs)?,
        Op::GridSample { .. } => grid_sampled(x, inputs[1])?,
        Op::RoiAlign { extents, .. } => region_pooled(*extents, inputs)?,
        Op::PoolIndices { kernel, window, .. } => {
            Fact { dtype: DType::I64, ..pooled(kernel, window, x, first(declared)?)? }
        }
        Op::Frame(frame) => framed(frame, x, first(declared)?)?,
        Op::Detect(detect) => return detected(detect, inputs),
        Op::Custom(custom) => return custom.infer(inputs),
    };
    check_fact(&output)?;
    Ok(vec![output])
}

fn first(declared: &[Fact]) -> Result<&Fact> {
    declared.first().ok_or_else(|| ShapeError("the output's extents are not given".into()))
}

#[cfg(test)]
mod tests;
