//! Cases that the reference kernel and the GPU are verified on.

use super::TopK;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and many equal elements.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8};
    let shapes: [(DType, &[u32], u8, u32, bool); 14] = [
        (F32, &[1000], 0, 5, true),
        (F32, &[3, 129], 1, 129, false),
        (F32, &[1, 8400], 1, 100, true),
        (F16, &[4, 300], 1, 10, true),
        (Bf16, &[40, 3], 0, 7, false),
        (F64, &[2, 50, 3], 1, 4, true),
        (I8, &[3, 200], 1, 50, true),
        (U8, &[3, 200], 1, 50, false),
        (I32, &[5, 33], 1, 1, true),
        (I64, &[2, 3, 4, 5], 2, 2, false),
        (Bool, &[6, 20], 1, 8, true),
        (F32, &[7, 1], 1, 1, true),
        (F32, &[4, 6], 1, 0, true),
        (F32, &[9, 2, 31], 2, 3, true),
    ];
    let mut cases: Vec<TopK> = shapes
        .into_iter()
        .map(|(dtype, shape, axis, k, largest)| {
            let mut best = shape.to_vec();
            best[usize::from(axis)] = k;
            TopK {
                input: View::contiguous(dtype, shape).unwrap(),
                values: View::contiguous(dtype, &best).unwrap(),
                indices: View::contiguous(I64, &best).unwrap(),
                axis,
                largest,
            }
        })
        .collect();
    let mut last = cases[0].clone();
    last.input = View::channels_last(F16, &[2, 21, 5, 4]).unwrap();
    last.values = View::contiguous(F16, &[2, 3, 5, 4]).unwrap();
    last.indices = View::contiguous(I64, &[2, 3, 5, 4]).unwrap();
    last.axis = 1;
    cases.push(last);
    cases.into_iter().map(Kernel::TopK).collect()
}
