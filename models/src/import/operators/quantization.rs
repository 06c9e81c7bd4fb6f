//! Quantised tensors: value = (integer − zero point) · scale, with one scale and zero point for all, one for each index
//! of an axis, or one for each block along it.

use super::super::{
    builder::Builder,
    node::{NodeView, axis, extent},
};
use super::{pointwise, windows};
use crate::{
    DType, Fact, Op, Problem, Tensor, TensorId, graph,
    infer::show,
    onnx::tensor::{data_type, data_type_name},
    op::{Binary, Composite, Reduction, Unary},
};
use floe_kernels::quantized_conv::is_float_factor;

/// A type that a float is quantised to.
pub(super) fn check_quantised(dtype: DType) -> Result<DType, Problem> {
    match dtype {
        DType::I8 | DType::U8 | DType::I16 | DType::U16 | DType::I32 | DType::I4 | DType::U4 => Ok(dtype),
        float if float.is_float8() => Ok(float),
        other => {
            let supported = "I4, U4, I8, U8, I16, U16, I32, floats of 8 bits";
            Err(Problem::ElementType { found: format!("{other:?}"), supported: supported.into() })
        }
    }
}

/// Attribute `output_dtype`; 0 stands for absent.
fn output_type(node: &mut NodeView) -> Result<Option<DType>, Problem> {
    let Some(given) = node.int("output_dtype")?.filter(|&given| given != 0) else { return Ok(None) };
    let dtype = i32::try_from(given).ok().and_then(data_type);
    dtype.map(Some).ok_or_else(|| Problem::ElementType {
        found: data_type_name(given),
        supported: "integers of 4 to 32 bits, floats of 8 to 64 bits but FLOAT8E8M0".into(),
    })
}

/// Where along a tensor scales and zero points change.
struct Granularity {
    axis: i64,
    block: usize,
}

impl Granularity {
    fn of(node: &mut NodeView) -> Result<Self, Problem> {
        let block = node.int("block_size")?.map_or(Ok(0), |value| extent("block_size", value))?;
        Ok(Self { axis: node.int("axis")?.unwrap_or(1), block })
    }

    /// A scale or zero point in a shape that broadcasts to the tensor's.
    fn spread(&self, builder: &mut Builder, parameter: TensorId, shape: &[usize]) -> Result<TensorId, Problem> {
        let Fact { dtype, shape: given, .. } = builder.fact(parameter).clone();
        if given.iter().product::<usize>() == 1 {
            return builder.reshape(parameter, &[]);
        }
        let axis = axis(self.axis, shape.len())?;
        if given == [shape[axis]] {
            let mut column = vec![1; shape.len()];
            column[axis] = given[0];
            return builder.reshape(parameter, &column);
        }
        let fits = given.len() == shape.len()
            && (0..shape.len()).all(|d| d == axis || given[d] == shape[d])
            && self.block > 0
            && given[axis] == shape[axis].div_ceil(self.block);
        if !fits {
            let (given, shape) = (show(&given), show(shape));
            return Err(Problem::Invalid(format!(
                "a scale or zero point of shape {given} for {shape} along axis {axis} in blocks of {}",
                self.block
            )));
        }
        // Every block's value is repeated; a last block may be cut off.
        let mut split = given.clone();
        split.insert(axis + 1, 1);
        let split = builder.reshape(parameter, &split)?;
        let mut repeated = given.clone();
        repeated.insert(axis + 1, self.block);
        let repeated = builder.expand(split, &repeated)?;
        let mut whole = given;
        whole[axis] *= self.block;
        let whole_id = builder.reshape(repeated, &whole)?;
        if whole == shape {
            return Ok(whole_id);
        }
        let slice = Op::Slice { starts: vec![0; shape.len()], steps: vec![1; shape.len()] };
        builder.emit_as(slice, &[whole_id], Fact::new(dtype, shape))
    }
}

/// Refuses a zero point of 8-bit floats that is known and not 0: ONNX has no other.
fn float_zero(builder: &Builder, zero: Option<TensorId>) -> Result<(), Problem> {
    let constant = zero.and_then(|zero| builder.graph.constant(zero));
    if constant.is_some_and(|zeros| zeros.to_f64().iter().any(|&zero| zero != 0.0)) {
        return Err(Problem::Invalid("a zero point of 8-bit floats that is not 0".into()));
    }
    Ok(())
}

/// saturate(round(x / scale) + zero point), halves to even.
pub(super) fn quantized(
    builder: &mut Builder,
    x: TensorId,
    scale: TensorId,
    zero: Option<TensorId>,
    dtype: DType,
) -> Result<TensorId, Problem> {
    let working = if builder.fact(scale).dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let (x, scale) = (builder.cast(x, working)?, builder.cast(scale, working)?);
    let quotient = builder.binary(Binary::Div, x, scale)?;
    let mut rounded = builder.unary(Unary::Round, quotient)?;
    if let Some(zero) = zero {
        let zero = builder.cast(zero, working)?;
        rounded = builder.binary(Binary::Add, rounded, zero)?;
    }
    // A cast from float to integer saturates.
    builder.cast(rounded, dtype)
}

pub(super) fn quantize_linear(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    // f32 is precise enough for every type.
    node.ignore(&["precision"]);
    let saturate = pointwise::saturates(node)?;
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let granularity = Granularity::of(node)?;
    let scale = granularity.spread(builder, node.input(1)?, &shape)?;
    let zero = node.optional(2).map(|zero| granularity.spread(builder, zero, &shape)).transpose()?;
    let given = output_type(node)?;
    let dtype = zero.map(|zero| builder.fact(zero).dtype).or(given).unwrap_or(DType::U8);
    if dtype.is_float8() {
        // Their zero point is always 0, and nothing is rounded but by the conversion.
        float_zero(builder, zero)?;
        let working = if builder.fact(scale).dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, scale) = (builder.cast(x, working)?, builder.cast(scale, working)?);
        let quotient = builder.binary(Binary::Div, x, scale)?;
        return pointwise::converted(builder, quotient, dtype, saturate);
    }
    quantized(builder, x, scale, zero, check_quantised(dtype)?)
}

pub(super) fn dequantize_linear(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = node.input(0)?;
    let shape = builder.shape(x).to_vec();
    let granularity = Granularity::of(node)?;
    let scale = granularity.spread(builder, node.input(1)?, &shape)?;
    let output = output_type(node)?.unwrap_or(builder.fact(scale).dtype);
    let zero = node.optional(2).map(|zero| granularity.spread(builder, zero, &shape)).transpose()?;
    let result = dequantized(builder, x, scale, zero, output)?;
    remember(builder, result, x, scale, zero);
    Ok(result)
}

/// Keeps the 8-bit elements of a constant that is dequantised, however large, for products that are computed with them.
fn remember(builder: &mut Builder, result: TensorId, x: TensorId, scale: TensorId, zero: Option<TensorId>) {
    let dtype = builder.fact(x).dtype;
    if dtype.is_float8() && !is_float_factor(dtype) {
        return;
    }
    // Products take bytes, which is what an integer of 4 bits lies in.
    let widened = |tensor: &Tensor| match tensor.dtype {
        DType::I4 => Tensor::of_shared(DType::I8, tensor.shape.clone(), tensor.shared()),
        DType::U4 => Tensor::of_shared(DType::U8, tensor.shape.clone(), tensor.shared()),
        _ => tensor.clone(),
    };
    let constant = |id: TensorId| builder.graph.constant(id).map(widened);
    // The zero point of floats is 0.
    let zeros = zero.filter(|_| !dtype.is_float8()).map(constant);
    let (Some(integers), Some(scale), None | Some(Some(_))) = (constant(x), constant(scale), &zeros) else { return };
    builder.graph.values[result.0].quantized = Some(graph::Quantized { integers, scale, zero: zeros.flatten() });
}

/// (x − zero point) · scale, where the last two broadcast to x.
pub(super) fn dequantized(
    builder: &mut Builder,
    x: TensorId,
    scale: TensorId,
    zero: Option<TensorId>,
    output: DType,
) -> Result<TensorId, Problem> {
    let dtype = check_quantised(builder.fact(x).dtype)?;
    let working = if output == DType::F64 { DType::F64 } else { DType::F32 };
    if dtype.is_float8() {
        float_zero(builder, zero)?;
    }
    let value = match zero.filter(|_| !dtype.is_float8()) {
        // Only 32-bit integers are not exact in f32.
        Some(zero) if dtype == DType::I32 => {
            let difference = builder.binary(Binary::Sub, x, zero)?;
            builder.cast(difference, working)?
        }
        Some(zero) => {
            let (x, zero) = (builder.cast(x, working)?, builder.cast(zero, working)?);
            builder.binary(Binary::Sub, x, zero)?
        }
        None => builder.cast(x, working)?,
    };
    let scale = builder.cast(scale, working)?;
    let product = builder.binary(Binary::Mul, value, scale)?;
    builder.cast(product, output)
}

/// To u8 with a scale and zero point that make the most of the tensor's range, which is widened to hold 0.
pub(super) fn dynamic_quantize(builder: &mut Builder, x: TensorId) -> Result<[TensorId; 3], Problem> {
    let rank = builder.shape(x).len();
    let zero = builder.scalar(DType::F32, 0.0)?;
    let mut bound = |kind: Reduction, op: Binary| {
        let value = builder.emit(Op::Reduce { kind, axes: (0..rank).collect(), keep: false }, &[x])?;
        builder.binary(op, value, zero)
    };
    let (low, high) = (bound(Reduction::Min, Binary::Min)?, bound(Reduction::Max, Binary::Max)?);
    let range = builder.binary(Binary::Sub, high, low)?;
    let steps = builder.scalar(DType::F32, 255.0)?;
    let scale = builder.binary(Binary::Div, range, steps)?;
    let offset = builder.binary(Binary::Div, low, scale)?;
    let offset = builder.unary(Unary::Neg, offset)?;
    let offset = builder.unary(Composite::Clip { min: Some(0.0), max: Some(255.0) }, offset)?;
    let offset = builder.unary(Unary::Round, offset)?;
    let point = builder.cast(offset, DType::U8)?;
    Ok([quantized(builder, x, scale, Some(point), DType::U8)?, scale, point])
}

/// A tensor of 8-bit integers with its zero point: a scalar, or one value for each index of the first of `rank`
/// dimensions.
struct Quantized {
    tensor: TensorId,
    zero: Option<TensorId>,
    rank: usize,
}

impl Quantized {
    /// The tensor minus its zero point, in an integer type of at least 16 bits.
    fn centred(&self, builder: &mut Builder, wide: DType) -> Result<TensorId, Problem> {
        let dtype = builder.fact(self.tensor).dtype;
        if !dtype.is_byte() {
            return Err(Problem::ElementType { found: format!("{dtype:?}"), supported: "I8, U8".into() });
        }
        let tensor = builder.cast(self.tensor, wide)?;
        let Some(zero) = self.zero else { return Ok(tensor) };
        if builder.graph.constant(zero).and_then(Tensor::to_i64).is_some_and(|v| v.iter().all(|&v| v == 0)) {
            return Ok(tensor);
        }
        let zero = match builder.shape(zero).to_vec()[..] {
            [count] if count > 1 && self.rank > 0 => {
                let mut column = vec![1; self.rank];
                column[0] = count;
                builder.reshape(zero, &column)?
            }
            _ => zero,
        };
        let zero = builder.cast(zero, wide)?;
        builder.binary(Binary::Sub, tensor, zero)
    }
}

/// The product in I32 of matrices minus their zero points: one for all, for each row of a, for each column of b.
pub(super) fn integer_product(
    builder: &mut Builder,
    [a, b]: [TensorId; 2],
    zeros: [Option<TensorId>; 2],
) -> Result<TensorId, Problem> {
    let a = rows(builder, zeros[0], a)?.centred(builder, DType::I32)?;
    let b = Quantized { tensor: b, zero: zeros[1], rank: 0 }.centred(builder, DType::I32)?;
    builder.emit(Op::MatMul, &[a, b])
}

/// The left operand of a product, with a zero point for all or for each row.
fn rows(builder: &mut Builder, zero: Option<TensorId>, tensor: TensorId) -> Result<Quantized, Problem> {
    let zero = zero.map(|zero| row_parameter(builder, zero, tensor)).transpose()?;
    Ok(Quantized { tensor, zero, rank: 0 })
}

/// A parameter of one value for each row of a matrix, as a column.
pub(super) fn row_parameter(builder: &mut Builder, parameter: TensorId, matrix: TensorId) -> Result<TensorId, Problem> {
    match (builder.shape(parameter).to_vec()[..].as_ref(), builder.shape(matrix).len()) {
        (&[count], 2..) if count > 1 => builder.reshape(parameter, &[count, 1]),
        _ => Ok(parameter),
    }
}

/// round(sums · scale of a · scale of b / scale of y) + zero point.
pub(super) fn requantized(
    builder: &mut Builder,
    sums: TensorId,
    [a, b, y]: [TensorId; 3],
    zero: TensorId,
) -> Result<TensorId, Problem> {
    let mut scales = [a, b, y];
    for scale in &mut scales {
        *scale = builder.cast(*scale, DType::F32)?;
    }
    let [a, b, y] = scales;
    let product = builder.binary(Binary::Mul, a, b)?;
    let factor = builder.binary(Binary::Div, product, y)?;
    let sums = builder.cast(sums, DType::F32)?;
    let scaled = builder.binary(Binary::Mul, sums, factor)?;
    let rounded = builder.unary(Unary::Round, scaled)?;
    let dtype = builder.fact(zero).dtype;
    let zero = builder.cast(zero, DType::F32)?;
    let shifted = builder.binary(Binary::Add, rounded, zero)?;
    builder.cast(shifted, check_quantised(dtype)?)
}

pub(super) fn linear_product(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let (a, b) = (node.input(0)?, node.input(3)?);
    let sums = integer_product(builder, [a, b], [Some(node.input(2)?), Some(node.input(5)?)])?;
    let scale = row_parameter(builder, node.input(1)?, a)?;
    let (y_scale, y_zero) = (row_parameter(builder, node.input(6)?, a)?, row_parameter(builder, node.input(7)?, a)?);
    requantized(builder, sums, [scale, node.input(4)?, y_scale], y_zero)
}

pub(super) fn matmul_integer(builder: &mut Builder, node: &NodeView) -> Result<TensorId, Problem> {
    let (a, b) = (node.input(0)?, node.input(1)?);
    integer_product(builder, [a, b], [node.optional(2), node.optional(3)])
}

pub(super) fn convolution_integer(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = Quantized { tensor: node.input(0)?, zero: node.optional(2), rank: 0 };
    let weights = node.input(1)?;
    let weights = Quantized { tensor: weights, zero: node.optional(3), rank: builder.shape(weights).len() };
    integer_convolution(builder, node, &x, &weights)
}

fn integer_convolution(
    builder: &mut Builder,
    node: &mut NodeView,
    x: &Quantized,
    weights: &Quantized,
) -> Result<TensorId, Problem> {
    let (shape, kernel) = (builder.shape(x.tensor).to_vec(), builder.shape(weights.tensor).to_vec());
    let (window, groups) = windows::convolution_window(node, &shape, &kernel)?;
    // Padding stands for the value 0, which is what the centred tensor's padding is.
    let (x, weights) = (x.centred(builder, DType::I16)?, weights.centred(builder, DType::I16)?);
    builder.emit(Op::ConvInteger { window, groups }, &[x, weights])
}

pub(super) fn linear_convolution(builder: &mut Builder, node: &mut NodeView) -> Result<TensorId, Problem> {
    let x = Quantized { tensor: node.input(0)?, zero: Some(node.input(2)?), rank: 0 };
    let weights = node.input(3)?;
    let rank = builder.shape(weights).len();
    let weights = Quantized { tensor: weights, zero: Some(node.input(5)?), rank };
    let mut sums = integer_convolution(builder, node, &x, &weights)?;
    let mut per_channel = |parameter: TensorId| {
        let count = builder.fact(parameter).elements();
        let mut shape = vec![1; rank - 1];
        shape[0] = count;
        builder.reshape(parameter, &shape)
    };
    let scale = per_channel(node.input(4)?)?;
    let bias = node.optional(8).map(per_channel).transpose()?;
    if let Some(bias) = bias {
        sums = builder.binary(Binary::Add, sums, bias)?;
    }
    let mut whole = |parameter: TensorId| builder.reshape(parameter, &[]);
    let (x_scale, y_scale, y_zero) = (whole(node.input(1)?)?, whole(node.input(6)?)?, whole(node.input(7)?)?);
    requantized(builder, sums, [x_scale, scale, y_scale], y_zero)
}
