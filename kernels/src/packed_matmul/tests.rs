//! The reference kernel against the definition, and against nonsense.

use super::PackedMatMul;
use super::cases::cases;
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, element};
use crate::{DType, Family, Kernel, View};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases().into_iter().filter(|kernel| kernel.family().flops() < 4_000_000) {
        let Kernel::PackedMatMul(product) = &kernel else { panic!("another family") };
        let (blocks, block) = (
            i64::from(product.weights.shape[1]),
            i64::from(product.input.shape[1]) / i64::from(product.weights.shape[1]),
        );
        let integer = |bytes: &[u8], index: i64| match product.bits {
            4 => f64::from(bytes[index as usize / 2] >> (index % 2 * 4) & 15),
            _ => f64::from(bytes[index as usize]),
        };
        testing::compare(&kernel, 2e-5, |operands, index| {
            let sum = (0..blocks * block).map(|k| {
                let (column, number) = (index[1], k / block);
                let weight = integer(&operands[1], column * blocks * block + k);
                let zero = match &product.zeros {
                    None => [0.0, 8.0, 128.0][product.bits as usize / 4],
                    Some(view) if view.dtype == DType::U8 => {
                        integer(&operands[3][column as usize * view.shape[1] as usize..], number)
                    }
                    Some(view) => element(view, &operands[3], &[column, number]),
                };
                let scale = element(&product.scales, &operands[2], &[column, number]);
                element(&product.input, &operands[0], &[index[0], k]) * (weight - zero) * scale
            });
            sum.sum()
        });
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Kernel::PackedMatMul(good) = &cases()[1] else { panic!("another family") };
    let refused = |change: &dyn Fn(&mut PackedMatMul)| {
        let mut bad = good.clone();
        change(&mut bad);
        let refused = bad.check().is_err();
        never_panics(&Kernel::PackedMatMul(bad));
        refused
    };
    assert!(good.check().is_ok());
    assert!(refused(&|bad| bad.bits = 3));
    assert!(refused(&|bad| bad.bits = 8));
    assert!(refused(&|bad| bad.weights.dtype = DType::I8));
    assert!(refused(&|bad| bad.weights.strides[0] += 1));
    assert!(refused(&|bad| bad.scales = View::contiguous(DType::F16, &[4096, 31]).unwrap()));
    assert!(refused(&|bad| bad.zeros = Some(View::contiguous(DType::U8, &[4096, 32]).unwrap())));
    assert!(refused(&|bad| bad.input = View::contiguous(DType::F16, &[9, 1024]).unwrap()));
    assert!(refused(&|bad| bad.input.dtype = DType::F64));
    assert!(refused(&|bad| bad.output = View::contiguous(DType::F16, &[1, 4095]).unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        views in prop::collection::vec(any_view(), 4), zeros in prop::option::of(any_view()), bits in any_number(),
        sound in 0..6_usize,
    ) {
        // A sound kernel with one view of another.
        let Kernel::PackedMatMul(mut product) = cases()[sound].clone() else { unreachable!() };
        never_panics(&Kernel::PackedMatMul(PackedMatMul { zeros: zeros.clone(), ..product.clone() }));
        for (number, view) in views.into_iter().enumerate() {
            let mut changed = product.clone();
            match number {
                0 => changed.input = view,
                1 => changed.weights = view,
                2 => changed.scales = view,
                _ => changed.output = view,
            }
            never_panics(&Kernel::PackedMatMul(changed));
        }
        product.bits = bits;
        never_panics(&Kernel::PackedMatMul(product));
    }
}
