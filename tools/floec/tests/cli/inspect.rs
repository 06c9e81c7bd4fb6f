//! `floec inspect` on models.

use crate::{Folder, models};
use serde_json::Value;

#[test]
fn a_model_says_what_it_holds_and_who_runs_it() {
    let folder = Folder::new();
    folder.write("net.onnx", models::convolution());
    let run = folder.run("inspect net.onnx --json --target jetson-orin-nano");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["parameters"], 18);
    assert_eq!(report["operators"], serde_json::json!({"Conv": 1, "Relu": 1}));
    assert_eq!(report["inputs"][0]["shape"], serde_json::json!([1, 1, 6, 6]));
    let [host, nano] = [0, 1].map(|number| &report["support"]["targets"][number]);
    // 2 × 4 × 4 sums of 9 products, twice, and the activation.
    assert!(host["target"] == "host" && host["flops"].as_u64().unwrap() >= 2 * 2 * 16 * 9, "{host}");
    assert!(host["expected_us"].is_null() && nano["expected_us"].as_f64().unwrap() > 0.0, "{nano}");
    let text = folder.run("inspect net.onnx").stdout;
    assert!(text.contains("input  x: FLOAT [1, 1, 6, 6]") && text.contains("Conv 1, Relu 1"), "{text}");
}

#[test]
fn an_open_shape_is_asked_for_and_an_unknown_operator_named_without_it() {
    let folder = Folder::new();
    folder.write("open.onnx", models::open_convolution());
    let run = folder.run("inspect open.onnx");
    assert!(
        run.code == Some(0) && run.stdout.contains("not determined") && run.stdout.contains("--shape"),
        "{}",
        run.stdout
    );
    let run = folder.run("inspect open.onnx --shape x=1x1x9x9");
    assert!(run.code == Some(0) && run.stdout.contains("host: "), "{}", run.stdout);
    folder.write("odd.onnx", models::model(vec![models::node("n", "Wobble", &["x"], "y")], Vec::new(), &["rows"]));
    let run = folder.run("inspect odd.onnx");
    assert!(run.code == Some(1) && run.stdout.contains("not supported: Wobble"), "{}", run.stdout);
}

#[test]
fn options_of_models_are_refused_for_plans() {
    let folder = Folder::new();
    folder.write("net.onnx", models::convolution());
    assert_eq!(folder.run("compile net.onnx --target host -o net.floe").code, Some(0));
    folder.misused("inspect net.floe --target host", &["--target", "plan"]);
}
