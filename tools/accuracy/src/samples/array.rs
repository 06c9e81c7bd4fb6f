//! Arrays of NumPy's files and ONNX's tensors, as samples of a tensor.

use super::{Kind, file_name};
use anyhow::{Context, Result, bail};
use floe::npz::{self, OwnedArray};
use floe_models::{
    DType, Fact, Tensor,
    onnx::{self, proto::TensorProto},
};
use half::{bf16, f16};
use prost::Message;
use std::path::Path;

/// The arrays of a file.
#[derive(Debug)]
pub struct Arrays {
    /// The tensor that a file with one array is for.
    position: Option<usize>,
    arrays: Vec<(String, OwnedArray)>,
}

impl Arrays {
    /// Reads a `.npz` file, or a `.npy` file for the tensor at a position.
    pub fn read(file: &Path, position: Option<usize>) -> Result<Self> {
        let arrays = match Kind::of(file) {
            Some(Kind::Npz) => npz::read(file)?,
            _ => vec![(String::new(), npz::read_npy(file)?)],
        };
        Ok(Self { position: position.filter(|_| Kind::of(file) != Some(Kind::Npz)), arrays })
    }

    /// Whether it was read for this position.
    pub fn is_of(&self, position: Option<usize>) -> bool {
        self.position.is_none() || self.position == position
    }

    /// The array of the tensor at a position: by its name, or the only one for the only tensor.
    pub fn find(&self, position: usize, name: &str, tensors: usize) -> Option<&OwnedArray> {
        if let Some(own) = self.position {
            return (own == position).then(|| &self.arrays[0].1);
        }
        let exact = self.arrays.iter().find(|(found, _)| found == name);
        let found = exact.or_else(|| self.arrays.iter().find(|(found, _)| *found == file_name(name)));
        let only = || self.arrays.first().filter(|_| tensors == 1 && self.arrays.len() == 1);
        found.or_else(only).map(|(_, array)| array)
    }
}

/// How many samples of a tensor an array holds.
pub fn samples(array: &OwnedArray, fact: &Fact, any_shape: bool) -> Result<usize> {
    convertible(array.dtype, fact.dtype)?;
    let shape: Vec<usize> = array.shape.iter().map(|&extent| usize::try_from(extent).unwrap_or(usize::MAX)).collect();
    let wanted = fact.shape.as_slice();
    if shape == wanted || wanted.first() == Some(&1) && shape == wanted[1..] {
        return Ok(1);
    }
    if let Some((&rows, rest)) = shape.split_first() {
        if rest == wanted && rows > 0 {
            return Ok(rows);
        }
        if let Some((&own, inner)) = wanted.split_first()
            && rest == inner
            && own > 0
            && rows > 0
            && rows.is_multiple_of(own)
        {
            return Ok(rows / own);
        }
    }
    if any_shape && shape.iter().product::<usize>() == fact.elements() {
        return Ok(1);
    }
    bail!("it holds {} {shape:?}, but {} {wanted:?} is needed", array.dtype.name(), fact.dtype.name())
}

/// Sample `number` of an array; an array with one sample has it for every number.
pub fn sample(array: &OwnedArray, fact: &Fact, number: usize, any_shape: bool) -> Result<Tensor> {
    let count = samples(array, fact, any_shape)?;
    let bytes = array.bytes.len() / count;
    let number = if count == 1 { 0 } else { number };
    let part = array.bytes.get(number * bytes..(number + 1) * bytes).context("it has fewer samples")?;
    converted(&Tensor::new(array.dtype, fact.shape.clone(), part.to_vec()), fact.dtype)
}

/// Reads a tensor of ONNX.
pub fn read_onnx(file: &Path) -> Result<Tensor> {
    let proto = TensorProto::decode(std::fs::read(file)?.as_slice()).context("it is no ONNX tensor")?;
    Ok(onnx::tensor::read(&proto, None)?)
}

/// Whether numbers of one type may stand for another: floats for floats, integers for integers.
fn convertible(from: DType, to: DType) -> Result<()> {
    if from == to || from.is_float() == to.is_float() {
        return Ok(());
    }
    bail!("it holds {}, but {} is needed: convert it with numpy.astype", from.name(), to.name())
}

/// The same numbers in another type.
pub fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    convertible(tensor.dtype, dtype)?;
    if tensor.dtype == dtype {
        return Ok(tensor.clone());
    }
    let bytes: Vec<u8> = if dtype.is_float() {
        tensor.to_f64().into_iter().flat_map(|value| float(dtype, value)).collect()
    } else {
        let mut bytes = Vec::with_capacity(tensor.elements() * dtype.size());
        for value in tensor.to_i64().context("it holds no integers")? {
            bytes.extend_from_slice(&value.to_le_bytes()[..dtype.size()]);
        }
        let back = Tensor::new(dtype, tensor.shape.clone(), bytes.clone()).to_i64();
        if back != tensor.to_i64() {
            bail!("it holds {} beyond {}", tensor.dtype.name(), dtype.name());
        }
        bytes
    };
    Ok(Tensor::new(dtype, tensor.shape.clone(), bytes))
}

/// A float's bytes.
fn float(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        DType::F64 => value.to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_value_in_another_type() {
        let bytes: Vec<u8> = [5i64, -3].iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::new(DType::I64, vec![2], bytes);
        assert_eq!(converted(&tensor, DType::I32).unwrap().to_i64(), Some(vec![5, -3]));
        assert_eq!(converted(&tensor, DType::U8).unwrap_err().to_string(), "it holds i64 beyond u8");
        assert!(converted(&tensor, DType::F32).is_err());
        let half = converted(&Tensor::f32(&[1], &[0.5]), DType::F16).unwrap();
        assert_eq!((half.dtype, half.to_f64()), (DType::F16, vec![0.5]));
    }
}
