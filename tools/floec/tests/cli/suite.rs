//! `floec suite` on test folders made here.

use crate::{Folder, models};
use prost::Message;
use std::fs;

/// A case: a model of one node and one data set.
fn case(folder: &Folder, name: &str, operator: &str, expected: [f32; 4]) {
    let data = format!("{name}/test_data_set_0");
    fs::create_dir_all(folder.path(&data)).unwrap();
    folder.write(&format!("{name}/model.onnx"), models::single(models::node("only", operator, &["x"], "y")));
    let tensor = |name, values: [f32; 4]| models::tensor(name, &[1, 4], &values).encode_to_vec();
    folder.write(&format!("{data}/input_0.pb"), tensor("x", [-1.0, 0.0, 2.0, 3.5]));
    folder.write(&format!("{data}/output_0.pb"), tensor("y", expected));
}

#[test]
fn a_passing_folder() {
    let folder = Folder::new();
    case(&folder, "cases/relu", "Relu", [0.0, 0.0, 2.0, 3.5]);
    case(&folder, "cases/negative", "Neg", [1.0, 0.0, -2.0, -3.5]);
    let text = folder.run("suite cases --json results.json").succeeded();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines, ["passed  negative: 0.000", "passed  relu: 0.000", "2 passed, 0 failed, 0 skipped"]);
    let results: serde_json::Value = serde_json::from_slice(&folder.read("results.json")).unwrap();
    assert_eq!(results[1], serde_json::json!({"case": "relu", "outcome": "passed", "detail": "0.000"}));
    // A case itself is as good as the folder that holds it.
    assert!(folder.run("suite cases/relu").succeeded().ends_with("1 passed, 0 failed, 0 skipped\n"));
}

#[test]
fn failures_and_skipped_cases_are_told_and_are_exit_code_1() {
    let folder = Folder::new();
    case(&folder, "cases/relu", "Relu", [0.0, 0.0, 2.0, 3.5]);
    case(&folder, "cases/wrong", "Relu", [0.0, 0.0, 2.0, 3.6]);
    case(&folder, "cases/unknown", "Multinomial", [0.0; 4]);
    let run = folder.run("suite cases");
    assert_eq!(run.code, Some(1));
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(lines.last(), Some(&"1 passed, 1 failed, 1 skipped"), "{lines:?}");
    assert!(lines[1].starts_with("skipped unknown: ") && lines[1].contains("Multinomial"), "{lines:?}");
    assert!(lines[2].starts_with("failed  wrong: output 'y' largest error 1.000e-1"), "{lines:?}");
    assert_eq!(run.stderr, "error: 1 failed and 1 skipped of 3 cases\n");
    let lenient = folder.run("suite cases/wrong --atol 0.2");
    assert_eq!(lenient.code, Some(0), "{}", lenient.stderr);
}

#[test]
fn folders_without_cases() {
    let folder = Folder::new();
    folder.refuses("suite tmp", &["'tmp' holds no test case"]);
    folder.refuses("suite nowhere", &["'nowhere'", "No such file"]);
    folder.refuses("suite tmp --target h200", &["--target h200", "host"]);
}
