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
    let kinds = "of those that passed: 2 live, 0 baked, 0 folded";
    assert_eq!(lines, ["passed  negative: 0.000", "passed  relu: 0.000", kinds, "2 passed, 0 failed, 0 skipped"]);
    let results: serde_json::Value = serde_json::from_slice(&folder.read("results.json")).unwrap();
    let live = serde_json::json!({
        "case": "relu", "outcome": "passed", "detail": "0.000", "inputs": "live", "constant": [],
    });
    assert_eq!(results[1], live);
    // A case itself is as good as the folder that holds it.
    assert!(folder.run("suite cases/relu").succeeded().ends_with("1 passed, 0 failed, 0 skipped\n"));
}

#[test]
fn only_what_a_model_cannot_compile_without_becomes_constant() {
    let folder = Folder::new();
    let expected = models::tensor("y", &[1, 4], &[-1.0, 0.0, 2.0, 3.5]);
    let x = models::tensor("x", &[4], &[-1.0, 0.0, 2.0, 3.5]);
    let nothing = models::tensor("nothing", &[1], &[0.0]);
    let shape = models::integers("shape", &[1, 4]);
    let node = |operator, inputs: &[&str]| models::node("only", operator, inputs, "y");
    // Data beside a shape; a shape alone; two shapes, of which one is data to a node that needs no value.
    let cases = [
        ("a_reshape", vec![node("Reshape", &["x", "shape"])], vec![x.clone(), shape.clone()], expected.clone()),
        (
            "b_filled",
            vec![node("ConstantOfShape", &["shape"])],
            vec![shape.clone()],
            models::tensor("y", &[1, 4], &[0.0; 4]),
        ),
        (
            "c_two",
            vec![models::node("first", "Reshape", &["x", "shape"], "z"), node("Add", &["z", "nothing"])],
            vec![nothing, shape, x],
            expected,
        ),
    ];
    for (name, nodes, inputs, output) in cases {
        let data = format!("cases/{name}/test_data_set_0");
        fs::create_dir_all(folder.path(&data)).unwrap();
        folder.write(&format!("cases/{name}/model.onnx"), models::with_inputs(nodes, &inputs));
        for (number, input) in inputs.iter().enumerate() {
            folder.write(&format!("{data}/input_{number}.pb"), input.encode_to_vec());
        }
        folder.write(&format!("{data}/output_0.pb"), output.encode_to_vec());
    }
    let text = folder.run("suite cases --json results.json").succeeded();
    let lines: Vec<_> = text.lines().collect();
    let expected = [
        "passed  a_reshape: 0.000 (baked: shape)",
        "passed  b_filled: 0.000 (folded: shape)",
        "passed  c_two: 0.000 (baked: shape)",
        "of those that passed: 0 live, 2 baked, 1 folded",
        "3 passed, 0 failed, 0 skipped",
    ];
    assert_eq!(lines, expected);
    let results: serde_json::Value = serde_json::from_slice(&folder.read("results.json")).unwrap();
    assert_eq!((&results[0]["inputs"], &results[0]["constant"][0]), (&"baked".into(), &"shape".into()));
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
    folder.misused("suite tmp", &["'tmp' holds no test case"]);
    folder.misused("suite nowhere", &["'nowhere'", "No such file"]);
    folder.misused("suite tmp --target h200", &["--target h200", "host"]);
}
