//! The reference kernel against plain sums and its members, which have tests of their own.

use super::cases::cases;
use crate::conv::tests::never_panics;
use crate::host::testing::{self, Operand, element};
use crate::{DType, Family, Kernel, KernelError};

#[test]
fn cases_are_sums_and_their_members_in_turn() {
    for kernel in cases() {
        let Kernel::QuantizedAverage(family) = &kernel else { panic!("another family") };
        let inputs = testing::inputs(&kernel, 7);
        let sums = &family.requantise.inputs[0];
        let mut operand = Operand::filled(sums.bytes().unwrap(), 0);
        let image = &family.image;
        for n in 0..image.shape[0] {
            for c in 0..image.shape[1] {
                let mut sum = 0.0;
                for y in 0..image.shape[2] {
                    for x in 0..image.shape[3] {
                        sum += element(image, &inputs[0], &[n, c, y, x].map(i64::from));
                    }
                }
                let at = (n as i32 * sums.strides[0] + c as i32 * sums.strides[1]) as usize * 4;
                operand[at..at + 4].copy_from_slice(&(sum as i32).to_le_bytes());
            }
        }
        let average = testing::run(&Kernel::Pointwise(family.requantise.clone()), &[operand]);
        let wanted = testing::in_turn(average, &inputs[1..], family.members());
        let got: Operand = testing::run(&kernel, &inputs);
        assert!(*got == *wanted, "{kernel:?}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused() {
    for kernel in cases() {
        let Kernel::QuantizedAverage(good) = &kernel else { panic!("another family") };
        let refused = |change: &dyn Fn(&mut super::QuantizedAverage)| {
            let mut bad = good.clone();
            change(&mut bad);
            let error = bad.check();
            never_panics(&Kernel::QuantizedAverage(bad));
            error
        };
        assert!(refused(&|bad| bad.requantise.inputs.clear()).is_err());
        assert!(refused(&|bad| bad.image.shape[1] += 1).is_err());
        if good.layers.is_some() {
            let moved = |bad: &mut super::QuantizedAverage| {
                bad.layers.iter_mut().for_each(|[squeeze, _]| squeeze.geometry.input.offset += 1);
            };
            assert_eq!(refused(&moved), Err(KernelError::Shape("stages of squeeze-and-excitation")));
            let wide = |bad: &mut super::QuantizedAverage| {
                bad.layers.iter_mut().for_each(|[squeeze, _]| squeeze.geometry.weights.dtype = DType::I16);
            };
            assert_eq!(refused(&wide), Err(KernelError::Parameter("factors or extras inside a chain")));
        }
    }
}
