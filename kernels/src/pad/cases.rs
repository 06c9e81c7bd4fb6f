//! Cases that the twin and the GPU are verified on.

use crate::Kernel;

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    Vec::new()
}
