//! Cases: none, since there is no reference kernel to compare with; and an example, for whoever reads and writes kernels.

use super::{Custom, Number};
#[cfg(feature = "codegen")]
use crate::Kernel;
use crate::{DType, View};

/// Kernels of this family that can be verified.
#[cfg(feature = "codegen")]
pub fn cases() -> Vec<Kernel> {
    Vec::new()
}

/// An operator with something of everything.
///
/// # Panics
/// Never: all of it fits.
pub fn example() -> Custom {
    let view = View::contiguous(DType::F32, &[2, 3]).expect("a small view");
    Custom {
        name: "d.Name".try_into().expect("a short name"),
        inputs: [view.clone(), view.clone()].into_iter().collect(),
        outputs: [view].into_iter().collect(),
        attributes: [Number::Integer(3), Number::Real(0.5)].into_iter().collect(),
        workspace: 64,
    }
}
