//! Operators of com.microsoft on the host against ONNX Runtime. `tools/test` makes the cases and runs this test.

use floe_compiler::suite::{self, Outcome, Tolerance};
use std::path::PathBuf;

/// Fewer cases than this are not what the script writes.
const CASES: usize = 38;

#[test]
#[ignore = "needs references: run tools/test"]
fn operators_agree_with_onnx_runtime() {
    let folder = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
    let cases = suite::cases(&PathBuf::from(folder).join("microsoft")).expect("tools/test makes the cases");
    assert!(cases.len() >= CASES, "only {} cases", cases.len());
    let tolerance = Tolerance { absolute: 1e-5, relative: 1e-4, scaled: false };
    for case in cases {
        let outcome = suite::run_on_host(&case, tolerance);
        assert!(matches!(outcome, Outcome::Passed { .. }), "{}: {outcome:?}", case.display());
    }
}
