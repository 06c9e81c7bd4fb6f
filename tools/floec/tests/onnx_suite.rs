//! The ONNX backend suite on the host, and `SUPPORT.md`, which is made of it. `tools/test` says where the suite is.

use floe_conformance::{f16, suite};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

const FOLDERS: [&str; 4] = ["node", "simple", "pytorch-converted", "pytorch-operator"];

/// Runs `floec suite` with these arguments on the whole suite; what it writes with `--json`.
fn results(arguments: &[&str], folder: &Path) -> Vec<Value> {
    let suite = std::env::var_os("FLOE_ONNX_SUITE").expect("FLOE_ONNX_SUITE names the folder; tools/test sets it");
    let folders = FOLDERS.map(|name| PathBuf::from(&suite).join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_floec"));
    command.current_dir(folder).arg("suite").args(folders).args(["--json", "results.json"]).args(arguments);
    let output = command.output().unwrap();
    // 1: some cases are refused.
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<Value> = serde_json::from_slice(&fs::read(folder.join("results.json")).unwrap()).unwrap();
    assert_eq!(results.len(), suite::CASES, "the lists are of another version of the suite");
    results
}

/// Every case passes that is not listed as refused, and every listed one is refused. `may_fail` may give wrong results.
fn assert_outcomes(results: &[Value], may_fail: impl Fn(&str) -> bool) {
    let refused = suite::refused();
    let mut wrong = Vec::new();
    for result in results {
        let [case, outcome, detail] = ["case", "outcome", "detail"].map(|key| result[key].as_str().unwrap());
        match (outcome, refused.contains(case)) {
            ("passed", false) | ("skipped", true) => (),
            ("passed", true) => wrong.push(format!("{case} passes: take it off tools/conformance/src/refused.txt")),
            ("skipped", false) => wrong.push(format!("{case} is refused: {detail}")),
            _ if may_fail(case) => (),
            _ => wrong.push(format!("{case} is wrong: {detail}")),
        }
    }
    let names: BTreeSet<&str> = results.iter().filter_map(|result| result["case"].as_str()).collect();
    wrong
        .extend(refused.difference(&names).map(|case| format!("{case} is listed as refused and no case of the suite")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs the ONNX backend suite: run tools/test"]
fn every_case_passes_that_is_not_listed_as_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_outcomes(&results(&["--support", "SUPPORT.md"], folder.path()), |_| false);

    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SUPPORT.md");
    let [committed, generated] =
        [committed, folder.path().join("SUPPORT.md")].map(|path| fs::read_to_string(path).unwrap());
    for (number, (old, new)) in committed.lines().zip(generated.lines()).enumerate() {
        assert_eq!(old, new, "line {} of SUPPORT.md is not what `floec suite --support` writes", number + 1);
    }
    assert_eq!(committed, generated, "SUPPORT.md is not what `floec suite --support` writes");
}

#[test]
#[ignore = "needs the ONNX backend suite: run tools/test"]
fn values_in_f16_change_no_result_by_more_than_they_round() {
    let folder = tempfile::tempdir().unwrap();
    let results = results(&["--precision", "f16"], folder.path());
    assert_outcomes(&results, |case| f16::beyond(case).is_some());
}
