//! Operators on the host against ONNX Runtime: those of com.microsoft, those whose outputs' extents depend on data, and small
//! networks of quantised ones. Those of 8-bit floats and 4-bit integers against ONNX's reference implementation.
//! `tools/test` makes the cases and runs these tests.

use floe_conformance::suite::{self, Outcome, Tolerance};
use std::path::PathBuf;

/// Runs the cases of a folder; fewer than `least` are not what the script writes. The absolute bound of a case is 1e-5, or what
/// `wider` says.
fn agree(folder: &str, least: usize, wider: &[(&str, f64)]) {
    let references = std::env::var_os("FLOE_REFERENCES").expect("FLOE_REFERENCES names the folder; tools/test sets it");
    let cases = suite::cases(&PathBuf::from(references).join(folder)).expect("tools/test makes the cases");
    assert!(cases.len() >= least, "only {} cases", cases.len());
    for case in cases {
        let absolute = wider.iter().find(|(name, _)| case.ends_with(name)).map_or(1e-5, |&(_, absolute)| absolute);
        let tolerance = Tolerance { absolute, relative: 1e-4, scaled: false };
        let outcome = suite::run_on_host(&case, tolerance);
        assert!(matches!(outcome, Outcome::Passed { .. }), "{}: {outcome:?}", case.display());
    }
}

#[test]
#[ignore = "needs references: run tools/test"]
fn microsoft_operators_agree_with_onnx_runtime() {
    // ONNX Runtime rounds hidden states to 256 steps, Floe does not: errors of 1/256 at most, times weights of 0.03 at most.
    let wider = [("dynamic_quantize_lstm", 2e-4), ("dynamic_quantize_lstm_columns", 2e-4)];
    agree("microsoft", 75, &wider);
}

#[test]
#[ignore = "needs references: run tools/test"]
fn counted_outputs_agree_with_onnx_runtime() {
    agree("counted", 16, &[]);
}

#[test]
#[ignore = "needs references: run tools/test"]
fn narrow_types_agree_with_onnx_s_reference() {
    agree("narrow", 126, &[]);
}

#[test]
#[ignore = "needs references: run tools/test"]
fn quantised_networks_agree_with_onnx_runtime() {
    // Every integer of these networks is ONNX Runtime's, but where four averages of a pooling lie half-way between two: there
    // its sums in another order round the other way, which moves a probability by its step of 1/127.
    agree("quantized", 48, &[("image-s8s8-channels-qdq", 8e-3)]);
}
