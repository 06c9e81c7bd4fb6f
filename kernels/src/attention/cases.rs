//! Cases that the reference kernel and the GPU are verified on.

use super::Attention;
use crate::{DType, Kernel, View};

/// `[batch, heads, rows, size]` stored as `[batch, rows, heads, size]`, the way projections leave it, `packed` such
/// tensors side by side.
fn interleaved(dtype: DType, [batch, heads, rows, size]: [u32; 4], packed: u32) -> View {
    let mut view = View::contiguous(dtype, &[batch, rows, packed * heads, size]).expect("a small shape");
    view.shape[2] = heads;
    view.shape.swap(1, 2);
    view.strides.swap(1, 2);
    view
}

/// Self-attention on packed queries, keys and values: `[batch, heads, tokens, size]`.
pub(super) fn packed(dtype: DType, shape: [u32; 4]) -> Attention {
    let [_, heads, _, size] = shape;
    let part = |number: u32| View { offset: number * heads * size, ..interleaved(dtype, shape, 3) };
    Attention {
        query: part(0),
        key: part(1),
        value: part(2),
        mask: None,
        output: interleaved(dtype, shape, 1),
        scale: 1.0 / (size as f32).sqrt(),
        softcap: 0.0,
        causal: None,
    }
}

/// Dense operands: `[batch, heads, queries, size]` against `[batch, shared heads, keys, size]`.
pub(super) fn dense(
    dtype: DType,
    [batch, heads, queries, size]: [u32; 4],
    [shared_heads, keys, value_size]: [u32; 3],
) -> Attention {
    let view = |shape: [u32; 4]| View::contiguous(dtype, &shape).expect("a small shape");
    Attention {
        query: view([batch, heads, queries, size]),
        key: view([batch, shared_heads, keys, size]),
        value: view([batch, shared_heads, keys, value_size]),
        mask: None,
        output: view([batch, heads, queries, value_size]),
        scale: 1.0 / (size as f32).sqrt(),
        softcap: 0.0,
        causal: None,
    }
}

/// The same with a mask of extents `from` (1 where it repeats).
fn masked(attention: Attention, dtype: DType, from: [u32; 4]) -> Attention {
    let (query, key) = (&attention.query.shape, &attention.key.shape);
    let to = [query[0], query[1], query[2], key[2]];
    let mut mask = View::contiguous(dtype, &from).expect("a small shape");
    for d in 0..4 {
        if from[d] != to[d] {
            mask.strides[d] = 0;
            mask.shape[d] = to[d];
        }
    }
    Attention { mask: Some(mask), ..attention }
}

/// Kernels of this family with odd sizes, types, layouts and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, Bool, F16, F32};
    let mut cases = vec![
        packed(F16, [1, 3, 197, 64]),
        packed(F16, [1, 12, 128, 32]),
        // Windows, of which a multiprocessor holds several at a time.
        packed(F16, [64, 3, 49, 32]),
        packed(F32, [1, 2, 37, 24]),
        packed(Bf16, [2, 2, 50, 40]),
        dense(F16, [1, 2, 300, 128], [2, 700, 128]),
        dense(F16, [1, 1, 33, 256], [1, 65, 256]),
        dense(F32, [1, 1, 17, 256], [1, 40, 256]),
        dense(F16, [2, 4, 19, 16], [1, 23, 8]),
        dense(F32, [2, 6, 5, 20], [3, 9, 33]),
        dense(F16, [1, 8, 1, 64], [2, 513, 64]),
        dense(F16, [1, 2, 21, 13], [2, 31, 7]),
        dense(Bf16, [1, 2, 70, 96], [2, 70, 72]),
        dense(F16, [1, 1, 1, 8], [1, 1, 8]),
        masked(dense(F16, [2, 3, 40, 32], [3, 50, 32]), F16, [2, 1, 1, 50]),
        masked(dense(F32, [1, 2, 12, 8], [2, 20, 8]), F32, [1, 1, 12, 20]),
        masked(dense(F16, [1, 4, 33, 64], [4, 130, 64]), F32, [1, 4, 33, 130]),
        masked(packed(F16, [1, 2, 65, 64]), F16, [1, 2, 65, 65]),
        // Scores that exceed former maxima by far.
        Attention { scale: 3.0, ..packed(F16, [1, 2, 197, 64]) },
        Attention { scale: 3.0, ..packed(Bf16, [1, 1, 150, 32]) },
    ];
    for dtype in [F16, F32] {
        cases.push(Attention { causal: Some(0), ..dense(dtype, [1, 2, 77, 64], [2, 77, 64]) });
        cases.push(Attention {
            causal: Some(60),
            softcap: 5.0,
            scale: 2.0,
            ..dense(dtype, [1, 4, 9, 32], [2, 69, 32])
        });
        // Some queries see nothing, and there are more queries than keys.
        cases.push(Attention { causal: Some(-3), ..dense(dtype, [1, 1, 20, 16], [1, 11, 16]) });
        // Keys stored transposed, values reversed in memory.
        let mut strided = dense(dtype, [2, 2, 18, 24], [2, 45, 24]);
        strided.key.strides[2] = 1;
        strided.key.strides[3] = 45;
        strided.value.offset = 2 * 2 * 45 * 24 - 1;
        strided.value.strides.iter_mut().for_each(|stride| *stride = -*stride);
        cases.push(strided);
        // Rows of a wider tensor at odd places.
        let mut odd = dense(dtype, [1, 1, 18, 24], [1, 20, 24]);
        odd.query.offset = 3;
        odd.query.strides[2] = 29;
        odd.output.strides[2] = 27;
        cases.push(odd);
        cases.push(masked(dense(dtype, [1, 2, 22, 16], [2, 70, 16]), Bool, [1, 1, 22, 70]));
    }
    cases.into_iter().map(Kernel::Attention).collect()
}
