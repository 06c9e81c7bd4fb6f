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

#[test]
fn a_page_shows_a_model_and_what_of_it_is_refused() {
    let folder = Folder::new();
    folder.write("net.onnx", models::convolution());
    let run = folder.run("inspect net.onnx --target jetson-orin-nano --html net.html");
    assert_eq!(run.succeeded(), "net.html: written\n");
    let data = page_data(&folder, "net.html");
    let labels: Vec<_> = data["graph"]["nodes"].as_array().unwrap().iter().map(|node| &node["label"]).collect();
    assert_eq!(labels, ["x", "Conv", "Relu", "y"]);
    assert_eq!(data["variants"][1]["target"], "jetson-orin-nano");
    assert_eq!(data["variants"][1]["steps"][0]["sources"][0], "edges");
    let node = models::node("n<b>", "Wobble", &["x"], "y");
    folder.write("odd.onnx", models::model(vec![node], Vec::new(), &["1"]));
    let run = folder.run("inspect odd.onnx --html odd.html");
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), "odd.html: written\n"), "{}", run.stderr);
    let refused = page_data(&folder, "odd.html")["graph"]["nodes"][1]["refused"].clone();
    assert!(refused.as_str().unwrap().contains("not supported"), "{refused}");
    folder.misused("inspect net.onnx --html net.onnx", &["'net.onnx' would be overwritten"]);
}

/// The data that a page draws.
fn page_data(folder: &Folder, name: &str) -> Value {
    let page = String::from_utf8(folder.read(name)).unwrap();
    serde_json::from_str(page.split_once("id=\"data\">").unwrap().1.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn measured_times_stand_beside_the_steps_of_their_plan_only() {
    let folder = Folder::new();
    folder.write("net.onnx", models::convolution());
    assert_eq!(folder.run("compile net.onnx --target host -o net.floe").code, Some(0));
    let report: Value = serde_json::from_str(&folder.run("inspect net.floe --json").succeeded()).unwrap();
    let mut steps = report["variants"][0]["steps"].clone();
    steps.as_array_mut().unwrap().iter_mut().for_each(|step| step["time_us"] = 2.5.into());
    let profile = |steps: &Value| {
        serde_json::json!({"target": "host", "profile": {"replay_us": 7.5, "steps": steps}}).to_string()
    };
    folder.write("times.json", profile(&steps));
    let report: Value =
        serde_json::from_str(&folder.run("inspect net.floe --profile times.json --json").succeeded()).unwrap();
    assert_eq!(report["variants"][0]["steps"][0]["measured_us"], 2.5);
    assert_eq!(report["variants"][0]["profile"]["replay_us"], 7.5);
    folder.write("other.json", profile(&Value::Array(Vec::new())));
    folder.write("text.json", "fast");
    for (arguments, word) in [
        ("inspect net.floe --profile other.json --html net.html", "of another plan"),
        ("inspect net.floe --profile text.json", "is not JSON"),
        ("inspect net.floe --profile none.json", "cannot be read"),
        ("inspect net.floe --profile times.json --html times.json", "would be overwritten"),
        ("inspect net.onnx --profile times.json", "for plans"),
    ] {
        folder.misused(arguments, &[word]);
    }
}

#[test]
fn values_lead_from_the_input_through_the_steps_to_the_output() {
    let folder = Folder::new();
    let nodes = vec![models::node("a", "Softmax", &["x"], "m"), models::node("b", "Softmax", &["m"], "y")];
    folder.write("net.onnx", models::model(nodes, Vec::new(), &["1", "4"]));
    assert_eq!(folder.run("compile net.onnx --target host -o net.floe").code, Some(0));
    let report: Value = serde_json::from_str(&folder.run("inspect net.floe --json").succeeded()).unwrap();
    let values = report["variants"][0]["values"].as_array().unwrap();
    let field = |name: &'static str| values.iter().map(|value| &value[name]).collect::<Vec<_>>();
    assert_eq!(field("region"), ["binding 0", "arena", "binding 1"]);
    assert_eq!(field("writer"), [&Value::Null, &0.into(), &1.into()]);
    assert_eq!(field("readers"), [&serde_json::json!([0]), &serde_json::json!([1]), &serde_json::json!([])]);
    assert_eq!(field("bytes"), [16, 16, 16]);
}
