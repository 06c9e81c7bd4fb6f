//! Constant tensors: bytes with a type and a shape, row-major, little-endian.

use bytes::Bytes;
pub use floe_kernels::DType;
use floe_kernels::narrow;

/// A constant tensor. Cloning shares the bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Vec<usize>,
    bytes: Bytes,
}

impl Tensor {
    /// A tensor over raw little-endian bytes.
    ///
    /// # Panics
    /// Where the length is not `product(shape) · dtype.size()`: the caller has computed both.
    pub fn new(dtype: DType, shape: Vec<usize>, bytes: Vec<u8>) -> Self {
        Self::of_shared(dtype, shape, bytes.into())
    }

    /// As [`Tensor::new`], over bytes that others hold too.
    ///
    /// # Panics
    /// As there.
    pub fn of_shared(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Self {
        assert_eq!(bytes.len(), shape.iter().product::<usize>() * dtype.size(), "tensor length");
        Self { dtype, shape, bytes }
    }

    /// A tensor from values.
    pub fn from_slice<T: bytemuck::NoUninit>(dtype: DType, shape: &[usize], values: &[T]) -> Self {
        Self::new(dtype, shape.to_vec(), bytemuck::cast_slice(values).to_vec())
    }

    /// An `f32` tensor.
    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        Self::from_slice(DType::F32, shape, values)
    }

    /// An `i64` tensor.
    pub fn i64(shape: &[usize], values: &[i64]) -> Self {
        Self::from_slice(DType::I64, shape, values)
    }

    /// The bytes, at any alignment: they may be part of a model's file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes, shared.
    pub fn shared(&self) -> Bytes {
        self.bytes.clone()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Elements as `T`, copied so that alignment does not matter. `None` where the size of `T` is not the type's.
    pub fn to_vec<T: bytemuck::AnyBitPattern>(&self) -> Option<Vec<T>> {
        (size_of::<T>() == self.dtype.size())
            .then(|| self.bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// Elements of an integer or bool tensor as i64; `None` for floats, those of 8 bits included.
    pub fn to_i64(&self) -> Option<Vec<i64>> {
        Some(match self.dtype {
            DType::I64 => self.to_vec::<i64>()?,
            DType::I32 => self.to_vec::<i32>()?.into_iter().map(i64::from).collect(),
            DType::I16 => self.to_vec::<i16>()?.into_iter().map(i64::from).collect(),
            DType::I8 => self.to_vec::<i8>()?.into_iter().map(i64::from).collect(),
            DType::I4 | DType::U4 => self.narrow()?.into_iter().map(|v| v as i64).collect(),
            DType::U8 | DType::Bool => self.bytes.iter().map(|&b| i64::from(b)).collect(),
            DType::U16 => self.to_vec::<u16>()?.into_iter().map(i64::from).collect(),
            DType::U32 => self.to_vec::<u32>()?.into_iter().map(i64::from).collect(),
            DType::U64 => self.to_vec::<u64>()?.into_iter().map(|v| v as i64).collect(),
            _ => return None,
        })
    }

    /// Elements of a numeric tensor as f64, whatever its type.
    pub fn to_f64(&self) -> Vec<f64> {
        let cast = |v: Option<Vec<f64>>| v.unwrap_or_default();
        match self.dtype {
            DType::F64 => cast(self.to_vec()),
            DType::F32 => cast(self.to_vec::<f32>().map(|v| v.into_iter().map(f64::from).collect())),
            DType::F16 => cast(self.to_vec::<half::f16>().map(|v| v.into_iter().map(f64::from).collect())),
            DType::Bf16 => cast(self.to_vec::<half::bf16>().map(|v| v.into_iter().map(f64::from).collect())),
            DType::F8E4M3 | DType::F8E4M3Fnuz | DType::F8E5M2 | DType::F8E5M2Fnuz => cast(self.narrow()),
            DType::U64 => cast(self.to_vec::<u64>().map(|v| v.into_iter().map(|x| x as f64).collect())),
            _ => cast(self.to_i64().map(|v| v.into_iter().map(|x| x as f64).collect())),
        }
    }

    /// Elements of a tensor of a narrow type.
    fn narrow(&self) -> Option<Vec<f64>> {
        self.bytes.iter().map(|&element| narrow::number(self.dtype, element)).collect()
    }

    /// The same bytes under another shape.
    ///
    /// # Panics
    /// Where the number of elements differs.
    pub fn reshaped(&self, shape: Vec<usize>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), self.elements(), "reshape of a constant");
        Self { dtype: self.dtype, shape, bytes: self.bytes.clone() }
    }
}
