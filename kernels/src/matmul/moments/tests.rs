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
        let inputs = testing::inputs(&kernel, 11);
        let product = testing::run(&Kernel::MatMul(family.product.clone()), &inputs);
        let got = testing::run_all(&kernel, &inputs);
        assert!(*got[0] == *product, "{kernel:?}");
        let output = View::contiguous(DType::F32, &family.product.output.shape).expect("a small shape");
        let exact = Kernel::MatMul(MatMul { output: output.clone(), ..family.product.clone() });
        let results = testing::run(&exact, &inputs);
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
        assert_eq!(refused(&|bad| bad.moments.shape[1] += 1), Err(KernelError::Shape("moments")));
        assert_eq!(refused(&|bad| bad.moments.dtype = DType::F16), Err(KernelError::Shape("moments")));
        let narrow = |bad: &mut MomentsMatMul| {
            let columns = bad.product.output.rank() - 1;
            bad.product.output.shape[columns] -= 1;
            bad.product.b.shape[columns] -= 1;
            bad.product.epilogue.extras.iter_mut().for_each(|extra| extra.shape[columns] -= 1);
        };
        assert_eq!(refused(&narrow), Err(KernelError::Shape("columns with moments")));
    }
}
