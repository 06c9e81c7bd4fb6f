//! How operands are brought into the form that a candidate wants.

use crate::{DType, KernelError, View};
use half::{bf16, f16};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// How an input operand must lie in memory for a candidate. The compiler repacks constants at compile time and inserts
/// copies for everything else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// As the kernel's view says.
    Keep,
    /// Copied into this view first. Extents may be larger than the operand's and strides may leave gaps: every byte that the
    /// view spans and no element lands on is zero.
    View(View),
    /// Computed from a constant at compile time: a candidate that asks for it cannot run where the operand is not one.
    Transform(Arc<dyn Transform>),
}

/// Weights in another basis, as an algorithm wants them.
pub trait Transform: fmt::Debug + Send + Sync {
    /// What the basis is called.
    fn name(&self) -> &'static str;

    /// Element type and bytes of what [`Transform::apply`] makes of an operand; `None` where it refuses it.
    fn result(&self, from: &View) -> Option<(DType, u64)>;

    /// The transformed operand. `source` holds the elements of `from`.
    ///
    /// # Errors
    /// Where `from` is not what the transform is for, where `source` is too short, or where a result is beyond the range
    /// of its element type.
    fn apply(&self, source: &[u8], from: &View) -> Result<Vec<u8>, KernelError>;
}

/// Name and parameters, which are all of a transform.
impl fmt::Display for dyn Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({self:?})", self.name())
    }
}

impl PartialEq for dyn Transform {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for dyn Transform {}

impl Hash for dyn Transform {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.to_string().hash(state);
    }
}

/// Element number `index` of an operand of floats.
///
/// # Errors
/// Where the operand ends before it or has another type.
pub(crate) fn read_float(source: &[u8], dtype: DType, index: i64) -> Result<f64, KernelError> {
    let size = dtype.size();
    let start = usize::try_from(index).ok().and_then(|i| i.checked_mul(size));
    let bytes = start.and_then(|start| source.get(start..)?.get(..size)).ok_or(KernelError::OperandTooShort(1))?;
    match (dtype, bytes) {
        (DType::F32, &[a, b, c, d]) => Ok(f32::from_le_bytes([a, b, c, d]).into()),
        (DType::F16, &[a, b]) => Ok(f16::from_le_bytes([a, b]).into()),
        (DType::Bf16, &[a, b]) => Ok(bf16::from_le_bytes([a, b]).into()),
        _ => Err(KernelError::Type("operand of a transform")),
    }
}

/// Appends a float, rounded once.
///
/// # Errors
/// Where a finite value is beyond the range of the type, or the type is none of f32, f16 and bf16.
pub(crate) fn push_float(result: &mut Vec<u8>, dtype: DType, value: f64) -> Result<(), KernelError> {
    let finite = match dtype {
        DType::F32 => {
            let rounded = value as f32;
            result.extend(rounded.to_le_bytes());
            rounded.is_finite()
        }
        DType::F16 => {
            let rounded = f16::from_f64(value);
            result.extend(rounded.to_le_bytes());
            rounded.is_finite()
        }
        DType::Bf16 => {
            let rounded = bf16::from_f64(value);
            result.extend(rounded.to_le_bytes());
            rounded.is_finite()
        }
        _ => return Err(KernelError::Type("result of a transform")),
    };
    if finite || !value.is_finite() {
        Ok(())
    } else {
        Err(KernelError::Parameter("transformed weights overflow their type"))
    }
}
