//! The reference kernel against a sort.

use super::TopK;
use super::cases::cases;
use crate::conv::tests::any_view;
use crate::host::testing::{self, Operand, Values, element};
use crate::{DType, Family, Kernel, View};
use proptest::prelude::*;

/// Runs the reference kernel; values and indices.
fn run(kernel: &TopK, input: &[u8]) -> [Operand; 2] {
    let mut outputs = [&kernel.values, &kernel.indices].map(|view| Operand::filled(view.bytes().unwrap(), 0xA5));
    let [values, indices] = &mut outputs;
    kernel.run(&[input], &mut [values, indices], &mut []).unwrap();
    outputs
}

#[test]
fn cases_agree_with_a_sort() {
    let values = [Values::Moderate, Values::Signed, Values::Special];
    for (kernel, values) in cases().into_iter().flat_map(|kernel| values.map(|values| (kernel.clone(), values))) {
        let input = &testing::inputs_of(&kernel, values, 3)[0];
        let Kernel::TopK(kernel) = kernel else { panic!("another family") };
        let [values, indices] = run(&kernel, input);
        let axis = usize::from(kernel.axis);
        let rest: Vec<i64> = kernel.values.shape.iter().map(|&extent| i64::from(extent)).collect();
        let rows: i64 = rest.iter().enumerate().filter(|(d, _)| *d != axis).map(|(_, extent)| extent).product();
        for row in 0..rows {
            let mut at = vec![0; rest.len()];
            let mut number = row;
            for d in (0..rest.len()).rev().filter(|&d| d != axis) {
                (at[d], number) = (number % rest[d], number / rest[d]);
            }
            let along = |i: i64| {
                let mut at = at.clone();
                at[axis] = i;
                at
            };
            let mut sorted: Vec<(f64, i64)> = (0..i64::from(kernel.input.shape[axis]))
                .map(|i| (element(&kernel.input, input, &along(i)), i))
                .collect();
            // NaN is the largest, and zeros are equal.
            let order = |a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
            sorted.sort_by(|a, b| if kernel.largest { order(b.0, a.0) } else { order(a.0, b.0) });
            for i in 0..rest[axis] {
                let found =
                    (element(&kernel.values, &values, &along(i)), element(&kernel.indices, &indices, &along(i)));
                let (value, index) = sorted[i as usize];
                let same = found.0.to_bits() == value.to_bits() || (found.0.is_nan() && value.is_nan());
                assert!(same && found.1 == index as f64, "row {row}, place {i}: {found:?}, not {value}: {kernel:?}");
            }
        }
    }
}

#[test]
fn nan_is_the_largest_and_equals_keep_their_order() {
    let view = View::contiguous(DType::F32, &[5]).unwrap();
    let indices = View::contiguous(DType::I64, &[5]).unwrap();
    let mut input = Operand::filled(20, 0);
    input.copy_from_slice(bytemuck::cast_slice(&[1.0_f32, f32::NAN, 2.0, 1.0, f32::NAN]));
    for (largest, order) in [(true, [1_i64, 4, 2, 0, 3]), (false, [0, 3, 2, 1, 4])] {
        let kernel = TopK { input: view.clone(), values: view.clone(), indices: indices.clone(), axis: 0, largest };
        let [_, found] = run(&kernel, &input);
        assert_eq!(bytemuck::cast_slice::<u8, i64>(&found), order);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(input in any_view(), values in any_view(), alike in any::<bool>(), axis in 0..6_u8) {
        let values = if alike { input.clone() } else { values };
        let indices = View { dtype: DType::I64, ..values.clone() };
        let kernel = TopK { input, values, indices, axis, largest: true };
        if kernel.check().is_ok() && kernel.flops() < 1 << 22 {
            let bytes = kernel.input.bytes().unwrap();
            if bytes + kernel.indices.bytes().unwrap() < 1 << 20 {
                run(&kernel, &Operand::filled(bytes, 0x3c));
            }
        } else {
            prop_assert!(kernel.run(&[&[]], &mut [&mut []], &mut []).is_err());
        }
    }
}
