//! `--operators`: operators from outside of Floe.

use crate::Folder;
use std::{fs, path::Path};

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
