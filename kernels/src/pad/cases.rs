//! Cases that the reference kernel and the GPU are verified on.

use super::{Pad, PadMode};
use crate::codegen::views::{channels_last, dense, permuted, reversed};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bool, F16, F32, F64, I8, I64, U16};
    let mut cases = Vec::new();
    let mut case = |input: View, output: View, before: &[i32], mode: PadMode| {
        let before = before.iter().copied().collect();
        cases.push(Kernel::Pad(Pad { input, output, before, mode }));
    };
    let modes = [PadMode::Constant(-1.5), PadMode::Reflect, PadMode::Edge, PadMode::Wrap];
    let (from, to, before) = ([2, 3, 5, 6], [2, 5, 9, 11], [0, 1, 3, 2]);
    for mode in modes {
        for dtype in [F32, F16, I64, I8] {
            case(dense(dtype, &from), dense(dtype, &to), &before, mode);
        }
        case(channels_last(F16, &from), channels_last(F16, &to), &before, mode);
        case(channels_last(F16, &from), dense(F16, &to), &before, mode);
        // Crops on one side, extends on the other.
        case(dense(F32, &[7, 9]), dense(F32, &[6, 12]), &[-2, 4], mode);
        case(reversed(U16, &[7, 9]), permuted(U16, &[9, 9], &[1, 0]), &[1, 0], mode);
        // More than one period.
        case(dense(F64, &[3]), dense(F64, &[20]), &[9], mode);
        case(dense(F32, &[1, 4]), dense(F32, &[5, 4]), &[2, 0], mode);
    }
    case(dense(Bool, &[3, 3]), dense(Bool, &[5, 5]), &[1, 1], PadMode::Constant(1.0));
    case(dense(F32, &[0, 3]), dense(F32, &[2, 3]), &[1, 0], PadMode::Constant(7.0));
    case(dense(F32, &[]), dense(F32, &[]), &[], PadMode::Edge);
    cases
}
