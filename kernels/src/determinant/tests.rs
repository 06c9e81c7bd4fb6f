//! The reference kernel against Laplace's expansion.

use super::Determinant;
use super::cases::cases;
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

fn expanded(matrix: &[Vec<f64>]) -> f64 {
    let Some(first) = matrix.first() else { return 1.0 };
    let minor = |k: usize| -> Vec<Vec<f64>> {
        matrix[1..]
            .iter()
            .map(|row| row.iter().enumerate().filter(|(c, _)| *c != k).map(|(_, x)| *x).collect())
            .collect()
    };
    first
        .iter()
        .enumerate()
        .map(|(k, x)| if k % 2 == 0 { x * expanded(&minor(k)) } else { -x * expanded(&minor(k)) })
        .sum()
}

#[test]
fn cases_agree_with_the_expansion() {
    for kernel in cases() {
        let Kernel::Determinant(determinant) = &kernel else { panic!("another family") };
        let n = i64::from(determinant.input.shape[1]);
        if n > 8 {
            continue;
        }
        testing::compare(&kernel, 1e-6, |operands, index| {
            let entry = |i, j| element(&determinant.input, &operands[0], &[index[0], i, j]);
            expanded(&(0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect::<Vec<_>>())
        });
    }
}

#[test]
fn pivots_are_found_and_missed() {
    let run = |values: &[f64]| {
        let n = values.len().isqrt() as u32;
        let kernel = Determinant {
            input: View::contiguous(DType::F64, &[1, n, n]).unwrap(),
            output: View::contiguous(DType::F64, &[1]).unwrap(),
        };
        let mut input = Operand::filled(values.len() as u64 * 8, 0);
        input.copy_from_slice(bytemuck::cast_slice(values));
        bytemuck::cast_slice::<u8, f64>(&testing::run(&Kernel::Determinant(kernel), &[input]))[0]
    };
    assert_eq!(run(&[0.0, 2.0, 3.0, 0.0]), -6.0);
    assert_eq!(run(&[1.0, 2.0, 2.0, 4.0]), 0.0);
    assert_eq!(run(&[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 5.0, 6.0]), 0.0);
    assert!(run(&[f64::NAN, 2.0, 2.0, 4.0]).is_nan());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), output in any_view()) {
        never_panics(&Kernel::Determinant(Determinant { input, output }));
    }
}
