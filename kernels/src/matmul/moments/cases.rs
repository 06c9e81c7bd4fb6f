//! Products with moments that exercise the family, for the tests of reference kernels and candidates.

use super::MomentsMatMul;
use crate::conv::cases::{ADD_RELU, RELU, epilogue};
use crate::matmul::MatMul;
use crate::pointwise::Epilogue;
use crate::{DType, Kernel, View};

fn contiguous(dtype: DType, shape: &[u32]) -> View {
    View::contiguous(dtype, shape).expect("a small shape")
}

/// `batch × [m, k]` by one `[k, n]`.
fn product(dtype: DType, batch: &[u32], [m, k, n]: [u32; 3], finish: impl FnOnce(&View) -> Epilogue) -> MatMul {
    let mut b = contiguous(dtype, &[&vec![1; batch.len()], &[k, n][..]].concat());
    b.shape.iter_mut().zip(batch).for_each(|(extent, &all)| *extent = all);
    b.strides.iter_mut().take(batch.len()).for_each(|stride| *stride = 0);
    let output = contiguous(dtype, &[batch, &[m, n]].concat());
    let epilogue = finish(&output);
    MatMul { a: contiguous(dtype, &[batch, &[m, k]].concat()), b, output, epilogue }
}

/// The cases: products of networks, weights along K, odd rows, batches, columns of a wider output, few rows.
pub fn cases() -> Vec<Kernel> {
    let none = |_: &View| epilogue(false, &[], &[]);
    let bias = |_: &View| epilogue(true, &[], &[]);
    let relu = |_: &View| epilogue(true, RELU, &[]);
    let residual = |output: &View| epilogue(true, ADD_RELU, std::slice::from_ref(output));
    let mut products = vec![
        product(DType::F16, &[], [33, 56, 32], none),
        product(DType::F16, &[2, 3], [20, 64, 96], residual),
        product(DType::F16, &[], [3, 128, 64], relu),
        product(DType::F32, &[], [9, 40, 64], bias),
        product(DType::Bf16, &[], [9, 40, 64], bias),
    ];
    for (extents, finish) in [
        ([49, 96, 192], &bias as &dyn Fn(&View) -> Epilogue),
        ([197, 192, 160], &residual),
        ([70, 384, 96], &relu),
        ([208, 512, 384], &residual),
        ([17, 2048, 64], &residual),
    ] {
        let mut along_k = product(DType::F16, &[], extents, finish);
        along_k.b = along_k.packed_b().expect("a matrix");
        products.push(along_k);
    }
    let mut wide = product(DType::F16, &[], [30, 64, 64], relu);
    wide.output.strides[0] = 104;
    wide.output.offset = 16;
    products.push(wide);
    products
        .into_iter()
        .map(|product| Kernel::MomentsMatMul(MomentsMatMul::new(product).expect("whole parts")))
        .collect()
}
