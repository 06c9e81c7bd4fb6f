//! The reference kernel against the definition in f64 and against ONNX Runtime.

use super::Lrn;
use super::cases::cases;
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, Operand, element};
use crate::{DType, Kernel, View};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Lrn(lrn) = &kernel else { panic!("another family") };
        testing::compare(&kernel, 2e-6, |operands, index| {
            let (before, channels) = ((i64::from(lrn.size) - 1) / 2, i64::from(lrn.input.shape[1]));
            let first = index[1] - before;
            let squares: f64 = (first..first + i64::from(lrn.size))
                .filter(|c| (0..channels).contains(c))
                .map(|c| {
                    let mut at = index.to_vec();
                    at[1] = c;
                    element(&lrn.input, &operands[0], &at).powi(2)
                })
                .sum();
            let base = f64::from(lrn.bias) + f64::from(lrn.alpha) / f64::from(lrn.size) * squares;
            element(&lrn.input, &operands[0], index) / base.powf(lrn.beta.into())
        });
    }
}

/// Random numbers of shape `[2, 4, 1, 3]`, and what ONNX Runtime 1.31.1 makes of them with size 3, alpha 0.5, beta 0.75.
const INPUT: [f32; 24] = [
    0.0, 0.6, -0.55, -1.78, -0.91, -1.98, 0.12, 2.68, -0.98, -1.24, 0.98, 0.71, 0.21, -1.86, -0.06, 1.39, -2.69, -0.92,
    -3.8, -2.58, -3.68, -0.47, -2.53, 0.54,
];
const NORMALIZED: [f32; 24] = [
    0.0,
    0.5239672,
    -0.3688039,
    -1.293606,
    -0.4726623,
    -1.241227,
    0.0776491,
    1.349933,
    -0.6061674,
    -1.043491,
    0.5151551,
    0.6027278,
    0.1696234,
    -0.8633221,
    -0.05432463,
    0.5172575,
    -0.970781,
    -0.3675361,
    -1.405777,
    -0.8518205,
    -1.454762,
    -0.18593,
    -1.063379,
    0.220267,
];

#[test]
fn agrees_with_onnx_runtime() {
    let view = View::contiguous(DType::F32, &[2, 4, 1, 3]).unwrap();
    let lrn = Lrn { input: view.clone(), output: view, size: 3, alpha: 0.5, beta: 0.75, bias: 1.0 };
    let mut operand = Operand::filled(96, 0);
    operand.copy_from_slice(bytemuck::cast_slice(&INPUT));
    let output = testing::run(&Kernel::Lrn(lrn), &[operand]);
    for (got, wanted) in bytemuck::cast_slice::<u8, f32>(&output).iter().zip(NORMALIZED) {
        assert!((got - wanted).abs() <= 1e-6 * (1.0 + wanted.abs()), "{got} is not {wanted}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), alike in any::<bool>(),
        size in prop_oneof![0..9_u32, Just(u32::MAX)], parameters in any::<[f32; 3]>(),
    ) {
        let output = if alike { input.clone() } else { output };
        let [alpha, beta, bias] = parameters;
        never_panics(&Kernel::Lrn(Lrn { input, output, size, alpha, beta, bias }));
    }
}
