//! Cases that the reference kernel and the GPU are verified on.

use super::Unique;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts, sorted and not.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8};
    let case = |dtype, [n, width]: [u32; 2], sorted| {
        let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
        let column = dense(I64, &[n]);
        Unique {
            input: dense(dtype, &[n, width]),
            first: column.clone(),
            inverse: column.clone(),
            counts: column,
            count: dense(I64, &[1]),
            sorted,
        }
    };
    let mut cases = vec![
        case(I64, [1, 1], true),
        case(I64, [1000, 1], true),
        case(I64, [301, 1], false),
        case(I32, [77, 2], true),
        case(I8, [130, 3], false),
        case(U8, [129, 2], true),
        case(Bool, [33, 4], true),
        case(F32, [200, 1], true),
        case(F32, [45, 7], false),
        case(F16, [65, 1], true),
        case(Bf16, [65, 1], false),
        case(F64, [9, 2], true),
        case(I32, [0, 3], true),
        case(I32, [5, 0], false),
    ];
    // Columns of a matrix.
    let mut turned = case(I8, [90, 2], true);
    turned.input.strides = [1, 90].into_iter().collect();
    cases.push(turned);
    cases.into_iter().map(Kernel::Unique).collect()
}
