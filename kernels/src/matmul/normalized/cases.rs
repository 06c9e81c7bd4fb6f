//! Products of normalised rows that exercise the family, for the tests of reference kernels and candidates.

use super::NormalizedMatMul;
use crate::conv::cases::{ADD_RELU, RELU, SILU, epilogue};
use crate::matmul::cases::by_one_matrix;
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

/// Given moments are any numbers in tests: with such an epsilon deviations of rows that have next to none stay numbers of the usual size.
const EPSILON_OF_GIVEN: f32 = 0.5;

/// `batch × [m, k]` normalised, by one `[k, n]`.
fn normalized(
    dtype: DType,
    batch: &[u32],
    extents: [u32; 3],
    center: bool,
    finish: impl FnOnce(&View) -> Epilogue,
) -> NormalizedMatMul {
    let product = by_one_matrix(dtype, batch, extents, finish);
    NormalizedMatMul { product, center, epsilon: 1e-5, given: false }
}

/// The cases: products of networks, odd extents, batches, few rows, results in f32, columns of a wider output, weights
/// along K, given moments.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let silu = |_: &View| epilogue(true, SILU, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::F32] {
        cases.push(normalized(dtype, &[1], [49, 96, 192], true, bias));
        cases.push(normalized(dtype, &[], [197, 192, 144], true, silu));
        cases.push(normalized(dtype, &[], [70, 384, 96], false, relu));
        cases.push(normalized(dtype, &[2, 3], [20, 64, 72], true, residual));
        cases.push(normalized(dtype, &[], [33, 56, 47], true, none));
        cases.push(normalized(dtype, &[], [3, 128, 40], false, none));
        cases.push(normalized(dtype, &[], [17, 23, 31], true, bias));
        let mut sliced = normalized(dtype, &[], [30, 64, 40], true, relu);
        sliced.product.a.strides[0] = 96;
        sliced.product.a.offset = 8;
        sliced.product.output.strides[0] = 104;
        sliced.product.output.offset = 16;
        cases.push(sliced);
    }
    // Large enough for tiles of 208 rows, which take many steps.
    cases.push(normalized(DType::F16, &[], [208, 512, 192], true, bias));
    // Few rows, one of them of a length that several warps share.
    cases.push(normalized(DType::F16, &[], [1, 2056, 100], true, relu));
    cases.push(normalized(DType::F16, &[], [5, 192, 33], true, residual));
    cases.push(normalized(DType::F16, &[], [10, 264, 24], false, bias));
    let mut wide = normalized(DType::F16, &[], [64, 96, 48], true, bias);
    wide.product.output.dtype = DType::F32;
    cases.push(wide);
    // Weights along K, as the compiler packs them.
    for (extents, center, finish) in [
        ([49, 96, 192], true, &bias as &dyn Fn(&View) -> Epilogue),
        ([197, 192, 144], true, &silu),
        ([70, 384, 96], false, &relu),
        ([208, 512, 192], true, &residual),
        ([56, 128, 80], true, &silu),
    ] {
        let mut packed = normalized(DType::F16, &[], extents, center, finish);
        packed.product.b = packed.product.packed_b().expect("a matrix");
        cases.push(packed);
    }
    for (extents, center, along_k, finish) in [
        ([49, 96, 192], true, true, &bias as &dyn Fn(&View) -> Epilogue),
        ([197, 192, 144], true, true, &silu),
        ([70, 384, 96], false, false, &relu),
        ([208, 512, 192], true, true, &residual),
        ([33, 1056, 47], true, true, &none),
        ([3, 128, 40], true, true, &bias),
    ] {
        let mut given = normalized(DType::F16, &[], extents, center, finish);
        (given.given, given.epsilon) = (true, EPSILON_OF_GIVEN);
        if along_k {
            given.product.b = given.product.packed_b().expect("a matrix");
        }
        cases.push(given);
    }
    // Means that count beside the epsilon, though they are not subtracted.
    let mut around = normalized(DType::F16, &[], [65, 32, 64], false, bias);
    (around.given, around.epsilon) = (true, 0.02);
    around.product.b = around.product.packed_b().expect("a matrix");
    cases.push(around);
    for dtype in [DType::F16, DType::F32] {
        let mut batches = normalized(dtype, &[2, 3], [20, 64, 72], true, bias);
        (batches.given, batches.epsilon) = (true, EPSILON_OF_GIVEN);
        cases.push(batches);
    }
    cases.into_iter().map(Kernel::NormalizedMatMul).collect()
}
