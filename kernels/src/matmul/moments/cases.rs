//! Products with moments that exercise the family, for the tests of reference kernels and candidates.

use super::MomentsMatMul;
use crate::conv::cases::{ADD_RELU, RELU, epilogue};
use crate::matmul::cases::by_one_matrix;
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

/// The cases: products of networks, weights along K, odd rows, batches, columns of a wider output, few rows.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
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
    products
        .into_iter()
        .map(|product| Kernel::MomentsMatMul(MomentsMatMul::new(product).expect("whole parts")))
        .collect()
}
