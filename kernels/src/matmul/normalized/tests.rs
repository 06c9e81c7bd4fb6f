//! The reference kernel against the definition in f64, against a normalisation before the product, and against nonsense.

use super::{NormalizedMatMul, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, element};
use crate::matmul::MatMul;
use crate::normalize::Normalize;
use crate::{DType, Family, Kernel, KernelError};

/// Indices of the elements of row `index` of a.
fn row(product: &NormalizedMatMul, index: &[i64]) -> impl Iterator<Item = Vec<i64>> {
    let (mut at, last) = (index.to_vec(), index.len() - 1);
    (0..i64::from(product.product.a.shape[last])).map(move |k| {
        at[last] = k;
        at.clone()
    })
}

/// Given sums of the elements and of the squares of row `index` of a.
fn joined(family: &NormalizedMatMul, given: &[f32], index: &[i64]) -> [f64; 2] {
    let shape = &family.product.a.shape;
    let last = shape.len() - 1;
    let row = index[..last].iter().zip(shape).fold(0, |row, (&at, &extent)| row * extent as usize + at as usize);
    let rows = shape[..last].iter().product::<u32>() as usize;
    let parts = shape[last] as usize / 32;
    [0, 1].map(|which| (0..parts).map(|part| f64::from(given[(part * rows + row) * 2 + which])).sum())
}

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::NormalizedMatMul(family) = &kernel else { panic!("another family") };
        let product = &family.product;
        testing::compare(&kernel, 5e-5, |operands, index| {
            let last = index.len() - 1;
            let x: Vec<f64> = row(family, index).map(|at| element(&product.a, &operands[0], &at)).collect();
            let count = x.len() as f64;
            let mut moments = [x.iter().sum::<f64>() / count, x.iter().map(|x| x * x).sum::<f64>() / count];
            if let Some(given) = family.moments_input() {
                moments = joined(family, bytemuck::cast_slice(&operands[given]), index).map(|sum| sum / count);
            }
            let mean = if family.center { moments[0] } else { 0.0 };
            let variance = (moments[1] - mean * mean).max(0.0);
            let mut at = index.to_vec();
            let mut sum = 0.0;
            for (k, x) in (0..).zip(&x) {
                at[last - 1] = k;
                sum += x * element(&product.b, &operands[1], &at);
            }
            if let Some(sums) = family.sums_input() {
                let sums: &[f32] = bytemuck::cast_slice(&operands[sums]);
                sum -= mean * f64::from(sums[index[last] as usize]);
            }
            let sum = sum / (variance + f64::from(family.epsilon)).sqrt();
            testing::finish(&product.epilogue, operands, 2, index[last], index, sum)
        });
    }
}

#[test]
fn with_the_sums_of_columns_it_is_a_normalisation_and_a_product() {
    for kernel in cases() {
        let Kernel::NormalizedMatMul(family) = &kernel else { panic!("another family") };
        let product = &family.product;
        if product.a.dtype != DType::F32 || product.a.offset != 0 || family.given {
            continue;
        }
        let mut operands = testing::inputs(&kernel, 5);
        // Far from zero, so that the mean counts.
        bytemuck::cast_slice_mut::<u8, f32>(&mut operands[0]).iter_mut().for_each(|x| *x += 3.0);
        let (rank, extents) = (product.b.rank(), &product.b.shape);
        let (steps, columns) = (extents[rank - 2] as usize, extents[rank - 1] as usize);
        if let Some(sums) = family.sums_input() {
            let b: Vec<f32> = bytemuck::cast_slice(&operands[1]).to_vec();
            let sums: &mut [f32] = bytemuck::cast_slice_mut(&mut operands[sums]);
            for (column, sum) in sums.iter_mut().enumerate() {
                *sum = (0..steps).map(|k| b[k * columns + column]).sum();
            }
        }
        let normalize = Normalize {
            input: product.a.clone(),
            output: product.a.clone(),
            sets: (product.a.elements() / steps as u64) as u32,
            parameters: 0,
            per_parameter: 0,
            scale: false,
            shift: false,
            center: family.center,
            epsilon: family.epsilon,
        };
        let got = testing::run(&kernel, &operands);
        operands[0] = testing::run(&Kernel::Normalize(normalize), &operands[..1]);
        operands.truncate(family.sums_input().unwrap_or(operands.len()));
        let wanted = testing::run(&Kernel::MatMul(product.clone()), &operands);
        let (got, wanted): (&[f32], &[f32]) = (bytemuck::cast_slice(&got), bytemuck::cast_slice(&wanted));
        for (x, y) in got.iter().zip(wanted) {
            assert!((x - y).abs() <= 2e-4 * y.abs().max(1.0), "{x} for {y}: {kernel:?}");
        }
    }
}

#[test]
fn other_factors_are_refused() {
    for kernel in cases() {
        let Kernel::NormalizedMatMul(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut NormalizedMatMul)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::NormalizedMatMul(bad));
            error
        };
        let f64s = |bad: &mut NormalizedMatMul| {
            let MatMul { a, b, output, .. } = &mut bad.product;
            [a, b, output].into_iter().for_each(|view| view.dtype = DType::F64);
            bad.product.epilogue = crate::pointwise::Epilogue::default();
        };
        assert_eq!(refused(&f64s), Err(KernelError::Type("normalised factors")));
        assert!(refused(&|bad| bad.product.a.shape[0] += 1).is_err());
        if good.given {
            let narrow = |bad: &mut NormalizedMatMul| {
                let steps = bad.product.a.rank() - 1;
                bad.product.a.shape[steps] -= 1;
                bad.product.b.shape[steps - 1] -= 1;
            };
            assert_eq!(refused(&narrow), Err(KernelError::Shape("columns with moments")));
        }
        let batches = good.product.b.rank() - 2;
        if batches > 0 && good.product.b.shape[0] > 1 {
            let one = Err(KernelError::Shape("one matrix for all batches"));
            assert_eq!(refused(&|bad| bad.product.b.strides[0] = 8), one);
        }
    }
}
