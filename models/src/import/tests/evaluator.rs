//! An evaluator of the operators that shape arithmetic consists of, over f64. The real one runs the reference kernels.

use crate::{
    DType, Evaluate, Fact, Op, Tensor,
    op::{Binary, Reduction, Unary},
};

/// Evaluates what shape arithmetic needs.
pub struct ShapeArithmetic;

impl Evaluate for ShapeArithmetic {
    fn evaluate(&self, op: &Op, inputs: &[&Tensor], outputs: &[Fact]) -> Option<Vec<Tensor>> {
        if outputs.iter().map(Fact::elements).sum::<usize>() > 1 << 16 {
            return None;
        }
        let values: Vec<_> = inputs.iter().map(|tensor| tensor.to_f64()).collect();
        let output = &outputs[0];
        let shape = &inputs[0].shape;
        let read = |input: usize, index: &[usize]| values[input][offset(index, &inputs[input].shape)];
        let result: Vec<f64> = match op {
            Op::Binary(op) => each(output, |index| binary(*op, inputs[0].dtype, read(0, index), read(1, index)))
                .collect::<Option<_>>()?,
            Op::Unary(op) => each(output, |index| unary(*op, read(0, index))).collect::<Option<_>>()?,
            Op::Where => {
                each(output, |index| if read(0, index) != 0.0 { read(1, index) } else { read(2, index) }).collect()
            }
            Op::Cast if !output.dtype.is_float() => values[0].iter().map(|value| value.trunc()).collect(),
            Op::Cast => values[0].clone(),
            Op::Expand => each(output, |index| read(0, index)).collect(),
            Op::Transpose { permutation } => each(output, |index| {
                let mut source = vec![0; index.len()];
                permutation.iter().zip(index).for_each(|(&d, &i)| source[d] = i);
                read(0, &source)
            })
            .collect(),
            Op::Slice { starts, steps } => each(output, |index| {
                let source: Vec<_> =
                    (0..index.len()).map(|d| (starts[d] as i64 + index[d] as i64 * steps[d]) as usize).collect();
                read(0, &source)
            })
            .collect(),
            Op::Gather { axis } => {
                let rank = inputs[1].shape.len();
                each(output, |index| {
                    let entry = read(1, &index[*axis..axis + rank]);
                    let entry = if entry < 0.0 { entry + shape[*axis] as f64 } else { entry };
                    read(0, &[&index[..*axis], &[entry as usize], &index[axis + rank..]].concat())
                })
                .collect()
            }
            Op::Concat { axis } => each(output, |index| {
                let mut source = index.to_vec();
                let mut input = 0;
                while source[*axis] >= inputs[input].shape[*axis] {
                    source[*axis] -= inputs[input].shape[*axis];
                    input += 1;
                }
                read(input, &source)
            })
            .collect(),
            Op::Split { axis } => {
                let mut start = 0;
                let pieces = outputs.iter().map(|piece| {
                    let values = each(piece, |index| {
                        let mut source = index.to_vec();
                        source[*axis] += start;
                        read(0, &source)
                    });
                    let values: Vec<_> = values.collect();
                    start += piece.shape[*axis];
                    tensor(piece, &values)
                });
                return pieces.collect();
            }
            Op::Reduce { kind: Reduction::Product, axes, .. } if axes.len() == shape.len() => {
                vec![values[0].iter().product()]
            }
            _ => return None,
        };
        Some(vec![tensor(output, &result)?])
    }
}

fn unary(op: Unary, x: f64) -> Option<f64> {
    Some(match op {
        Unary::Neg => -x,
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Not => f64::from(x == 0.0),
        Unary::Sqrt => x.sqrt(),
        Unary::Relu => x.max(0.0),
        _ => return None,
    })
}

fn binary(op: Binary, dtype: DType, a: f64, b: f64) -> Option<f64> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div if dtype.is_float() => a / b,
        Binary::Div => (a / b).trunc(),
        Binary::Pow => a.powf(b),
        Binary::Min => a.min(b),
        Binary::Max => a.max(b),
        Binary::Mod => a - (a / b).floor() * b,
        Binary::Equal => f64::from(a == b),
        Binary::Less => f64::from(a < b),
        Binary::LessOrEqual => f64::from(a <= b),
        Binary::Greater => f64::from(a > b),
        Binary::GreaterOrEqual => f64::from(a >= b),
        Binary::And => f64::from(a != 0.0 && b != 0.0),
        Binary::Or => f64::from(a != 0.0 || b != 0.0),
        _ => return None,
    })
}

/// Row-major offset of an index that is broadcast to the shape.
fn offset(index: &[usize], shape: &[usize]) -> usize {
    let index = &index[index.len() - shape.len()..];
    index.iter().zip(shape).fold(0, |offset, (&i, &extent)| offset * extent + if extent == 1 { 0 } else { i })
}

/// A value for every index of the output, in row-major order.
fn each<T>(output: &Fact, mut value: impl FnMut(&[usize]) -> T) -> impl Iterator<Item = T> {
    let shape = output.shape.clone();
    (0..output.elements()).map(move |mut number| {
        let mut index = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            index[d] = number % shape[d];
            number /= shape[d];
        }
        value(&index)
    })
}

/// A tensor of the fact's type.
fn tensor(fact: &Fact, values: &[f64]) -> Option<Tensor> {
    fn cast<T: bytemuck::NoUninit>(fact: &Fact, values: &[f64], convert: impl Fn(f64) -> T) -> Tensor {
        Tensor::from_slice(fact.dtype, &fact.shape, &values.iter().map(|&value| convert(value)).collect::<Vec<_>>())
    }
    Some(match fact.dtype {
        DType::F64 => cast(fact, values, |value| value),
        DType::F32 => cast(fact, values, |value| value as f32),
        DType::I64 => cast(fact, values, |value| value as i64),
        DType::I32 => cast(fact, values, |value| value as i32),
        DType::Bool => cast(fact, values, |value| u8::from(value != 0.0)),
        _ => return None,
    })
}
