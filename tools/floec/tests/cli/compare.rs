//! `floec compare`, and `floec compile --precision auto`.

use crate::{Folder, models, nvrtc_is_there};
use serde_json::Value;

const WIDTH: usize = 8;

/// Products `a` to `d` with `Relu` behind each, on `x [1, 8]`; the weights of `c` are so many times as large, those of `d` as
/// small.
fn network(factor: f32) -> Vec<u8> {
    let (mut nodes, mut weights) = (Vec::new(), Vec::new());
    let mut value = "x".to_owned();
    for (layer, (name, scale)) in [("a", 2.0), ("b", 2.0), ("c", 2.0 * factor), ("d", 2.0 / factor)].iter().enumerate()
    {
        let numbers: Vec<f32> =
            (0..WIDTH * WIDTH).map(|n| scale * (((n * 29 + layer * 7) % 41) as f32 / 40.0 - 0.4)).collect();
        let (tensor, sums) = (format!("{name} weights"), format!("{name} sums"));
        weights.push(models::tensor(&tensor, &[WIDTH as i64, WIDTH as i64], &numbers));
        nodes.push(models::node(name, "MatMul", &[&value, &tensor], &sums));
        value = if *name == "d" { "y".to_owned() } else { format!("{name} out") };
        nodes.push(models::node(&format!("{name} relu"), "Relu", &[&sums], &value));
    }
    models::model(nodes, weights, &["1", "8"])
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_layer_that_overflows_is_named() {
    let folder = Folder::new();
    folder.write("sound.onnx", network(1.0));
    folder.write("planted.onnx", network(1e4));
    let mut ways = vec!["--device simulated"];
    if nvrtc_is_there() {
        ways.push("--device emulated");
    }
    for way in ways {
        let said = folder.run(&format!("compare sound.onnx --target jetson-orin-nano {way}")).succeeded();
        assert!(said.contains("no layer's relative error exceeds 1e-2"), "{said}");
        let run = folder.run(&format!("compare planted.onnx --target jetson-orin-nano {way} --json --html page.html"));
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains("an output holds NaN or infinities"), "{}", run.stderr);
        let report = json(&run.stdout);
        assert_eq!(report["first"]["node"], "c", "{way}");
        assert_eq!(report["first"]["value"], "c out");
        assert!(report["outputs"][0]["not_finite"].as_u64() > Some(0));
        let page = String::from_utf8(folder.read("page.html")).unwrap();
        assert!(page.contains("<svg") && page.contains("overflow:"), "{page}");
    }
}

#[test]
fn what_a_plan_computes_can_be_dumped_and_is_a_reference_again() {
    let folder = Folder::new();
    folder.write("net.onnx", network(1.0));
    folder.run("compare net.onnx --target host --samples 2 --dump-dir out --dump c").succeeded();
    assert!(folder.path("out/random-0.npz").is_file() && folder.path("out/random-1.npz").is_file());
    let line = "compare net.onnx --target host --samples 2 --reference out --json";
    let report = json(&folder.run(line).succeeded());
    assert_eq!((&report["reference"][0]["largest"], &report["samples"]), (&0.0.into(), &2.into()));
    // Other samples have other results, and a budget tells.
    let other =
        folder.run("compare net.onnx --target host --samples 2 --seed 9 --reference out --budget relative=0.001");
    assert_eq!(other.code, Some(1));
    assert!(other.stderr.contains("the budget 'relative 0.001' is not held"), "{}", other.stderr);
    folder.run(&format!("{line} --budget relative=0.001")).succeeded();
    // Inner values lie beside the outputs.
    let arrays = floe::npz::read(&folder.path("out/random-0.npz")).unwrap();
    assert_eq!(arrays.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["y", "c out"]);
}

#[test]
fn misuse_is_told_with_what_would_do() {
    let folder = Folder::new();
    folder.write("net.onnx", network(1.0));
    let floats: Vec<u8> = [0f32; 3].iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut npy = Vec::new();
    let array = floe::npy::Array { dtype: floe_kernels::DType::F32, shape: vec![3], bytes: &floats };
    array.write(&mut npy).unwrap();
    folder.write("three.npy", npy);
    let simulated = "compare net.onnx --target jetson-orin-nano --device simulated";
    for (line, words) in [
        ("compare net.onnx --target nothing", "nothing"),
        ("compare net.onnx --target host", "--device simulated"),
        ("compare net.onnx --target host --device emulated", "name a GPU's target"),
        (&format!("{simulated} --inputs none.npz"), "no such file"),
        (&format!("{simulated} --inputs three.npy"), "f32 [1, 8] is needed"),
        (&format!("{simulated} --dump zzz --dump-dir out"), "no such node or value"),
        (&format!("{simulated} --keep-f32 zzz"), "does not have"),
        (&format!("{simulated} --budget luck=1"), "write 'cosine 0.9999'"),
        (&format!("{simulated} --precision f32"), "rounds nothing"),
        (&format!("{simulated} --html net.onnx"), "would be overwritten"),
        ("compile net.onnx --target jetson-orin-nano --precision auto -o a.floe", "needs a --budget"),
        ("compile net.onnx --target jetson-orin-nano --budget cosine=1 -o a.floe", "goes with --precision auto"),
        ("compile net.onnx --target host --precision auto --budget cosine=1 -o a.floe", "needs a GPU"),
    ] {
        folder.misused(line, &[words]);
    }
    assert!(!folder.path("a.floe").exists() && !folder.path("out").exists());
}

/// The hidden vector has every element twice; the large parts of the weights that they meet cancel.
fn sensitive() -> Vec<u8> {
    let number = |seed: usize| ((seed * 37 + 11) % 53) as f32 / 52.0 - 0.45;
    let square = |name: &str, weight: &dyn Fn(usize, usize) -> f32| {
        let numbers: Vec<f32> = (0..WIDTH * WIDTH).map(|n| weight(n / WIDTH, n % WIDTH)).collect();
        models::tensor(name, &[WIDTH as i64, WIDTH as i64], &numbers)
    };
    let half = WIDTH / 2;
    let weights = vec![
        square("w0", &|row, column| number(row * WIDTH + column % half)),
        square("w1", &|row, column| number(100 + row * WIDTH + column) + if row < half { 1000.3 } else { -1000.3 }),
        square("w2", &|row, column| number(200 + row * WIDTH + column)),
    ];
    let nodes = vec![
        models::node("double", "MatMul", &["x", "w0"], "h"),
        models::node("double relu", "Relu", &["h"], "hidden"),
        models::node("cancel", "MatMul", &["hidden", "w1"], "c"),
        models::node("cancel relu", "Relu", &["c"], "cancelled"),
        models::node("last", "MatMul", &["cancelled", "w2"], "y"),
    ];
    models::model(nodes, weights, &["1", "8"])
}

#[test]
fn a_budget_keeps_the_sensitive_layer_and_says_so_in_the_plan() {
    if !nvrtc_is_there() {
        return;
    }
    let folder = Folder::new();
    folder.write("net.onnx", sensitive());
    let line = "compile net.onnx --target jetson-orin-nano --precision auto --budget relative=0.01 -o net.floe";
    let said = folder.run(line).succeeded();
    assert!(said.contains("--keep-f32 cancel ") && said.contains("1 of 3 layers stay f32"), "{said}");
    assert!(said.contains("confirmed by the target's plan in software on 1 samples"), "{said}");
    let inspected = folder.run("inspect net.floe").succeeded();
    assert!(inspected.contains("f32: the budget needs it: f16 here alone is a relative error of"), "{inspected}");
    let held = "compare net.onnx --target jetson-orin-nano --device emulated --budget relative=0.01";
    assert_eq!(folder.run(held).code, Some(1));
    folder.run(&format!("{held} --keep-f32 cancel")).succeeded();
}

/// The words of a line as a shell takes them: blanks part them, single quotes hold them together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn the_commands_of_the_readme_run() {
    if !nvrtc_is_there() {
        return;
    }
    let readme = include_str!("../../../../README.md");
    let section = readme.split("### Accuracy on the workstation").nth(1).unwrap().split("### ").next().unwrap();
    let lines: Vec<&str> = section.lines().filter(|line| line.starts_with("floec ")).collect();
    assert_eq!(lines.len(), 3);
    let folder = Folder::new();
    folder.write("resnet50.onnx", network(1.0));
    std::fs::create_dir(folder.path("samples")).unwrap();
    for name in ["a", "b"] {
        let floats: Vec<u8> = (0..8u8).flat_map(|n| (f32::from(n) / 8.0).to_le_bytes()).collect();
        let array = floe::npy::Array { dtype: floe_kernels::DType::F32, shape: vec![1, 8], bytes: &floats };
        folder.write(&format!("samples/{name}.npz"), floe::npz::bytes([("x", array)]).unwrap());
    }
    for line in lines {
        let mut command = folder.command("");
        command.args(&words(line)[1..]);
        crate::run(&mut command).succeeded();
    }
    for made in ["error.html", "f16/a.npz", "f16/b.npz", "resnet50.floe"] {
        assert!(folder.path(made).is_file(), "{made}");
    }
}
