//! The reference kernel against the definition.

use super::IntegerConv;
use super::cases::cases;
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, Values, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::IntegerConv(conv) = &kernel else { panic!("another family") };
        let rank = conv.input.rank();
        testing::compare_of(&kernel, Values::Special, 0.0, |operands, index| {
            let inner = i64::from(conv.weights.shape[1]);
            let group = index[1] / (i64::from(conv.output.shape[1]) / i64::from(conv.groups));
            let taps: Vec<i64> = conv.weights.shape[2..].iter().map(|&extent| extent.into()).collect();
            let mut sum = 0.0;
            for channel in 0..inner {
                for tap in 0..taps.iter().product() {
                    let mut rest = tap;
                    let (mut at, mut weight) = (vec![index[0], group * inner + channel], vec![index[1], channel]);
                    at.resize(rank, 0);
                    weight.resize(rank, 0);
                    let mut inside = true;
                    for d in (2..rank).rev() {
                        let q = rest % taps[d - 2];
                        rest /= taps[d - 2];
                        let parameter = |values: [u32; 3]| i64::from(values[d + 3 - rank]);
                        weight[d] = q;
                        at[d] =
                            index[d] * parameter(conv.strides) + q * parameter(conv.dilations) - parameter(conv.pads);
                        inside &= (0..i64::from(conv.input.shape[d])).contains(&at[d]);
                    }
                    if inside {
                        sum += element(&conv.input, &operands[0], &at) * element(&conv.weights, &operands[1], &weight);
                    }
                }
            }
            f64::from(sum as i64 as i32) // It wraps.
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), weights in any_view(), output in any_view(), groups in any_number(),
        window in prop::collection::vec(any_number(), 9),
    ) {
        let (mut input, mut weights, mut output) = (input, weights, output);
        (input.dtype, weights.dtype, output.dtype) = (DType::I8, DType::I16, DType::I32);
        let three = |first: usize| [window[first], window[first + 1], window[first + 2]];
        let (strides, dilations, pads) = (three(0), three(3), three(6));
        never_panics(&Kernel::IntegerConv(IntegerConv { input, weights, output, strides, dilations, pads, groups }));
    }
}
