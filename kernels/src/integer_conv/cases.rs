//! Cases that the twin and the GPU are verified on.

use super::IntegerConv;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and windows.
pub fn cases() -> Vec<Kernel> {
    use DType::{I8, I16, I32, U8};
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let shapes: [(DType, DType, &[u32], &[u32], &[u32], [u32; 3], [u32; 3], [u32; 3], u32); 8] = [
        (U8, I8, &[1, 3, 9, 9], &[5, 3, 3, 3], &[1, 5, 9, 9], [1; 3], [1; 3], [0, 1, 1], 1),
        (I16, I16, &[2, 4, 8, 7], &[6, 4, 2, 3], &[2, 6, 4, 3], [1, 2, 2], [1; 3], [0, 0, 0], 1),
        (I8, I8, &[1, 6, 11, 5], &[6, 1, 3, 3], &[1, 6, 9, 5], [1; 3], [1; 3], [0, 0, 1], 6),
        (U8, U8, &[2, 4, 30], &[4, 2, 5], &[2, 4, 26], [1; 3], [1; 3], [0; 3], 2),
        (I8, I16, &[1, 2, 5, 6, 7], &[3, 2, 2, 3, 2], &[1, 3, 4, 6, 3], [1, 1, 2], [1; 3], [0, 1, 0], 1),
        (I16, I8, &[1, 2, 12, 12], &[3, 2, 3, 3], &[1, 3, 8, 10], [1; 3], [1, 2, 1], [0; 3], 1),
        (I16, I16, &[1, 16, 1, 1], &[300, 16, 1, 1], &[1, 300, 1, 1], [1; 3], [1; 3], [0; 3], 1),
        (I8, I8, &[1, 1, 4, 200], &[2, 1, 4, 4], &[1, 2, 1, 199], [1; 3], [1; 3], [0, 0, 1], 1),
    ];
    let mut cases: Vec<IntegerConv> = shapes
        .into_iter()
        .map(|(x, w, input, weights, output, strides, dilations, pads, groups)| IntegerConv {
            input: dense(x, input),
            weights: dense(w, weights),
            output: dense(I32, output),
            strides,
            dilations,
            pads,
            groups,
        })
        .collect();
    let mut last = cases[0].clone();
    last.input = View::channels_last(U8, &[1, 3, 9, 9]).unwrap();
    last.output = View::channels_last(I32, &[1, 5, 9, 9]).unwrap();
    cases.push(last);
    cases.into_iter().map(Kernel::IntegerConv).collect()
}
