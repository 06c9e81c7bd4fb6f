//! Cases that the twin and the GPU are verified on.

use super::NormalizedMatMul;
use crate::conv::cases::{ADD_RELU, SILU, epilogue};
use crate::matmul::MatMul;
use crate::normalize::Normalize;
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

fn contiguous(dtype: DType, shape: &[u32]) -> View {
    View::contiguous(dtype, shape).expect("a small shape")
}

/// `[m, k]` normalised with scale and shift, times `[k, n]`.
pub(super) fn case(
    dtype: DType,
    [m, k, n]: [u32; 3],
    keep: bool,
    finish: impl FnOnce(&View) -> Epilogue,
) -> NormalizedMatMul {
    let (rows, output) = (contiguous(dtype, &[m, k]), contiguous(dtype, &[m, n]));
    let normalize = Normalize {
        input: rows.clone(),
        output: rows.clone(),
        sets: m,
        parameters: k,
        per_parameter: 1,
        scale: true,
        shift: true,
        center: true,
        epsilon: 1e-5,
    };
    let epilogue = finish(&output);
    NormalizedMatMul { normalize, product: MatMul { a: rows, b: contiguous(dtype, &[k, n]), output, epilogue }, keep }
}

/// Kernels of this family with odd sizes, types and parameters.
pub fn cases() -> Vec<Kernel> {
    use DType::{Bf16, F16, F32};
    let bias = |_: &View| epilogue(true, &[], &[]);
    let silu = |_: &View| epilogue(true, SILU, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    let none = |_: &View| epilogue(false, &[], &[]);
    let mut cases = vec![
        case(F16, [197, 192, 576], false, bias),
        case(F16, [128, 384, 512], true, silu),
        case(F16, [50, 768, 200], false, residual),
        case(F16, [33, 1024, 72], true, bias),
        case(F16, [21, 40, 33], false, residual),
        case(Bf16, [19, 96, 64], true, none),
        case(F32, [37, 72, 56], true, silu),
        case(F16, [5, 33, 24], false, bias),
        case(F16, [1, 256, 100], false, bias),
    ];
    // Root mean square alone; x as a slice of wider rows.
    let mut plain = case(F16, [40, 128, 96], false, none);
    (plain.normalize.scale, plain.normalize.shift, plain.normalize.center) = (false, false, false);
    plain.normalize.input.strides[0] = 160;
    plain.normalize.input.offset = 8;
    cases.push(plain);
    let mut scaled = case(F16, [40, 128, 96], true, bias);
    (scaled.normalize.shift, scaled.normalize.center) = (false, false);
    cases.push(scaled);
    cases.into_iter().map(Kernel::NormalizedMatMul).collect()
}
