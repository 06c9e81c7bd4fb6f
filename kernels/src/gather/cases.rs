//! Cases that the reference kernel and the GPU are verified on.

use super::Gather;
use crate::codegen::views::{channels_last, dense, permuted, reversed};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bool, F16, F32, F64, I8, I32, I64};
    let mut cases = Vec::new();
    let mut case = |data: View, indices: View, axis: u8, output: View| {
        cases.push(Kernel::Gather(Gather { data, indices, output, axis }));
    };
    for dtype in [F32, F16, I64, I8, F64, Bool] {
        // A table of embeddings.
        case(dense(dtype, &[50, 48]), dense(I64, &[2, 9]), 0, dense(dtype, &[2, 9, 48]));
        case(dense(dtype, &[50, 13]), dense(I32, &[7]), 0, dense(dtype, &[7, 13]));
        case(dense(dtype, &[5, 6, 7]), dense(I64, &[3]), 1, dense(dtype, &[5, 3, 7]));
        case(dense(dtype, &[5, 6, 7]), dense(I32, &[2, 4]), 2, dense(dtype, &[5, 6, 2, 4]));
    }
    // One index drops the dimension.
    case(dense(F32, &[4, 5, 6]), dense(I64, &[]), 1, dense(F32, &[4, 6]));
    case(dense(F32, &[9]), dense(I64, &[]), 0, dense(F32, &[]));
    // Layouts.
    let shape = [2, 10, 6, 5];
    case(channels_last(F16, &shape), dense(I64, &[12]), 1, channels_last(F16, &[2, 12, 6, 5]));
    case(channels_last(F16, &shape), dense(I64, &[9]), 2, channels_last(F16, &[2, 10, 9, 5]));
    case(permuted(F32, &shape, &[2, 0, 3, 1]), reversed(I32, &[3, 2]), 0, dense(F32, &[3, 2, 10, 6, 5]));
    case(reversed(F16, &[30, 16]), dense(I32, &[11]), 0, reversed(F16, &[11, 16]));
    cases
}
