//! `floec quantize`.

use crate::{Folder, Run, models, run};
use floe_kernels::DType;
use serde_json::Value;
use std::{fs, process::Command};

/// Numbers between -1 and 1, the same for the same seed.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

/// Products `product 0`… with `Relu` between them on `x [1, width]`.
fn network(width: usize, layers: usize) -> Vec<u8> {
    let (mut nodes, mut weights, mut value) = (Vec::new(), Vec::new(), "x".to_owned());
    for layer in 0..layers {
        let (tensor, sums) = (format!("weights {layer}"), format!("sums {layer}"));
        let scale = (3.0 / width as f32).sqrt();
        let values: Vec<f32> = numbers(layer as u32 + 7, width * width).iter().map(|value| value * scale).collect();
        weights.push(models::tensor(&tensor, &[width as i64; 2], &values));
        let made = if layer + 1 == layers { "y" } else { &sums };
        nodes.push(models::node(&format!("product {layer}"), "MatMul", &[&value, &tensor], made));
        value = format!("positive {layer}");
        if layer + 1 < layers {
            nodes.push(models::node(&format!("relu {layer}"), "Relu", &[&sums], &value));
        }
    }
    models::model(nodes, weights, &["1", &width.to_string()])
}

fn npz(name: &str, values: &[f32]) -> Vec<u8> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = floe::npy::Array { dtype: DType::F32, shape: vec![1, values.len() as u64], bytes: &bytes };
    floe::npz::bytes([(name, array)]).unwrap()
}

/// A folder with `net.onnx` and `samples`.
fn folder(width: usize, layers: usize, samples: u32) -> Folder {
    let folder = Folder::new();
    folder.write("net.onnx", network(width, layers));
    fs::create_dir(folder.path("samples")).unwrap();
    for number in 0..samples {
        folder.write(&format!("samples/{number}.npz"), npz("x", &numbers(100 + number, width)));
    }
    folder
}

fn report(folder: &Folder, arguments: &str) -> Value {
    serde_json::from_str(&folder.run(&format!("quantize net.onnx {arguments} --json")).succeeded()).unwrap()
}

/// The nodes that stay floats, and why.
fn left(report: &Value) -> Vec<(&str, &str)> {
    let all = report["left"].as_array().unwrap().iter();
    all.map(|left| (left["node"].as_str().unwrap(), left["reason"].as_str().unwrap())).collect()
}

#[test]
fn a_float_model_becomes_one_in_8_bits() {
    let folder = folder(32, 2, 4);
    let before = folder.files();
    let said = folder.run("quantize net.onnx --samples samples -o q.onnx").succeeded();
    for words in
        ["q.onnx: ", "2 products in 8 bits, 100.0 % of the multiply-adds; 4 samples", "result: relative error 0.0"]
    {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
    // The model is new, and nothing else: no checkpoint stays behind.
    let mut after = folder.files();
    let model = after.remove(&folder.path("q.onnx")).unwrap();
    assert!(after == before, "{:?}", after.keys());
    folder.run("compile q.onnx --target host -o q.floe").succeeded();
    let inspected = folder.run("inspect q.floe").succeeded();
    assert_eq!(inspected.matches("quantized_conv host").count(), 2, "{inspected}");
    // Standard output takes the same bytes.
    let out = folder.command("quantize net.onnx --samples samples -o -").output().unwrap();
    assert!(out.status.success() && out.stdout == model, "{}", String::from_utf8_lossy(&out.stderr));
    let report = report(&folder, "--samples samples --most-samples 3 -o r.onnx");
    assert_eq!((&report["samples"], &report["bytes"]), (&3.into(), &folder.read("r.onnx").len().into()));
}

#[test]
fn a_float_model_becomes_one_in_floats_of_8_bits() {
    let folder = folder(32, 2, 4);
    let report = report(&folder, "--samples samples --format fp8 -o q.onnx");
    assert_eq!((&report["format"], &report["operations"]["8_bits"]), (&"fp8".into(), &report["operations"]["all"]));
    assert_eq!(report["layers"][0]["input"]["parameters"]["type"], "f8e4m3");
    folder.run("compile q.onnx --target host -o q.floe").succeeded();
    let inspected = folder.run("inspect q.floe").succeeded();
    assert_eq!(inspected.matches("quantized_conv host").count(), 2, "{inspected}");
    // Integers are what it makes by default, and by name.
    for format in ["", "--format int8"] {
        folder.run(&format!("quantize net.onnx --samples samples {format} -o i.onnx")).succeeded();
        assert!(folder.read("i.onnx") != folder.read("q.onnx"));
    }
}

#[test]
fn misuse_and_bad_samples_leave_every_file_alone() {
    let folder = folder(32, 2, 2);
    folder.write("q.onnx", "what was there before");
    folder.write("short.npz", npz("x", &[1.0; 3]));
    folder.write("torn.npz", &npz("x", &[1.0; 32])[..60]);
    folder.write("text.npy", "no array");
    folder.write("conv.onnx", models::open_convolution());
    let quantize = "quantize net.onnx -o q.onnx";
    for (line, words) in [
        (format!("{quantize} --samples nowhere"), "'nowhere'"),
        (format!("{quantize} --samples tmp"), "'tmp'"),
        (format!("{quantize} --samples short.npz"), "[1, 32]"),
        (format!("{quantize} --samples z=short.npz"), "'z'"),
        (format!("{quantize} --samples torn.npz"), "torn.npz"),
        (format!("{quantize} --samples text.npy"), "text.npy"),
        (format!("{quantize} --samples samples --samples torn.npz"), "torn.npz"),
        (quantize.to_owned(), "--samples"),
        (format!("{quantize} --samples samples --budget luck=1"), "write 'cosine 0.999'"),
        (format!("{quantize} --samples samples --keep nothing"), "'nothing'"),
        (format!("{quantize} --samples samples --target nowhere"), "nowhere"),
        (format!("{quantize} --samples samples --weights int3"), "[possible values: int8, int4]"),
        (format!("{quantize} --samples samples --weights int4 --group 24"), "power of two"),
        (format!("{quantize} --samples samples --weights int4 --symmetric"), "cannot be used with"),
        (format!("{quantize} --samples samples --format fp4"), "[possible values: int8, fp8]"),
        (
            format!("{quantize} --samples samples --format fp8 --weights int4"),
            "--format fp8 cannot be used with --weights",
        ),
        (
            format!("{quantize} --samples samples --format fp8 --symmetric"),
            "--format fp8 cannot be used with --symmetric",
        ),
        (format!("{quantize} --samples samples --format fp8 --effort high"), "adaptive rounding"),
        ("quantize net.onnx --samples samples -o net.onnx".into(), "would be overwritten"),
        ("quantize net.onnx --samples samples -o - --json".into(), "standard output"),
        ("quantize nowhere.onnx --samples samples -o q.onnx".into(), "nowhere.onnx"),
        ("quantize text.npy --samples samples -o q.onnx".into(), "cannot quantise 'text.npy'"),
        ("quantize conv.onnx --samples samples -o q.onnx".into(), "--shape x="),
    ] {
        folder.misused(&line, &[words]);
    }
    // What is quantised stays as it is.
    folder.run("quantize net.onnx --samples samples -o r.onnx").succeeded();
    folder.misused("quantize r.onnx --samples samples -o q.onnx", &["quantised already"]);
    folder.misused("quantize net.onnx --samples samples -o nowhere/q.onnx", &["nowhere/q.onnx"]);
}

#[test]
fn values_that_are_no_numbers_keep_a_layer_in_floats() {
    let folder = folder(32, 2, 2);
    let mut values = numbers(1, 32);
    values[5] = f32::NAN;
    folder.write("samples/nan.npz", npz("x", &values));
    let report = report(&folder, "--samples samples -o q.onnx");
    assert!(left(&report).contains(&("product 0", "its input has infinities or NaN")), "{report:#}");
}

/// The run of a command that ends where a file would become longer than so many blocks of the shell.
fn limited(folder: &Folder, blocks: u32, arguments: &str) -> Run {
    let limited = folder.command(arguments);
    let script = "ulimit -c 0; ulimit -f $0; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, &blocks.to_string()]).arg(limited.get_program()).args(limited.get_args());
    run(command.current_dir(folder.path("")))
}

/// Ended anywhere in its checkpoint, a run leaves that and no model; the same command goes on from there.
#[test]
fn an_interrupted_run_goes_on_where_it_was() {
    let folder = folder(64, 3, 12);
    let line = "quantize net.onnx --samples samples --effort high --json -o";
    let json = |run: Run| serde_json::from_str::<Value>(&run.succeeded()).unwrap();
    let whole = json(folder.run(&format!("{line} whole.onnx")));
    assert_eq!(whole["resumed_records"], 0);
    let (checkpoint, line) = (folder.path("q.onnx.checkpoint"), format!("{line} q.onnx"));
    let (mut rounded, mut resumed) = (0, 0);
    for blocks in (8..).step_by(16) {
        if limited(&folder, blocks, &line).code == Some(0) {
            break;
        }
        assert!(!folder.path("q.onnx").exists(), "{blocks} blocks");
        let records = String::from_utf8_lossy(&fs::read(&checkpoint).unwrap()).matches("rounded/product").count();
        rounded = rounded.max(records);
        let again = json(folder.run(&line));
        assert!(again["resumed_records"].as_u64() >= Some(resumed), "{blocks} blocks: {again:#}");
        resumed = again["resumed_records"].as_u64().unwrap();
        assert_eq!(again["distance"], whole["distance"], "{blocks} blocks");
        assert!(folder.read("q.onnx") == folder.read("whole.onnx") && !checkpoint.exists(), "{blocks} blocks");
        fs::remove_file(folder.path("q.onnx")).unwrap();
    }
    assert!(rounded > 0 && resumed > 4, "{rounded} {resumed}");
}

#[test]
fn symmetric_models_have_no_zero_points() {
    let folder = folder(32, 2, 4);
    let any = report(&folder, "--samples samples -o any.onnx");
    let symmetric = report(&folder, "--samples samples --symmetric -o symmetric.onnx");
    assert_eq!((&any["fits_tensorrt"], &symmetric["fits_tensorrt"]), (&false.into(), &true.into()));
    let parameters = |report: &Value| report["layers"][1]["input"]["parameters"].clone();
    assert_eq!((&parameters(&any)["type"], &parameters(&symmetric)["type"]), (&"u8".into(), &"i8".into()));
    let said = folder.run("quantize net.onnx --samples samples -o any.onnx").succeeded();
    assert!(said.contains("--symmetric avoids them"), "{said}");
}

#[test]
fn weights_of_4_bits_are_packed() {
    let folder = folder(64, 2, 4);
    let said = folder.run("quantize net.onnx --samples samples --weights int4 -o q.onnx").succeeded();
    assert!(said.contains("2 matrix products with packed weights"), "{said}");
    let (before, after) = (folder.read("net.onnx").len(), folder.read("q.onnx").len());
    assert!(after * 4 < before, "{after} of {before} bytes");
    let [four, eight] = ["int4", "int8"].map(|form| {
        let report = report(&folder, &format!("--samples samples --weights {form} -o q.onnx"));
        report["layers"][0]["error"].as_f64().unwrap()
    });
    assert!(eight * 4.0 < four && four < 0.2, "{eight} {four}");
    // A group is as deep as the product at most.
    let deep = report(&folder, "--samples samples --weights int4 --group 128 -o q.onnx");
    assert_eq!(left(&deep)[0], ("product 0", "it is not as deep as a group"));
    folder.run("quantize net.onnx --samples samples --weights int4 -o q.onnx").succeeded();
    folder.run("compile q.onnx --target host -o q.floe").succeeded();
}

#[test]
fn a_budget_keeps_layers_in_floats() {
    let folder = folder(32, 3, 4);
    let line = |budget: f64| {
        let mut command = folder.command("quantize net.onnx --samples samples --json -o q.onnx --budget");
        command.arg(format!("relative {budget}"));
        serde_json::from_str::<Value>(&run(&mut command).succeeded()).unwrap()
    };
    let free = line(1.0);
    let relative = free["distance"]["relative"].as_f64().unwrap();
    assert_eq!((left(&free).len(), &free["within_budget"]), (0, &true.into()));
    let held = line(relative * 0.8);
    let reason = left(&held)[0].1;
    assert!(reason.contains("it costs more accuracy than 'relative"), "{reason}");
    assert!((1..3).contains(&left(&held).len()) && held["within_budget"] == true, "{held:#}");
    assert!(held["distance"]["relative"].as_f64() <= Some(relative * 0.8));
    let none = line(0.0);
    assert_eq!((left(&none).len(), &none["layers"].as_array().unwrap().len()), (3, &0));
}

/// Ranges of every value that a network of two products has.
const TABLE: &str = r#"{"x": [-1.0, 0.5], "positive 0": [0.0, 2.0], "y": [-3.0, 3.0]}"#;

#[test]
fn a_calibration_table_takes_the_place_of_samples() {
    let folder = folder(32, 2, 0);
    folder.write("calibration.json", TABLE);
    let said = folder.run("quantize net.onnx --calibration calibration.json -o q.onnx").succeeded();
    assert!(said.contains("2 products in 8 bits") && said.contains("ranges of the table"), "{said}");
    assert!(!said.contains("result: "), "{said}");
    let report = report(&folder, "--calibration calibration.json -o q.onnx");
    let scale = |layer: usize| report["layers"][layer]["input"]["parameters"]["scale"].as_f64().unwrap();
    assert!((scale(0) * 255.0 - 1.5).abs() < 1e-6 && (scale(1) * 255.0 - 2.0).abs() < 1e-6, "{report:#}");
    let nothing = [&report["distance"], &report["layers"][0]["error"], &report["layers"][0]["input"]["error"]];
    assert_eq!(nothing, [&Value::Null; 3]);
    // A table of TensorRT has sizes: 1/127 and 2/127.
    folder.write("net.cache", "TRT-8601-EntropyCalibration2\nx: 3c010204\npositive 0: 3c810204\n");
    folder.write("sizes.json", r#"{"x": [-1.0, 1.0], "positive 0": [-2.0, 2.0]}"#);
    for (table, model) in [("net.cache", "cache.onnx"), ("sizes.json", "json.onnx")] {
        folder.run(&format!("quantize net.onnx --calibration {table} --symmetric -o {model}")).succeeded();
    }
    assert!(folder.read("cache.onnx") == folder.read("json.onnx"));
    folder.run("compile cache.onnx --target host -o q.floe").succeeded();
}

#[test]
fn tables_that_do_not_fit_are_told() {
    let folder = folder(32, 2, 1);
    folder.write("calibration.json", TABLE);
    folder.write("calibration.cache", "x 0.5\npositive 0 2.0\n");
    folder.write("other.json", r#"{"z": [-1.0, 1.0]}"#);
    folder.write("empty.json", r#"{"x": [1.0, -1.0]}"#);
    folder.write("half.json", r#"{"x": [-1.0, 0.5]}"#);
    let quantize = "quantize net.onnx -o q.onnx --calibration";
    for (line, words) in [
        (format!("{quantize} nowhere.json"), "nowhere.json"),
        (format!("{quantize} calibration.cache"), "give the calibration.json that ONNX Runtime writes"),
        (format!("{quantize} net.onnx"), "give the calibration.json"),
        (format!("{quantize} other.json"), "names nothing that a product reads"),
        (format!("{quantize} empty.json"), "the range of 'x' is empty: from 1 to -1"),
        (format!("{quantize} calibration.json --samples samples"), "cannot be used with"),
        (format!("{quantize} calibration.json --budget cosine=1"), "cannot be used with"),
        (format!("{quantize} calibration.json --effort high"), "cannot be used with"),
        (format!("{quantize} calibration.json --weights int4"), "cannot be used with"),
        ("quantize net.onnx -o half.json --calibration half.json".into(), "would be overwritten"),
    ] {
        folder.misused(&line, &[words]);
    }
    let report = report(&folder, "--calibration half.json -o q.onnx");
    assert_eq!(left(&report), [("product 1", "the calibration table has no range of its input")]);
}

/// As `floec compile` has it: an option would not mend the model.
#[test]
fn an_operator_that_is_not_supported_is_no_misuse() {
    let folder = folder(4, 1, 1);
    folder.write("net.onnx", models::single(models::node("strange", "Frobnicate", &["x"], "y")));
    let words = ["'strange'", "Frobnicate"];
    folder.refuses("compile net.onnx --target host -o plan.floe", &words);
    folder.refuses("quantize net.onnx --samples samples -o small.onnx", &words);
    folder.write("net.onnx", "no model");
    folder.misused("quantize net.onnx --samples samples -o small.onnx", &["not an ONNX file"]);
}
