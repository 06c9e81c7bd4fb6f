//! Cases that the reference kernel and the GPU are verified on.

use super::NonMaxSuppression;
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types and layouts: one tile and several, few boxes wanted and all.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, I64};
    let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
    let case = |[images, classes, boxes, limit]: [u32; 4], [first, second]: [DType; 2], scored: bool, center: bool| {
        NonMaxSuppression {
            boxes: dense(first, &[images, boxes, 4]),
            scores: dense(second, &[images, classes, boxes]),
            thresholds: dense(F32, &[1 + u32::from(scored)]),
            indices: dense(I64, &[images * classes * limit, 3]),
            count: dense(I64, &[1]),
            center,
        }
    };
    // Images, classes, boxes and limit; types of boxes and scores; whether scores have a threshold; whether centres.
    let mut cases = vec![
        case([1, 1, 6, 3], [F32, F32], true, false),
        case([1, 1, 6, 6], [F32, F32], false, true),
        case([2, 3, 77, 77], [F32, F32], true, false),
        case([1, 2, 1, 1], [F32, F32], false, false),
        case([1, 1, 1025, 100], [F32, F16], true, false),
        case([3, 1, 300, 7], [F16, F32], false, true),
        case([1, 4, 2049, 300], [F32, F32], true, true),
        case([2, 2, 513, 33], [Bf16, Bf16], false, false),
        case([1, 1, 8400, 300], [F32, F32], true, false),
        case([1, 1, 5000, 5000], [F32, F32], false, false),
        case([1, 3, 40, 0], [F32, F32], true, false),
        case([0, 3, 40, 5], [F32, F32], true, false),
        case([1, 3, 0, 0], [F32, F32], true, false),
    ];
    // As detectors leave them: scores of a box together, boxes in planes.
    let mut turned = case([2, 5, 700, 20], [F16, F16], true, true);
    turned.scores.strides = [700 * 5, 1, 5].into_iter().collect();
    turned.boxes.strides = [700 * 4, 1, 700].into_iter().collect();
    cases.push(turned);
    cases.into_iter().map(Kernel::NonMaxSuppression).collect()
}
