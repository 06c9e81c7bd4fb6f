//! Cases that the reference kernel and the GPU are verified on.

use super::Softmax;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64};
    let rows = [
        (F32, vec![1, 1000], 1, false),
        (F16, vec![1, 1000], 1, false),
        (F16, vec![12, 197, 197], 2, false),
        (F32, vec![3, 128, 128], 2, false),
        (F16, vec![6, 128, 128], 2, true),
        (Bf16, vec![5, 33], 1, true),
        (F64, vec![4, 77], 1, false),
        (F32, vec![2, 5000], 1, true),
        (F16, vec![2, 50_257], 1, false),
        (F32, vec![2, 19, 9, 7], 1, false),
        (F16, vec![2, 19, 9, 7], 2, true),
        (F32, vec![300, 4], 0, false),
        (F32, vec![7, 1], 1, false),
    ];
    let mut cases: Vec<Softmax> = rows
        .into_iter()
        .map(|(dtype, shape, axis, log)| {
            let view = View::contiguous(dtype, &shape).unwrap();
            Softmax { input: view.clone(), output: view, axis, log }
        })
        .collect();
    for (dtype, shape, axis, log) in
        [(F16, [1, 21, 17, 13], 1, false), (F32, [2, 3, 9, 11], 3, true), (F32, [1, 19, 33, 5], 1, true)]
    {
        let view = View::channels_last(dtype, &shape).unwrap();
        cases.push(Softmax { input: view.clone(), output: view, axis, log });
    }
    // From row-major to channels-last.
    let (input, output) = (View::contiguous(F32, &[2, 5, 6, 7]), View::channels_last(F32, &[2, 5, 6, 7]));
    cases.push(Softmax { input: input.unwrap(), output: output.unwrap(), axis: 1, log: false });
    // Short rows that lie apart in the output, in the input, at odd places, and too long for registers.
    let turned = |dtype: DType, shape: [u32; 3]| {
        let mut view = View::contiguous(dtype, &[shape[0], shape[2], shape[1]]).unwrap();
        view.shape.swap(1, 2);
        view.strides.swap(1, 2);
        view
    };
    for (from, to, shape, log) in [
        (F16, F16, [2, 300, 16], false),
        (F16, F32, [1, 77, 32], true),
        (F32, Bf16, [3, 41, 12], false),
        (F16, F16, [2, 9, 30], false),
        (F64, F64, [1, 19, 6], false),
        (F16, F16, [1, 50, 40], false),
    ] {
        let rows = |dtype: DType| View::contiguous(dtype, &shape).unwrap();
        cases.push(Softmax { input: rows(from), output: turned(to, shape), axis: 2, log });
        cases.push(Softmax { input: turned(from, shape), output: rows(to), axis: 2, log });
    }
    // Of another type: scores whose masks are beyond f16's range.
    for (from, to, shape, log) in [
        (F32, F16, vec![3, 33, 128], false),
        (F32, F16, vec![2, 5000], false),
        (F32, F16, vec![5, 7, 30], false),
        (F16, F32, vec![4, 264], true),
        (F32, Bf16, vec![9, 77], false),
    ] {
        let axis = shape.len() as u8 - 1;
        let (input, output) = (View::contiguous(from, &shape).unwrap(), View::contiguous(to, &shape).unwrap());
        cases.push(Softmax { input, output, axis, log });
    }
    let (input, output) = (View::contiguous(F32, &[1, 12, 9, 5]), View::channels_last(F16, &[1, 12, 9, 5]));
    cases.push(Softmax { input: input.unwrap(), output: output.unwrap(), axis: 1, log: false });
    cases.into_iter().map(Kernel::Softmax).collect()
}
