//! `floec compile` on files, shapes and operators that it cannot take.

use crate::{Folder, models};

const COMPILE: &str = "compile model.onnx --target host -o plan.floe";

/// Refuses a model with the message's words.
fn refuses_model(model: impl AsRef<[u8]>, words: &[&str]) {
    with(model).refuses(COMPILE, words);
}

/// Refuses a file that is no model, or no whole one.
fn refuses_file(model: impl AsRef<[u8]>, words: &[&str]) {
    with(model).misused(COMPILE, words);
}

fn with(model: impl AsRef<[u8]>) -> Folder {
    let folder = Folder::new();
    folder.write("model.onnx", model);
    folder
}

#[test]
fn files_that_are_not_onnx() {
    let not_onnx = ["cannot compile 'model.onnx'", "not an ONNX"];
    refuses_file("", &not_onnx);
    refuses_file("hello world, this is no model", &not_onnx);
    refuses_file(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", &not_onnx);
    refuses_file([0xff; 256], &not_onnx);
    let folder = Folder::new();
    folder.misused(COMPILE, &["model.onnx", "No such file"]);
    folder.misused("compile tmp --target host -o plan.floe", &["'tmp'", "Is a directory"]);
}

#[test]
fn truncated_onnx() {
    let digits = include_bytes!("../../../../examples/quickstart/digits.onnx");
    let folder = Folder::new();
    for cut in [1, 2, 7, 64, digits.len() / 10, digits.len() / 2, digits.len() * 9 / 10, digits.len() - 1] {
        folder.write("model.onnx", &digits[..cut]);
        folder.misused(&format!("{COMPILE} --shape image=1x1x8x8"), &["cannot compile 'model.onnx'", "ONNX"]);
    }
    let small = models::convolution();
    for cut in (1..small.len()).step_by(11) {
        folder.write("model.onnx", &small[..cut]);
        folder.misused(COMPILE, &["cannot compile 'model.onnx'", "ONNX"]);
    }
}

#[test]
fn external_data_that_is_not_there() {
    refuses_file(models::external_convolution("weights.bin"), &["'weights'", "weights.bin"]);
    refuses_file(models::external_convolution("../../etc/passwd"), &["'weights'", "../../etc/passwd"]);
}

#[test]
fn shapes() {
    let folder = Folder::new();
    folder.write("model.onnx", models::open_convolution());
    folder.misused(COMPILE, &["input 'x'", "[batch, 1, height, width]", "--shape x="]);
    for (shape, words) in [
        ("x=1x3x6x6", &["--shape x=1x3x6x6 contradicts", "[batch, 1, height, width]"][..]),
        ("x=1x1x6", &["--shape x=1x1x6 contradicts", "[batch, 1, height, width]"]),
        ("x=", &["contradicts", "[batch, 1, height, width]"]),
        ("image=1x1x6x6", &["no input 'image'", "'x' [batch, 1, height, width]"]),
        ("x=1xax3", &["--shape x=1xax3", "1x3x224x224"]),
        ("x=1x-1x6x6", &["--shape x=1x-1x6x6", "1x3x224x224"]),
        ("x=1x1x6x99999999999999999999", &["--shape x=1x1x6x99999999999999999999", "number too large"]),
        ("x=1x1x6x6x", &["--shape x=1x1x6x6x", "1x3x224x224"]),
        ("x", &["--shape x", "NAME=VALUE"]),
        ("x=1x1x4294967296x4294967296", &["input 'x'", "too large"]),
    ] {
        folder.misused(&format!("{COMPILE} --shape {shape}"), words);
    }
    // A legal shape that the network cannot take: the window is larger than the image.
    folder.refuses(&format!("{COMPILE} --shape x=1x1x2x2"), &["'edges'", "Conv"]);
    folder.misused(&format!("{COMPILE} --shape x=1x1x6x6 --shape x=2x1x6x6"), &["--shape names input 'x' twice"]);
}

#[test]
fn unsupported_operators_and_attributes() {
    refuses_model(models::single(models::node("odd", "Multinomial", &["x"], "y")), &["node 'odd'", "Multinomial"]);
    let mut custom = models::node("fancy", "Swirl", &["x"], "y");
    custom.domain = "com.example".into();
    refuses_model(models::single(custom), &["node 'fancy'", "Swirl", "com.example"]);
    // A node without a name is told by its operator and its number.
    refuses_model(
        models::single(models::node("", "Multinomial", &["x"], "y")),
        &["node 'Multinomial_0'", "not supported"],
    );
    let mut space = models::node("shuffle", "DepthToSpace", &["x"], "y");
    space.attribute.push(models::text("mode", "XYZ"));
    refuses_model(models::single(space), &["node 'shuffle'", "DepthToSpace", "mode"]);
    refuses_model(models::single(models::node("lost", "Relu", &["nowhere"], "y")), &["lost", "nowhere"]);
}

/// Three operators in different places, one error.
#[test]
fn all_unsupported_operators_are_named_at_once() {
    let mut custom = models::node("fancy", "Swirl", &["h"], "i");
    custom.domain = "com.example".into();
    let nodes = vec![
        models::node("odd", "Multinomial", &["x"], "h"),
        custom,
        models::node("fine", "Relu", &["i"], "j"),
        models::node("", "TfIdfVectorizer", &["j"], "k"),
        models::node("odd again", "Multinomial", &["k"], "y"),
    ];
    let lines = [
        "cannot compile 'model.onnx'",
        "4 nodes of the model are not supported:\n",
        "\n  Multinomial (ai.onnx, operator set 17): the operator is not supported: 2 nodes 'odd', 'odd again'\n",
        "\n  Swirl (com.example): the operator is not supported, nor is any other of domain 'com.example'",
        "\n  TfIdfVectorizer (ai.onnx, operator set 17): the operator is not supported: node 'TfIdfVectorizer_3'",
    ];
    refuses_model(models::model(nodes, Vec::new(), &["2"]), &lines);
}
