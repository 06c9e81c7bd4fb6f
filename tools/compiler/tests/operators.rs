//! Operators on the host against ONNX Runtime: those of com.microsoft, and those whose outputs' extents depend on data.
//! `tools/test` makes the cases and runs these tests.

use floe_compiler::suite::{self, Outcome, Tolerance};
use std::path::PathBuf;

/// Runs the cases of a folder; fewer than `least` are not what the script writes.
fn agree(folder: &str, least: usize) {
    let references = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
    let cases = suite::cases(&PathBuf::from(references).join(folder)).expect("tools/test makes the cases");
    assert!(cases.len() >= least, "only {} cases", cases.len());
    let tolerance = Tolerance { absolute: 1e-5, relative: 1e-4, scaled: false };
    for case in cases {
        let outcome = suite::run_on_host(&case, tolerance);
        assert!(matches!(outcome, Outcome::Passed { .. }), "{}: {outcome:?}", case.display());
    }
}

#[test]
#[ignore = "needs references: run tools/test"]
fn microsoft_operators_agree_with_onnx_runtime() {
    agree("microsoft", 58);
}

#[test]
#[ignore = "needs references: run tools/test"]
fn counted_outputs_agree_with_onnx_runtime() {
    agree("counted", 16);
}
