//! The reference kernel against the definition.

use super::cases::cases;
use super::{Scatter, ScatterReduction};
use crate::conv::tests::{any_view, never_panics};
use crate::host::testing::{self, element};
use crate::{DType, Kernel};
use proptest::prelude::*;

#[test]
fn cases_agree_with_the_definition() {
    for kernel in cases() {
        let Kernel::Scatter(scatter) = &kernel else { panic!("another family") };
        if matches!(scatter.data.dtype, DType::I8) {
            continue; // Wraps, which f64 does not.
        }
        testing::compare(&kernel, 2e-2, |operands, index| {
            let mut value = element(&scatter.data, &operands[0], index);
            for i in 0..i64::from(scatter.indices.shape[0]) {
                if element(&scatter.indices, &operands[1], &[i]) as i64 == index[0] {
                    let update = element(&scatter.updates, &operands[2], &[i, index[1]]);
                    value = match scatter.reduction {
                        ScatterReduction::Replace => update,
                        ScatterReduction::Add => value + update,
                        ScatterReduction::Multiply => value * update,
                        ScatterReduction::Max => value.max(update),
                        ScatterReduction::Min => value.min(update),
                    };
                }
            }
            value
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nonsense_never_panics(data in any_view(), indices in any_view(), updates in any_view(), output in any_view()) {
        never_panics(&Kernel::Scatter(Scatter { data, indices, updates, output, reduction: ScatterReduction::Add }));
    }
}
