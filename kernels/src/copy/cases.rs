//! Cases that the reference kernel and the GPU are verified on.

use super::Copy;
use crate::codegen::views::{broadcast, channels_last, dense, permuted, reversed, slice};
use crate::{DType, Kernel, View};

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    use DType::{F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I4, U4};
    let mut cases = Vec::new();
    let mut case = |source: View, destination: View| cases.push(Kernel::Copy(Copy { source, destination }));
    // The first and last step of most networks: row-major f32 to padded channels-last f16, and back.
    for shape in [[1, 3, 35, 37], [2, 11, 13, 9], [1, 64, 30, 30], [3, 130, 1, 5], [1, 1, 28, 28]] {
        case(dense(F32, &shape), channels_last(F16, &shape));
        case(channels_last(F16, &shape), dense(F32, &shape));
    }
    case(dense(U8, &[1, 3, 33, 40]), channels_last(F16, &[1, 3, 33, 40]));
    case(channels_last(F16, &[1, 19, 6, 7]), channels_last(F32, &[1, 19, 6, 7]));
    // Transposes of every element size.
    for dtype in [U8, F16, F32, I64] {
        case(permuted(dtype, &[67, 45], &[1, 0]), dense(dtype, &[67, 45]));
        case(permuted(dtype, &[3, 20, 34, 5], &[2, 0, 3, 1]), dense(dtype, &[3, 20, 34, 5]));
    }
    // Attention heads: [batch, tokens, heads, width] → [batch, heads, tokens, width].
    case(permuted(F16, &[2, 4, 50, 32], &[0, 2, 1, 3]), dense(F16, &[2, 4, 50, 32]));
    // Dense, sliced, concatenated, expanded, reversed.
    case(dense(F32, &[1027]), dense(F32, &[1027]));
    case(dense(I8, &[3, 5]), dense(I8, &[3, 5]));
    case(slice(dense(F32, &[4, 10, 16]), 1, 3, 5), dense(F32, &[4, 5, 16]));
    case(slice(dense(F16, &[4, 9, 17]), 2, 1, 16), dense(F16, &[4, 9, 16]));
    case(dense(F16, &[2, 8, 5, 5]), slice(dense(F16, &[2, 24, 5, 5]), 1, 8, 8));
    case(channels_last(F16, &[2, 16, 5, 5]), slice(channels_last(F16, &[2, 40, 5, 5]), 1, 24, 16));
    case(broadcast(F32, &[1, 6, 1], &[4, 6, 9]), dense(F32, &[4, 6, 9]));
    case(reversed(I32, &[6, 21]), dense(I32, &[6, 21]));
    case(dense(U16, &[6, 21]), reversed(U16, &[6, 21]));
    case(dense(F64, &[]), dense(F64, &[]));
    // Zeros outside the source.
    case(dense(F32, &[3, 5]), dense(F32, &[4, 8]));
    case(dense(F16, &[13, 30, 3, 3]), channels_last(F16, &[16, 32, 3, 3]));
    case(channels_last(F16, &[1, 5, 4, 4]), channels_last(F16, &[1, 12, 5, 4]));
    case(dense(F32, &[0, 4]), dense(F32, &[3, 4]));
    // Every conversion.
    let types = [F32, F16, Bf16, F64, I8, I16, I32, I64, U8, U16, U32, U64, Bool];
    for from in types {
        for to in types {
            case(dense(from, &[3, 43]), dense(to, &[3, 43]));
        }
    }
    case(dense(F32, &[1, 64, 112, 112]), channels_last(F16, &[1, 64, 112, 112]));
    // Narrow types: from and to each class, between them, moved as they are, tiled and padded.
    for narrow in [F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, I4, U4] {
        for other in [F32, F16, Bf16, F64, I8, I64, U64, Bool, F8E4M3, F8E5M2Fnuz, I4] {
            case(dense(other, &[3, 43]), dense(narrow, &[3, 43]));
            case(dense(narrow, &[3, 43]), dense(other, &[3, 43]));
        }
        case(permuted(narrow, &[67, 45], &[1, 0]), dense(F16, &[67, 45]));
        case(permuted(F32, &[67, 45], &[1, 0]), dense(narrow, &[67, 45]));
        case(dense(narrow, &[1, 5, 6, 7]), channels_last(narrow, &[1, 5, 6, 7]));
        case(channels_last(F16, &[1, 5, 6, 7]), channels_last(narrow, &[1, 5, 6, 7]));
    }
    cases
}
