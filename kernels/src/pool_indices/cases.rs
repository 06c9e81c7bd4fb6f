//! Cases that the reference kernel and the GPU are verified on.

use super::PoolIndices;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and windows.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64, I8, I64, U8};
    let mut cases = Vec::new();
    let mut case = |dtype, shapes: [&[u32]; 2], parameters: [[u32; 3]; 4], column_major| {
        let [window, strides, dilations, pads] = parameters;
        cases.push(PoolIndices {
            input: View::contiguous(dtype, shapes[0]).unwrap(),
            output: View::contiguous(I64, shapes[1]).unwrap(),
            window,
            strides,
            dilations,
            pads,
            column_major,
        });
    };
    let (one, zero) = ([1; 3], [0; 3]);
    case(F32, [&[1, 3, 9, 9], &[1, 3, 4, 4]], [[1, 3, 3], [1, 2, 2], one, zero], false);
    case(F32, [&[2, 3, 9, 8], &[2, 3, 5, 4]], [[1, 3, 3], [1, 2, 2], one, [0, 1, 1]], true);
    case(F16, [&[1, 5, 20], &[1, 5, 9]], [[1, 1, 3], [1, 1, 2], one, zero], false);
    case(Bf16, [&[1, 2, 5, 6, 7], &[1, 2, 4, 5, 6]], [[2, 2, 2], one, one, zero], true);
    case(F64, [&[1, 2, 9, 9], &[1, 2, 5, 5]], [[1, 3, 3], one, [1, 2, 2], zero], false);
    case(I8, [&[2, 2, 9, 9], &[2, 2, 9, 9]], [[1, 3, 3], one, one, [0, 1, 1]], false);
    case(U8, [&[1, 2, 6, 6], &[1, 2, 3, 3]], [[1, 2, 2], [1, 2, 2], one, zero], true);
    case(I64, [&[1, 1, 5, 5], &[1, 1, 3, 3]], [[1, 3, 3], one, one, zero], false);
    let mut last = cases[0].clone();
    last.input = View::channels_last(F16, &[1, 3, 9, 9]).unwrap();
    cases.push(last);
    cases.into_iter().map(Kernel::PoolIndices).collect()
}
