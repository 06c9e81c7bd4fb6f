//! Cases that the reference kernel and the GPU are verified on.

use super::{Scatter, ScatterReduction};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and reductions.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8, U16};
    use ScatterReduction::{Add, Max, Min, Multiply, Replace};
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let mut cases: Vec<Scatter> = [
        (F32, 9, 1, 40, Add),
        (F32, 700, 3, 900, Add),
        (F16, 33, 17, 20, Add),
        (F32, 50, 64, 1, Replace),
        (F16, 5, 1000, 3, Replace),
        (Bool, 31, 7, 12, Replace),
        (I64, 31, 7, 12, Replace),
        (U8, 300, 1, 700, Replace),
        (F64, 13, 5, 30, Multiply),
        (Bf16, 13, 5, 9, Max),
        (F32, 13, 5, 30, Min),
        (I32, 70, 2, 300, Add),
        (I8, 70, 2, 300, Multiply),
        (U16, 70, 2, 300, Max),
        (I64, 7, 3, 30, Min),
        (F32, 4, 4, 0, Add),
    ]
    .into_iter()
    .map(|(dtype, rows, width, count, reduction)| Scatter {
        data: dense(dtype, &[rows, width]),
        indices: dense(I64, &[count]),
        updates: dense(dtype, &[count, width]),
        output: dense(dtype, &[rows, width]),
        reduction,
    })
    .collect();
    // Columns of a wider matrix, and rows from the last one on.
    let mut strided = Scatter {
        data: dense(F32, &[20, 9]),
        indices: dense(I64, &[15]),
        updates: dense(F32, &[15, 9]),
        output: dense(F32, &[20, 9]),
        reduction: Add,
    };
    strided.data.shape[1] = 5;
    strided.updates.shape[1] = 5;
    strided.output.shape[1] = 5;
    strided.output.offset = 19 * 9 + 2;
    strided.output.strides[0] = -9;
    cases.push(strided);
    cases.into_iter().map(Kernel::Scatter).collect()
}
