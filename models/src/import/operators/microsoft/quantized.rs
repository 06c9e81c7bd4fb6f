//! Operators on quantised tensors that ONNX Runtime's quantiser leaves besides those of ai.onnx.
//!
//! Products are exact sums of integers. Everything else is computed on the values that the integers stand for, in f32, and
//! rounded once, halves to even.

use super::super::{
    super::{builder::Builder, node::NodeView},
    normalization,
    quantization::{
        check_quantised, dequantized, dynamic_quantize, integer_product, quantized, requantized, row_parameter,
    },
    reduction, windows,
};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId,
    infer::show,
    op::{Binary, Cell, Composite, Reduction, Unary},
};

/// The values of the quantised input at a position, which its scale and zero point follow.
fn values(builder: &mut Builder, node: &NodeView, index: usize) -> Result<TensorId, Problem> {
    dequantized(builder, node.input(index)?, node.input(index + 1)?, node.optional(index + 2), DType::F32)
}

/// Values as integers: the scale at a position, then the zero point; without one the type is that of input 0.
fn integers(builder: &mut Builder, node: &NodeView, x: TensorId, index: usize) -> Result<TensorId, Problem> {
    let zero = node.optional(index + 1);
    let dtype = builder.fact(zero.map_or_else(|| node.input(0), Ok)?).dtype;
    quantized(builder, x, node.input(index)?, zero, check_quantised(dtype)?)
}

/// Inputs x and what belongs to the output.
fn unary(
    builder: &mut Builder,
    node: &mut NodeView,
    work: impl FnOnce(&mut Builder, &mut NodeView, TensorId) -> Result<TensorId, Problem>,
) -> Result<TensorId, Problem> {
    let x = values(builder, node, 0)?;
    let inputs = node.inputs.clone();
    let result = work(builder, node, x)?;
    node.inputs = inputs;
    integers(builder, node, result, 3)
}

/// The importer of an operator of ai.onnx.
type Import = fn(&mut Builder, &mut NodeView) -> Result<TensorId, Problem>;

/// An operator of ai.onnx, with the node's attributes, on one input.
fn on(builder: &mut Builder, node: &mut NodeView, operator: Import, x: TensorId) -> Result<TensorId, Problem> {
    node.inputs = vec![Some(x)];
    operator(builder, node)
}

pub(in super::super) fn sigmoid(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    unary(builder, node, |builder, _, x| builder.unary(Unary::Sigmoid, x))
}

pub(in super::super) fn leaky_relu(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    unary(builder, node, |builder, node, x| {
        let alpha = node.float("alpha", 0.01)?;
        builder.unary(Composite::LeakyRelu { alpha }, x)
    })
}

pub(in super::super) fn softmax(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    unary(builder, node, |builder, node, x| {
        // Before opset 13 the dimensions from the axis on are one.
        node.opset = node.int("opset")?.unwrap_or(node.opset);
        on(builder, node, |builder, node| normalization::softmax(builder, node, false), x)
    })
}

pub(in super::super) fn mean(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let mean: Import = |builder, node| reduction::reduce(builder, node, Reduction::Mean, 18);
    unary(builder, node, |builder, node, x| on(builder, node, mean, x))
}

pub(in super::super) fn average_pool(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    unary(builder, node, |builder, node, x| pooled(builder, node, windows::average_pool, x))
}

pub(in super::super) fn integer_to_float(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    let (scales, zeros) = ([node.input(2)?, node.input(3)?], [node.optional(4), node.optional(5)]);
    float_product(builder, [a, b], scales, zeros, node.optional(6))
}

pub(in super::super) fn dynamic_product(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let [a, scale, zero] = dynamic_quantize(builder, node.input(0)?)?;
    let (b, b_scale, b_zero) = (node.input(1)?, node.input(2)?, node.optional(3));
    float_product(builder, [a, b], [scale, b_scale], [Some(zero), b_zero], node.optional(4))
}

/// Means of whole planes, rounded once as ONNX Runtime does: the sum of integers is exact in f32 up to 65,793 of them, and one
/// factor makes it an integer of the output. Many means lie halfway between two.
pub(in super::super) fn global_average(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let (x, zero) = (node.input(0)?, node.optional(4));
    let shape = builder.shape(x).to_vec();
    let dtype = builder.fact(zero.unwrap_or(x)).dtype;
    if shape.len() < 3 {
        return Err(Problem::Invalid(format!("an input {} has no planes", show(&shape))));
    }
    let axes: Vec<_> = match node.flag("channels_last", false)? {
        true => (1..shape.len() - 1).collect(),
        false => (2..shape.len()).collect(),
    };
    let elements: usize = axes.iter().map(|&axis| shape[axis]).product();
    let mut sum = builder.cast(x, DType::F32)?;
    if let Some(zero) = node.optional(2) {
        let zero = builder.cast(zero, DType::F32)?;
        sum = builder.binary(Binary::Sub, sum, zero)?;
    }
    sum = builder.emit(Op::Reduce { kind: Reduction::Sum, axes, keep: true }, &[sum])?;
    let elements = builder.scalar(DType::F32, elements as f64)?;
    let divisor = builder.binary(Binary::Mul, node.input(3)?, elements)?;
    let factor = builder.binary(Binary::Div, node.input(1)?, divisor)?;
    let mean = builder.binary(Binary::Mul, sum, factor)?;
    let one = builder.scalar(DType::F32, 1.0)?;
    quantized(builder, mean, one, zero, check_quantised(dtype)?)
}

/// A pooling whose channels may come last.
fn pooled(builder: &mut Builder, node: &mut NodeView, operator: Import, x: TensorId) -> Result<TensorId, Problem> {
    if !node.flag("channels_last", false)? {
        return on(builder, node, operator, x);
    }
    let rank = builder.shape(x).len();
    let mut permutation: Vec<usize> = (0..rank).collect();
    permutation.get_mut(1..).unwrap_or_default().rotate_right(1);
    let planes = builder.emit(Op::Transpose { permutation: permutation.clone() }, &[x])?;
    let result = on(builder, node, operator, planes)?;
    permutation[1..].copy_from_slice(&(2..rank).chain([1]).collect::<Vec<_>>());
    builder.emit(Op::Transpose { permutation }, &[result])
}

/// Inputs a, b, each with scale and zero point, and what belongs to the output.
pub(in super::super) fn binary(builder: &mut Builder, node: &NodeView, op: Binary) -> Result<TensorId, Problem> {
    let (a, b) = (values(builder, node, 0)?, values(builder, node, 3)?);
    let result = builder.binary(op, a, b)?;
    integers(builder, node, result, 6)
}

/// Inputs scale and zero point of the output, then the parts, each with scale and zero point.
pub(in super::super) fn concatenation(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let parts = (2..node.inputs.len()).step_by(3).map(|index| values(builder, node, index));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let first = *parts.first().ok_or_else(|| Problem::Invalid("there is nothing to join".into()))?;
    let axis = node.int("axis")?.ok_or_else(|| Problem::Invalid("attribute 'axis' is missing".into()))?;
    let axis = super::super::super::node::axis(axis, builder.shape(first).len())?;
    let joined = builder.emit(Op::Concat { axis }, &parts)?;
    let zero = node.input(1)?;
    let dtype = check_quantised(builder.fact(zero).dtype)?;
    quantized(builder, joined, node.input(0)?, Some(zero), dtype)
}

/// Inputs condition, a, b, the latter with scale and zero point, and what belongs to the output.
pub(in super::super) fn selection(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let (a, b) = (values(builder, node, 1)?, values(builder, node, 4)?);
    let chosen = builder.emit(Op::Where, &[node.input(0)?, a, b])?;
    let zero = node.input(8)?;
    let dtype = check_quantised(builder.fact(zero).dtype)?;
    quantized(builder, chosen, node.input(7)?, Some(zero), dtype)
}

/// sums · scale of a · scale of b, a scale for each row of a and for each column of b or for all.
fn scaled(builder: &mut Builder, sums: TensorId, a: TensorId, scales: [TensorId; 2]) -> Result<TensorId, Problem> {
    let row = row_parameter(builder, scales[0], a)?;
    let (row, column) = (builder.cast(row, DType::F32)?, builder.cast(scales[1], DType::F32)?);
    let factor = builder.binary(Binary::Mul, row, column)?;
    let sums = builder.cast(sums, DType::F32)?;
    builder.binary(Binary::Mul, sums, factor)
}

/// The product of quantised matrices as floats.
fn float_product(
    builder: &mut Builder,
    [a, b]: [TensorId; 2],
    scales: [TensorId; 2],
    zeros: [Option<TensorId>; 2],
    bias: Option<TensorId>,
) -> Result<TensorId, Problem> {
    let sums = integer_product(builder, [a, b], zeros)?;
    let product = scaled(builder, sums, a, scales)?;
    match bias {
        Some(bias) => {
            let bias = builder.cast(bias, DType::F32)?;
            builder.binary(Binary::Add, product, bias)
        }
        None => Ok(product),
    }
}

/// alpha · (op(a) · op(b) + c) with the scales of a and b; inputs a, b, each with scale and zero point, `[c]` (I32), and
/// what belongs to the output, which is f32 without.
pub(in super::super) fn product(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let alpha = node.float("alpha", 1.0)?;
    let mut factors = [node.input(0)?, node.input(3)?];
    for (factor, name) in factors.iter_mut().zip(["transA", "transB"]) {
        if node.flag(name, false)? {
            *factor = builder.emit(Op::Transpose { permutation: vec![1, 0] }, &[*factor])?;
        }
    }
    let mut sums = integer_product(builder, factors, [node.optional(2), node.optional(5)])?;
    if let Some(c) = node.optional(6) {
        sums = builder.binary(Binary::Add, sums, c)?;
    }
    let alpha = builder.scalar(DType::F32, alpha.into())?;
    let a_scale = builder.binary(Binary::Mul, node.input(1)?, alpha)?;
    match node.optional(7) {
        Some(y_scale) => {
            let zero = match node.optional(8) {
                Some(zero) => zero,
                None => builder.scalar(builder.fact(node.input(0)?).dtype, 0.0)?,
            };
            requantized(builder, sums, [a_scale, node.input(4)?, y_scale], zero)
        }
        None => scaled(builder, sums, factors[0], [a_scale, node.input(4)?]),
    }
}

/// Up to this many rows weights stay packed: reading them takes all the time.
const FEW_ROWS: usize = 8;
/// Weights in a block are a multiple of this where they stay packed.
const RUN: usize = 16;

/// a · bᵀ with constant weights `[n, blocks, bytes of a block]` of 4 or 8 bits, the first in the lowest bits, and a scale
/// and perhaps a zero point for each block along k. For more than a few rows they are unpacked here: the plan holds them as
/// floats then.
pub(in super::super) fn packed_product(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    node.ignore(&["accuracy_level", "weight_prepacked"]);
    let a = node.input(0)?;
    let (k, n) = (super::super::count(node, "K", 0)?, super::super::count(node, "N", 0)?);
    let (bits, block) = (super::super::count(node, "bits", 4)?, super::super::count(node, "block_size", 0)?);
    if !matches!(bits, 4 | 8) {
        return Err(super::unsupported("bits", bits, "4, 8"));
    }
    if node.optional(4).is_some() {
        return Err(Problem::Invalid("input 4 (g_idx) reorders the blocks, which is not supported".into()));
    }
    let missing = |name: &str| Problem::Invalid(format!("input {name} is missing"));
    let packed = node.constant(builder, 1, "B")?.cloned().ok_or_else(|| missing("1 (B)"))?;
    let scales = node.constant(builder, 2, "scales")?.cloned().ok_or_else(|| missing("2 (scales)"))?;
    let zeros = node.constant(builder, 3, "zero_points")?.cloned();
    if block == 0 {
        return Err(Problem::Invalid("blocks of 0 weights".into()));
    }
    let blocks = k.div_ceil(block);
    let bytes = (block * bits).div_ceil(8);
    // Zero points are packed too, each row from a new byte on, unless they are floats.
    let zero_bytes = (blocks * bits).div_ceil(8);
    let fits = packed.bytes().len() == n * blocks * bytes
        && scales.elements() == n * blocks
        && zeros.as_ref().is_none_or(|zeros| match zeros.dtype {
            DType::U8 => zeros.elements() == n * zero_bytes,
            dtype => dtype.is_float() && zeros.elements() == n * blocks,
        });
    if !fits {
        let (packed, scales) = (show(&packed.shape), show(&scales.shape));
        return Err(Problem::Invalid(format!(
            "weights {packed} with scales {scales} for {k}x{n} in blocks of {block}"
        )));
    }
    let shape = builder.shape(a).to_vec();
    let rows: usize = shape.iter().take(shape.len().saturating_sub(1)).product();
    let kept = |dtype: DType| matches!(dtype, DType::F32 | DType::F16);
    let stays = (1..=FEW_ROWS).contains(&rows)
        && shape.last() == Some(&k)
        && packed.dtype == DType::U8
        && block.is_multiple_of(RUN)
        && k == blocks * block
        && kept(builder.fact(a).dtype)
        && kept(scales.dtype)
        && zeros.as_ref().is_none_or(|zeros| zeros.dtype == DType::U8 || kept(zeros.dtype));
    if stays {
        let x = builder.reshape(a, &[rows, k])?;
        let weights = builder.constant(packed.reshaped(vec![n, blocks, bytes]));
        let scales = builder.constant(scales.reshaped(vec![n, blocks]));
        let mut inputs = vec![x, weights, scales];
        if let Some(zeros) = zeros {
            let width = if zeros.dtype == DType::U8 { zero_bytes } else { blocks };
            inputs.push(builder.constant(zeros.reshaped(vec![n, width])));
        }
        let product = builder.emit(Op::PackedMatMul { bits: bits as u32 }, &inputs)?;
        let result: Vec<usize> = shape.iter().take(shape.len() - 1).copied().chain([n]).collect();
        let product = builder.reshape(product, &result)?;
        return biased(builder, node, product);
    }
    let entry = |bytes: &[u8], number: usize| match bits {
        8 => bytes[number],
        _ => bytes[number / 2] >> (number % 2 * 4) & 15,
    };
    let (factors, floats) = (scales.to_f64(), zeros.as_ref().map(Tensor::to_f64).unwrap_or_default());
    builder.budget.reserve(&Fact::new(DType::F32, &[k, n]))?;
    let mut weights = vec![0.0_f32; k * n];
    for column in 0..n {
        for row in 0..k {
            let number = column * blocks + row / block;
            let weight = entry(&packed.bytes()[number * bytes..], row % block);
            let zero = match &zeros {
                None => f64::from(1_u32 << (bits - 1)),
                Some(zeros) if zeros.dtype == DType::U8 => {
                    entry(&zeros.bytes()[column * zero_bytes..], row / block).into()
                }
                Some(_) => floats[number],
            };
            weights[row * n + column] = ((f64::from(weight) - zero) * factors[number]) as f32;
        }
    }
    let weights = builder.constant(Tensor::f32(&[k, n], &weights));
    let weights = builder.cast(weights, builder.fact(a).dtype)?;
    let product = builder.emit(Op::MatMul, &[a, weights])?;
    biased(builder, node, product)
}

/// With input 5 added, if it is there.
fn biased(builder: &mut Builder, node: &NodeView, product: TensorId) -> Result<TensorId, Problem> {
    match node.optional(5) {
        Some(bias) => builder.binary(Binary::Add, product, bias),
        None => Ok(product),
    }
}

/// `LSTM` on quantised weights. Inputs are those of `LSTM`, but for weights `[directions, size, 4·units]` and recurrent
/// weights `[directions, units, 4·units]`, and their scales and zero points behind.
///
/// The input is rounded to 256 steps as ONNX Runtime does. Hidden states stay f32 from step to step, where ONNX Runtime
/// rounds them to 256 steps too: results are closer to those of the network that was quantised.
pub(in super::super) fn lstm(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let [x, scale, zero] = dynamic_quantize(builder, node.input(0)?)?;
    node.inputs[0] = Some(dequantized(builder, x, scale, Some(zero), DType::F32)?);
    for (index, parameters) in [(1, 8), (2, 10)] {
        let weights = node.input(index)?;
        let &[directions, _, rows] = builder.shape(weights) else {
            return Err(Problem::Invalid(format!("weights of shape {}", show(builder.shape(weights)))));
        };
        let mut spread = |id: TensorId| {
            let count = builder.fact(id).elements();
            let columns = if count == directions { 1 } else { rows };
            builder.reshape(id, &[directions, 1, columns])
        };
        let scale = spread(node.input(parameters)?)?;
        let zero = node.optional(parameters + 1).map(&mut spread).transpose()?;
        let weights = dequantized(builder, weights, scale, zero, DType::F32)?;
        node.inputs[index] = Some(builder.emit(Op::Transpose { permutation: vec![0, 2, 1] }, &[weights])?);
    }
    node.inputs.truncate(8);
    let cell = Cell::Lstm { input_forget: node.flag("input_forget", false)? };
    super::super::recurrent::layer(builder, node, cell)
}

/// `Attention` on quantised rows and weights. Inputs rows, weights, bias, scales of the first two, mask, their zero
/// points, past.
pub(in super::super) fn attention(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let dtype = builder.fact(node.input(3)?).dtype;
    let rows = dequantized(builder, node.input(0)?, node.input(3)?, node.optional(6), dtype)?;
    let weights = dequantized(builder, node.input(1)?, node.input(4)?, node.optional(7), dtype)?;
    node.inputs = vec![Some(rows), Some(weights), node.optional(2), node.optional(5), node.optional(8)];
    super::attention::projecting(builder, node)
}

/// `EmbedLayerNormalization` on quantised tables and parameters: inputs 2 to 6, whose scales are inputs 8 to 12 and whose
/// zero points are inputs 13 to 17.
pub(in super::super) fn embedding(builder: &mut Builder, node: &mut NodeView) -> Result<Vec<TensorId>, Problem> {
    let mut inputs: Vec<_> = (0..8).map(|index| node.optional(index)).collect();
    for (number, input) in inputs[2..7].iter_mut().enumerate() {
        if let Some(table) = *input {
            let Fact { dtype, .. } = *builder.fact(node.input(8 + number)?);
            let zero = node.optional(13 + number);
            *input = Some(dequantized(builder, table, node.input(8 + number)?, zero, dtype)?);
        }
    }
    node.inputs = inputs;
    super::normalization::embedding(builder, node)
}
