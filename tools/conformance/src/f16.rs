//! What plans in f16 may differ by from the suite's results, which were computed in f32 or f64.
//!
//! Inputs and outputs keep the model's types; values in between are stored in f16 and rounded by 2⁻¹¹ (4.9e-4) of themselves,
//! sums are f32, and algorithms that promise no more than 5e-3 may be chosen. What would lose its range or its order is kept
//! in f32 (`lower/range.rs`, `lower/magnitude.rs` and their neighbours in the compiler).

use crate::suite::Tolerance;

/// Ten roundings of the largest element, as many as the longest function bodies make in a row, and ten of the element.
pub const TOLERANCE: Tolerance = Tolerance { absolute: 5e-3, relative: 5e-3, scaled: true };

/// Cases whose expected outputs f16 cannot give, with the reason.
#[rustfmt::skip]
pub const CLASSES: [(&str, &[&str]); 3] = [
    (
        "the scale is computed when running and stored in f16: a quotient of up to 255 is 1/8 off, so that an integer may \
         differ by one",
        &[
            "test_dynamicquantizelinear", "test_dynamicquantizelinear_expanded",
            "test_dynamicquantizelinear_max_adjusted", "test_dynamicquantizelinear_max_adjusted_expanded",
            "test_dynamicquantizelinear_min_adjusted", "test_dynamicquantizelinear_min_adjusted_expanded",
        ],
    ),
    (
        "the zero point of 32767 is an input that is converted to a float when running and stored in f16, which has no odd \
         numbers above 2048",
        &["test_quantizelinear_uint16"],
    ),
    (
        "the product of E5M2's 49152 and a scale that is an input is beyond f16's range",
        &["test_dequantizelinear_e5m2"],
    ),
];

/// Why f16 cannot give the expected output of a case, where it cannot.
pub fn beyond(case: &str) -> Option<&'static str> {
    CLASSES.iter().find(|(_, cases)| cases.contains(&case)).map(|(reason, _)| *reason)
}
