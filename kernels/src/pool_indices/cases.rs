//! Cases that the twin and the GPU are verified on.

use super::PoolIndices;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and windows.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64, I8, I64, U8};
    let shapes: [(DType, &[u32], &[u32], [u32; 3], [u32; 3], [u32; 3], [u32; 3], bool); 8] = [
        (F32, &[1, 3, 9, 9], &[1, 3, 4, 4], [1, 3, 3], [1, 2, 2], [1; 3], [0; 3], false),
        (F32, &[2, 3, 9, 8], &[2, 3, 5, 4], [1, 3, 3], [1, 2, 2], [1; 3], [0, 1, 1], true),
        (F16, &[1, 5, 20], &[1, 5, 9], [1, 1, 3], [1, 1, 2], [1; 3], [0; 3], false),
        (Bf16, &[1, 2, 5, 6, 7], &[1, 2, 4, 5, 6], [2, 2, 2], [1; 3], [1; 3], [0; 3], true),
        (F64, &[1, 2, 9, 9], &[1, 2, 5, 5], [1, 3, 3], [1; 3], [1, 2, 2], [0; 3], false),
        (I8, &[2, 2, 9, 9], &[2, 2, 9, 9], [1, 3, 3], [1; 3], [1; 3], [0, 1, 1], false),
        (U8, &[1, 2, 6, 6], &[1, 2, 3, 3], [1, 2, 2], [1, 2, 2], [1; 3], [0; 3], true),
        (I64, &[1, 1, 5, 5], &[1, 1, 3, 3], [1, 3, 3], [1; 3], [1; 3], [0; 3], false),
    ];
    let mut cases: Vec<PoolIndices> = shapes
        .into_iter()
        .map(|(dtype, input, output, window, strides, dilations, pads, column_major)| PoolIndices {
            input: View::contiguous(dtype, input).unwrap(),
            output: View::contiguous(I64, output).unwrap(),
            window,
            strides,
            dilations,
            pads,
            column_major,
        })
        .collect();
    let mut last = cases[0].clone();
    last.input = View::channels_last(F16, &[1, 3, 9, 9]).unwrap();
    cases.push(last);
    cases.into_iter().map(Kernel::PoolIndices).collect()
}
