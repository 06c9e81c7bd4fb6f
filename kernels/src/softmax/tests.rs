//! The reference kernel against the definition in f64 and against ONNX Runtime.

use super::Softmax;
use super::cases::cases;
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, Values, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Softmax(softmax) = &kernel else { panic!("another family") };
        // Only the first elements of a row, since each looks at the whole row.
        let mut short = softmax.clone();
        let axis = usize::from(softmax.axis);
        if softmax.input.elements() > 100_000 {
            for view in [&mut short.input, &mut short.output] {
                *view = View::contiguous(view.dtype, &[2, view.shape[axis].min(300)]).unwrap();
            }
            short.axis = 1;
        }
        let axis = usize::from(short.axis);
        for values in [Values::Moderate, Values::Special] {
            testing::compare_of(&Kernel::Softmax(short.clone()), values, 2e-6, |operands, index| {
                let mut at = index.to_vec();
                let row: Vec<f64> = (0..i64::from(short.input.shape[axis]))
                    .map(|i| {
                        at[axis] = i;
                        element(&short.input, &operands[0], &at)
                    })
                    .collect();
                let larger = |top: f64, &x: &f64| if top.is_nan() || x <= top { top } else { x };
                let top = row.iter().fold(f64::NEG_INFINITY, larger);
                let x = element(&short.input, &operands[0], index) - top;
                let logarithm = x - row.iter().map(|x| (x - top).exp()).sum::<f64>().ln();
                if short.log { logarithm } else { logarithm.exp() }
            });
        }
    }
}

/// Random numbers of shape `[2, 4, 3]`, and what ONNX Runtime 1.31.1 makes of them.
const INPUT: [f32; 24] = [
    0.0, 0.6, -0.55, -1.78, -0.91, -1.98, 0.12, 2.68, -0.98, -1.24, 0.98, 0.71, 0.21, -1.86, -0.06, 1.39, -2.69, -0.92,
    -3.8, -2.58, -3.68, -0.47, -2.53, 0.54,
];
const SOFTMAX_AXIS_1: [f32; 24] = [
    0.3867695,
    0.09356584,
    0.184664,
    0.0652241,
    0.02066962,
    0.04419175,
    0.4360814,
    0.7489448,
    0.1201256,
    0.111925,
    0.1368199,
    0.6510186,
    0.2092433,
    0.4107602,
    0.3056175,
    0.6809561,
    0.1791117,
    0.1293257,
    0.003794292,
    0.1999385,
    0.008185253,
    0.1060062,
    0.2101896,
    0.5568715,
];
const LOG_SOFTMAX_AXIS_2: [f32; 24] = [
    -1.223501, -0.6235015, -1.773502, -1.436427, -0.5664268, -1.636427, -2.658068, -0.0980675, -3.758068, -2.847001,
    -0.6270012, -0.8970013, -0.6363468, -2.706347, -0.9063467, -0.1099021, -4.189902, -2.419902, -1.707414, -0.4874144,
    -1.587415, -1.354044, -3.414043, -0.3440436,
];

#[test]
fn agrees_with_onnx_runtime() {
    for (axis, log, wanted) in [(1, false, SOFTMAX_AXIS_1), (2, true, LOG_SOFTMAX_AXIS_2)] {
        let view = View::contiguous(DType::F32, &[2, 4, 3]).unwrap();
        let kernel = Kernel::Softmax(Softmax { input: view.clone(), output: view, axis, log });
        let mut operand = Operand::filled(96, 0);
        operand.copy_from_slice(bytemuck::cast_slice(&INPUT));
        let output = testing::run(&kernel, &[operand]);
        for (got, wanted) in bytemuck::cast_slice::<u8, f32>(&output).iter().zip(wanted) {
            assert!((got - wanted).abs() <= 1e-6 * (1.0 + wanted.abs()), "{got} is not {wanted}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), alike in any::<bool>(), axis in 0..6_u8, log in any::<bool>(),
    ) {
        let output = if alike { input.clone() } else { output };
        never_panics(&Kernel::Softmax(Softmax { input, output, axis, log }));
    }
}
