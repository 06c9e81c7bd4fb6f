//! Strided views: how a kernel addresses the elements of an operand.

use crate::KernelError;
use serde::{Deserialize, Serialize};

/// Highest rank of a tensor in a plan.
pub const MAX_RANK: usize = 8;
/// Extents of a tensor, outermost first.
pub type Dims = heapless::Vec<u32, MAX_RANK>;
/// Distances between neighbours along each dimension, in elements.
pub type Strides = heapless::Vec<i32, MAX_RANK>;

/// Element type of a tensor. `Bool` is one byte, 0 or 1; so is each element of the [narrow](crate::narrow) types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum DType {
    F32,
    F16,
    Bf16,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Bool,
    F8E4M3,
    F8E4M3Fnuz,
    F8E5M2,
    F8E5M2Fnuz,
    I4,
    U4,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 | Self::Bool => 1,
            Self::F8E4M3 | Self::F8E4M3Fnuz | Self::F8E5M2 | Self::F8E5M2Fnuz | Self::I4 | Self::U4 => 1,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// What the channels of a channels-last tensor are padded to a multiple of: 8, and 16 for types of one byte, so that
    /// every pixel starts at a multiple of 16 bytes for all types of at most two.
    pub const fn channel_multiple(self) -> u32 {
        if self.size() == 1 { 16 } else { 8 }
    }

    /// Whether the type is a [narrow](crate::narrow) one, which casts convert and movement moves, and nothing computes in.
    pub const fn is_narrow(self) -> bool {
        self.is_float8() || matches!(self, Self::I4 | Self::U4)
    }

    /// Whether it is an integer of 8 bits.
    pub const fn is_byte(self) -> bool {
        matches!(self, Self::I8 | Self::U8)
    }

    /// Whether the type is a float of 8 bits.
    pub const fn is_float8(self) -> bool {
        matches!(self, Self::F8E4M3 | Self::F8E4M3Fnuz | Self::F8E5M2 | Self::F8E5M2Fnuz)
    }

    /// Whether the type is a floating-point one that is computed in: of 16 bits or more.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::Bf16 | Self::F64)
    }

    /// Lower-case name as reports print it, for example `f16`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Bool => "bool",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E4M3Fnuz => "f8e4m3fnuz",
            Self::F8E5M2 => "f8e5m2",
            Self::F8E5M2Fnuz => "f8e5m2fnuz",
            Self::I4 => "i4",
            Self::U4 => "u4",
        }
    }
}

/// A tensor as a kernel sees it: *logical* extents (ONNX order, so N, C, spatial… for images) over a strided operand.
///
/// The layout is only in the strides: NHWC is a view with extents `[n, c, h, w]` and stride 1 along dimension 1.
/// `offset` is the element at logical index 0 counted from the operand's first byte, so that negative strides work.
/// `padded_channels` is for channels-last views only: how many elements along dimension 1 exist in memory (`c` rounded up to
/// [`DType::channel_multiple`]).
/// Whoever writes such a view writes zeros in lanes `c..padded_channels`; whoever reads it may rely on them. 0 means no padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct View {
    /// Element type.
    pub dtype: DType,
    /// Element at logical index 0, from the start of the operand.
    pub offset: u32,
    /// Elements along dimension 1 in memory when it is padded, else 0.
    pub padded_channels: u32,
    /// Logical extents.
    pub shape: Dims,
    /// Distance between neighbours along each dimension, in elements. 0 repeats (broadcasts).
    pub strides: Strides,
}

impl View {
    /// A row-major view of `shape`.
    ///
    /// # Errors
    /// `Shape` where the rank exceeds [`MAX_RANK`] or the tensor has 2³¹ elements or more.
    pub fn contiguous(dtype: DType, shape: &[u32]) -> Result<Self, KernelError> {
        let dims = Dims::from_slice(shape).map_err(|_| KernelError::Shape("rank"))?;
        let mut strides = Strides::new();
        strides.resize(shape.len(), 0).map_err(|_| KernelError::Shape("rank"))?;
        let mut step: i64 = 1;
        for (stride, &extent) in strides.iter_mut().zip(shape).rev() {
            *stride = i32::try_from(step).map_err(|_| KernelError::Shape("size"))?;
            step *= i64::from(extent.max(1));
        }
        i32::try_from(step).map_err(|_| KernelError::Shape("size"))?;
        Ok(Self { dtype, offset: 0, padded_channels: 0, shape: dims, strides })
    }

    /// A channels-last view of `shape` = `[n, c, spatial…]` with channels padded to a multiple of
    /// [`DType::channel_multiple`].
    ///
    /// # Errors
    /// As [`View::contiguous`], or `Shape` where the rank is below 3.
    pub fn channels_last(dtype: DType, shape: &[u32]) -> Result<Self, KernelError> {
        if shape.len() < 3 {
            return Err(KernelError::Shape("channels-last needs a batch, channels and a spatial dimension"));
        }
        let padded_channels =
            shape[1].checked_next_multiple_of(dtype.channel_multiple()).ok_or(KernelError::Shape("size"))?;
        let mut view = Self::contiguous(dtype, shape)?;
        let mut step = i64::from(padded_channels);
        for d in (2..shape.len()).rev() {
            view.strides[d] = i32::try_from(step).map_err(|_| KernelError::Shape("size"))?;
            step *= i64::from(shape[d].max(1));
        }
        view.strides[0] = i32::try_from(step).map_err(|_| KernelError::Shape("size"))?;
        i32::try_from(step * i64::from(shape[0].max(1))).map_err(|_| KernelError::Shape("size"))?;
        view.strides[1] = 1;
        view.padded_channels = padded_channels;
        Ok(view)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Number of logical elements; the largest number where their product overflows.
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1, |elements: u64, &extent| elements.saturating_mul(extent.into()))
    }

    /// Whether dimension 1 is the innermost in memory (NHWC and its kin).
    pub fn is_channels_last(&self) -> bool {
        self.rank() >= 3 && self.padded_channels != 0 && self.strides[1] == 1
    }

    /// Whether the elements lie in row-major order without gaps, starting at the operand's first byte.
    pub fn is_contiguous(&self) -> bool {
        let mut step: i64 = 1;
        for (&stride, &extent) in self.strides.iter().zip(&self.shape).rev() {
            if extent != 1 && i64::from(stride) != step {
                return false;
            }
            step *= i64::from(extent);
        }
        self.offset == 0 && self.padded_channels == 0
    }

    /// Smallest operand, in bytes, that holds every element that this view reaches, padded channels included.
    ///
    /// # Errors
    /// `Shape` where ranks disagree, the view reaches before the operand's start, or sizes overflow.
    pub fn bytes(&self) -> Result<u64, KernelError> {
        if self.shape.len() != self.strides.len() {
            return Err(KernelError::Shape("rank of strides"));
        }
        if self.padded_channels != 0
            && (self.rank() < 3 || self.strides[1] != 1 || self.padded_channels < self.shape[1])
        {
            return Err(KernelError::Shape("lanes"));
        }
        if self.shape.contains(&0) {
            return Ok(0);
        }
        let (mut low, mut high) = (i64::from(self.offset), i64::from(self.offset));
        for (d, (&extent, &stride)) in self.shape.iter().zip(&self.strides).enumerate() {
            let extent = if d == 1 && self.padded_channels != 0 { self.padded_channels } else { extent };
            // Eight terms, each below 2^63 / 2^... : (2^32-1)·2^31 < 2^63, so check every sum.
            let reach = i64::from(extent - 1).checked_mul(i64::from(stride)).ok_or(KernelError::Shape("size"))?;
            let end = if reach < 0 { &mut low } else { &mut high };
            *end = end.checked_add(reach).ok_or(KernelError::Shape("size"))?;
        }
        if low < 0 {
            return Err(KernelError::Shape("view reaches before its operand"));
        }
        (high as u64 + 1).checked_mul(self.dtype.size() as u64).ok_or(KernelError::Shape("size"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_last_pads_channels_to_eight() {
        let view = View::channels_last(DType::F16, &[2, 3, 4, 5]).unwrap();
        assert_eq!(view.strides.as_slice(), [4 * 5 * 8, 1, 5 * 8, 8]);
        assert_eq!(view.bytes(), Ok(2 * 4 * 5 * 8 * 2));
    }

    #[test]
    fn negative_strides_need_an_offset() {
        let mut view = View::contiguous(DType::F32, &[4]).unwrap();
        view.strides[0] = -1;
        assert!(view.bytes().is_err());
        view.offset = 3;
        assert_eq!(view.bytes(), Ok(16));
    }
}
