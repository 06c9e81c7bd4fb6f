//! The reference kernel against the product's, against moments of results of f32, and against nonsense.

use super::{MomentsMatMul, PART, cases::cases};
use crate::conv::tests::never_panics;
use crate::host::testing::{self, element};
use crate::matmul::MatMul;
use crate::{DType, Family, Kernel, KernelError, View};

#[test]
fn cases_are_the_product_and_the_moments_of_what_it_stores() {
    for kernel in cases() {
        let Kernel::MomentsMatMul(family) = &kernel else { panic!("another family") };
        if family.moments.is_none() {
            continue;
        }
        let inputs = testing::inputs(&kernel, 11);
        let got = testing::run_all(&kernel, &inputs);
        let output = View::contiguous(DType::F32, &family.product.output.shape).expect("a small shape");
        let exact = MatMul { output: output.clone(), ..family.product.clone() };
        let exact = match &family.residual {
            Some(_) => Kernel::MomentsMatMul(MomentsMatMul { product: exact, ..family.clone() }),
            None => {
                assert!(*got[0] == *testing::run(&Kernel::MatMul(family.product.clone()), &inputs), "{kernel:?}");
                Kernel::MatMul(exact)
            }
        };
        let results = testing::run_all(&exact, &inputs).remove(0);
        let (batches, columns) = output.shape.split_at(output.rank() - 1);
        let rows = batches.iter().product::<u32>();
        let moments: &[f32] = bytemuck::cast_slice(&got[1]);
        assert_eq!(moments.len() as u32, columns[0] / PART * rows * 2);
        for row in 0..rows {
            let mut index: Vec<i64> = vec![0; output.rank()];
            let mut left = row;
            for (at, &extent) in index.iter_mut().zip(batches).rev() {
                (*at, left) = (i64::from(left % extent), left / extent);
            }
            for part in 0..columns[0] / PART {
                let values = (0..PART).map(|j| {
                    index[output.rank() - 1] = i64::from(part * PART + j);
                    element(&output, &results, &index)
                });
                let [sum, squares] = values.fold([0.0; 2], |[sum, squares], x| [sum + x, squares + x * x]);
                let at = ((part * rows + row) * 2) as usize;
                for (x, wanted) in [(moments[at], sum), (moments[at + 1], squares)] {
                    assert!((f64::from(x) - wanted).abs() <= 1e-5 * squares.max(1.0), "{x} for {wanted}: {kernel:?}");
                }
            }
        }
    }
}

#[test]
fn residuals_are_normalised_by_given_moments() {
    for kernel in cases() {
        let Kernel::MomentsMatMul(family) = &kernel else { panic!("another family") };
        let Some(residual) = &family.residual else { continue };
        let mut inputs = testing::inputs(&kernel, 11);
        let [scale, shift, given] = family.residual_inputs();
        let product = &family.product;
        let number = product_operand(product, residual.extra);
        let (view, operand) = (&product.epilogue.extras[usize::from(residual.extra)], inputs[number].clone());
        let (rows, columns) = product.output.shape.split_at(product.output.rank() - 1);
        let (rows, columns) = (rows.iter().product::<u32>() as usize, columns[0] as usize);
        let numbers = |number: Option<usize>, otherwise: f32, count: usize| match number {
            Some(number) => bytemuck::cast_slice::<u8, f32>(&inputs[number])[..count].to_vec(),
            None => vec![otherwise; count],
        };
        let (scales, shifts) = (numbers(scale, 1.0, columns), numbers(shift, 0.0, columns));
        let given = numbers(given, 0.0, columns / PART as usize * rows * 2);
        // The residual as f32, normalised by the definition in f64.
        let normal = View::contiguous(DType::F32, &product.output.shape).expect("a small shape");
        let values: Vec<f32> = (0..rows * columns)
            .map(|at| {
                let (row, column) = (at / columns, at % columns);
                let sums = [0, 1].map(|which| {
                    let parts = (0..columns / PART as usize).map(|part| given[(part * rows + row) * 2 + which]);
                    parts.map(f64::from).sum::<f64>() / columns as f64
                });
                let mean = if residual.center { sums[0] } else { 0.0 };
                let variance = (sums[1] - mean * mean).max(0.0);
                let x = (element(view, &operand, &index_of(&product.output, at)) - mean)
                    / (variance + f64::from(residual.epsilon)).sqrt();
                (x * f64::from(scales[column]) + f64::from(shifts[column])) as f32
            })
            .collect();
        let got = testing::run_all(&kernel, &inputs).remove(0);
        let mut unfused = product.clone();
        unfused.epilogue.extras[usize::from(residual.extra)] = normal;
        inputs[number] = testing::Operand::filled(values.len() as u64 * 4, 0);
        inputs[number].copy_from_slice(bytemuck::cast_slice(&values));
        inputs.truncate(product_operand(product, product.epilogue.extras.len() as u8));
        let wanted = testing::run(&Kernel::MatMul(unfused), &inputs);
        for at in 0..rows * columns {
            let index = index_of(&product.output, at);
            let (x, y) = (element(&product.output, &got, &index), element(&product.output, &wanted, &index));
            assert!((x - y).abs() <= 1e-3 * y.abs().max(1.0), "{x} for {y}: {kernel:?}");
        }
    }
}

/// Number of the operand of an extra.
fn product_operand(product: &MatMul, extra: u8) -> usize {
    2 + usize::from(product.epilogue.bias) + usize::from(extra)
}

/// Index of an element by its place in row-major order.
fn index_of(view: &View, mut at: usize) -> Vec<i64> {
    let mut index = vec![0; view.rank()];
    for (place, &extent) in index.iter_mut().zip(&view.shape).rev() {
        (*place, at) = ((at % extent as usize) as i64, at / extent as usize);
    }
    index
}

#[test]
fn moments_of_something_else_are_refused() {
    for kernel in cases() {
        let Kernel::MomentsMatMul(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut MomentsMatMul)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::MomentsMatMul(bad));
            error
        };
        let other = |change: fn(&mut View)| refused(&|bad| bad.moments.iter_mut().for_each(change));
        if good.moments.is_some() {
            assert_eq!(other(|moments| moments.shape[1] += 1), Err(KernelError::Shape("moments")));
            assert_eq!(other(|moments| moments.dtype = DType::F16), Err(KernelError::Shape("moments")));
        }
        let none = |bad: &mut MomentsMatMul| (bad.moments, bad.residual) = (None, None);
        assert_eq!(refused(&none), Err(KernelError::Parameter("a product without moments")));
        if good.residual.is_some() {
            let far = |bad: &mut MomentsMatMul| bad.residual.iter_mut().for_each(|residual| residual.extra = 3);
            assert_eq!(refused(&far), Err(KernelError::Parameter("number of the residual")));
        }
        let narrow = |bad: &mut MomentsMatMul| {
            let columns = bad.product.output.rank() - 1;
            bad.product.output.shape[columns] -= 1;
            bad.product.b.shape[columns] -= 1;
            bad.product.epilogue.extras.iter_mut().for_each(|extra| extra.shape[columns] -= 1);
        };
        assert_eq!(refused(&narrow), Err(KernelError::Shape("columns with moments")));
    }
}
