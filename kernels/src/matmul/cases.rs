//! Matrix products that exercise the family, for the tests of reference kernels and candidates.

use super::MatMul;
use crate::conv::cases::{ADD_RELU, CLIP, RELU, SILU, epilogue};
use crate::pointwise::{Binary, Epilogue, Instruction};
use crate::{DType, Kernel, View};

/// `x / 64`.
const SCALED: &[Instruction] =
    &[Instruction::Input(0), Instruction::Float(1.0 / 64.0), Instruction::Binary(Binary::Mul, 0, 1)];

/// The matrices of the last two dimensions, transposed.
fn transpose(view: &View) -> View {
    let (mut view, rank) = (view.clone(), view.rank());
    view.shape.swap(rank - 2, rank - 1);
    view.strides.swap(rank - 2, rank - 1);
    view
}

fn contiguous(dtype: DType, shape: &[u32]) -> View {
    View::contiguous(dtype, shape).expect("a small shape")
}

/// `batch × [m, k] × [k, n]`; `a` and `b` are stored transposed where asked.
fn product(
    dtype: DType,
    batch: &[u32],
    [m, k, n]: [u32; 3],
    transposed: (bool, bool),
    finish: impl FnOnce(&View) -> Epilogue,
) -> MatMul {
    let matrix = |rows: u32, columns: u32, transposed: bool| {
        let shape = if transposed { [columns, rows] } else { [rows, columns] };
        let view = contiguous(dtype, &[batch, &shape].concat());
        if transposed { transpose(&view) } else { view }
    };
    let output = matrix(m, n, false);
    let epilogue = finish(&output);
    MatMul { a: matrix(m, k, transposed.0), b: matrix(k, n, transposed.1), output, epilogue }
}

/// `batch × [m, k]` by one `[k, n]`.
pub(super) fn by_one_matrix(
    dtype: DType,
    batch: &[u32],
    [m, k, n]: [u32; 3],
    finish: impl FnOnce(&View) -> Epilogue,
) -> MatMul {
    let mut b = contiguous(dtype, &[&vec![1; batch.len()], &[k, n][..]].concat());
    b.shape.iter_mut().zip(batch).for_each(|(extent, &all)| *extent = all);
    b.strides.iter_mut().take(batch.len()).for_each(|stride| *stride = 0);
    let output = contiguous(dtype, &[batch, &[m, n]].concat());
    let epilogue = finish(&output);
    MatMul { a: contiguous(dtype, &[batch, &[m, k]].concat()), b, output, epilogue }
}

/// The cases: f16 and f32 with every transposition and epilogue, then the plain types.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let silu = |_: &View| epilogue(true, SILU, &[]);
    let clip = |_: &View| epilogue(false, CLIP, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    // The same row added to every row.
    let row = |output: &View| {
        let mut extra = output.clone();
        let rank = extra.rank();
        extra.strides.iter_mut().take(rank - 1).for_each(|stride| *stride = 0);
        epilogue(false, ADD_RELU, &[extra])
    };
    let (plain, b_t, a_t, both) = ((false, false), (false, true), (true, false), (true, true));
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::F32] {
        cases.push(product(dtype, &[], [64, 64, 64], plain, none));
        cases.push(product(dtype, &[], [128, 256, 96], b_t, relu));
        cases.push(product(dtype, &[], [33, 65, 47], plain, bias));
        cases.push(product(dtype, &[], [17, 40, 200], a_t, clip));
        cases.push(product(dtype, &[], [50, 24, 31], both, silu));
        cases.push(product(dtype, &[], [40, 72, 56], b_t, residual));
        cases.push(product(dtype, &[], [21, 16, 33], plain, row));
        // Vectors, both ways.
        cases.push(product(dtype, &[], [1, 512, 100], b_t, bias));
        cases.push(product(dtype, &[], [1, 300, 257], plain, relu));
        cases.push(product(dtype, &[], [3, 130, 70], b_t, residual));
        cases.push(product(dtype, &[], [200, 64, 1], plain, none));
        cases.push(product(dtype, &[], [1, 1, 1], plain, bias));
        cases.push(product(dtype, &[], [1, 2048, 64], b_t, bias));
        // Batches: attention's two products, and a broadcast right factor.
        cases.push(product(dtype, &[2, 3], [20, 16, 20], b_t, none));
        cases.push(product(dtype, &[2, 3], [20, 20, 16], plain, residual));
        let mut broadcast = product(dtype, &[4], [10, 32, 24], plain, bias);
        broadcast.b = contiguous(dtype, &[1, 32, 24]);
        broadcast.b.shape[0] = 4;
        broadcast.b.strides[0] = 0;
        cases.push(broadcast);
        // Heads interleaved as a transposition leaves them: `[tokens, heads, size]` seen as `[heads, tokens, size]`.
        let mut heads = product(dtype, &[4], [12, 16, 12], b_t, none);
        for (view, swap) in [(&mut heads.a, false), (&mut heads.b, true)] {
            *view = contiguous(dtype, &[12, 4, 16]);
            view.shape.swap(0, 1);
            view.strides.swap(0, 1);
            if swap {
                *view = transpose(view);
            }
        }
        cases.push(heads);
        // Columns of a wider output, rows of a wider input.
        let mut sliced = product(dtype, &[], [30, 24, 40], plain, relu);
        sliced.a.strides[0] = 64;
        sliced.a.offset = 8;
        sliced.output.strides[0] = 104;
        sliced.output.offset = 16;
        cases.push(sliced);
        // Nothing to sum.
        cases.push(product(dtype, &[], [5, 0, 9], plain, bias));
    }
    // Warp tiles with exchanged sides that are so large that they copy between their products.
    cases.push(product(DType::F16, &[], [104, 1160, 768], plain, bias));
    // Halves into floats, for epilogues beyond the range of f16.
    for (batch, sizes, transposed) in [
        (&[2, 3][..], [20, 16, 20], b_t),
        (&[], [128, 64, 96], plain),
        (&[], [1, 512, 100], b_t),
        (&[], [33, 65, 47], plain),
    ] {
        let mut wide = product(DType::F16, batch, sizes, transposed, relu);
        wide.output.dtype = DType::F32;
        cases.push(wide);
    }
    // Floats of 8 bits: attention's two products, plain ones, heads interleaved, odd sizes, few rows.
    let (four, five) = (DType::F8E4M3, DType::F8E5M2);
    let scaled = |_: &View| epilogue(false, SCALED, &[]);
    for (types, batch, sizes, transposed, output) in [
        ([four, four], &[2, 3][..], [80, 64, 96], b_t, DType::F16),
        ([four, four], &[2, 3], [80, 96, 64], plain, four),
        ([five, four], &[], [128, 256, 96], b_t, five),
        ([four, five], &[2], [33, 48, 40], plain, DType::F32),
        ([five, five], &[3], [19, 37, 21], b_t, DType::F16),
        ([four, four], &[2], [17, 23, 9], both, four),
        ([four, four], &[4], [1, 128, 72], b_t, DType::F32),
        ([five, four], &[], [3, 130, 70], a_t, DType::Bf16),
    ] {
        let mut narrow = product(types[0], batch, sizes, transposed, scaled);
        (narrow.b.dtype, narrow.output.dtype) = (types[1], output);
        cases.push(narrow);
    }
    let mut heads = product(four, &[4], [32, 16, 48], b_t, scaled);
    heads.output.dtype = DType::F16;
    for (view, tokens, transposed) in [(&mut heads.a, 32, false), (&mut heads.b, 48, true)] {
        *view = contiguous(four, &[tokens, 4, 16]);
        view.shape.swap(0, 1);
        view.strides.swap(0, 1);
        if transposed {
            *view = transpose(view);
        }
    }
    cases.push(heads);
    let mut sum = product(four, &[2], [40, 32, 48], b_t, |output| {
        epilogue(true, ADD_RELU, &[View { dtype: DType::F16, ..output.clone() }])
    });
    sum.output.dtype = DType::F32;
    cases.push(sum);
    cases.push(product(DType::F64, &[2], [9, 33, 7], b_t, bias));
    cases.push(product(DType::I32, &[], [9, 33, 7], plain, none));
    cases.push(product(DType::I64, &[2], [5, 8, 7], a_t, none));
    cases.push(product(DType::U32, &[], [6, 10, 3], plain, none));
    cases.push(product(DType::U64, &[], [6, 10, 3], both, none));
    cases.into_iter().map(Kernel::MatMul).collect()
}
