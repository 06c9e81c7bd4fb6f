//! Cases that the reference kernel and the GPU are verified on.

use super::{Reduce, Reduction};
use crate::{DType, Kernel, View};

/// A reduction of a row-major or channels-last tensor.
pub(super) fn case(kind: Reduction, dtype: DType, shape: &[u32], reduced: &[usize], channels_last: bool) -> Reduce {
    let view = |dtype, shape: &[u32]| {
        if channels_last { View::channels_last(dtype, shape) } else { View::contiguous(dtype, shape) }
    };
    let output: Vec<u32> =
        shape.iter().enumerate().map(|(d, &extent)| if reduced.contains(&d) { 1 } else { extent }).collect();
    let result = if kind.is_index() { DType::I64 } else { dtype };
    Reduce { input: view(dtype, shape).unwrap(), output: view(result, &output).unwrap(), kind }
}

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8, U64};
    use Reduction::{
        ArgMax, ArgMaxLast, ArgMin, ArgMinLast, L1, L2, LogSum, LogSumExp, Max, Mean, Min, Product, Sum, SumSquare,
    };
    let mut broadcast = case(Sum, F32, &[3, 5, 70], &[1], false);
    broadcast.input.strides[1] = 0;
    let mut backwards = case(Max, F16, &[7, 300], &[1], false);
    (backwards.input.strides[1], backwards.input.offset) = (-1, 299);
    let mut cases = vec![
        // Global average pooling.
        case(Mean, F16, &[1, 2048, 7, 7], &[2, 3], true),
        case(Mean, F16, &[2, 21, 13, 9], &[2, 3], true),
        case(Mean, F32, &[1, 1280, 7, 7], &[2, 3], true),
        case(Mean, F32, &[2, 37, 7, 7], &[2, 3], false),
        // Along rows, columns, the middle, everything, nothing.
        case(Sum, F32, &[9, 10_007], &[1], false),
        case(Sum, F16, &[1000, 33], &[0], false),
        case(SumSquare, Bf16, &[5, 64, 24], &[1], false),
        case(L2, F64, &[3, 4, 5, 6], &[0, 2], false),
        case(L1, F32, &[17, 19, 23], &[0, 1, 2], false),
        case(Sum, F32, &[17, 19], &[], false),
        case(Max, F16, &[2, 21, 5, 7], &[1], true),
        case(Min, F32, &[4, 1000], &[1], false),
        case(Product, F32, &[6, 11], &[1], false),
        case(LogSumExp, F32, &[12, 777], &[1], false),
        case(LogSumExp, F16, &[2, 19, 4, 6], &[2, 3], true),
        case(LogSum, Bf16, &[5, 31], &[1], false),
        // Indices.
        case(ArgMax, F16, &[1, 19, 33, 17], &[1], true),
        case(ArgMaxLast, F32, &[1, 5, 33, 17], &[1], false),
        case(ArgMin, I32, &[8, 500], &[1], false),
        case(ArgMinLast, U8, &[8, 500], &[1], false),
        // Integers.
        case(Sum, I8, &[3, 1000], &[1], false),
        case(Mean, I32, &[7, 9, 11], &[1], false),
        case(Product, I64, &[5, 7], &[0], false),
        case(Max, U64, &[5, 77], &[1], false),
        case(Max, Bool, &[5, 7], &[0], false),
    ];
    cases.extend([broadcast, backwards]);
    cases.into_iter().map(Kernel::Reduce).collect()
}
