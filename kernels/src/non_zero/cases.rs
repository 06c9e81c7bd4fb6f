//! Cases that the reference kernel and the GPU are verified on.

use super::NonZero;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I32, I64, U8};
    let case = |input: View| {
        let (rank, elements) = (input.rank() as u32, input.elements() as u32);
        let (indices, count) = (View::contiguous(I64, &[rank, elements]), View::contiguous(I64, &[1]));
        NonZero { input, indices: indices.unwrap(), count: count.unwrap() }
    };
    let shapes: [(DType, &[u32]); 11] = [
        (Bool, &[7]),
        (Bool, &[8400]),
        (Bool, &[3, 1025]),
        (I8, &[1]),
        (U8, &[31, 2, 66]),
        (I32, &[2, 3, 4, 5, 2]),
        (I64, &[300]),
        (F32, &[40, 7]),
        (F16, &[257]),
        (F64, &[2, 9]),
        (Bool, &[3, 0]),
    ];
    let mut cases: Vec<NonZero> =
        shapes.into_iter().map(|(dtype, shape)| case(View::contiguous(dtype, shape).unwrap())).collect();
    cases.push(case(View::channels_last(Bf16, &[2, 21, 5, 4]).unwrap()));
    let mut turned = case(View::contiguous(Bool, &[90, 50]).unwrap());
    turned.input.strides = [1, 90].into_iter().collect();
    turned.indices.strides = [1, 2].into_iter().collect();
    cases.push(turned);
    cases.into_iter().map(Kernel::NonZero).collect()
}
