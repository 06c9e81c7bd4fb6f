//! Cases that the reference kernel and the GPU are verified on.

use super::Determinant;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64};
    let case = |dtype, matrices: u32, n: u32| Determinant {
        input: View::contiguous(dtype, &[matrices, n, n]).unwrap(),
        output: View::contiguous(dtype, &[matrices]).unwrap(),
    };
    let mut cases = vec![
        case(F32, 1, 1),
        case(F32, 7, 2),
        case(F32, 300, 3),
        case(F64, 2, 5),
        case(F16, 3, 4),
        case(Bf16, 3, 3),
        case(F64, 1, 33),
        case(F32, 2, 0),
        case(F32, 0, 4),
    ];
    let mut turned = case(F32, 5, 6);
    turned.input.strides = [36, 1, 6].into_iter().collect();
    cases.push(turned);
    cases.into_iter().map(Kernel::Determinant).collect()
}
