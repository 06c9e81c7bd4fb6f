//! The reference kernel against the definition.

use super::PoolIndices;
use super::cases::cases;
use crate::conv::tests::{any_number, any_view, never_panics};
use crate::host::testing::{self, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::PoolIndices(pool) = &kernel else { panic!("another family") };
        let rank = pool.input.rank();
        let extents: Vec<i64> = pool.input.shape.iter().map(|&extent| extent.into()).collect();
        testing::compare(&kernel, 0.0, |operands, index| {
            let mut best: Option<(f64, i64)> = None;
            let pixels: i64 = extents[2..].iter().product();
            for pixel in 0..pixels {
                let mut at = index.to_vec();
                let (mut rest, mut met) = (pixel, true);
                for d in (2..rank).rev() {
                    (at[d], rest) = (rest % extents[d], rest / extents[d]);
                    let parameter = |values: [u32; 3]| i64::from(values[d + 3 - rank]);
                    let distance = at[d] - (index[d] * parameter(pool.strides) - parameter(pool.pads));
                    let step = parameter(pool.dilations);
                    met &= distance >= 0 && distance % step == 0 && distance / step < parameter(pool.window);
                }
                let value = element(&pool.input, &operands[0], &at);
                if met && best.is_none_or(|(found, _)| value > found) {
                    let spatial: Vec<usize> =
                        if pool.column_major { (2..rank).rev().collect() } else { (2..rank).collect() };
                    let number = spatial.iter().fold(0, |number, &d| number * extents[d] + at[d]);
                    best = Some((value, (at[0] * extents[1] + at[1]) * pixels + number));
                }
            }
            best.map_or(0.0, |(_, number)| number as f64)
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(
        input in any_view(), output in any_view(), column_major in any::<bool>(),
        window in prop::collection::vec(any_number(), 12),
    ) {
        let mut output = output;
        output.dtype = DType::I64;
        let three = |first: usize| [window[first], window[first + 1], window[first + 2]];
        let (window, strides, dilations, pads) = (three(0), three(3), three(6), three(9));
        never_panics(&Kernel::PoolIndices(PoolIndices {
            input, output, window, strides, dilations, pads, column_major,
        }));
    }
}
