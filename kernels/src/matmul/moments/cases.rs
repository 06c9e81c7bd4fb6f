//! Products with moments that exercise the family, for the tests of reference kernels and candidates.

use super::{MomentsMatMul, NormalizedResidual};
use crate::conv::cases::{ADD_RELU, RELU, epilogue};
use crate::matmul::{MatMul, cases::by_one_matrix};
use crate::pointwise::{Binary, Epilogue, Instruction};
use crate::{DType, Kernel, View};

/// `x + y`.
const ADD: &[Instruction] = &[Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Add, 0, 1)];
/// `x · y`.
const GATE: &[Instruction] = &[Instruction::Input(0), Instruction::Input(1), Instruction::Binary(Binary::Mul, 0, 1)];
/// `x · y + z`.
const SUM_AND_PRODUCT: &[Instruction] = &[
    Instruction::Input(0),
    Instruction::Input(1),
    Instruction::Binary(Binary::Mul, 0, 1),
    Instruction::Input(2),
    Instruction::Binary(Binary::Add, 2, 3),
];

/// The cases: products of networks, weights along K, odd rows, batches, columns of a wider output, few rows; normalised residuals, with and
/// without moments of the results.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    let sum = |output: &View| epilogue(true, ADD, std::slice::from_ref(output));
    let gate = |output: &View| epilogue(false, GATE, std::slice::from_ref(output));
    let mut products = vec![
        by_one_matrix(DType::F16, &[], [33, 56, 32], none),
        by_one_matrix(DType::F16, &[2, 3], [20, 64, 96], residual),
        by_one_matrix(DType::F16, &[], [3, 128, 64], relu),
        by_one_matrix(DType::F32, &[], [9, 40, 64], bias),
        by_one_matrix(DType::Bf16, &[], [9, 40, 64], bias),
    ];
    for (extents, finish) in [
        ([49, 96, 192], &bias as &dyn Fn(&View) -> Epilogue),
        ([197, 192, 160], &residual),
        ([70, 384, 96], &relu),
        ([208, 512, 384], &residual),
        ([17, 2048, 64], &residual),
    ] {
        let mut along_k = by_one_matrix(DType::F16, &[], extents, finish);
        along_k.b = along_k.packed_b().expect("a matrix");
        products.push(along_k);
    }
    let mut wide = by_one_matrix(DType::F16, &[], [30, 64, 64], relu);
    wide.output.strides[0] = 104;
    wide.output.offset = 16;
    products.push(wide);
    let mut cases: Vec<Kernel> = products.into_iter().map(|product| with_moments(product, true, None)).collect();
    for (extents, leaves, parameters, finish) in [
        ([33, 64, 32], false, [true, true, true], &residual as &dyn Fn(&View) -> Epilogue),
        ([49, 96, 192], true, [true, true, true], &residual),
        ([197, 192, 160], true, [true, false, false], &residual),
        ([70, 384, 96], false, [false, true, true], &residual),
        ([208, 512, 384], true, [true, true, true], &sum),
        ([17, 2048, 64], true, [true, true, true], &residual),
        ([128, 1536, 384], true, [true, true, true], &sum),
        ([128, 384, 768], false, [true, true, true], &sum),
        ([65, 128, 64], true, [true, false, false], &sum),
        ([40, 64, 32], false, [false, false, true], &gate),
    ] {
        let mut along_k = by_one_matrix(DType::F16, &[], extents, finish);
        along_k.b = along_k.packed_b().expect("a matrix");
        cases.push(with_moments(along_k, leaves, Some(normalized(&parameters, 0))));
    }
    // The second of two operands, of a wider tensor, and of batches.
    let second = |output: &View| {
        let mut wide = output.clone();
        wide.strides[0] = 104;
        wide.offset = 16;
        epilogue(true, SUM_AND_PRODUCT, &[output.clone(), wide])
    };
    cases.push(with_moments(
        by_one_matrix(DType::F16, &[], [50, 64, 64], second),
        true,
        Some(normalized(&[true; 3], 1)),
    ));
    for dtype in [DType::F16, DType::F32] {
        let product = by_one_matrix(dtype, &[2, 3], [20, 64, 96], residual);
        cases.push(with_moments(product, true, Some(normalized(&[true; 3], 0))));
    }
    cases
}

/// A residual that is normalised; `parameters` are whether there are a scale, a shift and a centre. Given moments are any numbers in tests:
/// deviations of rows that have next to none must stay numbers of a usual size, and the mean must count beside the epsilon.
fn normalized(&[scale, shift, center]: &[bool; 3], extra: u8) -> NormalizedResidual {
    NormalizedResidual { extra, scale, shift, center, epsilon: 0.02 }
}

fn with_moments(product: MatMul, leaves: bool, residual: Option<NormalizedResidual>) -> Kernel {
    Kernel::MomentsMatMul(MomentsMatMul::new(product, leaves, residual).expect("whole parts"))
}
