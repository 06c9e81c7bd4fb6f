//! Cases that the reference kernel and the GPU are verified on.

use super::Lrn;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, F64};
    let parameters = [
        (F32, [1, 96, 27, 27], 5, 1e-4, 0.75, 1.0, false),
        (F16, [1, 64, 28, 28], 5, 1e-4, 0.75, 1.0, true),
        (F16, [2, 21, 5, 7], 4, 0.5, 0.75, 2.0, true),
        (F32, [2, 7, 3, 5], 1, 0.1, 0.5, 1.0, true),
        (F32, [2, 7, 3, 5], 20, 0.1, 1.0, 1.5, false),
        (Bf16, [1, 9, 4, 4], 3, 0.01, 0.6, 1.0, false),
        (F64, [1, 9, 4, 4], 2, 0.01, 0.6, 1.0, false),
        (F32, [1, 1, 4, 4], 5, 0.3, 0.75, 1.0, true),
        (F16, [3, 40, 1, 1], 9, 0.3, 0.75, 1.0, true),
        (F32, [1, 16, 31, 1], 6, 0.3, 0.25, 0.5, false),
    ];
    let cases = parameters.into_iter().map(|(dtype, shape, size, alpha, beta, bias, channels_last)| {
        let view = if channels_last { View::channels_last(dtype, &shape) } else { View::contiguous(dtype, &shape) };
        let view = view.unwrap();
        Kernel::Lrn(Lrn { input: view.clone(), output: view, size, alpha, beta, bias })
    });
    cases.collect()
}
