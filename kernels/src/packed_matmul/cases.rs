//! Cases that the reference kernel and the GPU are verified on.

use super::PackedMatMul;
use crate::{DType, Kernel, View};

/// Kernels of this family: projections of language models, few and odd columns, every kind of zero point.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32, U8};
    let parameters = [
        // Rows, columns, summed extent, weights of a block, bits, types of x and y, of scales, of zero points.
        ([1, 96, 256], 32, 4, [F16, F16], F16, None),
        ([1, 4096, 1024], 32, 4, [F16, F16], F16, Some(U8)),
        ([1, 1000, 2048], 128, 4, [F16, F16], F32, Some(U8)),
        ([1, 37, 96], 32, 4, [F32, F32], F32, Some(U8)),
        ([1, 51, 80], 16, 4, [F32, F32], F32, None),
        ([2, 130, 512], 64, 4, [F16, F16], F16, Some(F16)),
        ([3, 33, 1536], 256, 4, [F16, F32], F16, None),
        ([4, 257, 160], 32, 4, [Bf16, Bf16], F32, Some(F32)),
        ([8, 64, 1024], 32, 4, [F16, F16], F16, Some(U8)),
        ([5, 1, 48], 16, 4, [F32, F32], F32, Some(U8)),
        ([1, 300, 512], 32, 8, [F16, F16], F16, Some(U8)),
        ([1, 21, 48], 16, 8, [F32, F32], F32, None),
        ([7, 65, 384], 128, 8, [F16, F16], F32, Some(F32)),
        ([1, 8, 16], 16, 4, [F16, F16], F16, Some(U8)),
    ];
    let cases = parameters.into_iter().map(|([m, n, k], block, bits, [x, y], scale, zero)| {
        let blocks = k / block;
        let dense = |dtype, shape: &[u32]| View::contiguous(dtype, shape).unwrap();
        let zeros = zero.map(|dtype| match dtype {
            U8 => dense(U8, &[n, (blocks * bits).div_ceil(8)]),
            dtype => dense(dtype, &[n, blocks]),
        });
        let (mut input, mut output) = (dense(x, &[m, k]), dense(y, &[m, n]));
        if m == 3 {
            // Rows of a larger matrix.
            input.strides[0] += 8;
            output.strides[0] += 3;
        }
        let (weights, scales) = (dense(U8, &[n, blocks, block * bits / 8]), dense(scale, &[n, blocks]));
        Kernel::PackedMatMul(PackedMatMul { input, weights, scales, zeros, output, bits })
    });
    cases.collect()
}
