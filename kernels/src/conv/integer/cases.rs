//! Cases that the reference kernel and the GPU are verified on.

use super::IntegerConv;
use crate::conv::Geometry;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and windows.
pub fn cases() -> Vec<Kernel> {
    use DType::{I8, I16, I32, U8};
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let mut cases = Vec::new();
    let mut case = |[x, w]: [DType; 2], shapes: [&[u32]; 3], steps: [[u32; 3]; 3], groups: u32| {
        let [input, weights, output] = shapes;
        let [strides, dilations, pads] = steps;
        let (input, weights, output) = (dense(x, input), dense(w, weights), dense(I32, output));
        let geometry = Geometry { input, weights, output, strides, dilations, pads, groups };
        cases.push(IntegerConv { geometry });
    };
    let (one, zero) = ([1; 3], [0; 3]);
    case([U8, I8], [&[1, 3, 9, 9], &[5, 3, 3, 3], &[1, 5, 9, 9]], [one, one, [0, 1, 1]], 1);
    case([I16, I16], [&[2, 4, 8, 7], &[6, 4, 2, 3], &[2, 6, 4, 3]], [[1, 2, 2], one, zero], 1);
    case([I8, I8], [&[1, 6, 11, 5], &[6, 1, 3, 3], &[1, 6, 9, 5]], [one, one, [0, 0, 1]], 6);
    case([U8, U8], [&[2, 4, 30], &[4, 2, 5], &[2, 4, 26]], [one, one, zero], 2);
    case([I8, I16], [&[1, 2, 5, 6, 7], &[3, 2, 2, 3, 2], &[1, 3, 4, 6, 3]], [[1, 1, 2], one, [0, 1, 0]], 1);
    case([I16, I8], [&[1, 2, 12, 12], &[3, 2, 3, 3], &[1, 3, 8, 10]], [one, [1, 2, 1], zero], 1);
    case([I16, I16], [&[1, 16, 1, 1], &[300, 16, 1, 1], &[1, 300, 1, 1]], [one, one, zero], 1);
    case([I8, I8], [&[1, 1, 4, 200], &[2, 1, 4, 4], &[1, 2, 1, 199]], [one, one, [0, 0, 1]], 1);
    let mut last = cases[0].clone();
    last.geometry.input = View::channels_last(U8, &[1, 3, 9, 9]).unwrap();
    last.geometry.output = View::channels_last(I32, &[1, 5, 9, 9]).unwrap();
    cases.push(last);
    cases.into_iter().map(Kernel::IntegerConv).collect()
}
