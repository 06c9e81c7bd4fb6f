//! `--operators`: operators from outside of Floe.

use crate::{Folder, models, nvrtc_is_there};
use floe_models::onnx::proto::NodeProto;
use std::{fs, path::Path, process::Command};

/// The example's model and, below `operators`, its description.
fn example() -> Folder {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/custom_operator");
    let folder = Folder::new();
    fs::create_dir(folder.path("operators")).unwrap();
    for name in ["model.onnx", "operators/correlation.toml", "operators/correlation.cu"] {
        folder.write(name, fs::read(example.join(name)).unwrap());
    }
    folder
}

#[test]
fn a_described_operator_is_supported() {
    let folder = example();
    let run = folder.run("inspect model.onnx");
    assert!(run.code == Some(1) && run.stdout.contains("or describe it for --operators"), "{}", run.stdout);
    let run = folder.run("inspect model.onnx --operators operators --target jetson-orin-nano");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("example.vision::Correlation 1"), "{}", run.stdout);
    assert!(run.stdout.contains("jetson-orin-nano: "), "{}", run.stdout);

    folder.refuses("compile model.onnx --target host -o flow.floe", &["example.vision.Correlation", "--operators"]);
    folder.run("compile model.onnx --target host --operators operators -o flow.floe");
    let steps = folder.run("inspect flow.floe --json").succeeded();
    assert!(steps.contains("\"custom\""), "{steps}");
    folder.misused("inspect flow.floe --operators operators", &["--operators are for models"]);
}

#[test]
fn descriptions_that_are_wrong_are_bad_usage() {
    let folder = example();
    folder.misused("compile model.onnx --target host --operators none -o flow.floe", &["cannot read 'none'"]);
    folder.misused("compile model.onnx --target host --operators tmp -o flow.floe", &["'tmp' holds no description"]);
    folder.write("operators/correlation.toml", "domain = 7");
    folder.misused(
        "compile model.onnx --target host --operators operators -o flow.floe",
        &["correlation.toml", "line 1"],
    );
}

/// `y = x * gain + offset` in the vectors of `x [2, 4]`; both factors may be left out.
const SCALE: &str = r#"
domain = "example"
name = "Scale"
versions = [1]
[[input]]
name = "x"
types = ["f32"]
shape = "[n, k]"
[[input]]
name = "gain"
types = ["f32"]
shape = "[k]"
default = 1
[[input]]
name = "offset"
types = ["f32"]
shape = "[k]"
default = 0.5
[[output]]
name = "y"
type = "x"
shape = "[n, k]"
"#;

#[test]
fn inputs_with_a_default_may_be_left_out() {
    let folder = Folder::new();
    fs::create_dir(folder.path("operators")).unwrap();
    folder.write("operators/scale.toml", SCALE);
    let plan = |inputs: &[&str]| {
        let node = NodeProto { domain: "example".into(), ..models::node("scale", "Scale", inputs, "y") };
        let weights = vec![models::tensor("ones", &[4], &[1.0; 4]), models::tensor("halves", &[4], &[0.5; 4])];
        folder.write("model.onnx", models::model(vec![node], weights, &["2", "4"]));
        folder.run("compile model.onnx --target host --operators operators -o plan.floe").succeeded();
        fs::read(folder.path("plan.floe")).unwrap()
    };
    let all = plan(&["x", "ones", "halves"]);
    for inputs in [&["x"][..], &["x", ""], &["x", "", ""], &["x", "ones"], &["x", "", "halves"]] {
        assert!(plan(inputs) == all, "{inputs:?} gives another plan");
    }
    assert!(plan(&["x", "halves"]) != all);
    let refused = |inputs: &[&str], why: &str| {
        let node = NodeProto { domain: "example".into(), ..models::node("scale", "Scale", inputs, "y") };
        let weights = vec![models::tensor("ones", &[4], &[1.0; 4]), models::tensor("three", &[3], &[1.0; 3])];
        folder.write("model.onnx", models::model(vec![node], weights, &["2", "4"]));
        folder.refuses("compile model.onnx --target host --operators operators -o plan.floe", &[why]);
    };
    refused(&["", "ones"], "input 'x' is missing, and its description has no default");
    refused(&["x", "three"], "dimension 0 of input 'gain' is 3, not 4");
    refused(&["x", "ones", "ones", "ones"], "it has 4 inputs, and its description 3");
}

/// The example with its operator's function in C as `host.so`.
fn example_with_library() -> Folder {
    let folder = example();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I"]).arg(repository.join("engine/include"));
    command.arg(repository.join("examples/custom_operator/host.c")).arg("-o").arg(folder.path("host.so"));
    assert!(command.status().unwrap().success());
    folder.write("reference.npz", fs::read(repository.join("examples/custom_operator/reference.npz")).unwrap());
    folder
}

#[test]
fn comparing_and_quantising_call_the_hosts_function() {
    let folder = example_with_library();
    let compare = "compare model.onnx --operators operators --target jetson-orin-nano --device simulated";
    let said = folder.run(&format!("{compare} --host-library host.so --json")).succeeded();
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let layers = report["layers"].as_array().unwrap();
    assert!(layers.iter().any(|layer| layer["value"] == "cost"), "{said}");
    // NumPy's costs for the same pictures are the host's.
    let reference = "compare model.onnx --operators operators --target host --host-library host.so";
    let budget = "--inputs reference.npz --reference reference.npz --budget";
    let said = folder.run(&format!("{reference} {budget} relative=0.00001 --outputs-only"));
    assert_eq!(said.code, Some(0), "{}{}", said.stdout, said.stderr);

    let quantize = "quantize model.onnx --operators operators --samples reference.npz -o small.onnx";
    folder.run(&format!("{quantize} --host-library host.so")).succeeded();
    let made = folder.run("inspect small.onnx --operators operators");
    assert!(made.stdout.contains("QuantizeLinear") && made.stdout.contains("Correlation 1"), "{}", made.stdout);

    for (command, missing) in [(compare, "example.vision.Correlation"), (quantize, "--host-library")] {
        let _ = fs::remove_file(folder.path("small.onnx"));
        folder.misused(command, &[missing, "--host-library FILE.so"]);
        folder.misused(&format!("{command} --host-library none.so"), &["'none.so'"]);
        folder.misused(&format!("{command} --host-library model.onnx"), &["is no library"]);
    }
    folder.misused(
        "compile model.onnx --operators operators --target host --host-library host.so -o a.floe",
        &["--budget"],
    );
}

#[test]
fn proving_compares_with_the_hosts_function() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = example_with_library();
    let prove = "prove model.onnx --operators operators --target jetson-orin-nano --json";
    for (more, is_compared) in [("", false), ("--host-library host.so", true)] {
        let report: serde_json::Value =
            serde_json::from_str(&folder.run(&format!("{prove} {more}")).succeeded()).unwrap();
        assert_eq!(report["findings"].as_array().unwrap().len(), 0);
        assert_eq!(report["errors"].is_array(), is_compared, "{report}");
        if is_compared {
            assert!(report["errors"][0]["relative_l2"].as_f64().unwrap() < 5e-3, "{report}");
        }
    }
}
